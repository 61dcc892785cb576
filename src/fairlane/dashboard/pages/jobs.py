"""Jobs: the search, one job with all that is known of it, and what can be done to it."""

from __future__ import annotations

from typing import Any, Final

from fastapi import Response

from fairlane.dashboard.asking import NAMES, Asked, parse, written
from fairlane.dashboard.pages.rows import rows_of
from fairlane.dashboard.sampler import Sample
from fairlane.dashboard.visit import Visit
from fairlane.domain.states import State
from fairlane.domain.tiers import Tier, effective_tier
from fairlane.errors import InvalidValue
from fairlane.handles import Job

PAGE: Final = 50
STATES: Final = (
    ("All", ""),
    ("Waiting", "state:waiting"),
    ("Running", "state:running"),
    ("Completed", "state:completed"),
    ("Dead", "state:dead"),
    ("Cancelled", "state:cancelled"),
)
LATEST_END: Final = frozenset({(State.COMPLETED,), (State.CANCELLED,)})
MANY: Final = (
    ("cancel", "Cancel"),
    ("retry", "Retry dead"),
    ("expedite", "Expedite"),
    ("boost", "Boost"),
    ("set_tier", "Set tier"),
    ("reverify", "Check dead again"),
)
"""What can be done to many jobs at once."""


async def jobs(visit: Visit) -> Response:
    """Return the jobs that a search means."""
    asked = parse(visit.asked("q"))
    if asked.id is not None:
        return visit.go(f"/jobs/{asked.id}")
    sample = await visit.sample()
    rows: list[dict[str, Any]] = []
    cursor, counted = visit.asked("cursor") or None, None
    more = None
    if not asked.wrong:
        try:
            page = await visit.desk.found(asked.which, limit=PAGE, cursor=cursor)
            rows = rows_of(page, sample.policy, visit.now_ms)
            more = page.cursor and visit.urls("/jobs", q=asked.text, cursor=page.cursor)
            if not asked.everything:
                counted = await visit.desk.quick_count(asked.which, sample.depth)
        except InvalidValue as error:
            asked.wrong.append(str(error))
    return visit.page(
        "jobs.html",
        "Jobs",
        section="/jobs",
        live=cursor is None,
        asked=asked,
        rows=rows,
        more=more,
        first=visit.urls("/jobs", q=asked.text) if cursor else None,
        counted=counted,
        chips=STATES,
        actions=MANY,
        order="latest end first" if asked.which.get("state") in LATEST_END else "newest first",
        here_path="/jobs",
        suggestions=_suggestions(asked, sample, visit.tenant),
    )


def _suggestions(asked: Asked, sample: Sample, tenant: str | None) -> list[str]:
    """Return searches that go on from this one, with names that are in the store now."""
    have = {part.partition(":")[0] for part in asked.text.split()}
    lanes = sample.of(tenant)
    known = {
        "queue": sorted({lane.queue for lane in lanes})[:20],
        "task": sorted({lane.task.removesuffix(":verify") for lane in lanes})[:20],
        "tenant": [] if tenant else sorted({lane.tenant for lane in lanes})[:20],
        "tier": [tier.label for tier in Tier],
    }
    terms = [written(name, value) for name, values in known.items() if name not in have for value in values]
    terms += [text for name, text in NAMES.items() if name not in have and name not in known]
    return [f"{asked.text} {term}".strip() for term in terms]


# ---------------------------------------------------------------- one job


async def job(visit: Visit, job_id: str, *, status: int = 200) -> Response:
    """Return everything about a job."""
    found = await visit.desk.seen(job_id)
    told = visit.desk.shown(found)
    sample = await visit.sample()
    record = found.record
    waiting = record.state.waiting
    aged = record.tier
    if record.state.label == "available":
        aged = effective_tier(
            record.tier,
            visit.now_ms - record.arrival_ms,
            step_ms=sample.policy.ageing_step_ms,
            ceiling=int(sample.policy.ageing_ceiling),
        )
    return visit.page(
        "job.html",
        f"{found.task} {str(found.id)[:8]}",
        section="/jobs",
        status=status,
        job=told,
        tier=Tier(record.tier),
        aged=aged,
        waiting=waiting,
        why=await visit.desk.explain(job_id) if waiting else None,
        errors=list(reversed(told["errors"])),
        line=timeline(found),
        acts=_acts(found),
        express=_places(sample, found, visit.tenant) if waiting and not told["express"] else None,
    )


