"""The checker of the crash tests must be able to find what it looks for."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from fairlane.app import Fairlane
from fairlane.domain.jobs import JobRecord
from fairlane.testing import invariants
from fairlane.testing.invariants import Mark


def log(*lines: str) -> list[Mark]:
    """Return a log: "what pid [job fence [tenant]]" each, a nanosecond apart."""
    marks: list[Mark] = []
    for at_ns, line in enumerate(lines):
        what, pid, *rest = line.split()
        job, fence, tenant = [*rest, *("-", "0", "-")[len(rest) :]]
        marks.append(Mark(job, int(fence), int(fence), int(pid), what, at_ns, tenant))
    return marks


def everything(mark: Mark) -> str:
    return "all"


# ---------------------------------------------------------------- the store's books


@pytest.fixture
def app(tmp_path: Path) -> Iterator[Fairlane]:
    made = Fairlane(f"sqlite:///{tmp_path}/jobs.db", durability="normal")
    made.enqueue("t", {})
    made.enqueue("t", {}, delay=3600)
    assert made.claim(lease=30) is not None
    yield made
    made.close()


def books(app: Fairlane) -> list[str]:
    return app.owner.call(invariants.book_faults)


def all_jobs(app: Fairlane) -> list[JobRecord]:
    return app.owner.call(lambda store, now_ms: invariants.all_jobs(store))


def test_sound_books_have_no_fault(app: Fairlane):
    assert books(app) == []


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("UPDATE job SET timer_ms = NULL WHERE state = 2", "I2"),
        ("UPDATE job SET worker = NULL WHERE state = 2", "I2"),
        ("UPDATE job SET timer_ms = NULL WHERE state = 0", "check()"),
        ("UPDATE job SET state = 3 WHERE state = 2", "I7"),
        ("UPDATE job SET state = 1 WHERE state = 0", "I7"),
        ("UPDATE lane SET scheduled = 7", "I6"),
        ("UPDATE job SET state = 4, finished_at_ms = 1 WHERE state = 2", "I7"),
    ],
)
def test_books_that_were_tampered_with_are_found_out(app: Fairlane, tmp_path: Path, sql: str, said: str):
    db = sqlite3.connect(tmp_path / "jobs.db")
    db.execute(sql)
    db.commit()
    db.close()
    assert [fault for fault in books(app) if said in fault], books(app)


def test_leases_budgets_and_losses(app: Fairlane):
    jobs = all_jobs(app)
    now_ms = app.clock.now_ms()
    assert invariants.lease_faults(jobs, now_ms, sweep_ms=5_000) == []
    assert len(invariants.lease_faults(jobs, now_ms + 60_000, sweep_ms=5_000)) == 1
    assert invariants.budget_faults(jobs, failures=0, crashes=0) == []
    assert len(invariants.budget_faults(jobs, failures=-1, crashes=0)) == 2
    ids = [str(job.uuid) for job in jobs]
    assert invariants.lost(ids, jobs) == set()
    assert invariants.lost([*ids, "gone", "pruned"], jobs, {"pruned"}) == {"gone"}


# ---------------------------------------------------------------- the oracle log


def test_runs_at_once_are_counted_by_leases():
    assert invariants.most_at_once(log("start 1 a 1", "end 1 a 1", "start 1 b 1"), everything) == {"all": 1}
    assert invariants.most_at_once(log("start 1 a 1", "start 2 b 1"), everything) == {"all": 2}
    assert invariants.most_at_once(log("start 1 a 1", "kill 1", "start 2 b 1"), everything) == {"all": 1}
    assert invariants.most_at_once(log("start 1 a 1", "stop 1", "start 2 b 1"), everything) == {"all": 1}
    assert invariants.most_at_once(log("start 1 a 1", "start 2 a 2"), everything) == {"all": 1}, "the lease was lost"
    assert invariants.most_at_once(log("kill 1", "start 1 a 1"), everything) == {}, "written while it died"
    by_tenant = invariants.most_at_once(log("start 1 a 1 x", "start 1 b 1 y"), lambda mark: mark.tenant)
    assert by_tenant == {"x": 1, "y": 1}


def test_fences_must_grow():
    assert invariants.fence_faults(log("start 1 a 1", "start 2 a 2")) == []
    assert invariants.fence_faults(log("start 1 a 1", "start 2 a 1")) != []
    assert invariants.fence_faults(log("start 1 a 2", "start 2 a 1")) != []
    assert invariants.fence_faults(log("stop 2", "start 1 a 2", "cont 2", "start 2 a 1")) == []


@pytest.mark.parametrize(
    ("between", "cause"),
    [
        ("kill 1", "killed"),
        ("dies 1", "ended its process"),
        ("stop 1", "stopped"),
        ("term 1", "told to end"),
        ("fail 1 a 1", "failed"),
        ("snooze 1 a 1", "later"),
        ("yield 1 a 1", "gave way"),
    ],
)
def test_a_second_run_needs_a_cause(between: str, cause: str):
    causes, unexplained = invariants.doubled(log("start 1 a 1", between, "start 2 a 2"))
    assert unexplained == []
    assert [name for name in causes if cause in name]
    elsewhere = between.replace(" 1", " 9").replace(" a ", " b ")
    _, unexplained = invariants.doubled(log("start 1 a 1", elsewhere, "start 2 a 2"))
    assert len(unexplained) == 1
    _, unexplained = invariants.doubled(log("start 1 a 1", "start 2 a 2", between))
    assert len(unexplained) == (0 if "a" in between.split() else 1), "what comes later explains nothing"


def test_a_run_that_ended_well_and_one_that_was_asked_for():
    marks = log("start 1 a 1", "end 1 a 1", "start 2 a 2")
    assert len(invariants.doubled(marks)[1]) == 1
    assert invariants.doubled(marks, {"a"})[1] == []
    assert invariants.ended_well(marks) == {"a"}


def test_successes_and_crashes_are_compared_with_the_log(app: Fairlane):
    claim = app.claim(lease=30)
    assert claim is None
    (running,) = [job for job in all_jobs(app) if job.state.label == "running"]
    app.owner.call(lambda store, now_ms: store.rescue(now_ms + 60_000, limit=1))
    crashed = all_jobs(app)
    name = str(running.uuid)
    assert len(invariants.crash_faults(log(f"start 1 {name} 1"), crashed)) == 1
    assert invariants.crash_faults(log(f"start 1 {name} 1", "kill 1"), crashed) == []
    again = app.claim(lease=30)
    assert again is not None
    again.ack(1)
    completed = all_jobs(app)
    assert len(invariants.made_up(log(f"start 1 {name} 1", f"end 1 {name} 1"), completed)) == 1
    assert invariants.made_up(log(f"start 1 {name} 2", f"end 1 {name} 2"), completed) == []
