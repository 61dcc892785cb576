"""How jobs and what is told of them are written as JSON, on every surface: names as in the specification.

Instants are ISO 8601 in UTC, times are seconds, tiers and states go by their names.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final
from uuid import UUID

import msgspec

from fairlane.domain.explaining import Blocker, Explanation, Figure
from fairlane.domain.inversions import Inversions
from fairlane.domain.jobs import ErrorRecord
from fairlane.handles import Job
from fairlane.instants import aware

SHOWN: Final = 20
TIMES: Final = (
    "enqueued_at", "scheduled_at", "available_at", "started_at", "finished_at", "expires_at", "lease_expires_at",
)  # fmt: skip


def instant(at: datetime | None) -> str | None:
    """Return an instant as text."""
    return None if at is None else at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def brief(job: Job[Any]) -> dict[str, Any]:  # Any: ready for JSON
    """Return what a list shows of a job."""
    told: dict[str, Any] = {
        "id": str(job.id),
        "task": job.task,
        "queue": job.queue,
        "tenant": job.tenant,
        "tier": job.tier.label,
        "state": job.state,
        "phase": job.phase,
        "express": job.express,
        "failures": job.failures,
        "crashes": job.crashes,
        "checks": job.checks,
        "fence": job.fence,
        "worker": job.worker,
        "dedup_key": job.dedup_key,
        "tags": list(job.tags),
        "reason": job.reason,
    }
    return told | {name: instant(getattr(job, name)) for name in TIMES}


def whole(job: Job[Any]) -> dict[str, Any]:  # Any: ready for JSON
    """Return everything of a job."""
    record, progress = job.record, job.progress
    return brief(job) | {
        "args": job.args,
        "progress": None if progress is None else {"share": progress.share, "note": progress.note},
        "checkpoint": job.checkpoint,
        "result": None if record.result is None else msgspec.json.decode(record.result),
        "errors": errors(job.errors),
        "rule": record.rule,
        "preemptions": record.preemptions,
        "trace": job.trace,
        "reference": None if record.reference is None else msgspec.json.decode(record.reference),
        "behind": record.behind,
        "on_failure": record.on_failure,
        "successor": record.successor,
        "bundle": None if record.bundle is None else str(UUID(bytes=record.bundle)),
    }


def errors(records: Sequence[ErrorRecord]) -> list[dict[str, Any]]:  # Any: ready for JSON
    """Return failed and crashed runs, oldest first."""
    return [
        {
            "attempt": error.attempt,
            "at": instant(aware(error.at_ms)),
            "kind": error.kind,
            "type": error.type,
            "message": error.message,
            "traceback": error.traceback,
            "worker": error.worker,
            "frame": error.frame,
        }
        for error in records
    ]


def explained(told: Explanation) -> dict[str, Any]:  # Any: ready for JSON
    """Return an explanation ready for JSON; a figure cut short is text that ends in ``+``."""
    return {
        "id": str(UUID(bytes=told.id)),
        "state": told.state.label,
        "at": instant(aware(told.at_ms)),
        "cause": told.cause,
        "summary": told.summary,
        "queue": told.queue,
        "task": told.task,
        "tenant": told.tenant,
        "pool": told.pool,
        "tier": told.tier.label,
        "effective_tier": told.effective_tier.label,
        "express": told.express,
        "place": _figure(told.place),
        "tenants_ahead": _figure(told.tenants_ahead),
        "tenants_urgent": _figure(told.tenants_urgent),
        "express_ahead": _figure(told.express_ahead),
        "next": told.next,
        "rule": told.rule,
        "blockers": [_blocker(blocker) for blocker in told.blockers],
        "starts_in_s": None if told.starts_in is None else list(told.starts_in),
        "starts_unknown": told.starts_unknown or None,
    }


def _figure(figure: Figure | None) -> int | str | None:
    if figure is None:
        return None
    return str(figure) if figure.more else figure.value


def _blocker(blocker: Blocker) -> dict[str, Any]:  # Any: ready for JSON
    return {
        "cause": blocker.cause,
        "kind": blocker.kind,
        "name": blocker.name,
        "current": blocker.current,
        "maximum": blocker.maximum,
        "until": instant(aware(blocker.until_ms)),
        "reason": blocker.reason or None,
        "by": blocker.by or None,
        "text": blocker.text,
    }


def overtaken(told: Inversions) -> dict[str, Any]:  # Any: ready for JSON
    """Return inversions ready for JSON."""
    return {
        "since": instant(aware(told.since_ms)),
        "starts": told.starts,
        "more": told.more,
        "counts": dict(told.counts),
        "unexplained": [
            {
                "at": instant(aware(one.at_ms)),
                "started": str(UUID(bytes=one.started)),
                "started_tier": one.started_tier.label,
                "waiting": str(UUID(bytes=one.waiting)),
                "waiting_tier": one.waiting_tier.label,
            }
            for one in told.unexplained
        ],
        "aged_lanes": told.aged_lanes,
        "aged": [
            {
                "less_urgent": str(UUID(bytes=pair.less_urgent)),
                "less_urgent_tier": pair.less_urgent_tier.label,
                "more_urgent": str(UUID(bytes=pair.more_urgent)),
                "more_urgent_tier": pair.more_urgent_tier.label,
                "longer_s": pair.longer_ms / 1000,
            }
            for pair in told.aged[:SHOWN]
        ],
    }
