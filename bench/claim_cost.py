"""What enqueue, claim and settle cost, in CPU microseconds a job, and whether that grows.

    python bench/claim_cost.py                 the table of docs/performance.md
    python bench/claim_cost.py --jobs 1000000 --tenants 10000 --batch 10
    python bench/claim_cost.py --jobs 100000 --queues 100 --batch 1
    python bench/claim_cost.py --capped        100,000 jobs of a tenant at its cap stand in front

CPU time of this process (``time.process_time``), medians over rounds of 500 claims; the store is a file on a RAM disk
where there is one, so that the disk does not hide the work. Each row loads its own store.
"""

from __future__ import annotations

import argparse
import json
import platform
import sqlite3
import statistics
import sys
import tempfile
import time
import uuid
from collections.abc import Callable
from pathlib import Path

from fairlane.clock import SystemClock
from fairlane.domain.jobs import NewJob, Settlement
from fairlane.domain.lanes import Ask
from fairlane.domain.policy import TenantRule
from fairlane.options import new_id
from fairlane.store import Store
from fairlane.stores.sqlite.store import open_sqlite

PAYLOAD = '{"a":"' + "x" * 190 + '"}'
ROUND = 500
CASES = [
    *[(jobs, tenants, batch) for jobs, tenants in ((1_000, 1), (1_000, 100)) for batch in (1, 10, 100)],
    *[(100_000, tenants, batch) for tenants in (1, 100, 10_000) for batch in (1, 10, 100)],
    *[(1_000_000, tenants, batch) for tenants in (1, 10_000) for batch in (1, 10, 100)],
]
CLOCK = SystemClock()


def new(number: int, tenants: int, *, queues: int = 1, prefix: str = "t", tier: int = 2) -> NewJob:
    """Return the job of a number: tenants take turns, and then queues."""
    queue = number // tenants % queues
    return NewJob(
        id=new_id(),
        task="t",
        queue=f"q{queue}" if queue else "default",
        tenant=f"{prefix}{number % tenants}",
        tier=tier,
        args=PAYLOAD,
    )


def load(
    store: Store, jobs: int, tenants: int, *, queues: int = 1, prefix: str = "t", tier: int = 2, portion: int = 10_000
) -> float:
    """Enqueue jobs, so many in a transaction; return the CPU seconds that it took."""
    spent = 0.0
    for start in range(0, jobs, portion):
        batch = [
            new(number, tenants, queues=queues, prefix=prefix, tier=tier)
            for number in range(start, min(jobs, start + portion))
        ]
        before = time.process_time()
        with store.transaction(light=True):
            store.enqueue(batch, CLOCK.now_ms())
        store.news()
        spent += time.process_time() - before
    return spent


def rounds(
    total: int, batch: int, work: Callable[[], int], spent: Callable[[], float] = time.process_time
) -> tuple[float, float, float]:
    """Return CPU microseconds a job (median over rounds), and the wall time of a call, p50 and p99, in microseconds."""
    costs: list[float] = []
    walls: list[float] = []
    for _ in range(max(1, total // ROUND)):
        before, done = spent(), 0
        for _ in range(max(1, ROUND // batch)):
            wall = time.perf_counter()
            done += work()
            walls.append((time.perf_counter() - wall) * 1e6)
        costs.append((spent() - before) * 1e6 / max(1, done))
    walls.sort()
    return statistics.median(costs), walls[len(walls) // 2], walls[len(walls) * 99 // 100]


def measure(
    folder: Path, jobs: int, tenants: int, queues: int, batch: int, *, capped: bool, claims: int
) -> dict[str, object]:
    """Measure one case on a fresh store."""
    store = open_sqlite(f"sqlite:///{folder}/{uuid.uuid4().hex}.db", clock=CLOCK, durability="normal")
    if capped:
        load(store, 100_000, 1, prefix="capped", tier=0)
        with store.transaction():
            store.set_rule("tenant", "capped0", TenantRule(max_running=0), by="bench", now_ms=CLOCK.now_ms())
    enqueue = load(store, jobs, tenants, queues=queues) * 1e6 / jobs
    held = []

    def claim() -> int:
        with store.transaction():
            got = store.claim(Ask("default", batch), worker="w", lease_ms=10**8, now_ms=CLOCK.now_ms())
        held.append(got)
        return len(got)

    def settle() -> int:
        got = held.pop()
        ends = [Settlement(seq=c.seq, fence=c.fence, kind="completed", run_us=30_000, result="1") for c in got]
        with store.transaction():
            store.settle(ends, CLOCK.now_ms())
        return len(ends)

    wall = time.perf_counter()
    claim()
    first_ms = (time.perf_counter() - wall) * 1000
    settle()
    claims = min(claims, jobs // 2)
    claim_us, p50, p99 = rounds(claims, batch, claim)
    settle_us, _, _ = rounds(claims, batch, settle)
    wrong = store.check()
    store.close()
    return {
        "jobs": jobs,
        "tenants": tenants,
        "queues": queues,
        "batch": batch,
        "enqueue_us": round(enqueue, 1),
        "claim_us": round(claim_us, 1),
        "settle_us": round(settle_us, 1),
        "claim_wall_p50_us": round(p50),
        "claim_wall_p99_us": round(p99),
        "first_claim_ms": round(first_ms),
        "wrong": wrong,
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int)
    parser.add_argument("--tenants", type=int, default=100)
    parser.add_argument("--queues", type=int, default=1)
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--claims", type=int, default=3_000)
    parser.add_argument("--capped", action="store_true")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    cases = [(options.jobs, options.tenants, options.batch)] if options.jobs else CASES
    shm = Path("/dev/shm")
    rows = []
    with tempfile.TemporaryDirectory(dir=shm if shm.is_dir() else None) as folder:
        for jobs, tenants, batch in cases:
            row = measure(
                Path(folder), jobs, tenants, options.queues, batch, capped=options.capped, claims=options.claims
            )
            rows.append(row)
            if not options.json:
                print(" ".join(f"{name}={value}" for name, value in row.items()), flush=True)
    if options.json:
        machine = {"python": sys.version.split()[0], "sqlite": sqlite3.sqlite_version, "machine": platform.machine()}
        json.dump({"machine": machine, "rows": rows}, sys.stdout, indent=1)


if __name__ == "__main__":
    main()
