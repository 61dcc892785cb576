"""Workers that are killed, stopped and signalled. What was lost or ran twice is judged by a log that handlers write
beside the store, never by the store's own books.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from fairlane.app import Fairlane
from fairlane.clock import SystemClock

pytestmark = [pytest.mark.crash, pytest.mark.timeout(60)]

PROGRAM = """
import asyncio, os, signal, sys, time
import fairlane
from fairlane.app import Fairlane
from fairlane.context import Context
from fairlane.domain.retries import Retry

app = Fairlane(os.environ["URL"], durability="normal")

def note(what, ctx):
    line = f"{ctx.job_id} {ctx.attempt} {os.getpid()} {what}\\n"
    fd = os.open(os.environ["LOG"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(fd, line.encode()); os.close(fd)

RETRY = Retry(base=0.0, max_crashes=100)

@app.task(retry=RETRY)
async def quick(ctx: Context, ms: int = 0) -> str:
    note("start", ctx)
    await asyncio.sleep(ms / 1000)
    note("end", ctx)
    return "done"

@app.task(retry=RETRY)
def thread(ctx: Context, ms: int = 0) -> str:
    note("start", ctx)
    time.sleep(ms / 1000)
    note("end", ctx)
    return "done"

@app.task(retry=RETRY)
def rude(ctx: Context) -> None:
    note("start", ctx)
    while True:
        time.sleep(0.01)

@app.task(retry=RETRY)
async def stubborn(ctx: Context) -> None:
    note("start", ctx)
    while True:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            pass

if __name__ == "__main__":
    worker = app.worker(concurrency=int(os.environ.get("SLOTS", "8")), grace=float(os.environ.get("GRACE", "5")),
                        lease=float(os.environ.get("LEASE", "5")))
    worker.run(until_idle="--burst" in sys.argv)
    app.close() if not worker.abandoned else os._exit(0)
"""


class Line(NamedTuple):
    """What a handler wrote."""

    job: str
    attempt: int
    pid: int
    what: str


class Site:
    """A store, an oracle log, and worker processes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.url = f"sqlite:///{folder}/jobs.db"
        self.log = folder / "log"
        (folder / "program.py").write_text(PROGRAM)
        self.app = Fairlane(self.url, durability="normal")
        self.processes: list[subprocess.Popen[bytes]] = []

    def enqueue(self, task: str, count: int = 1, **args: Any) -> list[str]:
        jobs = [self.app.enqueue(task, args) for _ in range(count)]
        return [str(job.id) for job in jobs]

    def start(self, *argv: str, **env: str) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            [sys.executable, str(self.folder / "program.py"), *argv],
            env=os.environ | {"URL": self.url, "LOG": str(self.log)} | env,
            cwd=self.folder,
        )
        self.processes.append(process)
        return process

    def lines(self) -> list[Line]:
        if not self.log.exists():
            return []
        rows = [line.split() for line in self.log.read_text().splitlines()]
        return [Line(job, int(attempt), int(pid), what) for job, attempt, pid, what in rows]

    def count(self, what: str) -> Counter[str]:
        return Counter(line.job for line in self.lines() if line.what == what)

    def states(self) -> dict[str, int]:
        counts = self.app.owner.read(lambda store, now_ms: store.counts())
        return {state.label: count for state, count in counts.items() if count}

    def until(self, holds: Any, what: str, seconds: float = 30.0) -> None:
        until = SystemClock().monotonic() + seconds
        while not holds():
            assert SystemClock().monotonic() < until, f"{what} did not come: {self.states()}"
            time.sleep(0.01)

    def close(self) -> None:
        for process in self.processes:
            if process.poll() is None:
                process.send_signal(signal.SIGCONT)
                process.kill()
            process.wait()
        self.app.close()


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    made = Site(tmp_path)
    yield made
    made.close()


@pytest.mark.parametrize("place", ["after_claim_commit", "before_ack", "after_ack_before_return", "mid_recovery"])
@pytest.mark.parametrize("task", ["quick", "thread"])
def test_a_worker_that_dies_anywhere_loses_nothing(site: Site, place: str, task: str):
    jobs = site.enqueue(task, 30)
    if place == "mid_recovery":  # there must be something to recover
        victim = site.start(FAIRLANE_FAILPOINT="before_ack")
        assert victim.wait(20) == 9
    dying = site.start(FAIRLANE_FAILPOINT=f"{place}:exit:1")
    assert dying.wait(20) == 9
    site.start()
    site.until(lambda: site.states() == {"completed": 30}, "the end of all jobs")
    starts, ends = site.count("start"), site.count("end")
    assert set(ends) == set(jobs), "every job ran to its end"
    assert max(starts.values()) <= 3
    assert site.app.owner.read(lambda store, now_ms: store.check()) == []


@pytest.mark.parametrize("place", ["after_claim_commit", "before_ack", "after_ack_before_return"])
def test_an_exception_in_the_dispatcher_loses_nothing_and_runs_nothing_twice(site: Site, place: str):
    jobs = site.enqueue("quick", 30)
    assert site.start("--burst", FAIRLANE_FAILPOINT=f"{place}:raise:2", SLOTS="4").wait(30) == 0
    assert site.states() == {"completed": 30}
    assert site.count("start") == Counter(jobs)


def test_killing_workers_under_load_loses_nothing(site: Site):
    jobs = site.enqueue("quick", 150, ms=20) + site.enqueue("thread", 150, ms=20)
    rng = random.Random(5)
    for _ in range(6):
        process = site.start()
        seen = len(site.lines())
        site.until(lambda seen=seen: len(site.lines()) > seen, "a start")
        time.sleep(rng.uniform(0.0, 0.1))
        process.kill()
        process.wait()
    site.start()
    site.until(lambda: site.states() == {"completed": 300}, "the end of all jobs")
    assert set(site.count("end")) == set(jobs)
    assert site.app.owner.read(lambda store, now_ms: store.check()) == []


def test_a_terminated_worker_under_load_loses_nothing_doubles_nothing_and_leaves_nothing_leased(site: Site):
    jobs = site.enqueue("quick", 200, ms=5) + site.enqueue("thread", 200, ms=5)
    rng = random.Random(6)
    while site.states().get("completed", 0) < 400:
        process = site.start()
        seen = len(site.lines())
        site.until(lambda seen=seen: len(site.lines()) > seen or site.states() == {"completed": 400}, "a start")
        time.sleep(rng.uniform(0.0, 0.2))
        process.send_signal(rng.choice([signal.SIGTERM, signal.SIGINT]))
        assert process.wait(10) == 0
        assert "running" not in site.states()
    assert site.count("start") == site.count("end") == Counter(jobs)


@pytest.mark.parametrize("task", ["rude", "stubborn"])
def test_a_handler_that_ignores_everything_does_not_keep_the_process_alive(site: Site, task: str):
    site.enqueue(task)
    process = site.start(GRACE="0.3")
    site.until(site.lines, "a start")
    began = time.monotonic()
    process.send_signal(signal.SIGTERM)
    assert process.wait(10) == 0
    assert time.monotonic() - began < 2.3
    assert site.states() == {"available": 1}
    (job,) = site.app.jobs(limit=5).jobs
    assert (job.failures, job.crashes) == (0, 0)


def test_a_second_signal_gives_back_at_once(site: Site):
    site.enqueue("quick", ms=60_000)
    process = site.start(GRACE="60")
    site.until(site.lines, "a start")
    process.send_signal(signal.SIGTERM)
    time.sleep(0.2)
    assert process.poll() is None, "it waits for the job"
    began = time.monotonic()
    process.send_signal(signal.SIGTERM)
    assert process.wait(10) == 0
    assert time.monotonic() - began < 1.5
    assert site.states() == {"available": 1}


def test_signals_at_random_times_lose_nothing(site: Site):
    rng = random.Random(7)
    jobs: list[str] = []
    for _ in range(8):
        jobs += site.enqueue("quick", 5)
        process = site.start()
        time.sleep(rng.uniform(0.1, 0.9))
        process.send_signal(signal.SIGTERM)
        process.wait(10)  # before it has installed its handlers the signal kills it, and that is all right too
    site.start()
    site.until(lambda: site.states() == {"completed": 40}, "the end of all jobs")
    assert set(site.count("end")) == set(jobs)


def test_a_worker_that_was_stopped_and_goes_on_changes_nothing_of_what_others_did(site: Site):
    (job,) = site.enqueue("thread", ms=700)
    first = site.start(LEASE="1")
    site.until(site.lines, "a start")
    first.send_signal(signal.SIGSTOP)
    time.sleep(1.2)
    second = site.start(LEASE="1")
    site.until(lambda: len([one for one in site.lines() if one.what == "start"]) == 2, "a second start")
    first.send_signal(signal.SIGCONT)
    site.until(lambda: site.states() == {"completed": 1}, "the end")
    assert site.app.get(job).fence == 2
    assert {line.pid for line in site.lines()} == {first.pid, second.pid}


def test_a_worker_that_was_stopped_alone_goes_on_and_its_job_runs_once(site: Site):
    (job,) = site.enqueue("thread", ms=600)
    process = site.start(LEASE="1")
    site.until(site.lines, "a start")
    process.send_signal(signal.SIGSTOP)
    time.sleep(1.5)
    process.send_signal(signal.SIGCONT)
    site.until(lambda: site.states() == {"completed": 1}, "the end")
    assert site.count("start") == Counter([job])


def test_a_killed_workers_jobs_are_back_within_two_seconds(site: Site):
    site.enqueue("thread", 4, ms=60_000)
    first = site.start(LEASE="30")
    site.until(lambda: len(site.lines()) == 4, "four starts")
    site.start(LEASE="30")
    time.sleep(1.0)  # it is up and has nothing to do
    first.kill()
    began = time.monotonic()
    site.until(lambda: len(site.lines()) == 8, "four more starts")
    assert time.monotonic() - began < 2.0
