"""Several processes on one store: how fast together, how evenly, and how long any call has to wait.

    python bench/processes.py                    1, 2, 4, 8 processes for 5 seconds each, at durability "full"
    python bench/processes.py --processes 4 --seconds 20 --durability normal --json

Each process enqueues ten jobs, claims ten, and settles them, again and again, as fast as it gets the file: full load.
"spread" is how far the fastest and the slowest process are from each other, in per cent of their mean. Several rounds,
medians; the longest call is that of all rounds. ``bench/growth.py`` has the same for PostgreSQL.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

from fairlane.clock import SystemClock
from fairlane.domain.jobs import Claim, NewJob, Settlement
from fairlane.domain.lanes import Ask
from fairlane.options import new_id
from fairlane.owner import Owner
from fairlane.store import Store
from fairlane.stores.named import clock_of, open_store
from fairlane.stores.sqlite.connection import Durability

T = TypeVar("T")
PORTION: Final = 10
CLOCK: Final = SystemClock()


class Share(NamedTuple):
    """What one process did: cycles, how long its calls took, in seconds, ordered, and its own processor seconds."""

    cycles: int
    calls: list[float]
    cpu_s: float


def work(url: str, durability: Durability, seconds: float, start: Barrier, told: Any) -> None:  # Any: a Connection
    """Run cycles until the time is over; one process."""
    clock = clock_of(url) or CLOCK
    owner = Owner(lambda: open_store(url, clock=clock, policy=None, capacities=None, durability=durability), clock)
    calls: list[float] = []
    name = multiprocessing.current_process().name

    def timed(call: Callable[[Store, int], T], *, light: bool = False) -> T:
        began = time.perf_counter()
        answer = owner.call(call, light=light)
        calls.append(time.perf_counter() - began)
        return answer

    def cycle() -> None:
        many = [NewJob(id=new_id(), task="t", tenant=f"t{number}") for number in range(PORTION)]
        timed(lambda store, now_ms: store.enqueue(many, now_ms), light=True)

        def claim(store: Store, now_ms: int) -> list[Claim]:
            return store.claim(Ask("default", PORTION), worker=name, lease_ms=60_000, now_ms=now_ms)

        got = timed(claim)
        ends = [Settlement(seq=one.seq, fence=one.fence, kind="completed", run_us=1_000) for one in got]
        timed(lambda store, now_ms: store.settle(ends, now_ms))

    cycle()
    calls.clear()
    start.wait()
    cycles, end = 0, time.perf_counter() + seconds
    before = time.process_time()
    while time.perf_counter() < end:
        cycle()
        cycles += 1
    told.send(Share(cycles, sorted(calls), time.process_time() - before))
    owner.close()


def measure(url: str, processes: int, seconds: float, durability: Durability) -> list[Share]:
    """Let so many processes work side by side."""
    spawn = multiprocessing.get_context("spawn")
    start = spawn.Barrier(processes)
    pipes = [spawn.Pipe(duplex=False) for _ in range(processes)]
    running = [
        spawn.Process(target=work, args=(url, durability, seconds, start, told), name=f"p{number}")
        for number, (_, told) in enumerate(pipes)
    ]
    for process in running:
        process.start()
    shares: list[Share] = [got.recv() for got, _ in pipes]
    for process in running:
        process.join()
    return shares


def row(processes: int, rounds: Sequence[list[Share]], seconds: float) -> dict[str, object]:
    """Return the figures of all rounds with one number of processes."""
    spreads: list[float] = []
    for shares in rounds:
        cycles = [share.cycles for share in shares]
        spreads.append(100 * (max(cycles) - min(cycles)) / statistics.mean(cycles))
    calls = sorted(call for shares in rounds for share in shares for call in share.calls)
    together = [sum(share.cycles for share in shares) * PORTION / seconds for shares in rounds]
    cpu_s = sum(share.cpu_s for shares in rounds for share in shares)
    return {
        "processes": processes,
        "jobs_per_s": round(statistics.median(together)),
        "spread_percent": round(statistics.median(spreads), 1),
        "cpu_us_a_job": round(cpu_s * 1e6 / (sum(together) * seconds), 1),
        "call_p50_ms": round(calls[len(calls) // 2] * 1e3, 2),
        "call_p99_ms": round(calls[len(calls) * 99 // 100] * 1e3, 2),
        "call_longest_ms": round(calls[-1] * 1e3, 1),
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--processes", type=int, nargs="+", default=[1, 2, 4, 8])
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--durability", choices=["full", "normal"], default="full")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    rows: list[dict[str, object]] = []
    for processes in options.processes:
        rounds: list[list[Share]] = []
        for _ in range(options.rounds):
            with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder:  # a disk, and not a folder in memory
                url = f"sqlite:///{folder}/jobs.db"
                rounds.append(measure(url, processes, options.seconds, options.durability))
        rows.append(row(processes, rounds, options.seconds))
        if not options.json:
            print(" ".join(f"{name}={value}" for name, value in rows[-1].items()), flush=True)
    if options.json:
        print(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
