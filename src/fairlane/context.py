"""What a handler is told about its run, and how it talks back: progress, checkpoint, giving way."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import TracebackType
from typing import Any, Final, Protocol
from uuid import UUID

import msgspec

from fairlane.domain.checks import number
from fairlane.domain.jobs import Phase
from fairlane.domain.payloads import encode, sanitised
from fairlane.domain.policy import DEFAULT_QUEUE, DEFAULT_TENANT
from fairlane.domain.tiers import Tier
from fairlane.errors import ConfigError
from fairlane.outcomes import StopRequested

MAX_CHECKPOINT_BYTES: Final = 256 * 1024
MAX_NOTE_BYTES: Final = 1024
NOBODY: Final = UUID(int=0)
"""The job id of a context without a job."""


class Transaction(Protocol):
    """A transaction of the store's database that ends the job with its commit: for ``with`` and ``async with``."""

    def __enter__(self) -> Any: ...  # Any: a connection of the driver's own type

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None: ...

    async def __aenter__(self) -> Any: ...  # Any: likewise

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None: ...


class Holder(Protocol):
    """Who holds the claim of the run: the worker's side of a context. Called from the handler's thread."""

    def save(self, progress: str | None, checkpoint: str | None) -> None:
        """Store progress and checkpoint (JSON; None leaves it), or with both None only test the claim.

        Raises:
            LeaseLost: The claim is no longer the job's current one.
        """
        ...

    def stopping(self) -> str | None:
        """Return why the run should stop, or None; quick, it may be asked in a tight loop."""
        ...

    def transaction(self, result: Callable[[], object]) -> Transaction:
        """Return a transaction that ends the job with its commit.

        Args:
            result: Returns, at the end of it, what the job's result is to be.

        Raises:
            ConfigError: The job cannot end in one.
        """
        ...


