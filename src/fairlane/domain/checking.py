"""How the two phases of a job follow each other: what the store is told when work is handed over and checked.

    process returned a reference     handed over: checked for the first time after ``every``
    a check said that it is done     completed (the caller's part: it is an end like any other)
    … not finished, or failed        checked again after ``every``; at ``max_checks`` dead, ``verification_timeout``
    … rejected                       a failure of the attempt: processed again while attempts remain, else dead

A check is no attempt: it uses none up, and one that fails counts as a check. The returned settlements say nothing of
the run's time and cost; who settles adds them.
"""

from __future__ import annotations

import random
from typing import Final

from fairlane.domain.jobs import Claim, ErrorRecord, Settlement
from fairlane.domain.phases import TIMED_OUT, Verification
from fairlane.domain.retries import Retry

REJECTED: Final = "Rejected"
"""The type of the error that a rejection leaves in a job's history."""


def handed_over(claim: Claim, terms: Verification, reference: str) -> Settlement:
    """Return what becomes of a job whose work another system goes on with.

    Args:
        claim: The claim of its process phase.
        terms: How the work is checked.
        reference: What the other system calls it, as JSON text.
    """
    return Settlement(
        seq=claim.seq,
        fence=claim.fence,
        kind="handed",
        delay_ms=terms.every_ms,
        reference=reference,
        to=("verify", terms.lane(claim.start.lane)),
    )


def checked_again(
    claim: Claim, terms: Verification, *, error: ErrorRecord | None = None, delay_ms: int | None = None
) -> Settlement:
    """Return what becomes of a job whose work is not finished.

    Args:
        claim: The claim of the check.
        terms: How the work is checked.
        error: Why the check failed, if it did.
        delay_ms: Wait before the next check, in milliseconds; None: as ``terms`` say.
    """
    if claim.checks + 1 >= terms.max_checks:
        return Settlement(seq=claim.seq, fence=claim.fence, kind="dead", reason=TIMED_OUT, error=error, checked=True)
    return Settlement(
        seq=claim.seq,
        fence=claim.fence,
        kind="pending",
        delay_ms=terms.every_ms if delay_ms is None else delay_ms,
        error=error,
        checked=True,
    )


def rejected(claim: Claim, retry: Retry, error: ErrorRecord, rng: random.Random) -> Settlement:
    """Return what becomes of a job whose work failed at the other system.

    Args:
        claim: The claim of the check.
        retry: How often and how soon the task's work is tried again.
        error: The failed attempt, of type :data:`REJECTED`.
        rng: Source of the jitter.
    """
    failures = claim.failures + 1
    delay_ms = retry.delay_ms(failures, None, rng)
    if delay_ms is None:
        reason = f"rejected; failed {failures} times; max_attempts is {retry.max_attempts}"
        return Settlement(seq=claim.seq, fence=claim.fence, kind="dead", reason=reason, error=error, checked=True)
    return Settlement(
        seq=claim.seq,
        fence=claim.fence,
        kind="retry",
        delay_ms=delay_ms,
        error=error,
        checked=True,
        to=("process", None),
    )