def _acts(job: Job[Any]) -> list[tuple[str, str]]:
    """Return what may be done to a job in its state; what would be refused is not offered."""
    record = job.record
    if record.state.waiting:
        acts = [("cancel", "Cancel"), ("boost", "Boost to a tier"), ("set_tier", "Set its tier")]
        if record.express is None:
            acts.insert(0, ("expedite", "Expedite"))
        if record.phase == "verify":
            acts.append(("verify", "Check it now"))
        return acts
    if record.state.label == "running":
        return [("cancel", "Ask it to stop")]
    if record.state.label == "dead":
        verify = [("verify", "Check its work again")] if record.phase == "verify" else []
        return [("retry", "Retry"), *verify]
    return []


def _places(sample: Sample, job: Job[Any], tenant: str | None) -> dict[str, Any]:
    """Return how many places of the express lane are free; of others' places only that they are taken."""
    own = sum(one.tenant == job.tenant for one in sample.express)
    bounded = job.tenant != "default"
    capacity, per_tenant = sample.capacities.express_capacity, sample.capacities.express_per_tenant
    return {
        "left": max(0, capacity - len(sample.express)),
        "capacity": capacity,
        "tenant_left": max(0, per_tenant - own) if bounded else None,
        "per_tenant": per_tenant,
    }


async def act(visit: Visit, job_id: str, form: dict[str, str]) -> Response:
    """Do something to a job, and show it."""
    desk, reason = visit.desk, form.get("reason", "")
    action = form.get("action", "")
    if action == "cancel":
        told = await desk.cancel(job_id, reason=reason)
        text = "The job was cancelled" if told["state"] == "cancelled" else "The job was asked to stop"
    elif action == "retry":
        await desk.retry(job_id, reason=reason)
        text = "The job is available again, with its counts at zero"
    elif action == "expedite":
        await desk.expedite(job_id, reason=reason)
        text = "The job is in the express lane"
    elif action == "boost":
        told = await desk.boost(job_id, Tier.of(form.get("tier")), reason=reason)
        text = (
            f"Its tier is {told['tier']} now" if told["outcome"] == "boosted" else "It was at least that urgent already"
        )
    elif action == "set_tier":
        told = await desk.set_tier(job_id, Tier.of(form.get("tier")), reason=reason)
        text = f"Its tier is {told['tier']} now"
    elif action == "verify":
        await desk.check_again(job_id, reason=reason)
        text = "Its work will be checked now"
    else:
        visit.desk.need("operator")
        raise InvalidValue(f"a job cannot {action!r}")
    return visit.done(text, f"/jobs/{job_id}")


# ---------------------------------------------------------------- what happened to it


def timeline(job: Job[Any]) -> list[dict[str, Any]]:
    """Return what happened to a job as far as its row tells, oldest first."""
    record = job.record
    line: list[dict[str, Any]] = [_event("enqueued", record.enqueued_at_ms, "Enqueued")]
    if record.scheduled_at_ms > record.enqueued_at_ms:
        line.append(_event("due", record.scheduled_at_ms, "Due"))
    for error in record.errors:
        what = f"Check {error.check}" if error.check else f"Attempt {error.attempt}"
        verb = "crashed" if error.kind == "crash" else "failed"
        line.append(_event("bad", error.at_ms, f"{what} {verb}: {error.type}"))
    if record.available_at_ms is not None:
        line.append(
            _event("available", record.available_at_ms, "Became available" if record.fence == 0 else "Available")
        )
    if record.started_at_ms is not None:
        who = f" by {record.worker}" if record.worker else ""
        running = record.state.label == "running"
        rule = f", rule {record.rule}" if record.rule else ""
        line.append(_event("now" if running else "started", record.started_at_ms, f"Started{who}{rule}"))
    if record.finished_at_ms is not None:
        label = record.state.label
        kind = "ok" if label == "completed" else "bad" if label == "dead" else "ended"
        line.append(
            _event(kind, record.finished_at_ms, label.capitalize() + (f": {record.reason}" if record.reason else ""))
        )
    line.sort(key=lambda one: one["at_ms"])
    if record.lease_expires_at_ms is not None:
        line.append(_event("ahead", record.lease_expires_at_ms, "Lease ends unless it is renewed"))
    elif record.state.label == "scheduled":
        text = f"Waits for {record.behind} other jobs" if record.behind else "Waits for its time"
        line.append({"kind": "now", "at_ms": None, "text": text})
    elif record.state.label == "available":
        line.append({"kind": "now", "at_ms": None, "text": "Waits for its turn"})
    return line


def _event(kind: str, at_ms: int, text: str) -> dict[str, Any]:  # Any: what the template shows
    return {"kind": kind, "at_ms": at_ms, "text": text}
