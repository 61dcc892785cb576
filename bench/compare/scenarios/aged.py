"""Urgent jobs over a backlog that waiting has raised to their own tier."""

from __future__ import annotations

import time

from bench.compare.adapters.base import Adapter, Batch
from bench.compare.scenarios.base import BACKGROUND, SLEEP_MS, TOTAL, Scenario
from bench.compare.scenarios.flood import FIGURES, urgent
from bench.compare.system import System, Trouble

RISEN_S = 3.0
"""At a second a step, more than a NORMAL job needs to rise as far as ageing goes."""


def aged(system: System) -> dict[str, float]:
    """Fill, wait until all has risen, start workers, send urgent jobs."""
    jobs = 10_000 if system.quick else 100_000
    producer = system.producer()
    producer.do("many", Batch(BACKGROUND, jobs, sleep_ms=SLEEP_MS))
    time.sleep(RISEN_S)
    system.work_total(TOTAL)
    if not system.wait(lambda: len(system.ends(BACKGROUND)) >= 200, 60):
        raise Trouble("200 jobs did not run within 60 s")
    return urgent(system, producer)


def _ageing(kind: type[Adapter]) -> str:
    return "" if kind.ages else "waiting raises nothing in it: as in flood"


SCENARIO = Scenario(
    "aged",
    "As flood, over 100,000 jobs that have all risen (ageing step 1 s).",
    FIGURES,
    aged,
    excludes=_ageing,
)
