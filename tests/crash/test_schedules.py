"""Eight processes and one schedule: one job for each tick, also when one is killed in the middle of a tick (T-B13)."""

from __future__ import annotations

import pytest
from field import Field, Process

from fairlane.errors import ScheduleNotFound

pytestmark = [pytest.mark.crash, pytest.mark.timeout(90)]

EVERY_MS = 1_000


def start(field: Field, count: int, fail: str | None = None) -> list[Process]:
    env = None if fail is None else {"FAIRLANE_FAILPOINT": fail}
    return [field.run("scheduled", env=env) for _ in range(count)]


def runs(field: Field) -> int:
    try:
        return field.app.schedules["tick"].get().runs
    except ScheduleNotFound:
        return 0


def alive(field: Field) -> int:
    return len(field.app.owner.read(lambda store, now_ms: store.workers()))


def judge(field: Field) -> list[int]:
    """Stop the schedule, let its jobs end, and see that each tick had one job and none was left out."""
    field.app.schedules["tick"].pause("judged")
    field.until_done()
    info = field.app.schedules["tick"].get()
    jobs = field.app.jobs(tag="schedule:tick", limit=1_000).jobs
    ticks = sorted(int(str(job.dedup_key).rpartition(":")[2]) for job in jobs)
    assert info.last_at is not None
    last_ms = round(info.last_at.timestamp() * 1000)
    created_ms = round(info.created_at.timestamp() * 1000)
    assert ticks == list(range(created_ms + EVERY_MS, last_ms + 1, EVERY_MS)), "a tick is lost, doubled or no tick"
    assert (info.runs, info.missed, info.skipped, info.refused) == (len(ticks), 0, 0, 0)
    # What the handlers wrote knows nothing of the store's books.
    assert set(field.starts()) == {str(job.id) for job in jobs}
    assert set(field.starts().values()) == {1}, "a job ran twice though no worker that ran one was killed"
    field.audit(crash_budget=0)
    return ticks


def test_eight_processes_fire_each_tick_once(field: Field) -> None:
    start(field, 8)
    field.until(lambda: alive(field) == 8, "eight workers")
    before = runs(field)
    field.until(lambda: runs(field) >= before + 5, "five ticks")
    assert len(judge(field)) >= 5


def test_a_kill_in_the_middle_of_a_tick_neither_loses_nor_doubles_it(field: Field) -> None:
    """The first process fires two ticks and dies in the third, with its job stored and not committed."""
    (first,) = start(field, 1, fail="mid_schedule:exit:3")
    field.died(first)
    assert runs(field) == 2
    start(field, 8)
    field.until(lambda: alive(field) == 8, "eight workers")
    before = runs(field)
    field.until(lambda: runs(field) >= before + 3, "three ticks")
    judge(field)


def test_one_tick_that_kills_three_processes_is_fired_by_the_fourth(field: Field) -> None:
    """Whoever comes next does what the dead have left, late as it is; the tick has one job."""
    for _ in range(3):
        (victim,) = start(field, 1, fail="mid_schedule:exit:1")
        field.died(victim)
        assert runs(field) == 0
    start(field, 1)
    field.until(lambda: runs(field) >= 3, "the first ticks")
    judge(field)
