"""Claims for programs that pull their work themselves: they hold a lease, keep it alive, and say how the run ended."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, Final, Literal, Protocol
from uuid import UUID

import msgspec

from fairlane.clock import Clock
from fairlane.context import MAX_CHECKPOINT_BYTES, MAX_NOTE_BYTES
from fairlane.domain.checking import REJECTED, checked_again, handed_over, rejected
from fairlane.domain.checks import number
from fairlane.domain.jobs import MAX_ERROR_BYTES, Claim, ErrorRecord, JobRecord, Kind, Phase, Settlement
from fairlane.domain.lanes import Place, Start
from fairlane.domain.payloads import encode, sanitised
from fairlane.domain.phases import Verification
from fairlane.domain.retries import Retry
from fairlane.domain.states import State
from fairlane.domain.tiers import Tier
from fairlane.errors import IllegalMove, LeaseLost
from fairlane.faces import Homed, Steps, later, twin, write
from fairlane.handles import Home, Job
from fairlane.instants import aware
from fairlane.options import span_ms
from fairlane.outcomes import reference_json, result_json
from fairlane.registry import Registry
from fairlane.store import Store

MIN_LEASE_S: Final = 0.1
MAX_LEASE_S: Final = 86_400.0


def lease_ms_of(lease: object) -> int:
    """Return a lease in milliseconds.

    Raises:
        InvalidValue: It is no number of seconds from 0.1 to a day.
    """
    return round(number("lease", lease, least=MIN_LEASE_S, most=MAX_LEASE_S) * 1000)


class Puller(Home, Protocol):
    """Who made the claim: the client, as far as a claim needs it."""

    @property
    def clock(self) -> Clock:
        """Where instants come from."""
        ...

    @property
    def rng(self) -> random.Random:
        """Source of the jitter of retries."""
        ...

    @property
    def registry(self) -> Registry:
        """The tasks that are known here."""
        ...

    def retry_of(self, task: str) -> Retry:
        """Return when failures of a task are tried again; the default where the task is not known."""
        ...


class PulledClaim(Homed[Puller]):
    """The right to run one job until its lease ends. fairlane never renews it: call :meth:`heartbeat`.

    Say once how the run ended: :meth:`ack`, :meth:`nack`, :meth:`dead`, :meth:`snooze`, :meth:`cancelled` or
    :meth:`release`. Each call raises :class:`~fairlane.errors.LeaseLost` when the claim is no longer the job's current
    one; then stop working on it.

    Attributes:
        job: A handle on the job.
        task: Name of the task to run.
        args: Its arguments, as plain JSON values.
        saved: The last checkpoint of the job, or None.
        attempt: This run's number, from 1; in the verify phase that of the run whose work is checked.
        fence: Number of the claim; it grows with every claim of the job.
        phase: ``"process"``, or ``"verify"``: then the run is a check, which ends with :meth:`ack` (the work is done),
            :meth:`pending` or :meth:`reject`.
        reference: What the other system calls the work, in the verify phase; as plain JSON values.
        lease_expires_at: When the lease ends unless it is renewed, UTC.
    """

    __slots__ = (
        "_claim", "_lease_ms", "_since", "args", "attempt", "fence", "job", "lease_expires_at",
        "phase", "reference", "saved", "task",
    )  # fmt: skip

    def __init__(self, home: Puller, claim: Claim, *, lease_ms: int, run_s: float = 0.0) -> None:
        super().__init__(home)
        self._claim = claim
        self._lease_ms = lease_ms
        self._since = home.clock.monotonic() - run_s
        self.job: Job[Any] = Job(home, claim.id)
        self.task: str = claim.task
        self.args: dict[str, Any] = msgspec.json.decode(claim.args)
        self.saved: Any = None if claim.checkpoint is None else msgspec.json.decode(claim.checkpoint)
        self.attempt: int = claim.attempt
        self.fence: int = claim.fence
        self.phase: Phase = claim.phase
        self.reference: Any = None if claim.reference is None else msgspec.json.decode(claim.reference)
        self.lease_expires_at = aware(claim.deadline_ms)

    def __repr__(self) -> str:
        return f"<PulledClaim {self.fence} of {self.task} {self.id}>"

    @property
    def id(self) -> UUID:
        """The job's id."""
        return self._claim.uuid

    @property
    def seq(self) -> int:
        """The job's number in the store."""
        return self._claim.seq

    @property
    def queue(self) -> str:
        """Name of the job's queue."""
        return self._claim.start.lane.queue

    @property
    def tenant(self) -> str:
        """On whose behalf it runs."""
        return self._claim.start.lane.tenant

    @property
    def tier(self) -> Tier:
        """How urgent it was at the start."""
        return Tier(self._claim.start.lane.tier)

    @property
    def trace(self) -> str | None:
        """The trace context handed on with the job."""
        return self._claim.trace

    # ------------------------------------------------------------------ while it runs

    @twin
    def heartbeat(self) -> Steps[Literal["cancel", "preempt"] | None]:
        """Renew the lease for its full length, and learn whether somebody wants the run to stop.

        Returns:
            None, or ``"cancel"`` (then call :meth:`cancelled`) or ``"preempt"`` (then call :meth:`release`).

        Raises:
            LeaseLost: The claim is no longer the job's current one.
        """
        claim = self._claim
        held = [(claim.seq, claim.fence)]
        beats, now_ms = yield from write(
            lambda store, now_ms: (store.heartbeat(held, lease_ms=self._lease_ms, now_ms=now_ms), now_ms), light=True
        )
        answer = beats[0].answer
        if answer == "lost":
            raise LeaseLost(claim.uuid, claim.fence)
        self.lease_expires_at = aware(now_ms + self._lease_ms)
        return None if answer == "ok" else answer

    aheartbeat = later(heartbeat)

    @twin
    def save(self, value: object) -> Steps[None]:
        """Store where the run is, so that the next one can go on from there: it finds it as ``claim.saved``.

        Args:
            value: JSON values, at most 256 KiB as text.

        Raises:
            InvalidJob: The value is not storable; the message names the path of the offending part.
            LeaseLost: The claim is no longer the job's current one.
        """
        body = encode(value, what="checkpoint", max_bytes=MAX_CHECKPOINT_BYTES)
        yield from self._save(None, body)
        self.saved = msgspec.json.decode(body)

    asave = later(save)

    @twin
    def progress(self, share: float, note: str = "") -> Steps[None]:
        """Tell how far the run is.

        Args:
            share: Part of the work that is done, 0 to 1.
            note: A few words for people; cut at 1,024 bytes.

        Raises:
            InvalidValue: ``share`` is outside the range given above.
            LeaseLost: The claim is no longer the job's current one.
        """
        share = number("share", share, least=0, most=1)
        told = {"share": share, "note": sanitised(str(note), MAX_NOTE_BYTES)}
        yield from self._save(msgspec.json.encode(told).decode(), None)

    aprogress = later(progress)

    def _save(self, progress: str | None, checkpoint: str | None) -> Steps[None]:
        claim = self._claim
        held = yield from write(
            lambda store, _: store.save(claim.seq, claim.fence, progress=progress, checkpoint=checkpoint), light=True
        )
        if not held:
            raise LeaseLost(claim.uuid, claim.fence)

    # ------------------------------------------------------------------ how it ended

    @twin
    def ack(self, result: object = None) -> Steps[None]:
        """The run succeeded: the job is completed.

        A task with a verify phase hands its work over: ``result`` is the reference that checks ask for. A check that
        is acknowledged has found the work done.

        Args:
            result: What it returned; what JSON cannot hold is made storable, see
                :func:`~fairlane.outcomes.result_json`. A reference is stored exactly or not at all.

        Raises:
            InvalidJob: The reference cannot be stored; nothing was.
            LeaseLost: The claim is no longer the job's current one; nothing was stored.
        """
        claim = self._claim
        body = None if result is None else result_json(result)

        def made(store: Store, now_ms: int) -> Settlement:
            del now_ms
            terms = store.verification(claim.task) if claim.phase == "process" else None
            if terms is not None:
                return handed_over(claim, terms, reference_json(result))
            return Settlement(seq=claim.seq, fence=claim.fence, kind="completed", result=body)

        yield from self._settle_as(made)

    aack = later(ack)

    @twin
    def pending(self) -> Steps[None]:
        """The check found the work not finished: it is checked again, or dead when its checks are used up.

        Raises:
            IllegalMove: It is no claim of a verify phase.
            LeaseLost: The claim is no longer the job's current one; nothing was stored.
        """
        claim = self._claim
        self._must_verify("be checked again")
        yield from self._settle_as(lambda store, _: checked_again(claim, _terms(store, claim)))

    apending = later(pending)

    @twin
    def reject(self, reason: object = "") -> Steps[None]:
        """The check found that the work failed: it is processed again while attempts remain, else the job is dead.

        Args:
            reason: Why; an exception or text.

        Raises:
            IllegalMove: It is no claim of a verify phase.
            LeaseLost: The claim is no longer the job's current one; nothing was stored.
        """
        claim, retry, rng = self._claim, self._home.retry_of(self.task), self._home.rng
        self._must_verify("be rejected")

        def made(store: Store, now_ms: int) -> Settlement:
            del store
            error = ErrorRecord(self.attempt, now_ms, "failure", REJECTED, _text(reason))
            return rejected(claim, retry, error, rng)

        yield from self._settle_as(made)

    areject = later(reject)

    def _must_verify(self, move: str) -> None:
        if self.phase != "verify":
            raise IllegalMove(self.id, "running in its process phase", move)

    @twin
    def nack(self, why: object, *, retry_in: float | None = None) -> Steps[None]:
        """The run failed: the job is tried again, or is dead when its attempts are used up.

        A check that failed says nothing about the work: the next check follows, unless checks are used up.

        Args:
            why: What happened; an exception or text.
            retry_in: When to try again, in seconds, 0 or more; None: as the task's ``Retry`` says.

        Raises:
            InvalidValue: ``retry_in`` is outside the range given above.
            LeaseLost: The claim is no longer the job's current one; nothing was stored.
        """
        asked_ms = None if retry_in is None else span_ms("retry_in", retry_in)
        retry = self._home.retry_of(self.task)
        raised = why if isinstance(why, BaseException) else None
        if self.phase == "verify" and retry.worth_another_try(raised):
            claim = self._claim
            yield from self._settle_as(
                lambda store, now_ms: checked_again(
                    claim, _terms(store, claim), error=self._record(why, now_ms), delay_ms=asked_ms
                )
            )
            return
        failures = self._claim.failures + 1
        delay_ms = retry.delay_ms(failures, raised, self._home.rng)
        if failures < retry.max_attempts and asked_ms is not None:
            delay_ms = asked_ms
        if self.phase == "verify":
            yield from self._settle("dead", error=why, reason=f"{type(why).__name__} is not tried again")
        elif delay_ms is not None:
            yield from self._settle("retry", error=why, delay_ms=delay_ms)
        elif failures >= retry.max_attempts:
            reason = f"failed {failures} times; max_attempts is {retry.max_attempts}"
            yield from self._settle("dead", error=why, reason=reason)
        else:
            yield from self._settle("dead", error=why, reason=f"{type(why).__name__} is not tried again")

    anack = later(nack)

    @twin
    def dead(self, why: object) -> Steps[None]:
        """The run failed for good: the job is dead, whatever attempts remain.

        Args:
            why: What happened; an exception or text.

        Raises:
            LeaseLost: The claim is no longer the job's current one; nothing was stored.
        """
        yield from self._settle("dead", error=why, reason=_text(why) or "no reason given")

    adead = later(dead)

    @twin
    def snooze(self, seconds: float) -> Steps[None]:
        """Put the job back for later, at no cost in attempts and with its place kept.

        Args:
            seconds: Wait before it may run again, in seconds; 0 or more.

        Raises:
            InvalidValue: ``seconds`` is outside the range given above.
            LeaseLost: The claim is no longer the job's current one; nothing was stored.
        """
        yield from self._settle("snoozed", delay_ms=span_ms("seconds", seconds))

    asnooze = later(snooze)

    @twin
    def cancelled(self, reason: str = "") -> Steps[None]:
        """End the job as cancelled: the answer to a heartbeat that said so, or the run's own wish.

        Raises:
            LeaseLost: The claim is no longer the job's current one; nothing was stored.
        """
        yield from self._settle("cancelled", reason=_text(reason) or "cancelled while it ran")

    acancelled = later(cancelled)

    @twin
    def release(self, *, preempted: bool = False) -> Steps[None]:
        """Give the job back unharmed: it waits in its old place, and the run counts for nothing.

        Args:
            preempted: Whether it gives way because a heartbeat said ``"preempt"``.

        Raises:
            LeaseLost: The claim is no longer the job's current one; nothing was stored.
        """
        yield from self._settle("released", preempted=preempted)

    arelease = later(release)

    def _settle(
        self,
        kind: Kind,
        *,
        delay_ms: int = 0,
        error: object = None,
        reason: str | None = None,
        preempted: bool = False,
    ) -> Steps[None]:
        claim = self._claim

        def made(store: Store, now_ms: int) -> Settlement:
            del store
            return Settlement(
                seq=claim.seq,
                fence=claim.fence,
                kind=kind,
                delay_ms=delay_ms,
                error=None if error is None else self._record(error, now_ms),
                reason=reason,
                preempted=preempted,
                checked=kind == "dead" and self.phase == "verify",
            )

        yield from self._settle_as(made)

    def _settle_as(self, made: Callable[[Store, int], Settlement]) -> Steps[None]:
        claim = self._claim
        run_us = max(0, round((self._home.clock.monotonic() - self._since) * 1e6))

        def op(store: Store, now_ms: int) -> list[bool]:
            settlement = msgspec.structs.replace(made(store, now_ms), run_us=run_us)
            return store.settle([settlement], now_ms)

        held = yield from write(op)
        if not held[0]:
            raise LeaseLost(claim.uuid, claim.fence)

    def _record(self, why: object, now_ms: int) -> ErrorRecord:
        kind = type(why).__name__ if isinstance(why, BaseException) else "Failed"
        check = self._claim.checks + 1 if self.phase == "verify" else 0
        return ErrorRecord(self.attempt, now_ms, "failure", kind, _text(why), check=check)


