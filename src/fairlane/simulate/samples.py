"""The draws behind :func:`fairlane.simulate.traces.sample`: who submits what, and when."""

from __future__ import annotations

from itertools import accumulate
from random import Random
from typing import Final, NamedTuple

HEAVY: Final = "acme"
HEAVY_SHARE: Final = 0.6
IN_BURSTS: Final = 0.8
"""Share of the heavy tenant's jobs that come in bursts of hundreds within a second."""
BURST_SIZES: Final = (150, 700)

TIERS: Final = (0, 1, 2, 3, 4)
HEAVY_TIERS: Final = tuple(accumulate((0.005, 0.045, 0.25, 0.40, 0.30)))
SMALL_TIERS: Final = tuple(accumulate((0.04, 0.16, 0.45, 0.20, 0.15)))

QUEUES: Final = ("mail", "thumbnail", "report", "export")
QUEUE_CHANCES: Final = tuple(accumulate((0.45, 0.25, 0.20, 0.10)))
MEDIANS: Final = {"mail": 1.0, "thumbnail": 3.0, "report": 10.0, "export": 40.0}
SPREAD: Final = 1.0
"""Sigma of the lognormal run times within a queue."""
LONG_CHANCE: Final = 0.05
LONG_SHAPE: Final = 1.3
"""One job in twenty is stretched by a Pareto draw of this shape: the mean exists, the variance does not."""


class Draw(NamedTuple):
    """What a job is, but for its time; ``size`` is its run time in no unit yet."""

    tenant: str
    queue: str
    tier: int
    size: float


def draw(jobs: int, tenants: int, seconds: float, seed: int) -> tuple[list[float], list[Draw]]:
    """Return submit times in seconds, the first 0 and the last ``seconds``, and what is submitted then."""
    rng = Random(seed)
    heavy = jobs if tenants == 1 else max(1, min(round(jobs * HEAVY_SHARE), jobs - tenants + 1))
    made = [(at, _job(rng, HEAVY, HEAVY_TIERS)) for at in _bursts(rng, heavy, seconds)]
    for number, count in enumerate(_sizes(rng, jobs - heavy, tenants - 1), 1):
        made += [(at, _job(rng, f"tenant-{number:03d}", SMALL_TIERS)) for at in _visits(rng, count, seconds)]
    made.sort(key=lambda pair: pair[0])
    submits = [at for at, _ in made]
    submits[0] = 0.0
    if jobs > 1:
        submits[-1] = seconds
    return submits, [job for _, job in made]


def _job(rng: Random, tenant: str, chances: tuple[float, ...]) -> Draw:
    queue = rng.choices(QUEUES, cum_weights=QUEUE_CHANCES)[0]
    size = MEDIANS[queue] * rng.lognormvariate(0, SPREAD)
    if rng.uniform(0, 1) < LONG_CHANCE:
        size *= rng.paretovariate(LONG_SHAPE)
    return Draw(tenant, queue, rng.choices(TIERS, cum_weights=chances)[0], size)


def _bursts(rng: Random, count: int, seconds: float) -> list[float]:
    """The heavy tenant: bursts of hundreds, and a trickle between them."""
    in_bursts = round(count * IN_BURSTS)
    times = [rng.uniform(0, seconds) for _ in range(count - in_bursts)]
    length = min(1.0, seconds / 10)
    while in_bursts:
        size = min(in_bursts, rng.randint(*BURST_SIZES), max(1, count // 3))
        start = rng.uniform(0, seconds * 0.9)
        times += [start + rng.uniform(0, length) for _ in range(size)]
        in_bursts -= size
    return times


def _sizes(rng: Random, jobs: int, tenants: int) -> list[int]:
    """Share jobs out among the small tenants: one each, the rest by a Zipf law."""
    if not tenants:
        return []
    chances = list(accumulate((rank + 1) ** -0.8 for rank in range(tenants)))
    sizes = [1] * tenants
    for pick in rng.choices(range(tenants), cum_weights=chances, k=jobs - tenants):
        sizes[pick] += 1
    return sizes


def _visits(rng: Random, count: int, seconds: float) -> list[float]:
    """A small tenant: half of its jobs at any time, half in visits of some twenty jobs."""
    times = [rng.uniform(0, seconds) for _ in range(count - count // 2)]
    visits = [rng.uniform(0, seconds * 0.9) for _ in range(1 + count // 40)]
    times += [min(seconds, rng.choice(visits) + rng.expovariate(20 / seconds)) for _ in range(count // 2)]
    return times
