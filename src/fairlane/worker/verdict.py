"""From how a run ended to what the store is told: one pure function, :func:`judge`.

    the handler …                       and nobody asked it to stop     and it was asked to stop
    ─────────────────────────────────   ─────────────────────────────   ──────────────────────────────────────────────
    returned                            completed                       completed; after its timeout: a failure
    raised Snooze, NotReady             snoozed                         snoozed
    raised RateLimited                  snoozed, the limit told         snoozed, the limit told
    raised Cancel                       cancelled                       cancelled
    raised Dead                         dead                            dead
    raised StopRequested, CancelledError, or another exception while handling one of these
                                        a failure                       cancel: cancelled · preempt: released, counted
                                                                        as a preemption · shutdown: released ·
                                                                        timeout: a failure
    raised SystemExit, MemoryError,     crashed                         crashed
           KeyboardInterrupt
    raised anything else                a failure                       a failure; cancel: cancelled; timeout: the
                                                                        timeout is the failure
    got arguments that do not fit       dead                            (it never ran)

A task with a verify phase has two handlers. When ``process`` returned, what it returned is a reference: the job is
handed over. A check that returned says ``Verified`` (completed), ``Pending`` (checked again) or ``Rejected`` (a failure
of the attempt); anything else is a failure of the check. A check that failed, by an exception or its timeout, is on
record and counts as a check, not as a failure: the next one follows. See ``domain/checking.py`` for the figures.

A failure is tried again as the task's ``Retry`` says, or dead. A run that lost its lease tells the store nothing: its
job belongs to somebody else by now. A timeout counts for ``Retry.on`` as a ``TimeoutError``; a ``BaseException`` that
is none of the above, when ``Retry`` does not name it, as a ``RuntimeError``. Arguments that do not fit the task are
dead at once, since they will not fit the next time either; ``app.retry`` brings the job back after a correction.
"""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass
from typing import Final, Literal, cast

import msgspec

from fairlane.domain.checking import REJECTED, checked_again, handed_over, rejected
from fairlane.domain.jobs import Claim, ErrorRecord, Settlement
from fairlane.domain.phases import Verification
from fairlane.domain.retries import Retry
from fairlane.errors import InvalidJob
from fairlane.outcomes import (
    Cancel,
    Dead,
    Pending,
    RateLimited,
    Rejected,
    Snooze,
    StopRequested,
    Verified,
    reference_json,
    result_json,
)
from fairlane.worker.records import error_record, led_to, message_of, type_name

Stop = Literal["shutdown", "preempt", "timeout", "cancel", "lost"]
"""Why a run should stop. A later one replaces an earlier one: see :data:`STRENGTH`."""

STRENGTH: Final[dict[Stop | None, int]] = {None: 0, "shutdown": 1, "preempt": 2, "timeout": 3, "cancel": 4, "lost": 5}
CRASHES: Final = (SystemExit, MemoryError, KeyboardInterrupt)
_GIVES_WAY: Final = (StopRequested, asyncio.CancelledError)
CANCELLED_REASON: Final = "cancelled while it ran"
UNSTORED_RESULT: Final = '{"$fairlane_unstored":"the result could not be turned into JSON"}'
_REASON_BYTES: Final = 1024


class BadArguments(Exception):
    """The job's arguments do not fit the task; the cause says why."""


@dataclass(slots=True)
class Ending:
    """How a run ended.

    Attributes:
        value: What the handler returned.
        error: What it raised, or None.
        stop: Why it was asked to stop, or None.
        run_us: Run time in microseconds.
        units_us: What it reported with ``ctx.charge``, one unit as 1,000,000.
        timeout_ms: The task's timeout, for the message.
        terms: How the task's work is checked, for a task with a verify phase.
    """

    value: object = None
    error: BaseException | None = None
    stop: Stop | None = None
    run_us: int = 0
    units_us: int | None = None
    timeout_ms: int | None = None
    terms: Verification | None = None


