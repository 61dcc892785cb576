"""Why is this job waiting: what blocks it, what goes before it, which rule would start it, and about when.

Everything is read from a scheduler, so an explanation says what the next decision would find. Nothing is started; the
order of the next decision comes from the rules themselves.

Cost: a step for each tenant of the job's pool, up to a bound (``ahead.MOST_TURNS``); nothing grows with the number of
waiting jobs.
"""

from __future__ import annotations

import msgspec

from fairlane.domain.explaining.ahead import look_ahead, rule_for
from fairlane.domain.explaining.closed import hard
from fairlane.domain.explaining.estimates import estimate
from fairlane.domain.explaining.order import soft
from fairlane.domain.explaining.subject import Subject
from fairlane.domain.explaining.values import (
    SHOWN_PLACE,
    SHOWN_TENANTS,
    Around,
    Blocker,
    Cause,
    Explanation,
    Figure,
)
from fairlane.domain.explaining.words import span
from fairlane.domain.fairness import Scheduler
from fairlane.domain.jobs import JobRecord
from fairlane.domain.states import State
from fairlane.domain.tiers import Tier

__all__ = ["SHOWN_PLACE", "Around", "Blocker", "Explanation", "Figure", "explain"]


def explain(scheduler: Scheduler, record: JobRecord, around: Around, now_ms: int) -> Explanation:
    """Return why a job is waiting.

    Args:
        scheduler: The state, up to date; :meth:`Scheduler.notice` with ``now_ms`` and due timers come first.
        record: The job.
        around: What the store knows beside it.
        now_ms: The instant, milliseconds UTC.
    """
    job = Subject(scheduler, record, around, now_ms)
    if not record.state.waiting or (record.expires_at_ms is not None and record.expires_at_ms <= now_ms):
        return _not_waiting(job)
    closed = hard(job)
    ahead = look_ahead(job)
    before = soft(job, ahead)
    blockers = [*closed, *before]
    starts_in, unknown = estimate(job, closed, ahead)
    if blockers:
        cause, summary = blockers[0].cause, blockers[0].text
    else:
        cause, summary = "next", "nothing holds it back: the next claim of a worker with a free slot starts it"
    return msgspec.structs.replace(
        _told(job, cause, summary),
        place=around.before if record.express is None else Figure(ahead.express),
        tenants_ahead=_cut(ahead.tenants, ahead.more),
        tenants_urgent=_cut(ahead.urgent, ahead.more),
        express_ahead=Figure(ahead.express),
        next=ahead.mine,
        rule=rule_for(job, ahead),
        blockers=tuple(blockers),
        starts_in=starts_in,
        starts_unknown=unknown,
    )


def _not_waiting(job: Subject) -> Explanation:
    record = job.record
    if record.state == State.RUNNING:
        since = "" if record.started_at_ms is None else f" for {span(job.now_ms - record.started_at_ms)}"
        summary = f"it does not wait: it runs{since}" + (f" on worker {record.worker}" if record.worker else "")
    elif record.state.waiting:
        summary = "it has expired: the next claim cancels it"
    else:
        summary = f"it does not wait: it is {record.state.label}" + (f" ({record.reason})" if record.reason else "")
    return msgspec.structs.replace(_told(job, "not waiting", summary), rule=record.rule)


def _told(job: Subject, cause: Cause, summary: str) -> Explanation:
    record = job.record
    return Explanation(
        id=record.id,
        state=record.state,
        at_ms=job.now_ms,
        cause=cause,
        summary=summary,
        queue=record.queue,
        task=record.task,
        tenant=record.tenant,
        pool=job.pool_name,
        tier=Tier(record.tier),
        effective_tier=Tier(job.level),
        express=record.express is not None,
    )


def _cut(value: int, more: bool) -> Figure:
    return Figure(min(value, SHOWN_TENANTS), value > SHOWN_TENANTS or more)
