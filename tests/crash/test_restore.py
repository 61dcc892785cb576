"""Backup and restore while real workers and producers go on; judged by the log that handlers write.

What a restore means: the jobs of the backup that had not ended in it run, also those that have ended since (their work
may be done twice); what was accepted since the backup and before the restore is gone; what is accepted after it stays.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest
from field import Field

from fairlane.app import Fairlane
from fairlane.domain.states import State
from fairlane.stores.sqlite.restore import JUMP

pytestmark = [pytest.mark.crash]

TENANTS = ["a", "b", "c"]


def states_in(path: Path) -> dict[str, State]:
    """Return the state of every job in a store's file, by id."""
    with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as db:
        return {_uuid(job): State(state) for job, state in db.execute("SELECT hex(id), state FROM job")}


def _uuid(text: str) -> str:
    low = text.lower()
    return "-".join((low[:8], low[8:12], low[12:16], low[16:20], low[20:]))


def fences(field: Field) -> dict[str, list[int]]:
    """Return the fences of each job's runs, those of before the restore first, each part by time."""
    runs: dict[str, list[tuple[bool, int, int]]] = defaultdict(list)
    for line in field.lines("start"):
        runs[line.job].append((line.fence > JUMP, line.at_ns, line.fence))
    return {job: [fence for *_, fence in sorted(starts)] for job, starts in runs.items()}


def test_workers_and_producers_go_on_through_a_backup_and_a_restore(field: Field):
    saved = field.folder / "saved.bak"
    field.enqueue("nap", 300, ms=30)
    field.enqueue("hold", 300, ms=30)
    workers = [field.worker(concurrency=4, lease=2.0) for _ in range(2)]
    field.until_started(60)
    producer = field.run("producer", task="nap", count=400, args={"ms": 5}, tenants=TENANTS, pause_ms=6)
    field.until(lambda: len(field.accepted()) >= 620, "work of the producer")

    before = set(field.accepted())
    field.app.backup(saved)
    backed_up = states_in(saved)
    assert before <= set(backed_up), "a backup has what was accepted before it"
    assert set(backed_up.values()) >= {State.COMPLETED, State.AVAILABLE, State.RUNNING}

    seen = len(field.lines("end"))
    field.until(lambda: len(field.lines("end")) >= seen + 40, "ends")
    field.until(lambda: len(field.accepted()) >= 660, "more work of the producer")
    between = len(field.accepted())
    done = field.app.restore(saved)
    # The producer enqueues one job at a time: but for the one that was under way, what it notes now came later.
    known = len(field.accepted()) + 1
    assert done.jobs == len(backed_up)
    assert done.given_back == list(backed_up.values()).count(State.RUNNING)
    assert done.replaced > done.jobs

    assert producer.wait(20) == 0
    field.until_done(30)
    assert all(worker.poll() is None for worker in workers), "no worker was harmed"
    accepted = field.accepted()
    assert len(accepted) > known + 20
    judge(field, backed_up, between=set(accepted[between:known]), after=set(accepted[known:]))
    field.audit(gone=set(accepted[:known]) - set(backed_up))


def judge(field: Field, backed_up: dict[str, State], *, between: set[str], after: set[str]) -> None:
    """Hold what the store has and what ran against what a restore means.

    Args:
        field: The field.
        backed_up: The jobs of the backup.
        between: Jobs that were accepted while it was restored: they are there or not.
        after: Jobs that were accepted after it.
    """
    now = states_in(field.path)
    assert after <= set(now), "what was accepted after the restore is there"
    assert set(backed_up) <= set(now)
    assert set(now) <= set(backed_up) | between | after, "what was accepted since the backup is gone"
    assert set(now.values()) == {State.COMPLETED}
    assert set(now) <= set(field.ends())
    completed = {job for job, state in backed_up.items() if state == State.COMPLETED}
    again = {line.job for line in field.lines("start") if line.fence > JUMP}
    assert not again & completed, "what had ended in the backup does not run again"
    assert set(backed_up) - completed <= again, "and all the rest does"
    assert again & {line.job for line in field.lines("end") if line.fence < JUMP}, "also what had ended since"
    last = dict(_fences_in(field.path))
    for job, runs in fences(field).items():
        assert runs == sorted(set(runs)), f"a fence of {job} fell or came again"
        assert job not in again or runs[-1] == last[job]


def _fences_in(path: Path) -> Iterator[tuple[str, int]]:
    with contextlib.closing(sqlite3.connect(path)) as db:
        for job, fence in db.execute("SELECT hex(id), fence FROM job").fetchall():
            yield _uuid(job), fence


def test_a_run_of_before_the_restore_is_told_and_its_end_counts_for_nothing(field: Field):
    release = field.folder / "release"
    (job,) = field.enqueue("wait_for", path=str(release))
    field.app.backup(field.folder / "saved.bak")
    field.worker(concurrency=4, lease=1.5)
    (old,) = field.until_started(1)
    field.app.restore(field.folder / "saved.bak")
    new = field.until_started(2)[1]
    field.until(lambda: [line.fence for line in field.lines("told")] == [old.fence], "the news of the lost lease")
    release.touch()
    field.until(lambda: len(field.lines("end")) == 2, "both ends")
    field.until_done()
    done = field.app.get(job)
    assert done.state == "completed"
    assert (done.failures, done.crashes) == (0, 0)
    assert done.fence == new.fence > old.fence + JUMP // 2
    field.audit()


def test_a_restore_that_is_killed_changes_nothing_for_the_others(field: Field):
    for _ in range(400):  # no worker knows the task: they only make the file long, so that there is a middle
        field.app.enqueue("parked", {"pad": "x" * 4_000}, queue="parked")
    field.app.backup(field.folder / "saved.bak")
    field.enqueue("nap", 150, ms=5)
    field.worker(concurrency=4)
    field.until_started(10)
    field.died(field.run_cli("restore", str(field.folder / "saved.bak"), "--yes", fail="mid_restore"))
    field.until(lambda: len(field.ends()) == 150, "the last end")
    assert field.app.clear(queue="parked") == 400
    field.until_done()
    assert set(field.ends()) == set(field.accepted())
    assert max(field.starts().values()) == 1
    assert max(line.fence for line in field.lines()) < JUMP
    field.audit()


def test_backups_in_a_row_under_load_are_whole_each(field: Field):
    field.enqueue("hold", 40, ms=5)
    field.worker(concurrency=4)
    producer = field.run("burst", coroutines=20)
    known: set[str] = set()
    for n in range(6):
        field.until(lambda n=n: len(field.accepted()) >= 40 + 200 * n, "commits")
        accepted = set(field.accepted())
        path = field.folder / f"{n}.bak"
        field.app.backup(path)
        have = set(states_in(path))
        assert accepted | known <= have
        known = have
        with Fairlane(f"sqlite:///{path}") as copy:
            assert copy.owner.call(lambda store, now_ms: store.check()) == []
    field.kill9(producer)
    field.until_done(30)
    field.audit()