class Judge:
    """Turns endings into settlements for one worker.

    Args:
        worker: The worker's id, for error records.
        rng: Source of the jitter of retries.
    """

    def __init__(self, worker: str, rng: random.Random) -> None:
        self._worker = worker
        self._rng = rng

    def __call__(self, claim: Claim, retry: Retry, end: Ending, now_ms: int) -> Settlement:
        """Return what the store is told; see the table at the head of the module.

        Args:
            claim: The claim that ended.
            retry: When the task's failures are tried again.
            end: How it ended; not with a lost lease.
            now_ms: The instant, for error records.
        """
        error = end.error
        if error is not None:
            return _wish(claim, end, error) or self._unhappy(claim, retry, end, error, now_ms)
        if end.stop == "timeout":
            return self._failed(claim, retry, end, _timed_out(end), now_ms)
        if end.terms is None:
            return _settled(claim, end, "completed", result=result_of(end.value))
        if claim.phase == "process":
            return self._handed_over(claim, end, end.terms, now_ms)
        return self._checked(claim, retry, end, end.terms, now_ms)

    def _handed_over(self, claim: Claim, end: Ending, terms: Verification, now_ms: int) -> Settlement:
        try:
            reference = reference_json(end.value)
        except InvalidJob as error:  # without it nobody can ask for the work, and another run would do it twice
            record = self._record(claim, error, now_ms, "failure")
            return _settled(claim, end, "dead", error=record, reason=message_of(error, _REASON_BYTES))
        return _ran(handed_over(claim, terms, reference), end)

    def _checked(self, claim: Claim, retry: Retry, end: Ending, terms: Verification, now_ms: int) -> Settlement:
        answer = end.value
        if isinstance(answer, Verified):
            result = cast("Verified[object]", answer).result
            return _settled(claim, end, "completed", result=result_of(result))
        if isinstance(answer, Pending):
            return _ran(checked_again(claim, terms), end)
        if isinstance(answer, Rejected):
            record = ErrorRecord(claim.attempt, now_ms, "failure", REJECTED, answer.text, worker=self._worker)
            return _ran(rejected(claim, retry, record, self._rng), end)
        told = TypeError(f"a check returns Verified, Pending or Rejected, not {type(answer).__qualname__}")
        return self._failed(claim, retry, end, told, now_ms)

    def _unhappy(self, claim: Claim, retry: Retry, end: Ending, error: BaseException, now_ms: int) -> Settlement:
        if isinstance(error, CRASHES):
            return _settled(claim, end, "crashed", error=self._record(claim, error, now_ms, "crash"))
        if isinstance(error, Dead | BadArguments):
            return self._dead(claim, end, error, now_ms)
        if end.stop == "cancel":
            return _settled(claim, end, "cancelled", reason=CANCELLED_REASON)
        if end.stop in {"preempt", "shutdown"} and led_to(error, _GIVES_WAY):
            return _settled(claim, end, "released", preempted=end.stop == "preempt")
        return self._failed(claim, retry, end, _timed_out(end) if end.stop == "timeout" else error, now_ms)

    def _failed(self, claim: Claim, retry: Retry, end: Ending, error: BaseException, now_ms: int) -> Settlement:
        record = self._record(claim, error, now_ms, "failure")
        if claim.phase == "verify":
            if not retry.worth_another_try(_for_retry(retry, error)):
                return _settled(claim, end, "dead", error=record, reason=f"{record.type} is not tried again")
            return _ran(checked_again(claim, end.terms or Verification(), error=record), end)
        failures = claim.failures + 1
        delay_ms = retry.delay_ms(failures, _for_retry(retry, error), self._rng)
        if delay_ms is not None:
            return _settled(claim, end, "retry", error=record, delay_ms=delay_ms)
        if failures >= retry.max_attempts:
            reason = f"failed {failures} times; max_attempts is {retry.max_attempts}"
        else:
            reason = f"{record.type} is not tried again"
        return _settled(claim, end, "dead", error=record, reason=reason)

    def _dead(self, claim: Claim, end: Ending, error: Dead | BadArguments, now_ms: int) -> Settlement:
        cause = error.__cause__ if error.__cause__ is not None else error
        reason = error.reason if isinstance(error, Dead) else message_of(error, _REASON_BYTES)
        record = self._record(claim, cause if isinstance(error, BadArguments) else error, now_ms, "failure")
        return _settled(claim, end, "dead", error=record, reason=reason or "the handler raised Dead")

    def _record(
        self, claim: Claim, error: BaseException, now_ms: int, kind: Literal["failure", "crash"]
    ) -> ErrorRecord:
        record = error_record(error, kind=kind, attempt=claim.attempt, at_ms=now_ms, worker=self._worker)
        return msgspec.structs.replace(record, check=claim.checks + 1) if claim.phase == "verify" else record


