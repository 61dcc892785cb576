"""One thing done to many jobs: what would be done, starting it, and a handle on how far it is.

An operation is a row of the store. Every worker carries operations on, a bounded portion at a time, so it needs nobody
who waits for it; a program without workers carries it on itself with :meth:`Operation.run`.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, NamedTuple, Protocol, Unpack
from uuid import UUID

from fairlane.client import Client
from fairlane.clock import Clock, SystemClock
from fairlane.domain.checks import number, text, whole
from fairlane.domain.jobs import JobFilter
from fairlane.domain.operations import Action, OperationPlan, OperationRecord, OperationState
from fairlane.domain.tiers import Tier
from fairlane.errors import InvalidValue, OperationNotFound, WaitTimeout
from fairlane.faces import Faced, Homed, Steps, later, read, twin, wait, write
from fairlane.handles import Job
from fairlane.instants import aware
from fairlane.options import TierLike, new_id
from fairlane.shapes import instant
from fairlane.steering import MAX_REASON_BYTES
from fairlane.store import Counted, Store
from fairlane.views import MAX_PAGE, JobFilters, StateLike, job_filter

MAX_COUNTED: Final = 1_000_000
"""Jobs that are counted when an operation is started; its total is cut there."""
PREVIEW_COUNTED: Final = 10_000
SAMPLE: Final = 5
PORTION: Final = 200
"""Jobs that one transaction changes: it bounds how long others wait for the store."""
POLL_S: Final = 0.25
States = StateLike | tuple[StateLike, ...] | list[StateLike] | None


class Refused(NamedTuple):
    """A job that an operation left as it was.

    Attributes:
        job_id: Its id.
        reason: Why.
    """

    job_id: UUID
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """What an operation would mean at this moment; nothing has changed.

    Attributes:
        action: What would be done.
        count: How many jobs it would look at, counted as far as 10,000.
        more: Whether there are more than ``count``.
        sample: Some of them, the newest first.
    """

    action: Action
    count: int
    more: bool
    sample: tuple[Job[Any], ...]

    def __str__(self) -> str:
        return f"{self.count:,}{'+' if self.more else ''}"


class Home(Faced, Protocol):
    """Where handles come from: the client, as far as they need it."""

    @property
    def clock(self) -> Clock:
        """Where instants come from."""
        ...


class Operation(Homed[Home]):
    """A handle on one operation. Its fields are as last read: at its start, or by :meth:`refresh`.

    Workers carry it on; :meth:`run` does so in this thread. Each job is looked at once, oldest first, and only jobs
    that existed at its start are; what happens to a job and that it was counted are one transaction.
    """

    __slots__ = ("_record",)

    def __init__(self, home: Home, record: OperationRecord) -> None:
        super().__init__(home)
        self._record = record

    def __repr__(self) -> str:
        return f"<Operation {self.id} {self.action} {self.state} {self.done}/{self.total}>"

    # ------------------------------------------------------------------ fields

    @property
    def record(self) -> OperationRecord:
        """The operation as it is stored."""
        return self._record

    @property
    def id(self) -> UUID:
        """Its id, a UUIDv7."""
        return UUID(bytes=self._record.id)

    @property
    def action(self) -> Action:
        """What is done to each job."""
        return self._record.plan.action

    @property
    def state(self) -> str:
        """``running``, ``paused``, ``done`` or ``cancelled``."""
        return self._record.state.label

    @property
    def over(self) -> bool:
        """Whether it will do nothing more."""
        return self._record.state.over

    @property
    def total(self) -> int:
        """How many jobs it meant at its start, at most its limit; what became of them since is not in it."""
        return self._record.total

    @property
    def more(self) -> bool:
        """Whether there were more than ``total``: counting stops at a million."""
        return self._record.more

    @property
    def done(self) -> int:
        """Jobs that it changed."""
        return self._record.done

    @property
    def refused(self) -> int:
        """Jobs that it left as they were, because they refused: a live job holds the key, the express lane is full."""
        return self._record.refused

    @property
    def refusals(self) -> tuple[Refused, ...]:
        """The latest ten of these, with why."""
        return tuple(Refused(UUID(bytes=one.job), one.reason) for one in self._record.refusals)

    @property
    def progress(self) -> float:
        """The share of its jobs that it has looked at, from 0 to 1; 1 when it is over."""
        if self.over or not self.total:
            return 1.0 if self.over else 0.0
        return min(1.0, (self.done + self.refused) / self.total)

    @property
    def created_at(self) -> datetime:
        """When it was started, UTC."""
        return aware(self._record.created_at_ms)

    @property
    def ended_at(self) -> datetime | None:
        """When it was over, UTC."""
        return aware(self._record.ended_at_ms)

    def shown(self) -> dict[str, Any]:  # Any: ready for JSON
        """Return it ready for JSON: instants as ISO 8601, the tier and states by name."""
        plan = self._record.plan
        return {
            "id": str(self.id),
            "action": self.action,
            "which": _which(plan.which),
            "to": None if plan.tier is None else Tier(plan.tier).label,
            "rate": plan.rate,
            "limit": plan.limit,
            "state": self.state,
            "total": self.total,
            "more": self.more,
            "done": self.done,
            "refused": self.refused,
            "refusals": [{"id": str(one.job_id), "reason": one.reason} for one in self.refusals],
            "by": self._record.by,
            "reason": self._record.reason,
            "created_at": instant(self.created_at),
            "ended_at": instant(self.ended_at),
        }

    # ------------------------------------------------------------------ calls

    def _found(self, store: Store) -> OperationRecord:
        record = store.operation(self._record.id)
        if record is None:
            raise OperationNotFound(self.id)
        return record

    @twin
    def refresh(self) -> Steps[Operation]:
        """Read it anew and return it.

        Raises:
            OperationNotFound: It is over and forgotten.
        """
        self._record = yield from read(lambda store, _: self._found(store))
        return self

    arefresh = later(refresh)

    def _steer(self, state: OperationState, by: str) -> Steps[Operation]:
        text("by", by, empty=True)
        self._record = yield from write(
            lambda store, now_ms: store.steer_operation(self._record.id, state, by=by, now_ms=now_ms)
        )
        return self

    @twin
    def cancel(self, *, by: str = "") -> Steps[Operation]:
        """Leave the rest of its jobs as they are; what is done stays done. Return it.

        Raises:
            IllegalMove: It is done.
            OperationNotFound: It is forgotten.
        """
        return (yield from self._steer(OperationState.CANCELLED, by))

    acancel = later(cancel)

    @twin
    def pause(self, *, by: str = "") -> Steps[Operation]:
        """Let it do nothing until :meth:`resume`; return it.

        Raises:
            IllegalMove: It is over.
            OperationNotFound: It is forgotten.
        """
        return (yield from self._steer(OperationState.PAUSED, by))

    apause = later(pause)

    @twin
    def resume(self, *, by: str = "") -> Steps[Operation]:
        """Let it go on; return it.

        Raises:
            IllegalMove: It is over.
            OperationNotFound: It is forgotten.
        """
        return (yield from self._steer(OperationState.RUNNING, by))

    aresume = later(resume)

    @twin
    def join(self, timeout: float | None = None) -> Steps[Operation]:
        """Wait until it is over, carried on by workers, and return it.

        Args:
            timeout: Longest wait, in seconds, 0 or more; None waits for ever.

        Raises:
            WaitTimeout: It is not over in time; it is not affected.
            OperationNotFound: It is forgotten.
        """
        most_s = None if timeout is None else number("timeout", timeout, least=0)
        clock = SystemClock()
        until = None if most_s is None else clock.monotonic() + most_s
        while True:
            self._record = yield from read(lambda store, _: self._found(store))
            if self.over:
                return self
            left_s = POLL_S if until is None else min(POLL_S, until - clock.monotonic())
            if left_s <= 0:
                raise WaitTimeout(self.id, self.state, most_s or 0.0, what="operation")
            yield from wait(Future(), left_s)

    ajoin = later(join)

    @twin
    def run(self, told: Callable[[Operation], object] | None = None) -> Steps[Operation]:
        """Carry it on in this thread until it is over or somebody pauses it, at its rate; return it.

        Workers may carry it on at the same time; they share its rate and its jobs.

        Args:
            told: Called with it after each portion, for progress.

        Raises:
            OperationNotFound: It is forgotten.
        """

        def portion(store: Store, now_ms: int) -> OperationRecord:
            went = store.advance(now_ms, limit=PORTION, operation=self._record.id)
            return self._found(store) if went is None else went

        while True:
            self._record = yield from write(portion)
            if told is not None:
                told(self)
            if self._record.state is not OperationState.RUNNING:
                return self
            due_s = (self._record.due_at_ms - self._home.clock.now_ms()) / 1000
            if due_s > 0:
                yield from wait(Future(), min(due_s, POLL_S))

    arun = later(run)


class BulkClient(Client):
    """The client's calls about many jobs at once."""

    @twin
    def count(
        self,
        *,
        state: States = None,
        most: int = PREVIEW_COUNTED,
        **which: Unpack[JobFilters],
    ) -> Steps[Counted]:
        """Return how many jobs fit every argument given: ``count``, and ``more`` when counting stopped there.

        Args:
            state: A state, or several: any of them.
            most: Where counting stops, 1 to 1,000,000.
            which: See :class:`~fairlane.views.JobFilters`.

        Raises:
            InvalidValue: An argument breaks a rule.
        """
        meant = job_filter(state=state, now_ms=self.clock.now_ms(), **which)
        whole("most", most, least=1, most=MAX_COUNTED)
        return (yield from read(lambda store, _: store.count(meant, limit=most)))

    acount = later(count)

    @twin
    def preview(
        self,
        action: Action,
        *,
        state: States = None,
        to: TierLike | None = None,
        **which: Unpack[JobFilters],
    ) -> Steps[Preview]:
        """Return what :meth:`bulk` would mean with the same arguments, and change nothing.

        Args:
            action: As for :meth:`bulk`, like the rest.
            state: States that jobs must be in.
            to: The tier, for ``boost`` and ``set_tier``.
            which: What jobs must fit.

        Raises:
            InvalidValue: An argument breaks a rule.
        """
        meant = job_filter(state=state, now_ms=self.clock.now_ms(), **which)
        plan = plan_of(action, meant, to=to, rate=None, limit=None)

        def op(store: Store, _: int) -> Preview:
            counted = store.count(plan.which, limit=PREVIEW_COUNTED)
            sample = store.jobs(plan.which, limit=SAMPLE).jobs
            jobs = tuple(Job[Any](self, record.id, record=record) for record in sample)
            return Preview(action=action, count=counted.count, more=counted.more, sample=jobs)

        return (yield from read(op))

    apreview = later(preview)

    @twin
    def bulk(
        self,
        action: Action,
        *,
        state: States = None,
        to: TierLike | None = None,
        rate: float | None = None,
        limit: int | None = None,
        by: str = "",
        reason: str = "",
        **which: Unpack[JobFilters],
    ) -> Steps[Operation]:
        """Start an operation: one action on the jobs that fit every argument given. Return a handle on it.

        Workers carry it on; without one, call :meth:`Operation.run`. Jobs that are enqueued later are not meant, and
        one that refuses is counted and left as it is.

        Args:
            action: ``retry`` or ``discard`` dead jobs, ``cancel``, ``boost``, ``set_tier`` or ``expedite`` waiting
                ones; ``reverify`` jobs that died in their verify phase. ``cancel`` means running ones, and ``reverify``
                those that wait for a check, only when ``state`` says so.
            state: A state, or several: any of them. None: those that the action is for.
            to: The tier for ``boost`` and ``set_tier``; for ``retry``, the tier that jobs come back in.
            rate: Most jobs a second, over all processes, above 0; None: as fast as the store can.
            limit: Most jobs that are changed, the oldest first; 1 or more. None: all.
            by: Who does it.
            reason: Why, for the record; at most 1,024 bytes.
            which: See :class:`~fairlane.views.JobFilters`.

        Raises:
            InvalidValue: An argument breaks a rule, or nothing says which jobs are meant.
        """
        meant = job_filter(state=state, now_ms=self.clock.now_ms(), **which)
        if meant == JobFilter():
            raise InvalidValue(f"{action} changes jobs: say which ones, by queue, tenant, state and so on")
        return (yield from self.start(plan_of(action, meant, to=to, rate=rate, limit=limit), by=by, reason=reason))

    abulk = later(bulk)

    def start(self, plan: OperationPlan, *, by: str, reason: str) -> Steps[Operation]:
        """Count what a checked plan means, and begin it: the body of every call that starts an operation."""
        text("by", by, empty=True)
        text("reason", reason, max_bytes=MAX_REASON_BYTES, empty=True)
        operation = new_id()
        most = MAX_COUNTED if plan.limit is None else min(MAX_COUNTED, plan.limit)
        counted = yield from read(lambda store, _: store.count(plan.which, limit=most))
        record = yield from write(
            lambda store, now_ms: store.start_operation(
                operation, plan, counted=counted, by=by, reason=reason, now_ms=now_ms
            )
        )
        return Operation(self, record)

    @twin
    def operation(self, operation: UUID | str) -> Steps[Operation]:
        """Return a handle on an operation.

        Raises:
            OperationNotFound: There is no such operation, or it is forgotten.
            InvalidValue: ``operation`` is no id.
        """
        wanted = _operation_id(operation)
        record = yield from read(lambda store, _: store.operation(wanted))
        if record is None:
            raise OperationNotFound(operation)
        return Operation(self, record)

    aoperation = later(operation)

    @twin
    def operations(self, *, limit: int = 50) -> Steps[list[Operation]]:
        """Return the latest operations, newest first; the last thousand are kept.

        Raises:
            InvalidValue: ``limit`` is not from 1 to 1,000.
        """
        whole("limit", limit, least=1, most=MAX_PAGE)
        records = yield from read(lambda store, _: store.operations(limit=limit))
        return [Operation(self, record) for record in records]

    aoperations = later(operations)


