"""What runs, what died, what is done to many jobs at once, what comes again, who works."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final, cast, get_args
from uuid import UUID

from fastapi import Response

from fairlane.dashboard.asking import parse, written
from fairlane.dashboard.pages.jobs import MANY, PAGE
from fairlane.dashboard.pages.rows import rows_of
from fairlane.dashboard.visit import Visit
from fairlane.domain.jobs import JobFilter
from fairlane.domain.operations import Action
from fairlane.domain.states import State
from fairlane.domain.tiers import TIERS, Tier
from fairlane.errors import FairlaneError, InvalidValue
from fairlane.schedules import ScheduleInfo
from fairlane.service.many import operated

FLIGHT: Final = 100
MOST_RUNNING: Final = 1_000
CANARY: Final = 10
TYPED_ABOVE: Final = 100
VERBS: Final = {
    **{name: text.partition(" ")[0] for name, text in MANY},
    "retry": "Replay",
    "set_tier": "Set the tier of",
    "reverify": "Check the work of",
    "discard": "Discard",
}
KINDS: Final = {
    "running": ("acc", "running", "play"),
    "paused": ("warn", "paused", "pause"),
    "done": ("ok", "done", "ok"),
    "cancelled": ("", "cancelled", "stop"),
}
_CALLED: Final = {"states": "state", "fingerprint": "group", "ids": "jobs"}
SCHEDULE_KINDS: Final = {
    "active": ("ok", "active", "ok"),
    "paused": ("warn", "paused", "pause"),
    "gone": ("", "no longer in the code", None),
    "over": ("", "over", None),
}


async def inflight(visit: Visit) -> Response:
    """Return the running jobs."""
    sample = await visit.sample()
    cursor = visit.asked("cursor") or None
    page = await visit.desk.found({"state": State.RUNNING}, limit=FLIGHT, cursor=cursor)
    rows = rows_of(page, sample.policy, visit.now_ms)
    return visit.page(
        "inflight.html",
        "In flight",
        section="/inflight",
        live=cursor is None,
        rows=rows,
        running=sum(row.running for row in sample.of(visit.tenant)),
        workers=len(sample.workers),
        overdue=sum(1 for row in rows if row["lease_ms"] is not None and row["lease_ms"] < 0),
        first=visit.urls("/inflight") if cursor else None,
        more=page.cursor and visit.urls("/inflight", cursor=page.cursor),
    )


# ---------------------------------------------------------------- dead letters


async def dead(visit: Visit) -> Response:
    """Return the dead jobs by what they died of; a confined actor gets them as a list."""
    if visit.tenant is not None:
        return visit.go("/jobs", q="state:dead")
    groups = await visit.desk.groups()
    sample = await visit.sample()
    return visit.page(
        "dead.html",
        "Dead letters",
        section="/dead",
        groups=groups,
        total=max(sample.counts[State.DEAD], sum(group.count for group in groups)),
    )


async def group(visit: Visit) -> Response:
    """Return one group of dead jobs."""
    fingerprint = visit.asked("id")
    sample = await visit.sample()
    query = f"{written('group', fingerprint)} state:dead"
    cursor = visit.asked("cursor") or None
    which = {"state": State.DEAD, "fingerprint": fingerprint}
    page = await visit.desk.found(which, limit=PAGE, cursor=cursor)
    found = None
    if visit.tenant is None:
        found = next((one for one in await visit.desk.groups() if one.fingerprint == fingerprint), None)
    return visit.page(
        "group.html",
        found.label if found else "Dead letters",
        section="/dead",
        live=cursor is None,
        group=found,
        query=query,
        canary=CANARY,
        rows=rows_of(page, sample.policy, visit.now_ms),
        first=visit.urls("/dead/group", id=fingerprint) if cursor else None,
        more=page.cursor and visit.urls("/dead/group", id=fingerprint, cursor=page.cursor),
    )


# ---------------------------------------------------------------- many at once


def meant(query: str, ids: Sequence[str]) -> dict[str, Any]:  # Any: a filter's values
    """Return the filter that a form means: the chosen jobs, or all that fit the search.

    Raises:
        InvalidValue: The search is not understood, or means every job.
    """
    if ids:
        return {"ids": list(ids)}
    asked = parse(query)
    if asked.wrong:
        raise InvalidValue("; ".join(asked.wrong))
    if asked.id is not None:
        return {"ids": [asked.id]}
    if asked.everything:
        raise InvalidValue("the search means every job there is; say which ones are meant")
    return asked.which


def action_of(text: str) -> Action:
    """Return the action of that name.

    Raises:
        InvalidValue: There is none.
    """
    if text not in get_args(Action):
        raise InvalidValue(f"action {text[:40]!r} is not one of {', '.join(get_args(Action))}")
    return cast("Action", text)


async def confirm(visit: Visit) -> Response:
    """Ask before many jobs are changed: how many are meant, some of them, and how."""
    action = action_of(visit.asked("action"))
    query = visit.asked("q")
    ids = visit.request.query_params.getlist("ids") if visit.asked("of") != "all" else []
    sample = await visit.sample()
    # The tier does not change which jobs are meant; the form asks for it.
    to = TIERS[0] if action in {"boost", "set_tier"} else None
    preview = await visit.desk.would(action, meant(query, ids), to=to)
    typed = preview.count > TYPED_ABOVE
    states = "" if "state:" in query else "dead" if action in {"retry", "discard", "reverify"} else "waiting"
    return visit.page(
        "confirm.html",
        f"{VERBS[action]} {preview} jobs?",
        section="/jobs",
        live=False,
        action=action,
        verb=VERBS[action],
        query="" if ids else query,
        ids=ids,
        states=states,
        preview=preview,
        typed=typed,
        typed_above=TYPED_ABOVE,
        wanted=str(preview.count),
        capacity=sample.capacities.express_capacity,
        rate_asked=visit.asked("rate", "10" if action in {"retry", "reverify"} else ""),
        limit_asked=visit.asked("limit"),
        back=path_only(visit.asked("back", "/jobs")),
        rows=rows_of(preview.sample, sample.policy, visit.now_ms),
    )


def path_only(path: str) -> str:
    """Return a page of ours to go back to: one of the menu, whatever was asked for."""
    return path if path in {"/jobs", "/inflight", "/dead", "/tenants", "/queues"} else "/jobs"


async def begin(visit: Visit, form: Mapping[str, str], ids: Sequence[str]) -> Response:
    """Start an operation that was confirmed, and show it."""
    action = action_of(form.get("action", ""))
    which = meant(form.get("q", ""), ids)
    to = Tier.of(form["to"]) if form.get("to") else None
    preview = await visit.desk.would(action, which, to=to)
    if preview.count > TYPED_ABOVE and form.get("typed", "").replace(",", "").strip() != str(preview.count):
        raise InvalidValue(f"{preview} jobs are meant: type {preview.count} to go on")
    operation = await visit.desk.do(
        action,
        which,
        to=to,
        rate=_positive("rate", form.get("rate", "")),
        limit=None if (limit := _positive("limit", form.get("limit", ""))) is None else int(limit),
        reason=form.get("reason", ""),
    )
    visit.sampler.spoil()
    return visit.go(f"/bulk/{operation.id}")


def _positive(name: str, text: str) -> float | None:
    if not text.strip():
        return None
    try:
        return float(text.strip()[:40])
    except ValueError:
        raise InvalidValue(f"{name} {text[:40]!r} is not a number") from None


async def operations(visit: Visit) -> Response:
    """Return the latest operations."""
    found = await visit.desk.operations()
    return visit.page("bulk.html", "Operations", section="/bulk", rows=[operated(one) for one in found], kinds=KINDS)


async def operation(visit: Visit, name: str) -> Response:
    """Return one operation."""
    found = await visit.desk.operation(name)
    told = operated(found)
    return visit.page(
        "operation.html",
        f"{found.action} {found.done}/{found.total}",
        section="/bulk",
        one=told,
        which=_words(found.record.plan.which),
        kinds=KINDS,
    )


def _words(which: JobFilter) -> list[tuple[str, str]]:
    told: list[tuple[str, str]] = []
    for name in JobFilter.__struct_fields__:
        value: Any = getattr(which, name)  # Any: each field has its own type
        if value is None:
            continue
        if name == "states":
            text = ", ".join(State(one).label for one in which.states or ())
        elif name == "tier":
            text = Tier(value).label
        elif name == "ids":
            text = f"{len(value):,} chosen ones"
        elif isinstance(value, bytes):
            text = str(UUID(bytes=value))
        else:
            text = str(value)
        told.append((_CALLED.get(name, name.removesuffix("_ms").replace("_", " ")), text))
    return told


async def steer(visit: Visit, name: str, form: Mapping[str, str]) -> Response:
    """Pause, resume or cancel an operation."""
    to = form.get("action", "")
    found = await visit.desk.steer(name, to, reason=form.get("reason", ""))
    return visit.done(f"The operation is {found.state}", f"/bulk/{found.id}")


# ---------------------------------------------------------------- schedules, workers


async def schedules(visit: Visit) -> Response:
    """Return the schedules."""
    found = await visit.desk.schedules()
    ticks = await asyncio.gather(*(_ticks(visit, one) for one in found))
    rows = [
        one.shown() | {"ticks": [round(at.timestamp() * 1000) for at in at_all]}
        for one, at_all in zip(found, ticks, strict=True)
    ]
    return visit.page("schedules.html", "Schedules", section="/schedules", rows=rows, kinds=SCHEDULE_KINDS)


async def _ticks(visit: Visit, one: ScheduleInfo) -> Sequence[Any]:  # Any: datetimes
    if one.state in {"gone", "over"}:
        return []
    try:
        return await visit.desk.app.schedules[one.name].anext(5)
    except FairlaneError:  # its time zone is not known here; the page shows the rest
        return []


async def schedule_do(visit: Visit, form: Mapping[str, str]) -> Response:
    """Run, pause or resume a schedule."""
    text = await visit.desk.schedule_do(form.get("name", ""), form.get("action", ""), reason=form.get("reason", ""))
    return visit.done(text, "/schedules")


async def workers(visit: Visit) -> Response:
    """Return the workers."""
    told = (await visit.desk.workers())["items"]
    sample = await visit.sample()
    running = await visit.desk.found({"state": State.RUNNING}, limit=MOST_RUNNING)
    busy = Counter(job.record.worker for job in running)
    known = {one["id"] for one in told}
    return visit.page(
        "workers.html",
        "Workers",
        section="/workers",
        rows=[one | {"busy": busy[one["id"]]} for one in told],
        slots=sum(one["slots"] for one in told),
        busy=sum(busy[name] for name in known),
        own=sum(count for name, count in busy.items() if name not in known),
        monitor=sample.monitor,
    )
