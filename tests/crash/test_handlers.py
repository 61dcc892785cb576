"""Handlers that do what no handler should: their own job pays for it, never another. B08, B11, B18, B26."""

from __future__ import annotations

import subprocess
import sys

import pytest
from field import HERE, Field

pytestmark = [pytest.mark.crash, pytest.mark.timeout(90)]


@pytest.mark.parametrize("how", ["exits", "returns"])
def test_a_handler_that_forks_is_one_run(field: Field, how: str):
    """Whatever its child does, also when it returns from the handler: only the parent settles."""
    (job,) = field.enqueue("splits", how=how)
    worker = field.worker()
    field.until_done()
    assert field.app.get(job).result(timeout=1) == "parent"
    others = field.enqueue("nap", 5)
    field.until_done()
    assert worker.poll() is None
    assert field.starts() == field.ends() == dict.fromkeys([job, *others], 1)
    field.audit(crash_budget=0)


def test_a_handler_that_asks_for_too_much_memory_is_a_crash_and_its_worker_lives(field: Field):
    (job,) = field.enqueue("hungry")
    others = field.enqueue("hold", 10, ms=20)
    worker = field.worker(concurrency=2)
    field.until_done()
    assert worker.poll() is None
    record = field.app.get(job)
    assert (record.state, record.crashes, record.failures) == ("dead", 4, 0)
    assert {error.type for error in record.errors} == {"MemoryError"}
    assert set(field.ends()) == set(others)
    field.audit(crash_budget=4)


def test_threads_that_a_handler_leaves_behind_hold_up_neither_its_slot_nor_the_end(field: Field):
    jobs = field.enqueue("litters", 6)
    worker = field.worker(concurrency=1)
    field.until_done()
    assert field.ends() == dict.fromkeys(jobs, 1)
    field.term(worker)
    assert worker.wait(10) == 0
    field.audit(crash_budget=0)


def test_a_handler_that_swallows_its_cancellation_keeps_its_slot_alone(field: Field):
    """B22: the other slot goes on, and the end of the worker comes in spite of it."""
    (deaf,) = field.enqueue("stubborn")
    worker = field.worker(concurrency=2, grace=0.3)
    field.until_started(1)
    field.app.cancel(deaf)
    others = field.enqueue("nap", 5)
    field.until(lambda: set(others) <= set(field.ends()), "the others")
    assert field.app.get(deaf).state == "running"
    field.term(worker)
    assert worker.wait(10) == 0
    field.until_done()
    assert field.app.get(deaf).state == "cancelled", "it is not run again"
    field.audit(crash_budget=0)


def test_a_handler_that_keeps_the_interpreters_lock_past_its_lease_runs_once_where_nobody_else_is(field: Field):
    """B08: nothing of the process runs meanwhile, so the lease is over; with another worker it would start there."""
    (job,) = field.enqueue("keeps_the_lock", ms=3_500)
    field.worker(lease=2.0)
    field.until_done()
    assert field.starts() == field.ends() == {job: 1}
    field.audit(crash_budget=0)


def test_a_poison_job_beside_fifty_others_under_a_supervisor(field: Field):
    """B11: it ends its process whenever it runs; the supervisor starts another, and the job dies with its history."""
    others = field.enqueue("hold", 25, ms=20)
    (bad,) = field.enqueue("leaves")
    others += field.enqueue("nap", 25, ms=20)
    supervisor = subprocess.Popen(
        [sys.executable, "-m", "fairlane", "worker", "program:app", "-p", "2", "-c", "3", "--log-level", "error"],
        env=field.environment(),
        cwd=HERE,
    )
    field.processes.append(supervisor)
    field.until_done()
    record = field.app.get(bad)
    assert (record.state, record.crashes, record.failures) == ("dead", 4, 0)
    assert [(error.kind, error.attempt) for error in record.errors] == [("crash", n) for n in range(1, 5)]
    assert set(field.ends()) == set(others)
    assert all(field.starts()[job] <= 1 + 4 for job in others)
    assert all(field.app.get(job).state == "completed" for job in others)
    supervisor.terminate()
    assert supervisor.wait(15) == 0
    field.audit(crash_budget=4)