def plan_of(
    action: Action, which: JobFilter, *, to: TierLike | None = None, rate: float | None = None, limit: int | None = None
) -> OperationPlan:
    """Return a checked plan.

    Raises:
        InvalidValue: A part of it breaks a rule.
    """
    tier = None if to is None else int(Tier.of(to))
    return OperationPlan(action=action, which=which, tier=tier, rate=rate, limit=limit).checked()


def _which(which: JobFilter) -> dict[str, Any]:  # Any: ready for JSON
    """Return what a filter says, in the words of :class:`~fairlane.views.JobFilters`."""
    ids, instants = which.ids, (which.enqueued_before_ms, which.ended_from_ms, which.ended_before_ms)
    told = {
        "state": [state.label for state in which.states or ()],
        **{name: getattr(which, name) for name in _SAME},
        "tier": None if which.tier is None else Tier(which.tier).label,
        "ids": None if ids is None else [str(UUID(bytes=one)) for one in ids],
        "bundle": None if which.bundle is None else str(UUID(bytes=which.bundle)),
        **dict(zip(("enqueued_before", "ended_after", "ended_before"), map(_told, instants), strict=True)),
        "q": which.text,
    }
    return {name: value for name, value in told.items() if value is not None}


_SAME: Final = ("queue", "task", "tenant", "tag", "fingerprint", "dedup_key", "error")


def _told(at_ms: int | None) -> str | None:
    return instant(aware(at_ms))


def _operation_id(value: object) -> bytes:
    if isinstance(value, UUID):
        return value.bytes
    try:
        return UUID(str(value)).bytes
    except ValueError:
        raise InvalidValue(f"an operation is named by its UUID, not {value!r}") from None
