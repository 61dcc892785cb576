"""The figures of SPEC section 11 from what has run; `simulate`, `replay` and `demo` share them.

A wait runs from submit to start. Quantiles are nearest rank: the p-quantile of n values is the ⌈p·n⌉-th smallest.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, TypedDict

from fairlane.domain.tiers import TIERS, Tier
from fairlane.simulate.traces import heaviest as heaviest_of

DEFAULT_TAU_S: Final = 10.0
LEAST_JOBS: Final = 5
"""Tenants with fewer jobs say nothing about slowdown."""
DIGITS: Final = 6


class Run(NamedTuple):
    """One job that has run."""

    tenant: str
    queue: str
    tier: int
    wait_s: float
    run_s: float


class Waits(TypedDict):
    """The waits of a set of jobs, in seconds; None where there are no jobs."""

    jobs: int
    mean: float | None
    p50: float | None
    p90: float | None
    p99: float | None
    max: float | None


class Others(TypedDict):
    """The waits of all tenants but the heaviest: of all their jobs, and of their CRITICAL and HIGH ones."""

    all: Waits
    urgent: Waits


class Slowdown(TypedDict):
    """Quantiles over the tenants with enough jobs of each tenant's mean slowdown; None where there are none."""

    p50: float | None
    p90: float | None
    max: float | None


class Statistics(TypedDict):
    """What is said of one run: the object under a policy's name in the JSON of SPEC section 11.

    ``tiers`` and ``queues`` hold only those that have jobs.
    """

    tiers: dict[str, Waits]
    queues: dict[str, Waits]
    others: Others
    others_mean_wait: float | None
    heaviest_tenant: str | None
    jain_inverse_slowdown: float | None
    slowdown: Slowdown
    utilisation: float | None


def quantile(ordered: Sequence[float], share: float) -> float:
    """Return the nearest-rank quantile of values in ascending order.

    Args:
        ordered: One value or more.
        share: 0 to 1.

    Example:
        >>> quantile([1, 2, 3, 4], 0.5), quantile([1, 2, 3, 4], 0.51), quantile([1, 2, 3, 4], 0)
        (2, 3, 1)
    """
    return ordered[min(len(ordered), max(1, math.ceil(share * len(ordered)))) - 1]


def jain(values: Sequence[float]) -> float:
    """Return Jain's index of fairness: 1 when all values are equal, 1/n when one has it all.

    Source:
        R. Jain, D. Chiu, W. Hawe, "A Quantitative Measure of Fairness and Discrimination for Resource Allocation in
        Shared Computer Systems", DEC-TR-301, 1984.

    Example:
        >>> jain([1, 1, 1, 1]), jain([1, 0, 0, 0])
        (1.0, 0.25)
    """
    return sum(values) ** 2 / (len(values) * sum(value * value for value in values))


def waits(values: Iterable[float]) -> Waits:
    """Return the figures of these waits."""
    ordered = sorted(values)
    if not ordered:
        return Waits(jobs=0, mean=None, p50=None, p90=None, p99=None, max=None)
    return Waits(
        jobs=len(ordered),
        mean=_short(math.fsum(ordered) / len(ordered)),
        p50=_short(quantile(ordered, 0.5)),
        p90=_short(quantile(ordered, 0.9)),
        p99=_short(quantile(ordered, 0.99)),
        max=_short(ordered[-1]),
    )


def _short(value: float) -> float:
    return round(value, DIGITS)


def slowdown(wait_s: float, run_s: float, tau_s: float) -> float:
    """Return how many times longer a job took than it would alone; short jobs count as ``tau_s`` long.

    Source:
        Bounded slowdown: D. Feitelson, L. Rudolph, "Metrics and Benchmarking for Parallel Job Scheduling", 1998.

    Example:
        >>> slowdown(30, 10, 10), slowdown(5, 1, 10)
        (4.0, 1.0)
    """
    return max(1.0, (wait_s + run_s) / max(run_s, tau_s))


