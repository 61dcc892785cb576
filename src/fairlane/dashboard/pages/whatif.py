"""What if: the last hour's arrivals through the scheduler's own code, as things are set and as one would have them."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from fastapi import Response

from fairlane.dashboard.sampler import Sample
from fairlane.dashboard.visit import Visit
from fairlane.domain.checks import number, whole
from fairlane.domain.policy import WEIGHT_UNIT, Policy
from fairlane.domain.tiers import TIERS
from fairlane.errors import InvalidValue
from fairlane.simulate.engine import Setup, policy_named, simulate
from fairlane.simulate.report import Run, jain, quantile, slowdowns
from fairlane.simulate.traces import Trace, TraceJob, sample

MOST: Final = 8_000
TENANTS: Final = 15
MAX_WORKERS: Final = 100_000
SAME: Final = 0.02
WINDOWS: Final = (("900", "last 15 minutes"), ("3600", "last hour"), ("sample", "a made-up burst of 50 tenants"))
_busy: Final = asyncio.Semaphore(1)
"""One simulation at a time: it takes a processor for a second or two."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What somebody would have otherwise; texts as they were written."""

    window: str
    workers: int
    policy: str
    ageing: float
    weights: str
    caps: str
    queue_caps: str


async def whatif(visit: Visit) -> Response:
    """Return the question, and the answer when it was asked."""
    visit.desk.need("operator")
    visit.desk.need_all_tenants("recent arrivals")
    held = await visit.sample()
    slots = sum(worker.slots for worker in held.workers)
    now_ageing = held.policy.ageing_step_ms / 1000
    result: dict[str, Any] | None = None
    asked = Asked(
        window=visit.asked("window", "3600"),
        workers=max(1, slots),
        policy=held.policy.kind,
        ageing=now_ageing,
        weights=visit.asked("weights"),
        caps=visit.asked("caps"),
        queue_caps=visit.asked("queue_caps"),
    )
    if visit.asked("run"):
        try:
            asked = _read(visit, asked)
            result = await _answer(visit, asked, held, slots)
        except InvalidValue as error:
            visit.told.append(("bad", str(error)))
    return visit.page(
        "whatif.html",
        "What if",
        section="/whatif",
        live=False,
        asked=asked,
        windows=WINDOWS,
        most=MOST,
        now={"workers": slots or "none", "ageing": now_ageing},
        result=result,
    )


def _read(visit: Visit, plain: Asked) -> Asked:
    """Return what was asked, checked as far as it can be before the arrivals are known."""
    workers, ageing = visit.asked("workers").strip(), visit.asked("ageing").strip()
    try:
        told = replace(
            plain,
            policy=visit.asked("policy", plain.policy),
            workers=int(workers[:9]) if workers else plain.workers,
            ageing=float(ageing[:20]) if ageing else plain.ageing,
        )
    except ValueError:
        raise InvalidValue("jobs at once and the ageing step are numbers") from None
    whole("jobs at once", told.workers, least=1, most=MAX_WORKERS)
    number("ageing step", told.ageing, least=0, most=1e9, above=True)
    if told.window not in dict(WINDOWS):
        raise InvalidValue("there are no such arrivals")
    return told


async def _answer(visit: Visit, asked: Asked, held: Sample, slots: int) -> dict[str, Any]:
    if _busy.locked():
        raise InvalidValue("another simulation is under way; try again in a moment")
    async with _busy:
        if asked.window == "sample":
            trace = sample(jobs=5_000, slots=asked.workers)
        else:
            trace = Trace.of("recent arrivals", await _recent(visit, int(asked.window)))
        before = Setup(
            weights={name: rule.weight_milli / WEIGHT_UNIT for name, rule in held.tenants.items()},
            caps={name: rule.max_running for name, rule in held.tenants.items() if rule.max_running is not None},
            queue_caps={name: rule.max_running for name, rule in held.queues.items() if rule.max_running is not None},
        ).only(trace)
        after = replace(
            before,
            weights={**before.weights, **pairs("weights", asked.weights, float)},
            caps={**before.caps, **pairs("caps", asked.caps, int)},
            queue_caps={**before.queue_caps, **pairs("queue caps", asked.queue_caps, int)},
        )
        after.check(trace)
        policy = policy_named(asked.policy, ageing_step=asked.ageing)
        return await asyncio.to_thread(
            compared,
            trace,
            (held.policy, max(1, slots) if slots else asked.workers, before),
            (policy, asked.workers, after),
        )


