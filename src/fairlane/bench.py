"""Measuring fairlane on this machine: what `fairlane bench` shows, and scripts under ``bench/`` use.

Every figure is measured several times, each time on a new store in a folder of your choice; the median is what counts,
and all of them are kept. Times are of one clock that all processes of a machine share.
"""

from __future__ import annotations

import asyncio
import os
import platform
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Any, Final, NamedTuple

import fairlane
from fairlane.app import Fairlane
from fairlane.clock import SystemClock
from fairlane.errors import FairlaneError

TOGETHER: Final = 100
"""Coroutines, or slots of the worker, of the figures with many at once."""
SAMPLES: Final = 100
"""Jobs of one latency figure, one after the other."""
BATCH: Final = 1_000
PATIENCE_S: Final = 60.0
TASK: Final = "bench.nothing"

clock = SystemClock()


class Figure(NamedTuple):
    """One thing that can be measured.

    Attributes:
        about: What it is, in a few words.
        unit: ``jobs/s`` (more is better) or ``ms`` (less is better).
        measure: Measures it once with a new store; takes the store's URL and how many jobs, returns the value.
    """

    about: str
    unit: str
    measure: Callable[[str, int], float]


def app_at(url: str) -> Fairlane:
    """Return an app with a task that does nothing but say when it started."""
    app = Fairlane(url, durability="full")

    @app.task(name=TASK, queue="bench")
    async def nothing() -> float:
        return clock.monotonic()

    return app


def _rate(jobs: int, since: float) -> float:
    return jobs / (clock.monotonic() - since)


# ---------------------------------------------------------------- figures


def enqueue_one(url: str, jobs: int) -> float:
    """Enqueue jobs one after the other, each its own commit."""
    with app_at(url) as app:
        app.enqueue(TASK)
        since = clock.monotonic()
        for _ in range(jobs):
            app.enqueue(TASK)
        return _rate(jobs, since)


def enqueue_many(url: str, jobs: int) -> float:
    """Enqueue jobs a thousand in one transaction."""
    with app_at(url) as app:
        app.enqueue(TASK)
        since = clock.monotonic()
        app.enqueue_many((app.new(TASK) for _ in range(jobs)), batch=BATCH)
        return _rate(jobs, since)


def cycle(together: int) -> Callable[[str, int], float]:
    """Return what measures enqueue, claim and ack by ``together`` coroutines at once."""

    async def run(app: Fairlane, jobs: int) -> float:
        left = iter(range(jobs))

        async def one() -> None:
            for _ in left:
                await app.aenqueue(TASK)
                claim = await app.aclaim(queues=["bench"])
                assert claim is not None, "as many jobs are enqueued as claimed"
                await claim.aack()

        since = clock.monotonic()
        await asyncio.gather(*(one() for _ in range(together)))
        return _rate(jobs, since)

    def measure(url: str, jobs: int) -> float:
        with app_at(url) as app:
            app.claim()  # loads what claims need
            return asyncio.run(run(app, jobs))

    return measure


def worker_rate(url: str, jobs: int) -> float:
    """Let a worker run jobs that do nothing, a hundred at once."""
    with app_at(url) as app:
        app.enqueue_many(app.new(TASK) for _ in range(jobs))
        since = clock.monotonic()
        app.run_worker(until_idle=True, signals=False, concurrency=TOGETHER)
        rate = _rate(jobs, since)
        if app.depth().rows:
            raise FairlaneError("the worker ended before all jobs were done; measure again")
        return rate


def latency_here(url: str, jobs: int) -> float:
    """Return the median time from before an enqueue to the start, in one process, on an idle queue; milliseconds."""
    with app_at(url) as app, app.worker(concurrency=8):
        return _latency(app, jobs)


def latency_across(url: str, jobs: int) -> float:
    """The same with the worker in another process."""
    with app_at(url) as app:
        app.claim()  # makes the store before the other process comes
        command = [sys.executable, "-m", "fairlane.bench", url]
        with subprocess.Popen(command, stdin=subprocess.PIPE) as process:  # noqa: S603  ourselves
            try:
                return _latency(app, jobs)
            finally:
                assert process.stdin is not None
                process.stdin.close()  # tells it to end


