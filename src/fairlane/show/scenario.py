"""Which job comes when: a trace's jobs, or the demo's flood of one heavy tenant among small ones."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import accumulate
from random import Random
from typing import Final, NamedTuple

from fairlane.domain.tiers import Tier
from fairlane.simulate.traces import Trace, TraceJob

HEAVY: Final = "acme"
SMALL: Final = ("birch", "cedar", "dune", "ember", "fjord", "grove", "heron")
HEAVY_SHARE: Final = 0.6
LOAD: Final = 1.0
"""Work ÷ what the slots can do while jobs come. The flood is over later, for a worker is killed on the way."""

FLOOD_AT: Final = 0.10
FLOOD_FOR: Final = 0.08
RUSH_AT: Final = 0.30
RUSH_FOR: Final = 0.03
RUSH_SHARE: Final = 0.5
"""Half of the CRITICAL jobs come together, in the middle of the flood."""
KILL_AT: Final = 0.45
EXPRESS_FROM: Final = 0.55
EXPRESS_TO: Final = 0.75

HEAVY_TIERS: Final = tuple(accumulate((0.0, 0.0, 0.15, 0.25, 0.60)))
SMALL_TIERS: Final = tuple(accumulate((0.08, 0.17, 0.45, 0.18, 0.12)))
QUEUES: Final = {"mail": 0.5, "thumbnail": 0.8, "report": 1.5, "export": 2.0}
"""Queues, and how long their jobs run next to each other."""
SPREAD: Final = 0.4
LONGEST: Final = 1 / 15
"""No job runs longer than this part of the time in which jobs come."""
MAX_EXPRESS: Final = 12
LEAST_EXPRESS_GAP_S: Final = 0.1
US: Final = 1_000_000


class Piece(NamedTuple):
    """A job to come, in seconds from the start."""

    due_s: float
    tenant: str
    queue: str
    tier: int
    run_s: float
    express: bool = False
    in_thread: bool = False


def of_trace(trace: Trace, speed: float = 1.0) -> list[Piece]:
    """Return a trace's jobs, ``speed`` times as fast: gaps and run times are divided by it."""
    return [Piece(job.submit_s / speed, job.tenant, job.queue, job.tier, job.run_s / speed) for job in trace.jobs]


def as_trace(name: str, pieces: Sequence[Piece]) -> Trace:
    """Return the jobs as a trace, for the simulator."""
    return Trace.of(
        name,
        (
            TraceJob(round(one.due_s * US), one.tenant, one.queue, one.tier, max(1, round(one.run_s * US)))
            for one in pieces
        ),
    )


def flood(jobs: int, seconds: float, slots: int, seed: int = 1) -> list[Piece]:
    """Return the demo's jobs, by the time at which they come; the same arguments give the same jobs.

    ``acme`` submits six jobs of ten within a moment, most of them BACKGROUND. Seven small tenants submit the others
    all the time, of every tier; half of their CRITICAL jobs come at once, while acme's flood waits. A dozen of their
    least urgent jobs are express. Every third job is a ``def``, the others are ``async def``.

    Args:
        jobs: How many jobs; 1 or more.
        seconds: The time in which they come; above 0.
        slots: How many can run at once.
        seed: Picks the draws.
    """
    rng = Random(seed)
    heavy = round(jobs * HEAVY_SHARE)
    drawn = [
        (seconds * (FLOOD_AT + FLOOD_FOR * rng.uniform(0, 1)), HEAVY, _pick(rng, HEAVY_TIERS)) for _ in range(heavy)
    ]
    for number in range(jobs - heavy):
        tier = _pick(rng, SMALL_TIERS)
        due = rng.uniform(0, 1)
        if tier == Tier.CRITICAL and rng.uniform(0, 1) < RUSH_SHARE:
            due = RUSH_AT + RUSH_FOR * rng.uniform(0, 1)
        drawn.append((seconds * due, SMALL[number % len(SMALL)], tier))
    drawn.sort()
    express = _express([due for due, tenant, tier in drawn if tenant != HEAVY and tier >= Tier.LOW], seconds)
    queues = [rng.choice(list(QUEUES)) for _ in drawn]
    sizes = [QUEUES[queue] * rng.lognormvariate(0, SPREAD) for queue in queues]
    scale = LOAD * slots * seconds / math.fsum(sizes)
    return [
        Piece(due, tenant, queue, tier, min(size * scale, seconds * LONGEST), due in express, number % 3 == 0)
        for number, ((due, tenant, tier), queue, size) in enumerate(zip(drawn, queues, sizes, strict=True))
    ]


def _pick(rng: Random, chances: Sequence[float]) -> int:
    return rng.choices(range(len(chances)), cum_weights=chances)[0]


def _express(dues: Sequence[float], seconds: float) -> frozenset[float]:
    """Pick which of these instants bring an express job: a dozen, spread out, so that the lane never is full."""
    taken: list[float] = []
    low, high = seconds * EXPRESS_FROM, seconds * EXPRESS_TO
    gap = max(LEAST_EXPRESS_GAP_S, (high - low) / MAX_EXPRESS)
    for due in dues:
        if low <= due < high and (not taken or due >= taken[-1] + gap):
            taken.append(due)
    return frozenset(taken)