def slowdowns(runs: Iterable[Run], tau_s: float = DEFAULT_TAU_S) -> dict[str, float]:
    """Return the mean slowdown of each tenant with at least :data:`LEAST_JOBS` jobs, tenants by first appearance."""
    values: defaultdict[str, list[float]] = defaultdict(list)
    for run in runs:
        values[run.tenant].append(slowdown(run.wait_s, run.run_s, tau_s))
    return {tenant: math.fsum(own) / len(own) for tenant, own in values.items() if len(own) >= LEAST_JOBS}


def statistics(
    runs: Sequence[Run],
    *,
    workers: int,
    span_s: float,
    tau_s: float = DEFAULT_TAU_S,
    heaviest: str | None = None,
) -> Statistics:
    """Return the figures of SPEC section 11.

    Args:
        runs: The jobs that have run, in the order of their submit.
        workers: How many jobs could run at once.
        span_s: Seconds from the first submit to the last.
        tau_s: Run time that shorter jobs count as in slowdown; above 0.
        heaviest: The heaviest tenant where it is known, else the one with most jobs here (of several, the first).

    Returns:
        Waits in seconds. ``utilisation`` is the work that came ÷ what the workers could do in ``span_s``: above 1
        when more came than they could do, None when it all came at one instant.
    """
    counts = Counter(run.tenant for run in runs)
    if heaviest is None and counts:
        heaviest = heaviest_of(counts)
    tiers: defaultdict[int, list[float]] = defaultdict(list)
    queues: defaultdict[str, list[float]] = defaultdict(list)
    others: list[float] = []
    urgent: list[float] = []
    for tenant, queue, tier, wait_s, _ in runs:
        tiers[tier].append(wait_s)
        queues[queue].append(wait_s)
        if tenant != heaviest:
            others.append(wait_s)
            if tier <= Tier.HIGH:
                urgent.append(wait_s)
    all_others = waits(others)
    ratios = sorted(slowdowns(runs, tau_s).values())
    capacity_s = workers * span_s
    return Statistics(
        tiers={tier.label: waits(tiers[tier]) for tier in TIERS if tier in tiers},
        queues={queue: waits(own) for queue, own in queues.items()},
        others=Others(all=all_others, urgent=waits(urgent)),
        others_mean_wait=all_others["mean"],
        heaviest_tenant=heaviest,
        jain_inverse_slowdown=_short(jain([1 / ratio for ratio in ratios])) if ratios else None,
        slowdown=Slowdown(
            p50=_short(quantile(ratios, 0.5)) if ratios else None,
            p90=_short(quantile(ratios, 0.9)) if ratios else None,
            max=_short(ratios[-1]) if ratios else None,
        ),
        utilisation=_short(math.fsum(run.run_s for run in runs) / capacity_s) if capacity_s > 0 else None,
    )


# ---------------------------------------------------------------------- shares over time


class Span(NamedTuple):
    """When a job was submitted, started and ended, in seconds."""

    tenant: str
    submit_s: float
    start_s: float
    end_s: float


@dataclass(frozen=True, slots=True)
class Shares:
    """Share used against share due, by tenant, in steps of equal length.

    Attributes:
        step_s: Length of a step, in seconds; the first begins at 0.
        used: By tenant, what part of the work done in a step was its own (0 where nothing ran).
        due: By tenant, what part was due to it: the workers divided by weight among the tenants with work in that
            step, waiting or running, where nobody is given more workers than it has jobs for (weighted max-min).
    """

    step_s: float
    used: dict[str, list[float]]
    due: dict[str, list[float]]


