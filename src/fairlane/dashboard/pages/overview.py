"""The first page: does every tier keep its objective, who waits, is it fair, what needs somebody."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from uuid import UUID

from fastapi import Response

from fairlane.dashboard import words
from fairlane.dashboard.asking import query_for
from fairlane.dashboard.sampler import Point, Sample
from fairlane.dashboard.series import Cell, together
from fairlane.dashboard.visit import Visit, chart
from fairlane.domain.jobs import DepthRow
from fairlane.domain.policy import WEIGHT_UNIT, Pause, TenantRule
from fairlane.domain.states import State
from fairlane.domain.tiers import TIERS, Tier

WINDOW_MS: Final = 900_000
MINUTE_MS: Final = 60_000
STARVING_MS: Final = 300_000
ROWS: Final = 20
ORDERS: Final = (("oldest", "longest wait first"), ("most", "most jobs first"), ("used", "most worker time first"))
Tag = tuple[str, str, str | None]


@dataclass(slots=True)
class Square:
    """One tenant's available jobs of one tier."""

    tier: Tier
    tenant: str = ""
    queue: str = ""
    available: int = 0
    oldest_ms: int = 0
    late: bool = False

    def add(self, row: DepthRow, sample: Sample) -> None:
        """Count a lane."""
        waited_ms = waited(row, sample.at_ms)
        self.available += row.available
        self.oldest_ms = max(self.oldest_ms, waited_ms)
        most_ms = sample.bounds(row.tier, row.queue, row.tenant)
        self.late = self.late or (most_ms is not None and waited_ms > most_ms)

    @property
    def query(self) -> str:
        """The search for these jobs."""
        return query_for(tenant=self.tenant, tier=self.tier.label, queue=self.queue, state="available")


@dataclass(slots=True)
class Who:
    """One tenant's row of the heat map."""

    tenant: str
    cells: list[Square] = field(default_factory=lambda: [Square(tier) for tier in TIERS])
    running: int = 0
    scheduled: int = 0
    used: float | None = None
    due: float | None = None
    pause: Pause | None = None

    @property
    def available(self) -> int:
        """Its available jobs of all tiers."""
        return sum(cell.available for cell in self.cells)

    @property
    def oldest_ms(self) -> int:
        """How long its oldest available job has waited."""
        return max(cell.oldest_ms for cell in self.cells)


async def overview(visit: Visit) -> Response:
    """Return the first page."""
    sample = await visit.sample()
    lanes = sample.of(visit.tenant)
    queue = visit.asked("queue")
    by = visit.asked("by", "oldest")
    cells = visit.sampler.lanes(WINDOW_MS, sample.at_ms)
    by_tenant = visit.sampler.tenants(WINDOW_MS, sample.at_ms)
    points = visit.sampler.history()
    if visit.tenant is not None:  # what is known of one tenant is not known by queue
        own = by_tenant.get(visit.tenant, Cell())
        cells, points = {}, visit.sampler.of_tenant(visit.tenant)
        minute = visit.sampler.tenants(MINUTE_MS, sample.at_ms).get(visit.tenant, own)
    else:
        minute = together(visit.sampler.lanes(MINUTE_MS, sample.at_ms).values())
    people = tenants_of(lanes, sample, by_tenant, queue=queue)
    rows, more = heat_of(people, by)
    return visit.page(
        "overview.html",
        "Overview",
        section="/",
        charts=True,
        as_of_ms=sample.at_ms,
        counts=_counts(lanes, sample, visit.tenant),
        started=minute.started / 60,
        ended=minute.ended / 60,
        slots=sum(worker.slots for worker in sample.workers) if visit.tenant is None else 0,
        workers=len(sample.workers),
        partial=None,
        tier_rows=[_tier(tier, lanes, cells, sample) for tier in TIERS],
        heat_rows=rows,
        heat_more=more,
        queue=queue,
        queue_names=sorted({row.queue for row in lanes} | ({queue} if queue else set())),
        by=by,
        orders=ORDERS,
        todo=_todo(visit, sample, lanes),
        express=_express(sample, visit.tenant),
        inversions=_inversions(sample, visit.tenant),
        guaranteed=together(cells.values()).risen if visit.tenant is None else together(by_tenant.values()).risen,
        starving=_starving(visit, sample, lanes),
        paused=_paused(sample, visit.tenant),
        throughput=throughput(points),
        p95=waits_chart(points, single=visit.tenant is not None),
    )


