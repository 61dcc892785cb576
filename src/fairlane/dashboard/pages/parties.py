"""Tenants and queues: what they have waiting, what is set for them, and changing that."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, Final, Literal

from fastapi import Response

from fairlane.dashboard.asking import query_for
from fairlane.dashboard.pages.overview import (
    MINUTE_MS,
    ROWS,
    WINDOW_MS,
    Square,
    Who,
    heat_of,
    is_late,
    tenants_of,
    throughput,
    waited,
    waits_chart,
)
from fairlane.dashboard.sampler import Sample
from fairlane.dashboard.series import Cell, together
from fairlane.dashboard.visit import Visit
from fairlane.domain.jobs import DepthRow
from fairlane.domain.policy import WEIGHT_UNIT, QueueRule, TenantRule
from fairlane.domain.tiers import TIERS
from fairlane.errors import InvalidValue
from fairlane.instants import aware

PAGE: Final = 100
MAX_PAUSE_S: Final = 366 * 86_400
COLUMNS: Final = (
    ("name", "Tenant", False),
    ("", "Weight", True),
    ("available", "Available", True),
    ("scheduled", "Scheduled", True),
    ("running", "Running", True),
    ("oldest", "Oldest", True),
    ("started", "Started", True),
    ("p95", "Wait p95", True),
    ("used", "Share used / due", True),
)
ORDERS: Final = frozenset(name for name, _, _ in COLUMNS if name)
_NUMBERS: Final[Mapping[str, type]] = {
    "weight": float,
    "per": float,
    "max_running": int,
    "tenant_max_running": int,
    "max_waiting": int,
    "rate": int,
    "burst": int,
}


# ---------------------------------------------------------------- tenants


async def tenants(visit: Visit) -> Response:
    """Return the tenants that have work or something set."""
    sample = await visit.sample()
    find, by = visit.asked("find").strip(), visit.asked("by", "oldest")
    start = int(text) if (text := visit.asked("from", "0")).isdecimal() and len(text) < 7 else 0  # noqa: PLR2004
    by_tenant = visit.sampler.tenants(WINDOW_MS, sample.at_ms)
    people = tenants_of(sample.of(visit.tenant), sample, by_tenant)
    for name in sample.tenants:
        if visit.desk.sees(name):
            people.setdefault(name, Who(name, pause=_pause_of(sample, name)))
    rows = [_row(who, sample, by_tenant) for who in people.values() if find.casefold() in who.tenant.casefold()]
    by = by if by in ORDERS else "oldest"
    rows.sort(key=lambda row: (-row[by], row["name"]) if by != "name" else (0, row["name"]))
    more = visit.urls("/tenants", by=by, find=find, **{"from": start + PAGE}) if len(rows) > start + PAGE else None
    return visit.page(
        "tenants.html",
        "Tenants",
        section="/tenants",
        as_of_ms=sample.at_ms,
        total=len(people),
        find=find,
        by=by,
        columns=COLUMNS,
        rows=rows[start : start + PAGE],
        first=visit.urls("/tenants", by=by, find=find) if start else None,
        more=more,
    )


def _row(who: Who, sample: Sample, by_tenant: Mapping[str, Cell]) -> dict[str, Any]:  # Any: what the template shows
    rule = sample.tenants.get(who.tenant, TenantRule())
    cell = by_tenant.get(who.tenant, Cell())
    p95 = cell.waits.percentile(0.95)
    order = {
        "available": who.available,
        "scheduled": who.scheduled,
        "running": who.running,
        "oldest": who.oldest_ms,
        "started": cell.started,
        "used": who.used or 0,
    }
    return order | {
        "name": who.tenant,
        "who": who,
        "weight": rule.weight_milli / WEIGHT_UNIT,
        "cap": rule.max_running,
        "cell": cell,
        "p95": p95 or 0,
        "shown_p95": p95,
    }


def _pause_of(sample: Sample, name: str) -> Any:  # Any: a pause or None
    rule = sample.tenants.get(name)
    return rule.pause if rule is not None and rule.pause and rule.pause.active(sample.at_ms) else None


async def tenant(visit: Visit, name: str) -> Response:
    """Return one tenant."""
    shown = await visit.desk.rule("tenant", name)
    sample = await visit.sample()
    by_tenant = visit.sampler.tenants(WINDOW_MS, sample.at_ms)
    people = tenants_of(sample.of(visit.tenant), sample, by_tenant)
    everybody = together(by_tenant.values()) if visit.tenant is None else Cell()
    points = visit.sampler.of_tenant(name)
    return visit.page(
        "tenant.html",
        name,
        section="/tenants",
        charts=True,
        as_of_ms=sample.at_ms,
        name=name,
        rule=shown.told,
        etag=shown.etag,
        who=people.get(name, Who(name)),
        p95=by_tenant.get(name, Cell()).waits.percentile(0.95),
        p95_all=everybody.waits.percentile(0.95),
        express=sum(job.tenant == name for job in sample.express),
        per_tenant=sample.capacities.express_per_tenant,
        depth=_by_queue(sample, name),
        jobs_query=query_for(tenant=name),
        throughput=throughput(points),
    )


def _by_queue(sample: Sample, tenant: str) -> list[dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for row in sample.depth:
        if row.tenant != tenant:
            continue
        held = found.setdefault(
            row.queue, {"name": row.queue, "cells": [Square(tier, tenant, row.queue) for tier in TIERS], "running": 0}
        )
        held["running"] += row.running
        if row.available:
            held["cells"][row.tier].add(row, sample)
    return [found[name] for name in sorted(found)]


# ---------------------------------------------------------------- queues


async def queues(visit: Visit) -> Response:
    """Return the queues that have jobs or something set."""
    sample = await visit.sample()
    cells = visit.sampler.lanes(WINDOW_MS, sample.at_ms) if visit.tenant is None else {}
    lanes = sample.of(visit.tenant)
    own: dict[str, list[DepthRow]] = {}
    for row in lanes:
        own.setdefault(row.queue, []).append(row)
    happened: dict[str, list[Cell]] = {}
    for (_, name), cell in cells.items():
        happened.setdefault(name, []).append(cell)
    names = own.keys() | happened.keys() | (sample.queues.keys() if visit.tenant is None else set[str]())
    return visit.page(
        "queues.html",
        "Queues",
        section="/queues",
        as_of_ms=sample.at_ms,
        rows=[_queue_row(name, own.get(name, []), together(happened.get(name, [])), sample) for name in sorted(names)],
    )


def _queue_row(
    name: str, own: Sequence[DepthRow], cell: Cell, sample: Sample
) -> dict[str, Any]:  # Any: what the template shows
    rule = sample.queues.get(name, QueueRule())
    counts = [sum(row.available for row in own if row.tier == tier) for tier in TIERS]
    return {
        "name": name,
        "pool": rule.pool,
        "pause": rule.pause if rule.pause and rule.pause.active(sample.at_ms) else None,
        "cap": rule.max_running,
        "tiers": counts,
        "available": sum(counts),
        "scheduled": sum(row.scheduled for row in own),
        "running": sum(row.running for row in own),
        "oldest_ms": max((waited(row, sample.at_ms) for row in own), default=0),
        "late": any(is_late(row, sample) for row in own),
        "p95": cell.waits.percentile(0.95),
        "started": cell.started,
    }


async def queue(visit: Visit, name: str) -> Response:
    """Return one queue."""
    shown = await visit.desk.rule("queue", name)
    sample = await visit.sample()
    lanes = [row for row in sample.of(visit.tenant) if row.queue == name]
    by_tenant = visit.sampler.tenants(WINDOW_MS, sample.at_ms)
    people = tenants_of(lanes, sample, by_tenant, queue=name)
    rows, more = heat_of(people, "oldest", most=ROWS)
    points = visit.sampler.history(queue=name) if visit.tenant is None else []
    minute = visit.sampler.lanes(MINUTE_MS, sample.at_ms) if visit.tenant is None else {}
    return visit.page(
        "queue.html",
        name,
        section="/queues",
        charts=visit.tenant is None,
        as_of_ms=sample.at_ms,
        name=name,
        rule=shown.told,
        etag=shown.etag,
        available=sum(row.available for row in lanes),
        scheduled=sum(row.scheduled for row in lanes),
        running=sum(row.running for row in lanes),
        oldest_ms=max((waited(row, sample.at_ms) for row in lanes), default=0),
        started=together(cell for (_, of), cell in minute.items() if of == name).started / 60,
        rows=rows,
        more=more,
        jobs_query=query_for(queue=name),
        throughput=throughput(points),
        p95=waits_chart(points),
    )


# ---------------------------------------------------------------- changes


async def change(visit: Visit, kind: Literal["tenant", "queue"], name: str, form: Mapping[str, str]) -> Response:
    """Set, pause or resume a tenant or a queue."""
    desk, reason, action = visit.desk, form.get("reason", ""), form.get("action", "")
    path = f"/{kind}"
    if action == "pause":
        seconds = _seconds(form.get("for", ""))
        until = None if seconds is None else aware(visit.now_ms) + timedelta(seconds=seconds)
        await desk.pause(kind, name, reason=reason, until=until)
        return visit.done(f"{kind.capitalize()} {name} is paused", path, name=name)
    if action == "resume":
        await desk.resume(kind, name, reason=reason)
        return visit.done(f"{kind.capitalize()} {name} goes on", path, name=name)
    if action == "set":
        await desk.set_rule(kind, name, settings_in(kind, form), reason=reason, expected=form.get("etag") or None)
        return visit.done("Saved: it holds for the jobs that wait now too", path, name=name)
    desk.need("operator")
    raise InvalidValue(f"a {kind} cannot {action!r}")


def _seconds(text: str) -> int | None:
    if not text:
        return None
    if not text.isdecimal() or not 0 < int(text[:12]) <= MAX_PAUSE_S:
        raise InvalidValue(f"a pause of {text[:20]!r} seconds is not from 1 to {MAX_PAUSE_S:,}")
    return int(text)


def settings_in(kind: str, form: Mapping[str, str]) -> dict[str, Any]:  # Any: ready for set_rule
    """Return what a form sets; an empty field takes a limit away.

    Raises:
        InvalidValue: A field is no number.
    """
    told: dict[str, Any] = {}
    for name, text in form.items():
        if name == "pool":
            told[name] = text
        elif name in _NUMBERS:
            told[name] = _number(name, text.strip())
    if kind == "tenant" and told.get("rate") is None and "rate" in told:
        told.pop("per", None)
        told.pop("burst", None)
    if told.get("per", 0) is None:
        del told["per"]
    if told.get("weight", 0) is None:
        raise InvalidValue("weight is missing")
    return told


def _number(name: str, text: str) -> float | int | None:
    if not text:
        return None
    try:
        return _NUMBERS[name](text[:40])  # type: ignore[no-any-return]
    except ValueError:
        raise InvalidValue(f"{name} {text[:40]!r} is not a number") from None
