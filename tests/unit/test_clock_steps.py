"""A wall clock that is set must not keep rates, pauses and waits closed until the old time comes again, and must not
end leases: B36.
"""

import pytest

from fairlane.domain.fairness import Scheduler
from fairlane.domain.lanes import Ask, LaneKey, Place
from fairlane.domain.policy import LimitRule, Pause, Policy, QueueRule, Rate, TaskRule
from fairlane.domain.states import State
from fairlane.stores.sqlite import steps
from fairlane.testing.clock import ManualClock
from fairlane.testing.contract.bench import LEASE_MS, Bench

HOUR_MS = 3_600_000
NOW_MS = 1_700_000_000_000
KEY = LaneKey("q", "t", "a", 2)


def scheduler() -> Scheduler:
    made = Scheduler(Policy.fair())
    for seq in range(1, 9):
        made.add(KEY, Place(NOW_MS, seq))
    return made


def test_rate_goes_on_after_the_clock_was_set_back():
    made = scheduler()
    made.set_task("t", TaskRule(limits=("api",)))
    made.set_limit("api", LimitRule(rate=Rate(1, 1000, 1)))
    assert len(made.claim(Ask("default", 5), NOW_MS)) == 1
    back = NOW_MS - HOUR_MS
    assert not made.claim(Ask("default", 5), back)
    assert len(made.claim(Ask("default", 5), back + 1000)) == 1
    assert not made.claim(Ask("default", 5), back + 1500)
    assert len(made.claim(Ask("default", 5), back + 2000)) == 1


def test_a_reading_of_a_moment_ago_changes_nothing():
    made = scheduler()
    made.set_queue("q", QueueRule(pause=Pause(until_ms=NOW_MS)))
    made.claim(Ask("default", 1), NOW_MS)
    assert len(made.claim(Ask("default", 1), NOW_MS - 500)) == 1


# ---------------------------------------------------------------- spans of time in a SQLite store


@pytest.mark.parametrize("hours", [1, -1])
def test_a_lease_lasts_as_long_as_it_was_given_for(bench: Bench, hours: int):
    job = bench.put()
    claim = bench.take()
    bench.clock.advance(ms=LEASE_MS // 2)
    bench.clock.step(seconds=hours * 3600)
    assert bench.rescue() == 0
    bench.clock.advance(ms=LEASE_MS // 2 - 1)
    assert bench.rescue() == 0
    assert bench.beat(claim) == "ok"
    bench.clock.advance(ms=LEASE_MS - 1)
    assert bench.rescue() == 0
    bench.clock.advance(ms=2)
    assert bench.rescue() == 1
    assert bench.state(job) is State.AVAILABLE


@pytest.mark.parametrize("hours", [1, -1])
def test_a_retry_waits_as_long_as_it_was_told_to(bench: Bench, hours: int):
    bench.put()
    assert bench.fail(bench.take(), delay_ms=10_000)
    bench.clock.advance(ms=4_000)
    bench.clock.step(seconds=hours * 3600)
    bench.clock.advance(ms=5_999)
    assert bench.claim() == []
    bench.clock.advance(ms=1)
    assert bench.take().attempt == 2


@pytest.mark.parametrize("hours", [1, -1])
def test_a_delay_is_as_long_as_it_was_asked_for(bench: Bench, hours: int):
    job = bench.put(delay_ms=10_000)
    bench.clock.advance(ms=4_000)
    bench.clock.step(seconds=hours * 3600)
    bench.clock.advance(ms=5_999)
    assert bench.claim() == []
    bench.clock.advance(ms=1)
    assert bench.start() == [job]


@pytest.mark.parametrize("hours", [1, -1])
def test_jobs_behind_others_wait_for_those_and_for_their_own_delay_alone(bench: Bench, hours: int):
    first = bench.put()
    at_once = bench.put(after=(first,))
    later = bench.put(after=(first,), delay_ms=10_000)
    claim = bench.take()
    bench.clock.advance(ms=4_000)
    bench.clock.step(seconds=hours * 3600)
    assert bench.done(claim)
    assert bench.start(5) == [at_once]
    bench.clock.advance(ms=5_999)
    assert bench.claim() == []
    bench.clock.advance(ms=1)
    assert bench.start() == [later]


def test_what_was_asked_for_by_the_wall_clock_goes_by_the_wall_clock(bench: Bench):
    at_ms = bench.now_ms + 3_600_000
    job = bench.put(scheduled_at_ms=at_ms)
    bench.clock.step(seconds=3_599)
    assert bench.claim() == []
    bench.clock.step(seconds=1)
    assert bench.start() == [job]


def test_each_of_two_processes_notices_once(bench: Bench):
    other = Bench(bench.database, bench.clock)
    bench.put()
    bench.take()
    bench.clock.step(seconds=3600)
    assert other.rescue() == bench.rescue() == other.rescue() == 0
    bench.clock.advance(ms=LEASE_MS + 1)
    assert other.rescue() == 1
    other.close()


def test_a_process_that_starts_later_notices_too(bench: Bench):
    bench.put()
    bench.take()
    bench.clock.step(seconds=-3600)
    bench.reopen()
    bench.clock.advance(ms=LEASE_MS + 1)
    assert bench.rescue() == 1


def test_after_a_start_of_the_machine_the_steady_clock_says_nothing_about_the_time_before(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
):
    bench.put()
    bench.clock.advance(seconds=10**6)
    bench.take()
    monkeypatch.setattr(steps, "boot", lambda: 42)
    clock = ManualClock(now_ms=bench.now_ms + LEASE_MS + 1)  # and it begins at 0 again
    after = Bench(bench.database, clock)
    assert after.rescue() == 1, "the lease is over; it has not moved by the time that the machine was up"
    after.close()


def test_a_process_that_was_held_up_between_two_looks_moves_nothing(bench: Bench, monkeypatch: pytest.MonkeyPatch):
    class HeldUp(ManualClock):
        def now_ms(self) -> int:
            self.advance(seconds=3)
            return super().now_ms()

    assert steps.offset_ms(HeldUp()) is None
    assert steps.offset_ms(ManualClock(now_ms=5_000)) == 5_000


def test_the_start_of_the_machine_is_a_number_that_stays():
    assert steps.boot() == steps.boot()
    number = steps.boot()
    assert number is None or 0 <= number < 2**63