def _counts(lanes: Sequence[DepthRow], sample: Sample, tenant: str | None) -> dict[str, int | None]:
    return {
        "available": sum(row.available for row in lanes),
        "scheduled": sum(row.scheduled for row in lanes),
        "running": sum(row.running for row in lanes),
        "dead": sample.counts[State.DEAD] if tenant is None else None,
    }


# ---------------------------------------------------------------- tiers


def _tier(
    tier: Tier, lanes: Iterable[DepthRow], cells: Mapping[tuple[int, str], Cell], sample: Sample
) -> dict[str, Any]:  # Any: what the template shows
    own = [row for row in lanes if row.tier == tier]
    cell = together(held for (level, _), held in cells.items() if level == tier)
    oldest_ms = max((waited(row, sample.at_ms) for row in own), default=0)
    late = any(is_late(row, sample) for row in own)
    available = sum(row.available for row in own)
    return {
        "tier": tier.value,
        "available": available,
        "running": sum(row.running for row in own),
        "oldest_ms": oldest_ms if available else None,
        "p50": cell.waits.percentile(0.5),
        "p95": cell.waits.percentile(0.95),
        "p99": cell.waits.percentile(0.99),
        "started": cell.started,
        "objective_ms": sample.bounds.objectives.of(tier).objective_ms,
        "met": cell.met / cell.judged if cell.judged else None,
        "state": _state(available, oldest_ms, late, sample),
    }


def _state(available: int, oldest_ms: int, late: bool, sample: Sample) -> Tag:
    if late:
        return "bad", "late", "bad"
    if not available:
        return "", "empty", None
    if oldest_ms >= sample.policy.ageing_step_ms:
        return "warn", "ageing", "up"
    return "ok", "ok", "ok"


def waited(row: DepthRow, now_ms: int) -> int:
    """Return how long the oldest available job of a lane has waited, in milliseconds."""
    return 0 if row.oldest_arrival_ms is None else max(0, now_ms - row.oldest_arrival_ms)


def is_late(row: DepthRow, sample: Sample) -> bool:
    """Return whether the oldest available job of a lane has waited beyond what holds for it."""
    most_ms = sample.bounds(row.tier, row.queue, row.tenant)
    return most_ms is not None and row.available > 0 and waited(row, sample.at_ms) > most_ms


# ---------------------------------------------------------------- tenants


def tenants_of(
    lanes: Iterable[DepthRow], sample: Sample, used: Mapping[str, Cell], *, queue: str = ""
) -> dict[str, Who]:
    """Return each tenant's waiting jobs by tier, the share of worker time it had, and what its weight gives it.

    What is due: its weight over the weights of all tenants that have available or running jobs.
    """
    people: dict[str, Who] = {}
    for row in lanes:
        if queue and row.queue != queue:
            continue
        who = people.get(row.tenant)
        if who is None:
            who = people[row.tenant] = Who(row.tenant)
        who.running += row.running
        who.scheduled += row.scheduled
        if row.available:
            who.cells[row.tier].add(row, sample)
    total_ms = sum(cell.run_ms for cell in used.values())
    plain = TenantRule()
    weights = {name: sample.tenants.get(name, plain).weight_milli / WEIGHT_UNIT for name in people}
    active = {name: weights[name] for name, who in people.items() if who.available or who.running}
    weight = sum(active.values())
    for name, who in people.items():
        own = used.get(name)
        who.used = None if not total_ms else (0 if own is None else own.run_ms) / total_ms
        who.due = active[name] / weight if name in active else None
        rule = sample.tenants.get(name)
        who.pause = rule.pause if rule and rule.pause and rule.pause.active(sample.at_ms) else None
        for cell in who.cells:
            cell.tenant, cell.queue = name, queue
    return people


