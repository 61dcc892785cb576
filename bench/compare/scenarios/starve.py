"""A few LOW jobs under urgent work that never ends."""

from __future__ import annotations

import time

from bench.compare.adapters.base import Batch, Tier
from bench.compare.figures import Figure, most_starts_a_place, percentile, waits_ms
from bench.compare.joblog import START, now, read
from bench.compare.scenarios.base import BACKGROUND, PROBE, SLEEP_MS, TOTAL, Scenario, tiered
from bench.compare.system import System, Trouble

BACKLOG = 300
LOW = 20
RISE_MS = 2_000
"""LOW is two tiers below HIGH, at a second a step."""


def starve(system: System) -> dict[str, float]:
    """Keep a backlog of urgent jobs for some seconds while LOW ones wait."""
    seconds = 4.0 if system.quick else 10.0
    producer = system.producer()
    system.warm(producer, system.work_total(TOTAL))
    warmed = system.count()
    sent, end, low_from = 0, 0, 0
    while not end or now() < end:
        waiting = sent - (system.count() - warmed) // 2
        if waiting < BACKLOG:
            more = BACKLOG - waiting
            producer.do("many", Batch(BACKGROUND, more, first=sent, sleep_ms=SLEEP_MS, tier=Tier.URGENT))
            sent += more
        if not end:
            producer.do("many", Batch(PROBE, LOW, sleep_ms=SLEEP_MS, tier=Tier.LOW), portion=LOW)
            low_from = now()
            end = low_from + int(seconds * 1e9)
        time.sleep(0.02)
    system.kill()
    starts = [event for event in read(system.log) if event.event == START and event.kind != 9 and event.at_ns <= end]
    low = waits_ms([event for event in starts if event.kind == PROBE])
    urgent = [event for event in starts if event.kind == BACKGROUND and event.enqueued_ns > low_from]
    if not urgent:
        raise Trouble(f"no urgent job that came later ran within {seconds:.0f} s")
    risen = sum(event.at_ns < low_from + RISE_MS * 1_000_000 for event in starts)
    figures = {
        "low_ran": float(len(low)),
        "low_last_s": max(low) / 1e3 if len(low) == LOW else seconds,
        "urgent_p99_ms": percentile(waits_ms(urgent), 0.99),
        "urgent_per_s": len(urgent) / seconds,
    }
    if low:
        order = [int(event.kind == PROBE) for event in starts]
        figures["starts_a_place"] = most_starts_a_place(order, risen)
    return figures


SCENARIO = Scenario(
    "starve",
    "300 urgent jobs of 5 ms always wait, 20 LOW ones of the same tenant come; 10 s, 4 at once. Ageing step 1 s: they"
    " rise after 2 s, and fairlane promises each a place within 8 x (tenants with risen jobs + 1) starts.",
    (
        Figure("low_ran", "of 20 LOW ran", more=True),
        Figure("low_last_s", "last LOW started after, s", more=False),
        Figure("starts_a_place", "most starts a place", more=False),
        Figure("urgent_p99_ms", "urgent p99, ms", more=False),
        Figure("urgent_per_s", "urgent jobs/s", more=True),
    ),
    starve,
    excludes=tiered,
)