def _terms(store: Store, claim: Claim) -> Verification:
    """Return how a claim's work is checked; the defaults when no code says so any more."""
    return store.verification(claim.task) or Verification()


def resumed(home: Puller, record: JobRecord, fence: int, *, lease_ms: int, now_ms: int) -> PulledClaim:
    """Return a claim again that was handed out before, perhaps by another process: by its job and its fence.

    Its run time counts from the start that is on record.

    Args:
        home: Who answers for it now.
        record: The job as it is now.
        fence: The fence that its holder shows.
        lease_ms: Length of the lease that a heartbeat renews, in milliseconds.
        now_ms: The instant.

    Raises:
        LeaseLost: The claim is not the job's current one.
    """
    if record.state is not State.RUNNING or record.fence != fence:
        raise LeaseLost(record.uuid, fence)
    started_ms = record.started_at_ms or now_ms
    lane = record.lane
    claim = Claim(
        seq=record.seq,
        id=record.id,
        fence=fence,
        attempt=record.attempt,
        failures=record.failures,
        crashes=record.crashes,
        checks=record.checks,
        phase=record.phase,
        args=record.args,
        checkpoint=record.checkpoint,
        arrival_ms=record.arrival_ms,
        available_at_ms=record.available_at_ms or started_ms,
        started_at_ms=started_ms,
        deadline_ms=record.lease_expires_at_ms or now_ms,
        trace=record.trace,
        start=Start(lane, Place(record.arrival_ms, record.seq), record.express, record.rule or "shared", 0, 1),
        reference=record.reference,
    )
    return PulledClaim(home, claim, lease_ms=lease_ms, run_s=max(0, now_ms - started_ms) / 1000)


def _text(why: object) -> str:
    try:
        return sanitised(str(why), MAX_ERROR_BYTES)
    except Exception:  # noqa: BLE001  an exception whose __str__ raises must not spoil the settle
        return f"<{type(why).__qualname__}>"