def shares(
    spans: Iterable[Span],
    *,
    workers: int,
    until_s: float,
    steps: int = 60,
    weights: Mapping[str, float] | None = None,
    caps: Mapping[str, int] | None = None,
    keep: Iterable[str] | None = None,
) -> Shares:
    """Return share used against share due over time.

    Args:
        spans: When each job was submitted, started and ended.
        workers: How many jobs can run at once.
        until_s: Where the last step ends.
        steps: How many steps.
        weights: Weight by tenant; others have 1.
        caps: The most workers that a tenant may have.
        keep: Tenants to tell apart; the others are added up under the empty name. None keeps all.

    Source:
        Max-min fairness by progressive filling: D. Bertsekas, R. Gallager, "Data Networks", 1992, section 6.5.2.
    """
    step_s = until_s / steps if until_s > 0 else 1.0
    present = _Levels(steps, step_s)
    running = _Levels(steps, step_s)
    for tenant, submit_s, start_s, end_s in spans:
        present.add(tenant, submit_s, end_s)
        running.add(tenant, start_s, end_s)
    kept = None if keep is None else frozenset(keep)
    used: defaultdict[str, list[float]] = defaultdict(lambda: [0.0] * steps)
    due: defaultdict[str, list[float]] = defaultdict(lambda: [0.0] * steps)
    for step, (wanted, busy) in enumerate(zip(present.by_step(), running.by_step(), strict=True)):
        limited = {tenant: min(level, (caps or {}).get(tenant, level)) for tenant, level in wanted.items()}
        given = filled_up(limited, workers, weights or {})
        for levels, series in ((busy, used), (given, due)):
            total = math.fsum(levels.values())
            for tenant, level in levels.items():
                series[tenant if kept is None or tenant in kept else ""][step] += level / total if total > 0 else 0.0
    names = dict.fromkeys([*used, *due])
    return Shares(step_s, {name: used[name] for name in names}, {name: due[name] for name in names})


def filled_up(wanted: Mapping[str, float], workers: float, weights: Mapping[str, float]) -> dict[str, float]:
    """Divide workers by weight among tenants, none of which gets more than it wants.

    Example:
        >>> filled_up({"a": 1, "b": 9, "c": 9}, 10, {"c": 2})
        {'a': 1, 'c': 6.0, 'b': 3.0}
    """
    given: dict[str, float] = {}
    left = float(workers)
    weight = math.fsum(weights.get(tenant, 1.0) for tenant in wanted)
    for tenant in sorted(wanted, key=lambda tenant: wanted[tenant] / weights.get(tenant, 1.0)):
        own = weights.get(tenant, 1.0)
        given[tenant] = min(wanted[tenant], max(0.0, left * own / weight))
        left -= given[tenant]
        weight = max(weight - own, own * 1e-12)
    return given


class _Levels:
    """How many jobs of each tenant were there, as a mean over each step."""

    def __init__(self, steps: int, step_s: float) -> None:
        self._step_s = step_s
        self._steps = steps
        self._whole: list[defaultdict[str, int]] = [defaultdict(int) for _ in range(steps + 1)]
        self._part: list[defaultdict[str, float]] = [defaultdict(float) for _ in range(steps + 1)]

    def add(self, tenant: str, start_s: float, end_s: float) -> None:
        """Count a job from one instant to another: the whole steps as a level, the cut ones by part."""
        first, last = start_s / self._step_s, min(end_s / self._step_s, float(self._steps))
        low, high = int(first), int(last)
        if first >= last:
            return
        if low == high:
            self._part[low][tenant] += last - first
            return
        self._part[low][tenant] += low + 1 - first
        self._part[high][tenant] += last - high
        self._whole[low + 1][tenant] += 1
        self._whole[high][tenant] -= 1

    def by_step(self) -> Iterable[dict[str, float]]:
        """Yield for each step the mean number of jobs by tenant, where there were any."""
        level: dict[str, int] = {}
        for step in range(self._steps):
            for tenant, change in self._whole[step].items():
                level[tenant] = level.get(tenant, 0) + change
                if not level[tenant]:
                    del level[tenant]
            mean: dict[str, float] = dict(level)
            for tenant, part in self._part[step].items():
                mean[tenant] = mean.get(tenant, 0.0) + part
            yield mean
