"""Urgent jobs while a flood of others waits."""

from __future__ import annotations

from bench.compare.adapters.base import Batch, Tier
from bench.compare.figures import Figure, percentile, waits_ms
from bench.compare.scenarios.base import BACKGROUND, PROBE, SLEEP_MS, TOTAL, Scenario, tiered
from bench.compare.system import Producer, System, Trouble

URGENT = 100
EVERY_MS = 100
FIGURES = (
    Figure("p99_ms", "urgent p99, ms", more=False),
    Figure("p50_ms", "p50, ms", more=False),
    Figure("max_ms", "longest, ms", more=False),
    Figure("background_per_s", "background jobs/s", more=True),
    Figure("unfinished", "urgent never run"),
)


def urgent(system: System, producer: Producer) -> dict[str, float]:
    """Send urgent jobs at an even pace over a backlog that workers are busy with; return how they waited."""
    count = 30 if system.quick else URGENT
    before = len(system.ends(BACKGROUND))
    # Of another tenant than the flood's, where tenants are known.
    batch = Batch(PROBE, count, sleep_ms=SLEEP_MS, tier=Tier.URGENT, tenant="b")
    _, seconds = producer.do("paced", batch, least_ms=EVERY_MS, most_ms=EVERY_MS)
    background = len(system.ends(BACKGROUND)) - before
    system.wait(lambda: len(system.ends(PROBE)) >= count, 10)
    system.kill()
    waits = waits_ms(system.starts(PROBE))
    if not waits:
        raise Trouble("no urgent job ran within 20 s")
    return {
        "p99_ms": percentile(waits, 0.99),
        "p50_ms": percentile(waits, 0.5),
        "max_ms": max(waits),
        "background_per_s": background / seconds,
        "unfinished": float(count - len(waits)),
    }


def flood(system: System) -> dict[str, float]:
    """Fill, start workers, and send urgent jobs once they are busy."""
    jobs = 4_000 if system.quick else 12_000
    producer = system.producer()
    producer.do("many", Batch(BACKGROUND, jobs, sleep_ms=SLEEP_MS))
    system.work_total(TOTAL)
    if not system.wait(lambda: len(system.ends(BACKGROUND)) >= 200, 30):
        raise Trouble("200 jobs did not run within 30 s")
    return urgent(system, producer)


SCENARIO = Scenario(
    "flood",
    "12,000 jobs of 5 ms wait, 4 run at once (800/s at most); 100 urgent jobs of another tenant come, 10 a second.",
    FIGURES,
    flood,
    runs=5,
    excludes=tiered,
)
