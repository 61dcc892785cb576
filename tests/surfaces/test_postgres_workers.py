"""Worker processes on one PostgreSQL database: `fairlane worker`, killed, drained, and on machines with a wrong clock.

The tasks write a log of their own, outside the queue, and it judges: each job ran once, unless its process was killed.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import psycopg
import pytest
from tests.pg import set_clock

sys.path.insert(0, str(Path(__file__).parent))  # "importlib" mode finds no neighbours by itself

from cli_rig import Cli

import fairlane as fl
from fairlane.clock import SystemClock
from fairlane.domain.jobs import JobRecord, WorkerRecord
from fairlane.store import Store
from fairlane.testing import invariants
from fairlane.testing.invariants import Mark

pytestmark = [pytest.mark.postgres, pytest.mark.crash, pytest.mark.timeout(90)]

LONG_S = 40.0
"""Longest wait for an event; only a failing test waits that long."""
TENANTS = ("acme", "globex", "initech")
TASKS = """
import os
import threading
import time

import fairlane as fl

app = fl.Fairlane()
log = os.open(os.environ["LOG"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
MANY = fl.Retry(base=0.0, max_crashes=1_000)


def note(ctx, what):
    fence = ctx._holder.claim.fence
    line = f"{ctx.job_id} {ctx.attempt} {fence} {os.getpid()} {what} {time.monotonic_ns()} {ctx.tenant}"
    os.write(log, f"{line}\\n".encode())


@app.task(retry=MANY)
async def nap(ctx: fl.Context, ms: int = 0) -> int:
    import asyncio

    note(ctx, "start")
    await asyncio.sleep(ms / 1000)
    note(ctx, "end")
    return os.getpid()


@app.task(retry=MANY)
def hold(ctx: fl.Context, path: str) -> str:
    # On its first attempt it waits for a file.
    note(ctx, "start")
    while ctx.attempt == 1 and not os.path.exists(path):
        threading.Event().wait(0.01)
    note(ctx, "end")
    return f"attempt {ctx.attempt}"


@app.task(retry=fl.Retry(max_attempts=2, base=0.2, jitter=0.0))
def fails_once(ctx: fl.Context) -> None:
    note(ctx, "start")
    if ctx.attempt == 1:
        note(ctx, "fail")
        raise ValueError("once")
    note(ctx, "end")
"""


class Yard:
    """A database, the processes that work on it, and their log."""

    def __init__(self, folder: Path, url: str) -> None:
        self.cli = Cli(folder)
        self.cli.url = url
        self.folder = folder
        self.log = folder / "oracle.log"
        self.log.touch()
        (folder / "yardapp.py").write_text(TASKS)
        self.workers: list[subprocess.Popen[str]] = []
        self.killed: list[int] = []
        self.app = fl.Fairlane(url)
        self.accepted: list[str] = []

    def close(self) -> None:
        for process in self.workers:
            if process.poll() is None:
                process.kill()
            process.wait()
        self.app.close()

    def start(self, count: int, *options: object) -> list[subprocess.Popen[str]]:
        """Start workers and wait until they have signed on."""
        environment = {key: value for key, value in os.environ.items() if not key.startswith("FAIRLANE_")}
        more = []
        for _ in range(count):
            with self.said(len(self.workers)).open("w") as stderr:
                process = subprocess.Popen(
                    [sys.executable, "-m", "fairlane", "worker", "yardapp:app", "-c", "4", *map(str, options)],
                    cwd=self.folder,
                    env=environment | {"FAIRLANE_URL": self.cli.url, "LOG": str(self.log)},
                    stderr=stderr,
                    text=True,
                )
            more.append(process)
            self.workers.append(process)
        pids = {process.pid for process in more}
        self.until(lambda: pids <= {one.pid for one in self.app.owner.read(_workers)}, "the workers to sign on")
        return more

    def said(self, number: int) -> Path:
        """Return the file that a worker writes its log to."""
        return self.folder / f"worker-{number}.err"

    def kill(self, process: subprocess.Popen[str]) -> None:
        """Kill a worker with SIGKILL."""
        self.killed.append(process.pid)
        with self.log.open("ab", buffering=0) as file:
            file.write(f"- 0 0 {process.pid} kill 0 -\n".encode())
        process.kill()
        process.wait()

    def enqueue(self, task: str, count: int, **args: object) -> list[str]:
        jobs = [self.app.enqueue(task, args, tenant=TENANTS[n % len(TENANTS)]) for n in range(count)]
        made = [str(job.id) for job in jobs]
        self.accepted += made
        return made

    def marks(self, what: str) -> list[Mark]:
        return [mark for mark in invariants.parse(self.log.read_text()) if mark.what == what]

    def runs(self) -> Counter[str]:
        return Counter(mark.job for mark in self.marks("start"))

    def states(self) -> dict[str, int]:
        counts = self.app.owner.read(lambda store, _: store.counts())
        return {state.label: count for state, count in counts.items() if count}

    def until(self, holds: Callable[[], object], what: str) -> None:
        """Wait until ``holds()``."""
        pause = threading.Event()
        for _ in range(int(LONG_S / 0.02)):
            if holds():
                return
            for number, process in enumerate(self.workers):
                assert process.poll() in {None, 0} or process.pid in self.killed, self.said(number).read_text()
            pause.wait(0.02)
        raise AssertionError(f"{what} did not come: {self.states()}, {len(self.marks('start'))} starts")

    def until_done(self) -> None:
        self.until(lambda: not self.states().keys() & {"scheduled", "available", "running"}, "the last end")

    def audit(self) -> None:
        """See that nothing is lost, leaked, or ran twice without a killed process."""
        jobs, books, now_ms = self.app.owner.call(_books)
        marks = invariants.parse(self.log.read_text())
        assert books == []
        assert invariants.lease_faults(jobs, now_ms, sweep_ms=5_000) == []
        assert invariants.lost(self.accepted, jobs, set()) == set()
        assert invariants.fence_faults(marks) == []
        again = {job for job, runs in self.runs().items() if runs > 1}
        failed = {mark.job for mark in self.marks("fail")}
        hit = {mark.job for mark in self.marks("start") if mark.pid in self.killed}
        assert again <= hit | failed


def _workers(store: Store, now_ms: int) -> Sequence[WorkerRecord]:
    return store.workers()


def _books(store: Store, now_ms: int) -> tuple[list[JobRecord], list[str], int]:
    return invariants.all_jobs(store), invariants.book_faults(store, now_ms), now_ms


@pytest.fixture
def yard(tmp_path: Path, empty: str) -> Iterator[Yard]:
    """A database that `fairlane migrate` has made."""
    made = Yard(tmp_path, empty)
    try:
        made.cli.process("migrate", "--check", code=3)
        made.cli.process("migrate")
        yield made
    finally:
        made.close()


def test_jobs_of_many_tenants_run_once(yard: Yard):
    """Two worker processes and three tenants, each with a cap; only what failed ran again."""
    yard.start(2)
    for tenant in TENANTS:
        yard.app.tenants[tenant].set(max_running=2)
    yard.enqueue("nap", 90, ms=20)
    yard.enqueue("fails_once", 3)
    yard.until_done()
    runs = yard.runs()
    assert set(runs) == set(yard.accepted)
    assert Counter(runs.values()) == {1: 90, 2: 3}
    assert len({mark.pid for mark in yard.marks("start")}) == 2, "both had some"
    most = invariants.most_at_once(invariants.parse(yard.log.read_text()), lambda mark: mark.tenant)
    assert most.keys() >= set(TENANTS)
    assert max(most[tenant] for tenant in TENANTS) <= 2
    told = yard.cli.process("stats", "--json")[0]
    assert '"completed": 93' in told
    yard.audit()


def test_jobs_of_a_killed_worker_come_back_and_run(yard: Yard):
    """Its sign of life holds for 10 s; then its jobs run elsewhere, and at no other time."""
    first, second = yard.start(2, "--lease", 3600)  # which nobody waits for
    release = yard.folder / "release"
    jobs = yard.enqueue("hold", 8, path=str(release))
    yard.until(lambda: len(yard.marks("start")) == 8, "eight starts")
    lost = {mark.job for mark in yard.marks("start") if mark.pid == first.pid}
    assert len(lost) == 4
    yard.kill(first)
    yard.enqueue("hold", 2, path=str(release))
    third = yard.start(1)[0]
    yard.until(lambda: all(yard.runs()[job] == 2 for job in lost), "the second run of each")
    release.touch()
    yard.until_done()
    assert yard.states() == {"completed": 10}
    assert {job: yard.runs()[job] for job in jobs} == {job: 1 + (job in lost) for job in jobs}
    assert {mark.pid for mark in yard.marks("start")} == {first.pid, second.pid, third.pid}
    crashed = [job for job in yard.app.jobs() if job.record.crashes]
    assert {str(job.id) for job in crashed} == lost
    yard.audit()


def test_sigterm_drains(yard: Yard):
    """What runs is finished, what waits is left to others, and the worker is off the record."""
    (process,) = yard.start(1)
    release = yard.folder / "release"
    running = yard.enqueue("hold", 4, path=str(release))
    yard.until(lambda: len(yard.marks("start")) == 4, "four starts")
    waiting = yard.enqueue("hold", 3, path=str(release))
    process.send_signal(signal.SIGTERM)
    yard.until(lambda: "worker_draining" in yard.said(0).read_text(), "the drain")
    release.touch()
    assert process.wait(LONG_S) == 0
    assert {mark.job for mark in yard.marks("end")} == set(running)
    assert yard.states() == {"completed": 4, "available": 3}
    assert yard.app.owner.read(_workers) == []
    with psycopg.connect(yard.cli.url) as db:
        assert db.execute("SELECT count(*) FROM fairlane.life").fetchone() == (0,)
    yard.start(1)
    yard.until_done()
    assert {job: yard.runs()[job] for job in running + waiting} == dict.fromkeys(running + waiting, 1)
    yard.audit()


def test_the_database_s_clock_decides_for_all(yard: Yard):
    """The machine is an hour slow: delays, retries and leases go by the database, on both sides."""
    yard.app.close()
    set_clock(yard.cli.url, 3600)
    yard.app = fl.Fairlane(yard.cli.url)
    (process,) = yard.start(1, "--lease", "5")
    before_ms = SystemClock().now_ms()
    later = yard.app.enqueue("nap", {"ms": 1}, delay=0.3)
    failing = yard.app.enqueue("fails_once")
    assert later.result(timeout=LONG_S) == process.pid
    failing.result(timeout=LONG_S)
    for job in (later, failing):
        job.refresh()
        instants = (job.enqueued_at, job.scheduled_at, job.started_at, job.finished_at)
        assert all(3_590 < at.timestamp() - before_ms / 1000 < 3_600 + LONG_S for at in instants), instants
        assert job.record.crashes == 0
        assert yard.runs()[str(job.id)] == (2 if job is failing else 1)
    assert later.started_at >= later.scheduled_at
    (record,) = yard.app.owner.read(_workers)
    assert record.started_at_ms - before_ms > 3_500_000
    yard.audit()
