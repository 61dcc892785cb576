"""From an enqueue to the start on an idle queue, and what an idle worker costs a database."""

from __future__ import annotations

import time

from bench.compare.adapters.base import Batch
from bench.compare.figures import Figure, percentile, waits_ms
from bench.compare.scenarios.base import PROBE, Scenario, on_postgres
from bench.compare.system import System, Trouble

IDLE_S = 10.0
SETTLE_S = 11.0
"""A connection that falls idle tells its last commits up to 10 s later."""


def latency(system: System) -> dict[str, float]:
    """Send a job every 30 to 80 ms; then none."""
    jobs = 20 if system.quick else 60
    producer = system.producer()
    system.work(system.kind.slots)
    system.warm(producer, 1)
    time.sleep(1)  # let what comes right after a start be over
    producer.do("paced", Batch(PROBE, jobs), least_ms=30, most_ms=80)
    system.wait(lambda: len(system.ends(PROBE)) >= jobs, 15)
    waits = waits_ms(system.ends(PROBE))
    if not waits:
        raise Trouble("no job ran within 15 s")
    return {"p50_ms": percentile(waits, 0.5), "p99_ms": percentile(waits, 0.99), "max_ms": max(waits)}


def idle(system: System) -> dict[str, float]:
    """Count what an idle worker commits, when its connections have told what they did before."""
    postgres = system.servers.postgres
    assert postgres is not None
    producer = system.producer()
    system.work(system.kind.slots)
    system.warm(producer, 1)
    producer.close()
    time.sleep(SETTLE_S)
    before, _ = postgres.counters()
    time.sleep(IDLE_S)
    after, _ = postgres.counters()
    return {"commits_per_s": (after - before) / IDLE_S}


SCENARIOS = (
    Scenario(
        "latency",
        "An idle worker with as many slots as for a drain; a job every 30 to 80 ms.",
        (
            Figure("p50_ms", "p50, ms", more=False),
            Figure("p99_ms", "p99, ms", more=False),
            Figure("max_ms", "longest, ms", more=False),
        ),
        latency,
    ),
    Scenario(
        "idle",
        "What a worker that has nothing to do commits in its database.",
        (Figure("commits_per_s", "commits/s", more=False),),
        idle,
        runs=1,
        excludes=on_postgres,
    ),
)