def released(claim: Claim, *, run_us: int = 0, preempted: bool = False) -> Settlement:
    """Return the settlement that gives a job back unharmed."""
    return Settlement(seq=claim.seq, fence=claim.fence, kind="released", run_us=run_us, preempted=preempted)


def result_of(value: object) -> str | None:
    """Return a result as it is stored; None for None. What JSON cannot hold never fails a run that succeeded."""
    if value is None:
        return None
    try:
        return result_json(value)
    except Exception:  # noqa: BLE001  a value's own code (model_dump) may raise anything
        return UNSTORED_RESULT


def bad_arguments(task: str, error: Exception) -> BadArguments:
    """Return the failure of a run whose arguments do not fit the task."""
    told = BadArguments(f"the arguments do not fit task {task!r}: {message_of(error, _REASON_BYTES)}")
    told.__cause__ = error
    return told


def _wish(claim: Claim, end: Ending, error: BaseException) -> Settlement | None:
    """Return what the handler asked for by an outcome, or None."""
    if isinstance(error, Snooze):
        return _settled(claim, end, "snoozed", delay_ms=error.delay_ms)
    if isinstance(error, RateLimited):
        # The delay as well: the task may not count against that limit, and would come back at once.
        limit = error.limit.replace("{tenant}", claim.start.lane.tenant)
        return _settled(claim, end, "snoozed", delay_ms=error.delay_ms, wait_for=(limit, error.delay_ms))
    if isinstance(error, Cancel):
        return _settled(claim, end, "cancelled", reason=error.reason or "the handler raised Cancel")
    return None


def _settled(
    claim: Claim,
    end: Ending,
    kind: Literal["completed", "retry", "dead", "cancelled", "snoozed", "released", "crashed"],
    *,
    delay_ms: int = 0,
    result: str | None = None,
    error: ErrorRecord | None = None,
    reason: str | None = None,
    preempted: bool = False,
    wait_for: tuple[str, int] | None = None,
) -> Settlement:
    return Settlement(
        seq=claim.seq,
        fence=claim.fence,
        kind=kind,
        run_us=end.run_us,
        delay_ms=delay_ms,
        result=result,
        error=error,
        reason=reason,
        units_us=end.units_us,
        preempted=preempted,
        wait_for=wait_for,
        checked=kind == "dead" and claim.phase == "verify",
    )


def _ran(settlement: Settlement, end: Ending) -> Settlement:
    """Return a settlement with the run's time and cost."""
    return msgspec.structs.replace(settlement, run_us=end.run_us, units_us=end.units_us)


def _timed_out(end: Ending) -> TimeoutError:
    """Return the failure of a run that was longer than its timeout, with what the handler made of it."""
    ran = f"ran {end.run_us / 1e6:.3f} s"
    limit = "" if end.timeout_ms is None else f", longer than its timeout of {end.timeout_ms / 1000:g} s"
    if end.error is None:
        return TimeoutError(f"{ran}{limit}; it ignored the request to stop and its result was dropped")
    raised = "" if led_to(end.error, _GIVES_WAY) else f"; it raised {type_name(end.error)}"
    told = TimeoutError(f"{ran}{limit}{raised}")
    told.__cause__ = end.error
    return told


def _for_retry(retry: Retry, error: BaseException) -> BaseException:
    if isinstance(error, (Exception, *retry.on, *retry.give_up_on)):
        return error
    return RuntimeError()
