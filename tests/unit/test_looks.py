"""Looks that the threads of a process share, and the claims that they spare an idle worker."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from rig import Rig

from fairlane.domain.jobs import NewJob
from fairlane.domain.lanes import Ask
from fairlane.looks import LOOK_S, SPREAD, Looker
from fairlane.options import new_id
from fairlane.testing.clock import ManualClock
from fairlane.worker.quiet import MOST_SPARED, Quiet


@pytest.fixture
def rig(clock: ManualClock, tmp_path) -> Iterator[Rig]:
    made = Rig(tmp_path, clock)
    yield made
    made.close()


def test_who_comes_after_another_is_given_the_same_look(rig: Rig) -> None:
    calls = rig.stores[0].calls
    one, two = Looker(rig.owner), Looker(rig.owner)
    looks = [one.take(), two.take()]
    assert calls["look"] == 1
    assert 0.5 * LOOK_S <= one.wait_s() <= LOOK_S
    assert abs(one.wait_s() - two.wait_s()) < SPREAD * LOOK_S, "so they meet at the next one"
    looks += [two.take(), one.take()]
    assert calls["look"] == 2
    assert len({id(look) for look in looks}) == 2
    Looker(rig.owner).take()
    assert calls["look"] == 3, "the first is a new one"


def test_a_look_that_failed_is_nobody_s(rig: Rig) -> None:
    looker = Looker(rig.owner)
    rig.faults["look"] = OSError("no")
    with pytest.raises(OSError, match="no"):
        looker.take()
    rig.faults.clear()
    assert looker.take().operation_ms is None


def test_claims_are_spared_until_something_happens(rig: Rig) -> None:
    ask = Ask("default", 2)

    def put(**options: int) -> None:
        other.call(lambda store, now_ms: store.enqueue([NewJob(id=new_id(), task="t", **options)], now_ms))

    def claimed() -> bool:
        """Do as the worker does; return whether it claimed."""
        if quiet.spares(ask):
            return False
        rig.owner.call(lambda store, now_ms: store.claim(ask, worker="", lease_ms=30_000, now_ms=now_ms))
        return True

    other, quiet = rig.new_owner(), Quiet(rig.owner)
    put()
    assert [claimed() for _ in range(4)] == [True, True, False, False]
    put(delay_ms=60_000)
    assert [claimed() for _ in range(3)] == [True, False, False]
    ask = Ask("default", 1)
    assert [claimed() for _ in range(2)] == [True, False], "with other slots free a claim may find others"
    assert [claimed() for _ in range(MOST_SPARED + 1)].count(True) == 1, "now and then it is made all the same"
    put()
    assert claimed()
