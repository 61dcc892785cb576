"""Processes are killed around the handing over of work and in the middle of long runs: what was stored is gone on from.

T-M12, F5, F16, T-C7.
"""

from __future__ import annotations

import itertools

import pytest
from field import Field, Line, seeded

pytestmark = [pytest.mark.crash]


def assert_checked(field: Field, *, checks: int) -> None:
    """See that every job's work was checked by the reference of its last attempt, in the order of the checks.

    A check is repeated only if the process that made it was killed.
    """
    lines = field.lines()
    for job in field.app.jobs(task="prove", limit=1_000):
        made = [line for line in lines if line.job == str(job.id) and line.what.startswith("check-")]
        attempts = [line.attempt for line in lines if line.job == str(job.id) and line.what == "start"]
        assert (job.state, job.phase, job.checks) == ("completed", "verify", checks)
        assert job.result() == job.reference == {"job": str(job.id), "attempt": attempts[-1]}
        numbers = [line.what for line in made]
        assert list(dict.fromkeys(numbers)) == [f"check-{n}-of-{attempts[-1]}" for n in range(1, checks + 1)]
        for first, second in itertools.pairwise(made):
            assert first.what != second.what or first.pid in field.killed, "a check was repeated without a cause"


@pytest.mark.parametrize("hit", [1, 3, 9])
@pytest.mark.parametrize("place", ["after_claim_commit", "before_ack", "after_ack_before_return"])
def test_death_around_the_handing_over_loses_no_reference(field: Field, place: str, hit: int):
    field.enqueue("prove", 12, checks=2)
    field.died(field.worker(fail=f"{place}:exit:{hit}", concurrency=4))
    field.finish()
    assert_checked(field, checks=2)
    field.assert_only_killed_runs_doubled(slots=4)
    field.audit()


def test_kills_at_any_moment_leave_work_where_it_was(field: Field):
    """Five kills among two workers; what was handed over is not processed again."""
    rng = seeded(5)
    field.enqueue("prove", 40, checks=3, ms=10)
    workers = [field.worker(concurrency=4) for _ in range(2)]
    for _ in range(5):
        wanted = len(field.lines()) + rng.randint(5, 25)
        field.until(lambda wanted=wanted: len(field.lines()) >= wanted, "work")
        victim = rng.randrange(2)
        field.kill9(workers[victim])
        workers[victim] = field.worker(concurrency=4)
    field.until_done()
    assert_checked(field, checks=3)
    field.assert_only_killed_runs_doubled(slots=4)
    field.audit()


def steps(lines: list[Line], attempt: int) -> list[int]:
    return [int(line.what[5:]) for line in lines if line.what.startswith("step-") and line.attempt == attempt]


@pytest.mark.parametrize("task", ["climb", "aclimb"])
def test_a_killed_run_is_gone_on_from_its_checkpoint(field: Field, task: str):
    (job,) = field.enqueue(task, steps=40)
    first = field.worker()
    field.until(lambda: len(field.lines()) > 10, "ten steps")
    field.kill9(first)
    stored = field.app.get(job).checkpoint
    field.finish()
    lines = field.lines()
    before, after = steps(lines, 1), steps(lines, 2)
    assert before == list(range(len(before)))
    assert stored in {before[-1], before[-1] + 1}
    assert after == list(range(stored, 40)), "it goes on where it stopped, and at the start never again"
    record = field.app.get(job)
    assert (record.state, record.result(), record.crashes, record.failures) == ("completed", 40, 1, 0)
    field.audit()