class Context:
    """One run of a job, as its handler sees it. ``Context()`` is detached: it belongs to no job, and does nothing.

    Attributes:
        job_id: The job's id.
        task: Name of the task.
        queue: Name of the queue.
        tenant: On whose behalf it runs.
        tier: How urgent it was at the start.
        attempt: This run's number, from 1; in the verify phase that of the run whose work is checked.
        phase: ``"process"`` or ``"verify"``.
        check: Number of the check that this run is, from 1; 0 in the process phase.
        saved: The last checkpoint of the phase, of this run or an earlier one, as plain JSON values; None without one.
    """

    __slots__ = (
        "_holder", "_result", "_units", "attempt", "check", "job_id", "phase", "queue", "saved", "task", "tenant",
        "tier",
    )  # fmt: skip

    def __init__(
        self,
        holder: Holder | None = None,
        *,
        job_id: UUID = NOBODY,
        task: str = "",
        queue: str = DEFAULT_QUEUE,
        tenant: str = DEFAULT_TENANT,
        tier: Tier = Tier.NORMAL,
        attempt: int = 1,
        phase: Phase = "process",
        check: int = 0,
        checkpoint: str | None = None,
    ) -> None:
        self._holder = holder
        self._units: float | None = None
        self._result: object = None
        self.job_id = job_id
        self.task = task
        self.queue = queue
        self.tenant = tenant
        self.tier = tier
        self.attempt = attempt
        self.phase = phase
        self.check = check
        self.saved: Any = None if checkpoint is None else msgspec.json.decode(checkpoint)  # Any: what JSON holds

    def __repr__(self) -> str:
        return f"<Context of {self.task} {self.job_id}, attempt {self.attempt}>"

    @property
    def should_stop(self) -> bool:
        """Whether somebody wants this run to stop: cancelled, preempted, shut down, out of time, or the lease lost."""
        return self._holder is not None and self._holder.stopping() is not None

    def raise_if_stopping(self) -> None:
        """Give way if somebody wants this run to stop: the place for it is where the handler can stop safely.

        Raises:
            StopRequested: Somebody does; ``reason`` says why.
        """
        reason = None if self._holder is None else self._holder.stopping()
        if reason is not None:
            raise StopRequested(reason)

    def progress(self, share: float, note: str = "") -> None:
        """Tell how far the run is.

        Args:
            share: Part of the work that is done, 0 to 1.
            note: A few words for people; cut at 1,024 bytes.

        Raises:
            InvalidValue: ``share`` is outside the range given above.
            LeaseLost: The claim is no longer the job's current one: stop.
        """
        share = number("share", share, least=0, most=1)
        if self._holder is not None:
            note = sanitised(str(note), MAX_NOTE_BYTES)
            self._holder.save(_encoder.encode({"share": share, "note": note}).decode(), None)

    def checkpoint(self, value: object) -> None:
        """Store where the run is, so that the next one can go on from there: it finds it as ``ctx.saved``.

        Args:
            value: JSON values, at most 256 KiB as text.

        Raises:
            InvalidJob: The value is not storable; the message names the path of the offending part.
            LeaseLost: The claim is no longer the job's current one: stop.
        """
        body = encode(value, what="checkpoint", max_bytes=MAX_CHECKPOINT_BYTES)
        if self._holder is not None:
            self._holder.save(None, body)
        self.saved = msgspec.json.decode(body)

    def heartbeat(self) -> None:
        """Make sure that this run still holds the job; its lease is renewed without it.

        Raises:
            LeaseLost: The claim is no longer the job's current one: stop.
        """
        if self._holder is not None:
            self._holder.save(None, None)

    def charge(self, units: float) -> None:
        """Add to what this run costs its tenant under ``charge="cost"``; without any call its mean is charged.

        Args:
            units: Tokens, pages, whatever the costs are counted in; 0 to 1e12.

        Raises:
            InvalidValue: ``units`` is outside the range given above.
        """
        self._units = (self._units or 0.0) + number("units", units, least=0, most=1e12)

    @property
    def charged(self) -> float | None:
        """What was charged so far, in units; None without any call of :meth:`charge`."""
        return self._units

    def transaction(self, result: object = None) -> Transaction:
        """Open a transaction of the store's database whose commit ends the job: your writes and its end, or neither.

        For ``with``, and in a coroutine for ``async with``. It gives a connection: psycopg's (``AsyncConnection`` for
        ``async with``), or sqlite3's on the same file. When the block is left, the job is completed and everything is
        committed together; leave the commit to it. An error that leaves the block rolls everything back and is raised.
        After it the job has ended: what the handler returns is not stored, and a failure is only logged.

        On SQLite the block holds the file's write lock: keep it short, and call nothing of the app in it that writes;
        jobs are enqueued with ``conn=``.

        Args:
            result: The job's result; or say it in the block, with :meth:`set_result`.

        Raises:
            ConfigError: The context belongs to no job; the task has a verify phase, whose start ends no job; or the
                job has such a transaction already.
            LeaseLost: On leaving: the claim is no longer the job's current one.
            StopRequested: On leaving: the run's time is over.
            StoreError: The store could not do it; where its connection ended with the commit, the message says so.
        """
        if self._holder is None:
            raise ConfigError("this context belongs to no job, so there is no transaction that could end one")
        self._result = result
        return self._holder.transaction(lambda: self._result)

    def set_result(self, value: object) -> None:
        """Say what the job's result is to be, in a :meth:`transaction`; the last word counts.

        Args:
            value: The result, as a handler would return it.
        """
        self._result = value

    async def aprogress(self, share: float, note: str = "") -> None:
        """Do what :meth:`progress` does, without blocking the event loop."""
        await asyncio.to_thread(self.progress, share, note)

    async def acheckpoint(self, value: object) -> None:
        """Do what :meth:`checkpoint` does, without blocking the event loop."""
        await asyncio.to_thread(self.checkpoint, value)

    async def aheartbeat(self) -> None:
        """Do what :meth:`heartbeat` does, without blocking the event loop."""
        await asyncio.to_thread(self.heartbeat)


_encoder = msgspec.json.Encoder()
