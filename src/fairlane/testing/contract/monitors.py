"""Several monitors over one store: one acts, the others look; and what the store does for them."""

# a test's figures are its subject

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from fairlane.domain.lanes import LaneKey
from fairlane.domain.waits import IncidentRecord
from fairlane.monitor import LEASE_MS
from fairlane.testing.contract.base import Contract
from fairlane.testing.contract.bench import Bench
from fairlane.testing.contract.watching import HIGH, LIMIT_S, QUARTER_H, Told, Watch, monitor_of


class MonitorsContract(Contract):
    """T-G1; SPEC section 6, first point."""

    def test_two_monitors_raise_one(self, b: Bench) -> None:
        """One acts, the other looks; what it sees is the same."""
        told = Told()
        first, second = monitor_of(b, told), monitor_of(b, told)
        b.put(tier=HIGH)
        b.clock.advance(seconds=LIMIT_S)
        for _ in range(10):
            one, two = first.look(), second.look()
            assert (one.active, two.active) == (True, False)
            assert (two.holder, two.incidents, two.events) == (first.id, one.incidents, ())
            b.clock.advance(seconds=5)
        assert told.events == ["raised"]

    def test_another_takes_over_when_the_one_dies(self, b: Bench) -> None:
        """Within its lease, without telling anything again, and the reminder comes when it is due."""
        told = Told()
        first, second = monitor_of(b, told), monitor_of(b, told)
        b.put(tier=HIGH)
        b.clock.advance(seconds=LIMIT_S)
        first.look()
        b.clock.advance(ms=LEASE_MS - 1)
        assert not second.look().active
        b.clock.advance(ms=1)
        assert second.look().active
        assert not first.look().active
        assert told.events == ["raised"]
        b.clock.advance(seconds=QUARTER_H)
        second.look()
        assert told.events == ["raised", "again"]

    def test_one_that_ends_lets_another_in_at_once(self, b: Bench) -> None:
        """And the one that is back has to wait."""
        first, second = monitor_of(b), monitor_of(b)
        assert first.look().active
        second.release()  # it holds nothing
        assert not second.look().active
        first.release()
        first.release()
        assert second.look().active
        assert not first.look().active

    def test_a_lease_from_the_future_holds_nobody_up(self, b: Bench) -> None:
        """A holder that died before the clock was set back an hour."""
        first, second = monitor_of(b), monitor_of(b)
        assert first.look().active
        b.clock.step(seconds=-3_600)
        assert second.look().active

    def test_one_that_lost_its_right_in_between_does_nothing(self, b: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
        """It was held up between its look and its act; another has acted."""
        told = Told()
        first, second = monitor_of(b, told), monitor_of(b, told)
        b.put(tier=HIGH)
        b.clock.advance(seconds=LIMIT_S)
        waiting = b.store.waiting

        def slow(*args: Any, **kwargs: Any) -> Any:
            found = waiting(*args, **kwargs)
            monkeypatch.undo()
            b.clock.advance(ms=LEASE_MS)
            assert second.look().active
            return found

        monkeypatch.setattr(b.store, "waiting", slow)
        done = first.look()
        assert (done.active, len(done.incidents)) == (False, 1)
        assert told.events == ["raised"]

    def test_a_job_that_starts_between_look_and_act_is_no_incident(
        self, b: Bench, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The look is taken beside the writers; what it found is looked at again."""
        w = Watch(b)
        b.put(tier=HIGH)
        waiting = b.store.waiting

        def then_starts(*args: Any, **kwargs: Any) -> Any:
            found = waiting(*args, **kwargs)
            b.take()
            return found

        monkeypatch.setattr(b.store, "waiting", then_starts)
        assert w(after_s=LIMIT_S).incidents == ()
        assert w.told.events == []

    def test_an_incident_is_raised_and_resolved_once(self, b: Bench) -> None:
        """The store's part: of several that raise or resolve one, the first does."""
        new = IncidentRecord(
            queue="q", tier=1, job=b"j" * 16, task="t", tenant="a", since_ms=1, objective_ms=2, count=3, causes=(),
            on_breach="alert", opened_at_ms=4, seen_at_ms=5, notified_at_ms=6,
        )  # fmt: skip
        raised = put(b, new)
        assert raised is not None
        assert put(b, new) is None
        assert b.store.incidents() == [raised]
        over = replaced(raised, resolved_at_ms=9)
        assert put(b, over) == over
        assert put(b, over) is None
        assert put(b, replaced(raised, count=8)) is None
        assert b.store.past_incidents(limit=5) == [over]
        again = put(b, new)
        assert again is not None
        assert again.id > raised.id

    def test_a_refused_take_changes_nothing(self, b: Bench) -> None:
        """The right is another's; who holds it is on record with how its sinks do."""
        take: Callable[[str], bool] = lambda name: b.write(  # noqa: E731
            lambda store, now_ms: store.watch(name, lease_ms=1_000, now_ms=now_ms, sinks=f'["{name}"]')
        )
        assert b.store.monitor() is None
        assert take("a")
        with b.unchanged():
            assert not take("b")
            assert take("a")
        held = b.store.monitor()
        assert held is not None
        assert (held.holder, held.until_ms, held.since_ms, held.sinks) == ("a", b.now_ms + 1_000, b.now_ms, '["a"]')

    def test_looking_for_causes_changes_nothing(self, b: Bench) -> None:
        """Also of a lane that nobody has. The first look of a program loads its state, as its first claim does."""
        b.put(tier=HIGH)
        b.write(lambda store, now_ms: store.standing(LaneKey("q", "t", "a", HIGH), now_ms))
        with b.unchanged():
            b.write(lambda store, now_ms: store.standing(LaneKey("q", "t", "a", HIGH), now_ms))
            b.write(lambda store, now_ms: store.standing(LaneKey("no", "no", "no", HIGH), now_ms))


def put(b: Bench, incident: IncidentRecord) -> IncidentRecord | None:
    """Store an incident."""
    return b.write(lambda store, _: store.put_incident(incident))


def replaced(incident: IncidentRecord, **fields: Any) -> IncidentRecord:  # Any: IncidentRecord's fields
    """Return an incident with other values."""
    return IncidentRecord(**{name: getattr(incident, name) for name in incident.__struct_fields__} | fields)