async def _recent(visit: Visit, window_s: int) -> list[TraceJob]:
    found = await visit.desk.recent(window_s * 1000, limit=MOST)
    if not found:
        raise InvalidValue("no job started and ended in that time")
    return [
        TraceJob(round(at_s * 1_000_000), tenant, queue, tier, max(1, round(run_s * 1_000_000)))
        for at_s, tenant, queue, tier, run_s in found
    ]


def pairs(what: str, text: str, of: Callable[[str], Any]) -> dict[str, Any]:
    """Return ``name=number`` pairs set apart by commas; a name may hold anything but commas.

    Raises:
        InvalidValue: A part is no such pair.

    Example:
        >>> pairs("weights", "acme=2, a=b=0.5", float)
        {'acme': 2.0, 'a=b': 0.5}
    """
    found: dict[str, Any] = {}
    for part in filter(None, (part.strip() for part in text[:2_000].split(","))):
        name, equals, value = part.rpartition("=")
        try:
            if not equals:
                raise ValueError(part)
            found[name.strip()] = of(value.strip()[:20])
        except ValueError:
            raise InvalidValue(f"{what}: {part[:60]!r} is not like acme=2") from None
    return found


Side = tuple[Policy, int, Setup]
"""A policy, how many jobs run at once, and what is set beside it."""


def compared(trace: Trace, before: Side, after: Side) -> dict[str, Any]:  # Any: what the template shows
    """Return the waits of a trace under two settings, by tier and by tenant."""
    sides = [list(simulate(trace, policy, workers, setup).runs()) for policy, workers, setup in (before, after)]
    jobs = Counter(job.tenant for job in trace.jobs)
    by_tier = [_waits(runs, "tier") for runs in sides]
    by_tenant = [_waits(runs, "tenant") for runs in sides]
    tiers = [_row(tier.label, [held.get(tier.value, []) for held in by_tier], tier.value) for tier in TIERS]
    tenants = [_row(name, [held.get(name, []) for held in by_tenant]) for name, _ in jobs.most_common(TENANTS)]
    busy_s = sum(job.run_us for job in trace.jobs) / 1_000_000
    fair = [_jain(runs) for runs in sides]
    return {
        "jobs": len(trace.jobs),
        "span_ms": trace.span_s * 1000,
        "before_workers": before[1],
        "after_workers": after[1],
        "utilisation": min(1.0, busy_s / (after[1] * trace.span_s)) if trace.span_s else None,
        "tiers": [row for row in tiers if row["jobs"]],
        "tenants": tenants,
        "jain_before": fair[0],
        "jain_after": fair[1],
    }


def _waits(runs: Sequence[Run], by: str) -> dict[object, list[float]]:
    """Return the waits of jobs that started, in milliseconds and in order, by tier or tenant."""
    found: dict[object, list[float]] = {}
    for run in runs:
        found.setdefault(getattr(run, by), []).append(run.wait_s * 1000)
    for waits in found.values():
        waits.sort()
    return found


def _row(name: str, waits: Sequence[list[float]], tier: int | None = None) -> dict[str, Any]:  # Any: as above
    figures = [_figures(held) for held in waits]
    before, after = figures[0][1], figures[1][1]
    change, factor = "same", ""
    if before is not None and after is not None and abs(after - before) > max(SAME * before, 1):
        change = "better" if after < before else "worse"
        factor = f"{(after + 1) / (before + 1) - 1:+.0%}".replace("%", " %")
    return {
        "name": name,
        "tier": tier,
        "jobs": max(len(held) for held in waits),
        "pairs": list(zip(*figures, strict=True)),
        "change": change,
        "factor": factor,
    }


def _figures(waits: list[float]) -> list[float | None]:
    """Return the median, the 95th percentile and the longest; of no waits, nothing."""
    return [quantile(waits, 0.5), quantile(waits, 0.95), waits[-1]] if waits else [None, None, None]


def _jain(runs: Sequence[Run]) -> float | None:
    ratios = list(slowdowns(runs).values())
    return jain([1 / ratio for ratio in ratios]) if ratios else None