def heat_of(people: Mapping[str, Who], by: str, *, most: int = ROWS) -> tuple[list[Who], dict[str, Any] | None]:
    """Return the rows of a heat map, and what the tenants beyond ``most`` have together (None: there are none)."""
    waiting = [who for who in people.values() if who.available or who.pause]
    if by == "most":
        waiting.sort(key=lambda who: (-who.available, who.tenant))
    elif by == "used":
        waiting.sort(key=lambda who: (-(who.used or 0), who.tenant))
    else:
        waiting.sort(key=lambda who: (-who.oldest_ms, who.tenant))
    rest = waiting[most:]
    if not rest:
        return waiting, None
    counts = [sum(who.cells[tier].available for who in rest) for tier in TIERS]
    return waiting[:most], {"tenants": len(rest), "counts": counts}


def _starving(visit: Visit, sample: Sample, lanes: Iterable[DepthRow]) -> list[str]:
    """Return the tenants that have waited long with nothing started, though nothing is paused for them."""
    served = {name for name, cell in visit.sampler.tenants(STARVING_MS, sample.at_ms).items() if cell.started}
    found: set[str] = set()
    for row in lanes:
        if row.running:
            served.add(row.tenant)
        rules = (sample.tenants.get(row.tenant), sample.queues.get(row.queue))
        held = any(rule is not None and (rule.pause or rule.max_running == 0) for rule in rules)
        if row.available and not held and waited(row, sample.at_ms) > STARVING_MS:
            found.add(row.tenant)
    return sorted(found - served)


def _paused(sample: Sample, tenant: str | None) -> list[str]:
    found = [
        f"{kind} {name}"
        for kind, rules in (("queue", sample.queues), ("tenant", sample.tenants))
        for name, rule in rules.items()
        if rule.pause is not None and rule.pause.active(sample.at_ms) and (kind == "queue" or tenant in {None, name})
    ]
    return found[:8] + ([f"{len(found) - 8} more"] if len(found) > 8 else [])  # noqa: PLR2004


# ---------------------------------------------------------------- what needs somebody


