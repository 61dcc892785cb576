"""What an explanation costs with many waiting jobs, in milliseconds, and whether it names the cause.

    python bench/explain.py                              1,000,000 jobs of 10,000 tenants
    python bench/explain.py --jobs 100000 --tenants 100

The first call loads the state that claims decide on; the others follow the log. ``behind`` is a call after so many
transactions of another process. Wall time of this process (``time.perf_counter``); the store is a file on a RAM disk
where there is one.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sqlite3
import statistics
import tempfile
import time
import uuid
from collections.abc import Callable
from pathlib import Path

from claim_cost import CLOCK, load

from fairlane.domain.jobs import NewJob, Settlement, WorkerRecord
from fairlane.domain.lanes import Ask
from fairlane.domain.policy import LimitRule, Pause, QueueRule, Rate, TenantRule
from fairlane.insight import MOST_LANES, MOST_STARTS
from fairlane.stores.sqlite.store import SqliteStore, open_sqlite

CALLS = 20


def put(store: SqliteStore, **fields: object) -> bytes:
    job = NewJob(id=uuid.uuid4().bytes, **{"task": "t", "tenant": "x", **fields})
    with store.transaction():
        store.enqueue([job], CLOCK.now_ms())
    return job.id


def rule(store: SqliteStore, kind: str, name: str, what: object) -> None:
    with store.transaction():
        store.set_rule(kind, name, what, by="bench", now_ms=CLOCK.now_ms())


def cycles(store: SqliteStore, count: int, run_ms: int = 1) -> None:
    for _ in range(count):
        with store.transaction():
            claims = store.claim(Ask("default", 1, {"default": 1}), worker="", lease_ms=30_000, now_ms=CLOCK.now_ms())
        with store.transaction():
            ends = [Settlement(seq=one.seq, fence=one.fence, kind="completed", run_us=run_ms * 1000) for one in claims]
            store.settle(ends, CLOCK.now_ms())


def timed(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return (time.perf_counter() - start) * 1000


def warm(store: SqliteStore, job: bytes) -> tuple[float, float, str]:
    """Return the median and the longest time of some calls, and the cause."""
    store.explain(job, CLOCK.now_ms())
    spent = [timed(lambda: store.explain(job, CLOCK.now_ms())) for _ in range(CALLS)]
    return round(statistics.median(spent), 1), round(max(spent), 1), store.explain(job, CLOCK.now_ms()).cause


def causes(own: SqliteStore, store: SqliteStore) -> dict[str, tuple[float, float, str]]:
    """Return for each cause what an explanation costs, and the cause it names."""
    worker = WorkerRecord(id="w", pool="default", queues=("default", "q", "l"), slots=1)
    presence = own.presence("w")
    with own.transaction():
        own.register(worker, CLOCK.now_ms())
        own.declare_task("limited", limits=("api",), max_attempts=1, max_crashes=1, now_ms=CLOCK.now_ms())
        own.declare_task("rated", limits=("rate",), max_attempts=1, max_crashes=1, now_ms=CLOCK.now_ms())
    found: dict[str, tuple[float, float, str]] = {}
    rule(own, "queue", "q", QueueRule(max_running=0))
    found["queue full"] = warm(store, put(own, queue="q"))
    rule(own, "tenant", "capped", TenantRule(max_running=0))
    found["tenant cap"] = warm(store, put(own, tenant="capped"))
    rule(own, "tenant", "paused", TenantRule(pause=Pause("why", "who")))
    found["pause"] = warm(store, put(own, tenant="paused"))
    rule(own, "limit", "api", LimitRule(max_running=0))
    found["limit"] = warm(store, put(own, task="limited"))
    rule(own, "limit", "rate", LimitRule(rate=Rate(1, 3_600_000, 1)))
    put(own, task="rated", queue="l", tier=0)
    rated = put(own, task="rated", queue="l", tier=0)
    with own.transaction():
        own.claim(Ask("default", 1, {"l": 1}), worker="", lease_ms=600_000, now_ms=CLOCK.now_ms())
    found["rate"] = warm(store, rated)
    found["schedule"] = warm(store, put(own, delay_ms=600_000))
    found["no worker"] = warm(store, put(own, queue="nobody's"))
    late = put(own, tenant="t1")
    found["turns ahead"] = warm(store, late)
    fast = put(own, tenant="fast", express=True)
    ask = Ask("default", 2, {"default": 2})
    while (first := own.peek(ask, CLOCK.now_ms()))[0].id != fast:  # the guarantee goes before express
        cycles(own, 1)
    found["express ahead"] = warm(store, first[1].id)
    presence.close()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=1_000_000)
    parser.add_argument("--tenants", type=int, default=10_000)
    options = parser.parse_args()
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else None) as folder:
        url = f"sqlite:///{folder}/jobs.db"
        own = open_sqlite(url, clock=CLOCK, durability="normal")
        store = open_sqlite(url, clock=CLOCK, durability="normal")
        load(own, options.jobs, options.tenants)
        told: dict[str, object] = {"jobs": options.jobs, "tenants": options.tenants}
        job = put(own, tenant="t0")
        told["first_call_ms"] = round(timed(lambda: store.explain(job, CLOCK.now_ms())), 1)
        cycles(own, 600)
        other = open_sqlite(url, clock=CLOCK, durability="normal")
        told["first_call_of_a_store_that_has_claimed_ms"] = round(timed(lambda: other.explain(job, CLOCK.now_ms())), 1)
        other.close()
        store.explain(job, CLOCK.now_ms())
        told["behind_ms"] = {}
        for transactions in (2, 200, 2_000):
            cycles(own, transactions // 2)
            told["behind_ms"][transactions] = round(timed(lambda: store.explain(job, CLOCK.now_ms())), 1)
        told["waits_ms"] = round(timed(lambda: store.starts(0, limit=MOST_STARTS)), 1)
        told["lane_ends_ms"] = round(timed(lambda: store.heads(limit=MOST_LANES)), 1)
        told["by_cause"] = {
            cause: {"median_ms": median, "max_ms": most, "named": named}
            for cause, (median, most, named) in causes(own, store).items()
        }
        own.close()
        store.close()
    told["machine"] = f"{platform.machine()}, {os.cpu_count()} CPUs, load {os.getloadavg()[0]:.1f}"
    told["python"], told["sqlite"] = platform.python_version(), sqlite3.sqlite_version
    print(json.dumps(told, indent=2))


if __name__ == "__main__":
    main()
