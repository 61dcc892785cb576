"""A job as Django's ``TaskResult``."""

from __future__ import annotations

import builtins
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

import msgspec

from fairlane.domain.jobs import ErrorRecord, JobRecord
from fairlane.domain.states import State
from fairlane.instants import aware
from fairlane.integrations.django.flavour import base, conf, tasks, timezone

STATUSES: Final[Mapping[State, str]] = {
    State.SCHEDULED: "READY",
    State.AVAILABLE: "READY",
    State.RUNNING: "RUNNING",
    State.COMPLETED: "SUCCESSFUL",
    State.DEAD: "FAILED",
    State.CANCELLED: "FAILED",
}
"""Django's word for each state. A run that failed and will be tried again leaves its job READY, its error on record."""

Result = Any  # Any: Django does not say its types


def new_result(
    task: Any, job_id: str, args: Sequence[Any], kwargs: Mapping[str, Any], *, now_ms: int, backend: str
) -> Result:
    """Return the result of a job that was just enqueued.

    Args:
        task: Django's task.
        job_id: The job's id.
        args: Its arguments by position.
        kwargs: Its arguments by name.
        now_ms: The instant.
        backend: Name of the backend.
    """
    return tasks.TaskResult(
        task=task,
        id=job_id,
        status=tasks.TaskResultStatus.READY,
        enqueued_at=_told(now_ms),
        started_at=None,
        finished_at=None,
        last_attempted_at=None,
        args=args,
        kwargs=kwargs,
        backend=backend,
        errors=[],
        worker_ids=[],
    )


def result_of(task: Any, record: JobRecord, *, backend: str) -> Result:
    """Return the result that a stored job has now.

    Args:
        task: Django's task.
        record: The job.
        backend: Name of the backend.
    """
    given = msgspec.json.decode(record.args)
    runs = [error.worker for error in record.errors]
    if record.state in {State.RUNNING, State.COMPLETED}:
        runs.append(record.worker or "")
    result = tasks.TaskResult(
        task=task,
        id=str(record.uuid),
        status=tasks.TaskResultStatus(STATUSES[record.state]),
        enqueued_at=_told(record.enqueued_at_ms),
        started_at=_told(record.started_at_ms),
        finished_at=_told(record.finished_at_ms),
        last_attempted_at=_told(record.started_at_ms),
        args=given.get("args", []),
        kwargs=given.get("kwargs", {}),
        backend=backend,
        errors=[_error(error) for error in record.errors],
        worker_ids=runs,
    )
    if record.state is State.COMPLETED and record.result is not None:
        object.__setattr__(result, "_return_value", msgspec.json.decode(record.result))
    return result


def _error(error: ErrorRecord) -> Any:  # Any: Django's TaskError
    """Return what Django tells of a failed run; one that ended without an exception is told as a RuntimeError."""
    kind = error.type
    if "." not in kind:
        kind = f"builtins.{kind if hasattr(builtins, kind) else 'RuntimeError'}"
    return base.TaskError(exception_class_path=kind, traceback=error.traceback or f"{error.type}: {error.message}")


def _told(at_ms: int | None) -> datetime | None:
    """Return an instant as Django tells it: in UTC, or without ``USE_TZ`` as the default timezone's wall clock."""
    at = aware(at_ms)
    if at is None or conf.settings.USE_TZ:
        return at
    naive: datetime = timezone.make_naive(at)
    return naive
