"""How a job is told in a list."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from uuid import UUID

from fairlane.domain.jobs import JobRecord
from fairlane.domain.policy import Policy
from fairlane.domain.states import State
from fairlane.domain.tiers import effective_tier
from fairlane.handles import Job

Row = dict[str, Any]  # Any: what a template shows


def rows_of(jobs: Iterable[Job[Any]], policy: Policy, now_ms: int) -> list[Row]:
    """Return jobs as rows; never their arguments, which are redacted one by one on their own pages."""
    return [row_of(job, policy, now_ms) for job in jobs]


def row_of(job: Job[Any], policy: Policy, now_ms: int) -> Row:
    """Return a job as a row."""
    record, progress = job.record, job.progress
    aged = record.tier
    if record.state is State.AVAILABLE:
        waited_ms = now_ms - record.arrival_ms
        aged = effective_tier(record.tier, waited_ms, step_ms=policy.ageing_step_ms, ceiling=int(policy.ageing_ceiling))
    last = record.errors[-1] if record.errors else None
    return {
        "id": str(UUID(bytes=record.id)),
        "task": record.task,
        "tenant": record.tenant,
        "queue": record.queue,
        "tier": record.tier,
        "aged": aged,
        "state": record.state.label,
        "phase": record.phase,
        "express": record.express is not None,
        "attempt": attempt_of(record),
        "worker": record.worker,
        "time": time_of(record, now_ms),
        "share": None if progress is None else progress.share,
        "note": "" if progress is None else progress.note,
        "error": "" if last is None else f"{last.type}: {last.message}",
        "reason": record.reason,
        "lease_ms": None if record.lease_expires_at_ms is None else record.lease_expires_at_ms - now_ms,
        "run_ms": None if record.started_at_ms is None else now_ms - record.started_at_ms,
        "checks": record.checks,
        "tags": record.tags,
    }


def attempt_of(record: JobRecord) -> int:
    """Return how many runs a job has had, the one under way among them."""
    ended = record.failures + record.crashes
    return ended + (record.state in {State.RUNNING, State.COMPLETED})


def time_of(record: JobRecord, now_ms: int) -> tuple[str, int | None]:
    """Return what matters about a job's time: a word, and an instant or a length in milliseconds."""
    if record.state is State.SCHEDULED:
        return ("behind others", None) if record.behind else ("due", record.scheduled_at_ms)
    if record.state is State.AVAILABLE:
        return "waits", now_ms - max(record.arrival_ms, record.available_at_ms or 0)
    if record.state is State.RUNNING:
        return "runs", now_ms - (record.started_at_ms or now_ms)
    if record.started_at_ms is not None and record.finished_at_ms is not None:
        return "ran", record.finished_at_ms - record.started_at_ms
    return "ended", record.finished_at_ms