def _latency(app: Fairlane, jobs: int) -> float:
    app.enqueue(TASK).result(timeout=PATIENCE_S)  # the first one waits for the worker to be there
    taken: list[float] = []
    for _ in range(jobs):
        since = clock.monotonic()
        started: float = app.enqueue(TASK).result(timeout=PATIENCE_S)
        taken.append((started - since) * 1000)
    return median(taken)


FIGURES: Final = {
    "enqueue_one": Figure("enqueue, one by one", "jobs/s", enqueue_one),
    "enqueue_many": Figure("enqueue, 1,000 a transaction", "jobs/s", enqueue_many),
    "cycle_1": Figure("enqueue + claim + ack, 1 coroutine", "jobs/s", cycle(1)),
    f"cycle_{TOGETHER}": Figure(f"enqueue + claim + ack, {TOGETHER} coroutines", "jobs/s", cycle(TOGETHER)),
    "worker": Figure(f"worker, async jobs that do nothing, {TOGETHER} slots", "jobs/s", worker_rate),
    "latency_here": Figure("enqueue to start, one process, idle queue", "ms", latency_here),
    "latency_across": Figure("enqueue to start, two processes, idle queue", "ms", latency_across),
}
"""Everything that can be measured, by the name that ``--only`` takes."""


# ---------------------------------------------------------------- all together


def bench(
    folder: Path,
    *,
    only: Sequence[str] = (),
    jobs: int = 1_000,
    repeat: int = 3,
    told: Callable[[int], None] = lambda _: None,
) -> dict[str, Any]:  # Any: ready for JSON
    """Measure, and return figures with everything that they depend on.

    Args:
        folder: Where the stores are made; its disk is part of what is measured.
        only: Names of :data:`FIGURES`; none for all.
        jobs: Jobs of a figure; ten times as many for those that need few commits, at most 100 for latencies.
        repeat: How often each is measured, 1 or more.
        told: Told how many measurements are done.

    Raises:
        FairlaneError: A measurement did not go as it should.
    """
    chosen = {name: FIGURES[name] for name in only} if only else FIGURES
    results: dict[str, Any] = {}
    done = 0
    for name, figure in chosen.items():
        count = _count(name, figure, jobs)
        runs: list[float] = []
        for number in range(repeat):
            runs.append(figure.measure(f"sqlite:///{folder.absolute()}/{name}-{number}.db", count))
            done += 1
            told(done)
        results[name] = {
            "about": figure.about,
            "unit": figure.unit,
            "median": round(median(runs), 3),
            "runs": [round(value, 3) for value in runs],
            "jobs": count,
        }
    return {
        "at_ms": clock.now_ms(),
        "machine": machine(folder),
        "versions": {
            "fairlane": fairlane.__version__,
            "python": platform.python_version(),
            "sqlite": sqlite3.sqlite_version,
        },
        "settings": {"durability": "full", "policy": "fair", "jobs": jobs, "repeat": repeat},
        "results": results,
    }


def _count(name: str, figure: Figure, jobs: int) -> int:
    if figure.unit == "ms":
        return min(jobs, SAMPLES)
    return jobs if name in {"enqueue_one", "cycle_1"} else jobs * 10


def machine(folder: Path) -> dict[str, Any]:  # Any: ready for JSON
    """Return what the figures depend on: processor, system, and how long the disk takes to flush."""
    return {
        "system": platform.platform(),
        "processor": _processor(),
        "cpus": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "flush_ms": round(flush_ms(folder), 3),
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def flush_ms(folder: Path, times: int = 21) -> float:
    """Return the median time that the disk of a folder takes to append 4 KiB and flush it, in milliseconds."""
    path = folder / "flush.probe"
    taken: list[float] = []
    with path.open("wb", buffering=0) as file:
        for _ in range(times):
            since = clock.monotonic()
            file.write(b"\0" * 4096)
            os.fsync(file.fileno())
            taken.append((clock.monotonic() - since) * 1000)
    path.unlink()
    return median(taken)


def _be_worker(url: str) -> None:
    """Run a worker until standard input ends: the other process of :func:`latency_across`."""
    with app_at(url) as app:
        worker = app.worker(concurrency=8)

        def wait() -> None:
            sys.stdin.buffer.read()
            worker.request_stop()

        worker.start()
        threading.Thread(target=wait, daemon=True).start()
        worker.join()


if __name__ == "__main__":
    _be_worker(sys.argv[1])
