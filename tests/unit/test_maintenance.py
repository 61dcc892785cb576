"""The passes that keep a store in order, and the thread that makes them."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from rig import BUSTED, Rig

from fairlane import chores, maintenance
from fairlane.chores import Chore
from fairlane.domain.jobs import NewJob, Settlement, WorkerRecord
from fairlane.domain.lanes import Ask
from fairlane.domain.states import State
from fairlane.domain.tiers import Tier
from fairlane.errors import InvalidValue
from fairlane.maintenance import Maintenance, Retention
from fairlane.store import Store
from fairlane.testing import ManualClock

HOUR_S = 3_600


@pytest.fixture
def rig(tmp_path: Path, clock: ManualClock) -> Iterator[Rig]:
    made = Rig(tmp_path, clock)
    yield made
    made.close()


def end(rig: Rig, count: int, kind: str = "completed") -> list[bytes]:
    jobs = rig.enqueue_many([NewJob(id=random.randbytes(16), task="t") for _ in range(count)])

    def run(store: object, now_ms: int) -> None:
        claims = store.claim(Ask("default", count), worker="", lease_ms=1_000, now_ms=now_ms)  # type: ignore[attr-defined]
        ends = [Settlement(seq=one.seq, fence=one.fence, kind=kind, reason="x") for one in claims]  # type: ignore[arg-type]
        assert all(store.settle(ends, now_ms))  # type: ignore[attr-defined]

    rig.owner.call(run)
    return jobs


def test_ended_jobs_are_kept_for_their_time_and_no_longer(rig: Rig, clock: ManualClock):
    for kind in ("completed", "cancelled", "dead"):
        end(rig, 2, kind)
    kept = Retention(completed=HOUR_S, cancelled=2 * HOUR_S, dead=None)
    assert maintenance.prune(rig.owner, kept) == 0
    clock.advance(seconds=HOUR_S + 1)
    assert maintenance.prune(rig.owner, kept) == 2
    assert maintenance.prune(rig.owner, kept) == 0
    assert rig.counts() == {State.CANCELLED: 2, State.DEAD: 2}
    clock.advance(seconds=50 * 365 * 24 * HOUR_S)
    assert maintenance.prune(rig.owner, kept) == 2
    assert rig.counts() == {State.DEAD: 2}


def test_of_completed_jobs_the_latest_are_kept_up_to_a_number(rig: Rig, clock: ManualClock):
    old = end(rig, 3)
    clock.advance(ms=5)
    new = end(rig, 2)
    assert maintenance.prune(rig.owner, Retention(keep_completed=2)) == 3
    assert (
        rig.owner.read(lambda store, now_ms: [store.get(one) is None for one in old + new]) == [True] * 3 + [False] * 2
    )


def test_passes_go_batch_by_batch_until_nothing_is_left(rig: Rig, clock: ManualClock, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(maintenance, "RESCUE_BATCH", 3)
    rig.enqueue_many([NewJob(id=random.randbytes(16), task="t") for _ in range(10)])
    rig.owner.call(lambda store, now_ms: store.claim(Ask("default", 10), worker="", lease_ms=1_000, now_ms=now_ms))
    assert maintenance.rescue(rig.owner) == 0
    clock.advance(seconds=1.001)
    rig.stores[0].calls.clear()
    assert maintenance.rescue(rig.owner) == 10
    assert rig.stores[0].calls["rescue"] == 4
    assert maintenance.rescue(rig.owner) == 0
    assert rig.counts() == {State.AVAILABLE: 10}


def test_a_pass_that_is_told_to_stop_ends_after_its_batch(
    rig: Rig, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(maintenance, "RESCUE_BATCH", 3)
    rig.enqueue_many([NewJob(id=random.randbytes(16), task="t") for _ in range(10)])
    rig.owner.call(lambda store, now_ms: store.claim(Ask("default", 10), worker="", lease_ms=1_000, now_ms=now_ms))
    clock.advance(seconds=1.001)
    assert maintenance.rescue(rig.owner, going_on=lambda: False) == 3


@pytest.mark.parametrize("wrong", [{"completed": -1}, {"dead": "x"}, {"keep_completed": -1}, {"cancelled": True}])
def test_wrong_retention_is_refused(wrong):
    with pytest.raises(InvalidValue):
        Retention(**wrong)


def test_a_chore_that_fails_comes_again_soon_and_then_less_often(caplog: pytest.LogCaptureFixture):
    left = [BUSTED, ValueError("bug"), BUSTED]

    def work() -> int:
        if left:
            raise left.pop(0)
        return 5

    chore = Chore("prune", work, every_s=60.0, jitter=0.5, rng=random.Random(1))
    waits = []
    for _ in range(4):
        chore.run(100.0)
        waits.append(chore.due_at - 100.0)
    assert 0.1 <= waits[0] <= 0.2 <= waits[1] <= 0.4 <= waits[2] <= 0.8
    assert 60 <= waits[3] <= 90
    assert caplog.text.count("prune_failed") == 3
    assert chore.failed == 0


@pytest.mark.parametrize("busy", [True, False], ids=["runs something", "runs nothing"])
def test_urgent_work_is_found_also_by_a_process_that_runs_nothing(rig: Rig, clock: ManualClock, busy: bool):
    """One that runs nothing sees it in the look that all share, and asks nothing by itself."""

    def running(store: Store, now_ms: int) -> None:
        store.declare_task("slow", limits=(), max_attempts=1, max_crashes=1, now_ms=now_ms, preemptible=True)
        store.register(WorkerRecord(id="other", pool="default", queues=None, slots=1), now_ms)
        store.enqueue([NewJob(id=random.randbytes(16), task="slow", tier=Tier.LOW)], now_ms)
        assert store.claim(Ask("default", 1), worker="other", lease_ms=60_000, now_ms=now_ms)

    rig.owner.call(running)
    calls = rig.stores[0].calls
    upkeep = Maintenance(rig.owner, rng=random.Random(1), busy=lambda: busy)
    upkeep.start()
    rig.until(lambda: calls.get("may_preempt" if busy else "look"))
    assert not calls.get("preempt")
    assert busy or not calls.get("may_preempt")
    rig.enqueue_many([NewJob(id=random.randbytes(16), task="slow", tier=Tier.CRITICAL)])
    clock.advance(seconds=2)
    rig.until(lambda: calls.get("preempt"))
    upkeep.stop()


def test_maintenance_starts_and_stops_in_any_order(rig: Rig):
    upkeep = Maintenance(rig.owner, rng=random.Random(1))
    upkeep.stop()
    for _ in range(2):
        upkeep.start()
        upkeep.start()
        rig.until(lambda: rig.stores[0].calls.get("look"))
        assert upkeep.healthy
        upkeep.stop()
        upkeep.stop()
        assert not [one for one in threading.enumerate() if one.name == "fairlane-maintenance"]
        rig.stores[0].calls.clear()


def test_maintenance_outlives_a_store_that_fails(rig: Rig, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(chores, "RETRY_S", (0.001, 0.01))
    rig.faults["look"] = BUSTED
    upkeep = Maintenance(rig.owner, rng=random.Random(1))
    upkeep.start()
    rig.until(lambda: rig.stores[0].calls.get("look", 0) > 3)
    assert not upkeep.healthy
    rig.faults.clear()
    rig.until(lambda: upkeep.healthy)
    upkeep.stop()
