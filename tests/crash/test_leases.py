"""Leases under stopped processes and busy interpreters: T-B8, T-B9, T-B10; B01, B07, B08."""

from __future__ import annotations

import time

import pytest
from field import Field

pytestmark = [pytest.mark.crash, pytest.mark.timeout(90)]


@pytest.mark.parametrize("late", ["success", "fail", "snooze", "dead", "cancel", "heartbeat"])
def test_a_worker_that_was_stopped_changes_nothing_of_its_successors_run(field: Field, late: str):
    """B01: limit 1; the first holder is stopped, its lease lapses, another runs the job, the first goes on."""
    field.app.queues["one"].set(max_running=1)
    early, later = field.folder / "early", field.folder / "later"
    if late == "heartbeat":
        (job,) = field.enqueue("wait_for", queue="one", path=str(early))
    else:
        (job,) = field.enqueue("ends", queue="one", path=str(early), how=late)
    (next_job,) = field.enqueue("nap", queue="one")
    first = field.worker(lease=1.0, concurrency=1)
    (started,) = field.until_started(1)
    assert started.pid == first.pid
    field.pause(first)
    second = field.worker(lease=10.0, concurrency=1)
    lines = field.until_started(2)
    assert (lines[1].job, lines[1].pid, lines[1].attempt, lines[1].fence) == (job, second.pid, 2, 2)
    if late != "heartbeat":
        field.pause(second)
        early.touch()  # both may end now: the stale one wakes up with a result in its hands
        field.resume(first)
        what = "end" if late == "success" else "fail"
        field.until(lambda: [line for line in field.lines(what) if line.pid == first.pid], "the stale end")
        time.sleep(0.3)  # nothing tells that an outcome was dropped; the second one's lease lives on meanwhile
        record = field.app.get(job)
        assert (record.state, record.fence) == ("running", 2), "the stale result changed nothing"
        assert field.starts()[next_job] == 0, "and freed no slot"
        field.resume(second)
    else:
        field.resume(first)
        field.until(lambda: [line for line in field.lines("told") if line.pid == first.pid], "the stop of the handler")
        assert field.app.get(job).state == "running"
        assert field.starts()[next_job] == 0
        early.touch()
    field.until_done()
    record = field.app.get(job)
    assert (record.state, record.fence, record.crashes, record.failures) == ("completed", 2, 1, 0)
    assert field.app.get(job).result(timeout=1) == "attempt 2"
    assert [error.kind for error in record.errors] == ["crash"], "history shows the run that was lost"
    assert later.exists() is False
    field.audit(crash_budget=1)


@pytest.mark.parametrize(
    ("task", "ms"),
    [("hold", 3_000), ("nap", 3_000), ("block", 5_000), ("spin", 4_000), ("spin_in_loop", 4_000)],
)
def test_a_run_that_is_longer_than_its_lease_starts_once(field: Field, task: str, ms: int):
    """B07, B08: lease 1 s; another worker would take it at once."""
    (job,) = field.enqueue(task, ms=ms)
    field.worker(lease=1.0)
    field.until_started(1)
    field.worker(lease=1.0)
    field.until_done()
    assert field.starts() == field.ends() == {job: 1}
    assert field.app.get(job).crashes == 0
    field.audit(crash_budget=0)


def test_all_handlers_busy_at_once_keep_their_leases(field: Field):
    """B08: four threads that use the interpreter to the full, on a lease of 2 s (eight on 1 s are too many for it)."""
    field.enqueue("spin", 4, ms=4_500)
    field.worker(lease=2.0, concurrency=4)
    field.until_started(4)
    field.worker(lease=2.0, concurrency=1)
    field.until_done()
    assert set(field.starts().values()) == {1}
    field.audit(crash_budget=0)


def test_a_job_for_later_holds_no_lease(field: Field):
    """B07: an hour's delay in a store with leases of 1 s means no copies."""
    field.app.enqueue("nap", {}, delay=3600)
    field.enqueue("nap", ms=1_500)
    field.worker(lease=1.0)
    field.until(lambda: field.states().get("completed") == 1, "the end of the other")
    assert field.states() == {"completed": 1, "scheduled": 1}
    assert len(field.lines("start")) == 1


def test_a_stopped_worker_leaves_its_free_slots_to_others(field: Field):
    """B09: nothing is claimed ahead, so a stopped process holds only what it runs."""
    release = field.folder / "release"
    (held,) = field.enqueue("wait_for", path=str(release))
    first = field.worker(concurrency=8, lease=30)
    field.until_started(1)
    field.pause(first)
    jobs = set(field.enqueue("nap", 20))
    field.worker(concurrency=2, lease=30)
    field.until(lambda: jobs <= set(field.ends()), "the end of all others")
    field.resume(first)
    release.touch()
    field.until_done()
    assert set(field.starts().values()) == {1}
    assert field.app.get(held).state == "completed"
    field.audit(crash_budget=0)