def _todo(visit: Visit, sample: Sample, lanes: Sequence[DepthRow]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for one in sample.incidents:
        if not visit.desk.sees(one.tenant):
            continue
        cause = one.causes[0].text if one.causes else ""
        found.append(
            {
                "kind": "bad",
                "what": f"{Tier(one.tier).label} jobs of queue {one.queue} wait too long",
                "since_ms": one.opened_at_ms,
                "why": f"{words.whole(one.count)} wait, the oldest (of {one.tenant}) for {words.span(one.wait_ms)}; "
                f"it should be at most {words.span(one.objective_ms)}. {cause}",
                "link": visit.urls(f"/jobs/{UUID(bytes=one.job)}"),
                "action": "Why is it waiting?",
            }
        )
    if visit.tenant is None:
        found += _store_todo(visit, sample, lanes)
    if visit.sampler.error is not None:
        found.insert(
            0, {"kind": "bad", "what": "The store cannot be read", "since_ms": sample.at_ms, "why": visit.sampler.error}
        )
    return [{"link": None, "action": "", "since_ms": None, **one} for one in found[:ROWS]]


def _store_todo(visit: Visit, sample: Sample, lanes: Sequence[DepthRow]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    available = sum(row.available for row in lanes)
    if available and not sample.workers:
        found.append(
            {
                "kind": "bad",
                "what": "No worker is on record",
                "why": f"{words.whole(available)} jobs could run now and nobody takes them. "
                "Start one with: fairlane worker MODULE:app",
                "link": visit.urls("/workers"),
                "action": "Workers",
            }
        )
    used, capacity = len(sample.express), sample.capacities.express_capacity
    if used >= capacity:
        found.append(
            {
                "kind": "warn",
                "what": "The express lane is full",
                "why": f"{used} of {capacity} places are taken; the next expedite is refused.",
                "link": visit.urls("/jobs", q="express:yes"),
                "action": "Show them",
            }
        )
    dead = sum(cell.dead for cell in visit.sampler.lanes(3_600_000, sample.at_ms).values())
    if dead:
        found.append(
            {
                "kind": "warn",
                "what": f"{words.whole(dead)} {'job' if dead == 1 else 'jobs'} died in the last hour",
                "why": f"{words.whole(sample.counts[State.DEAD])} dead letters are kept in all.",
                "link": visit.urls("/dead"),
                "action": "Look at the groups",
            }
        )
    return found


def _express(sample: Sample, tenant: str | None) -> dict[str, Any]:
    own = [job for job in sample.express if tenant in {None, job.tenant}]
    return {
        "used": len(own),
        "capacity": sample.capacities.express_capacity if tenant is None else sample.capacities.express_per_tenant,
        "jobs": [
            {
                "id": str(job.uuid),
                "task": job.task,
                "tenant": job.tenant,
                "wait_ms": sample.at_ms - (job.available_at_ms or sample.at_ms),
            }
            for job in own[:5]
        ],
    }


def _inversions(sample: Sample, tenant: str | None) -> dict[str, Any] | None:
    """Return what was last found about starts out of turn; they are between tenants, so one alone is not told."""
    found = sample.inversions
    if tenant is not None or found is None:
        return None
    explained = sum(count for why, count in found.counts.items() if why != "unexplained")
    return {
        "bad": found.counts.get("unexplained", 0),
        "explained": explained,
        "starts": found.starts,
        "more": found.more,
    }


# ---------------------------------------------------------------- charts


def throughput(points: Sequence[Point]) -> dict[str, Any]:
    """Return the chart of starts and ends a second, with its table."""
    cells = [point.all for point in points]
    seconds = [point.ms / 1000 for point in points]
    started = [round(cell.started / s, 3) for cell, s in zip(cells, seconds, strict=True)]
    ended = [round(cell.ended / s, 3) for cell, s in zip(cells, seconds, strict=True)]
    dead = [round(cell.dead / s, 3) for cell, s in zip(cells, seconds, strict=True)]
    most = max(started, default=0)
    last = started[-1] if started else 0
    label = f"Throughput over the last hour: up to {words.rate(most)} started, {words.rate(last)} last"
    at_s = [point.at_ms // 1000 for point in points]
    series = [("started", "acc"), ("ended", "ok"), ("dead", "bad")]
    rows = [
        (
            group[0].at_ms,
            [
                words.rate(sum(one.all.started for one in group) / _seconds(group)),
                words.rate(sum(one.all.ended for one in group) / _seconds(group)),
                words.whole(sum(one.all.dead for one in group)),
            ],
        )
        for group in _by_five_minutes(points)
    ]
    drawn = chart(label, "/s", series, at_s, [*started], [*ended], [*dead])
    return {"label": label, "json": drawn, "names": ["started", "ended", "dead jobs"], "rows": rows}


def waits_chart(points: Sequence[Point], *, single: bool = False) -> dict[str, Any]:
    """Return the chart of the 95th percentile of waits by tier, with its table; ``single``: all tiers as one."""
    tiers = TIERS[:1] if single else TIERS
    names = ["all tiers"] if single else [tier.label for tier in tiers]
    values = [[_p95([point], tier) for point in points] for tier in tiers]
    rows = [
        (
            group[0].at_ms,
            [words.span(None if (p95 := _p95(group, tier)) is None else p95 * 1000) for tier in tiers],
        )
        for group in _by_five_minutes(points)
    ]
    label = "How long 95 of 100 jobs waited at most, by tier, over the last hour"
    series = [(name, f"c{tier.value}") for name, tier in zip(names, tiers, strict=True)]
    drawn = chart(label, "s", series, [point.at_ms // 1000 for point in points], *values)
    return {"label": label, "json": drawn, "names": names, "rows": rows}


def _p95(points: Sequence[Point], tier: int) -> float | None:
    found = together(point.cells[tier] for point in points if tier in point.cells).waits.percentile(0.95)
    return None if found is None else round(found / 1000, 3)


def _seconds(points: Sequence[Point]) -> float:
    return max(1.0, sum(point.ms for point in points) / 1000)


def _by_five_minutes(points: Sequence[Point]) -> list[list[Point]]:
    groups: dict[int, list[Point]] = {}
    for point in points:
        groups.setdefault(point.at_ms // 300_000, []).append(point)
    return list(groups.values())[::-1]
