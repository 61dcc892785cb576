"""Preemption with real workers: jobs that give way to a CRITICAL one, and come back as if nothing had happened."""

from __future__ import annotations

import time
from pathlib import Path
from uuid import UUID

import pytest
from field import Field, Line

import fairlane as fl
from fairlane.domain.jobs import JobRecord

pytestmark = [pytest.mark.crash]

START_S = 2.0
"""The promise: a CRITICAL job starts so soon although all slots are busy."""
BUSY_S = 2.0
"""What a busy machine may add."""


def record(field: Field, job: str) -> JobRecord:
    found = field.app.owner.read(lambda store, now_ms: store.get(UUID(job).bytes))
    assert found is not None
    return found


def urgent(field: Field, *, expedite: bool = False) -> tuple[str, float]:
    """Enqueue an urgent job, wait for its start, and return it with the seconds that this took."""
    at_ns = time.monotonic_ns()
    tier = fl.Tier.NORMAL if expedite else fl.Tier.CRITICAL
    job = str(field.app.enqueue("nap", {}, tier=tier, expedite=expedite).id)
    field.until(lambda: of(field, job, "start"), "the start of the urgent job")
    return job, (of(field, job, "start")[0].at_ns - at_ns) / 1e9


def bulk(field: Field, task: str, count: int, path: Path) -> list[str]:
    jobs = [field.app.enqueue(task, {"path": str(path)}, tier=fl.Tier.BACKGROUND) for _ in range(count)]
    return [str(job.id) for job in jobs]


def of(field: Field, job: str, what: str) -> list[Line]:
    return [line for line in field.lines(what) if line.job == job]


@pytest.mark.parametrize("task", ["bulk", "sync_bulk"])
@pytest.mark.parametrize("expedite", [False, True])
def test_an_urgent_job_starts_within_two_seconds_although_all_slots_run_long_jobs(
    field: Field, task: str, expedite: bool
):
    end = field.folder / "end"
    jobs = bulk(field, task, 4, end)
    field.worker(concurrency=4)
    field.until_started(4)
    _, took_s = urgent(field, expedite=expedite)
    assert 1.0 <= took_s < START_S + BUSY_S
    field.until(lambda: field.lines("resume"), "the job that gave way")
    (resumed,) = field.lines("resume")
    gave_way = record(field, resumed.job)
    assert (gave_way.preemptions, gave_way.failures, gave_way.crashes, gave_way.errors) == (1, 0, 0, ())
    assert (resumed.attempt, resumed.fence) == (1, 2), "the attempt is given back"
    end.touch()
    field.until_done()
    assert sorted(record(field, job).preemptions for job in jobs) == [0, 0, 0, 1]
    result = field.app.get(resumed.job).result(timeout=1)
    assert isinstance(result, int)
    assert result > 1
    field.audit(crash_budget=0)


def test_no_job_gives_way_more_than_three_times(field: Field):
    end = field.folder / "end"
    (job,) = bulk(field, "bulk", 1, end)
    field.worker(concurrency=1)
    field.until_started(1)
    for times in range(1, 4):
        urgent(field)
        field.until(lambda times=times: len(of(field, job, "resume")) == times, "the job that gave way")
    fourth = str(field.app.enqueue("nap", {}, tier=fl.Tier.CRITICAL).id)
    time.sleep(START_S + 0.5)  # nothing tells that nobody was asked
    assert (record(field, fourth).started_at_ms, record(field, job).preemptions) == (None, 3)
    end.touch()
    field.until_done()
    assert of(field, fourth, "start")[0].at_ns > of(field, job, "end")[0].at_ns
    field.audit(crash_budget=0)


def test_a_handler_that_never_looks_keeps_its_slot_and_nobody_else_is_asked(field: Field):
    end = field.folder / "end"
    (other,) = bulk(field, "bulk", 1, end)
    field.worker(concurrency=2)
    field.until_started(1)
    (deaf,) = bulk(field, "deaf_bulk", 1, end)
    field.until_started(2)
    waits = str(field.app.enqueue("nap", {}, tier=fl.Tier.CRITICAL).id)
    time.sleep(2 * START_S)  # as above
    assert record(field, waits).started_at_ms is None
    end.touch()
    field.until_done()
    assert [record(field, job).preemptions for job in (other, deaf, waits)] == [0, 0, 0]
    field.audit(crash_budget=0)
