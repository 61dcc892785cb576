"""What order between jobs costs, in CPU microseconds: behind one job, behind many, in a chain that is cancelled.

    python bench/followers.py
    python bench/followers.py --jobs 100000

CPU time of this process; the store is a file on a RAM disk where there is one. "longest" is the longest transaction
that tells followers, in milliseconds of CPU: it is how long everybody else waits.
"""

from __future__ import annotations

import argparse
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

from fairlane.clock import SystemClock
from fairlane.domain.jobs import MAX_BATCH, NewJob, Settlement
from fairlane.domain.lanes import Ask
from fairlane.domain.states import State
from fairlane.stores.sqlite.store import SqliteStore, open_sqlite

CLOCK = SystemClock()


def spent(work: Callable[[], object]) -> float:
    """Return the CPU seconds that a call takes."""
    before = time.process_time()
    work()
    return time.process_time() - before


def new(after: tuple[bytes, ...] = ()) -> NewJob:
    """Return a job."""
    return NewJob(id=uuid.uuid4().bytes, task="t", after=after)


def put(store: SqliteStore, jobs: list[NewJob]) -> float:
    """Store jobs, a batch a transaction; return the CPU seconds."""

    def work() -> None:
        for start in range(0, len(jobs), MAX_BATCH):
            with store.transaction():
                store.enqueue(jobs[start : start + MAX_BATCH], CLOCK.now_ms())

    return spent(work)


def end(store: SqliteStore, kind: str, count: int = 1) -> Iterator[float]:
    """End running jobs one by one; yield the CPU seconds of each transaction."""
    with store.transaction():
        claims = store.claim(Ask("default", count), worker="", lease_ms=10**8, now_ms=CLOCK.now_ms())
    for claim in claims:
        item = Settlement(seq=claim.seq, fence=claim.fence, kind=kind, run_us=1_000)  # type: ignore[arg-type]

        def work(item: Settlement = item) -> None:
            with store.transaction():
                store.settle([item], CLOCK.now_ms())

        yield spent(work)


def rest(store: SqliteStore) -> Iterator[float]:
    """Tell what is left; yield the CPU seconds of each transaction."""

    def work() -> None:
        with store.transaction():
            store.notice(CLOCK.now_ms())

    while store.next_due_ms() is not None:
        yield spent(work)


def show(what: str, jobs: int, stored: float, told: list[float]) -> None:
    """Print one line."""
    print(
        f"{what}: jobs={jobs} enqueue_us={stored * 1e6 / jobs:.1f} told_us={sum(told) * 1e6 / jobs:.1f} "
        f"transactions={len(told)} longest_ms={max(told) * 1e3:.1f}",
        flush=True,
    )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=10_000)
    jobs: int = parser.parse_args().jobs
    shm = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=shm if shm.is_dir() else None) as folder:
        for what in ("children of one job", "one child of many jobs", "a chain that is cancelled"):
            store = open_sqlite(f"sqlite:///{folder}/{uuid.uuid4().hex}.db", clock=CLOCK, durability="normal")
            first = new()
            put(store, [first])
            if what == "children of one job":
                stored = put(store, [new((first.id,)) for _ in range(jobs)])
                told = [*end(store, "completed"), *rest(store)]
                assert store.counts()[State.AVAILABLE] == jobs
            elif what == "one child of many jobs":
                parents = [first, *(new() for _ in range(min(jobs, MAX_BATCH) - 1))]
                put(store, parents[1:])
                stored = put(store, [new(tuple(job.id for job in parents))])
                told = list(end(store, "completed", len(parents)))
                assert store.counts()[State.AVAILABLE] == 1
            else:
                links = [first]
                for _ in range(jobs):
                    links.append(new((links[-1].id,)))
                stored = put(store, links[1:])
                told = [*end(store, "dead"), *rest(store)]
                assert store.counts()[State.CANCELLED] == jobs
            show(what, jobs, stored, told)
            assert store.check() == []
            store.close()


if __name__ == "__main__":
    main()
