"""Which job a log record belongs to: handlers log as usual, and a filter adds the job's id to each record."""

from __future__ import annotations

import logging
from contextvars import ContextVar
from typing import Final

from fairlane.domain.jobs import Claim, Settlement
from fairlane.domain.payloads import one_line

running: Final[ContextVar[Claim | None]] = ContextVar("fairlane_running", default=None)
"""The claim whose handler runs in this context."""

NO_JOB: Final = "-"
LOGGED: Final = 200
"""Characters of an error, or of the reason for an end, that are logged."""

log = logging.getLogger("fairlane.worker")


class JobFilter(logging.Filter):
    """Adds ``job_id``, ``job_task`` and ``job_trace`` to every record, ``-`` outside a job; it lets all records pass.

    ``job_trace`` is the job's trace context: what ties its log to that of the request that stored it.
    All are one line, whatever was stored.

    Example:
        >>> handler = logging.StreamHandler()
        >>> handler.addFilter(JobFilter())
        >>> handler.setFormatter(logging.Formatter("%(message)s job=%(job_id)s"))
    """

    def filter(self, record: logging.LogRecord) -> bool:
        """Add the three fields."""
        claim = running.get()
        record.job_id = NO_JOB if claim is None else str(claim.uuid)
        record.job_task = NO_JOB if claim is None else one_line(claim.task)
        record.job_trace = NO_JOB if claim is None or claim.trace is None else one_line(claim.trace)
        return True


def tell_log(claim: Claim, settlement: Settlement | None) -> None:
    """Log how a run ended that was settled, unless it succeeded."""
    if settlement is None or settlement.kind in {"completed", "handed"}:
        return
    if settlement.kind == "pending" and settlement.error is None:
        return
    error = settlement.error
    level = logging.ERROR if settlement.kind in {"dead", "crashed"} else logging.WARNING
    if settlement.kind in {"cancelled", "snoozed", "released"}:
        level = logging.INFO
    log.log(
        level,
        "job_%s job=%s task=%s attempt=%d reason=%s",
        settlement.kind,
        claim.uuid,
        one_line(claim.task),
        claim.attempt,
        one_line((settlement.reason or "") if error is None else f"{error.type}: {error.message}", LOGGED),
    )
