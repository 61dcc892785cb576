"""``ctx.transaction()``: a handler's own writes and its job's end, in one commit.

What ends a job here is what would end it after the handler has returned: the fence is tested, the run is charged, those
who wait for it are told, hooks are called. Only when differs, and so the worker must not do it again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from fairlane.domain.jobs import Settlement
from fairlane.errors import ConfigError, LeaseLost
from fairlane.failpoints import failpoint
from fairlane.outcomes import StopRequested
from fairlane.store.lending import Loan

if TYPE_CHECKING:
    from fairlane.worker.attempt import Attempt

T = TypeVar("T")

log = logging.getLogger("fairlane.worker")


class Block:
    """One ``with ctx.transaction()``, for one attempt; it can be entered once.

    Attributes:
        progress: What the run has said in it about how far it is, as JSON; None: nothing.

    Args:
        attempt: The run.
        loan: The connection.
        result: Returns what the job's result is to be.
    """

    def __init__(self, attempt: Attempt, loan: Loan, result: Callable[[], object]) -> None:
        self.progress: str | None = None
        self._attempt = attempt
        self._loan = loan
        self._result = result

    # ------------------------------------------------------------------ blocking

    def __enter__(self) -> Any:  # Any: a connection of the driver's own type
        """Begin the transaction and return its connection.

        Raises:
            ConfigError: It is a coroutine's to wait for (``async with``), or the job cannot end in one.
            LeaseLost: The claim is no longer the job's current one.
            StoreBusy, StoreError: The store cannot lend a connection.
        """
        if self._attempt.in_loop():
            raise ConfigError("a coroutine enters ctx.transaction() with `async with`: it would hold up all others")
        self._attempt.enter(self)
        try:
            return self._loan.begin()
        except BaseException:
            self._attempt.leave()
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the job and commit, or roll everything back when something was raised.

        Raises:
            LeaseLost: The claim is no longer the job's current one; everything is rolled back.
            StopRequested: The run's time is over; likewise.
            StoreError: The store could not do it; where its connection ended with the commit, the message says so.
        """
        try:
            settlement = None
            try:
                settlement = self._settlement(error)
            finally:
                if settlement is None:
                    self._loan.undo()
            if settlement is None:
                return
            failpoint("before_block_commit")
            now_ms = self._attempt.now_ms()
            self._take(settlement, self._loan.settle(settlement, progress=self.progress, now_ms=now_ms))
        finally:
            self._attempt.leave()

    # ------------------------------------------------------------------ awaited

    async def __aenter__(self) -> Any:  # Any: as for __enter__
        """Begin the transaction and return its connection; see :meth:`__enter__`."""
        self._attempt.enter(self)
        try:
            return await self._loan.abegin()
        except BaseException:
            self._attempt.leave()
            raise

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the job and commit, or roll everything back; see :meth:`__exit__`."""
        try:
            settlement = None
            try:
                settlement = self._settlement(error)
            finally:
                if settlement is None:
                    await _to_its_end(self._loan.aundo())
            if settlement is None:
                return
            failpoint("before_block_commit")
            now_ms = self._attempt.now_ms()
            await _to_its_end(self._asettle(settlement, now_ms))
        finally:
            self._attempt.leave()

    async def _asettle(self, settlement: Settlement, now_ms: int) -> None:
        self._take(settlement, await self._loan.asettle(settlement, progress=self.progress, now_ms=now_ms))

    # ------------------------------------------------------------------ both

    def _settlement(self, error: BaseException | None) -> Settlement | None:
        """Return how the job is to end; None: the block was left by an error.

        Raises:
            LeaseLost, StopRequested: As :meth:`__exit__`, when everything is rolled back.
        """
        if error is not None:
            return None
        try:
            return self._attempt.about_to_settle(self._result())
        except (LeaseLost, StopRequested) as refusal:
            refusal.add_note("everything in ctx.transaction() was rolled back")
            raise

    def _take(self, settlement: Settlement, kept: bool) -> None:
        attempt = self._attempt
        if kept:
            failpoint("after_block_commit")
            attempt.has_settled(settlement)
            return
        attempt.tell("lost", interrupt=False)
        lost = LeaseLost(attempt.claim.uuid, attempt.claim.fence)
        lost.add_note("everything in ctx.transaction() was rolled back")
        raise lost


async def _to_its_end(steps: Coroutine[Any, Any, T]) -> T:
    """Await something to its end also when the coroutine is cancelled meanwhile, who is told so only then.

    A commit that was sent cannot be called back: whoever went away would not know what became of it.
    """
    doing = asyncio.ensure_future(steps)
    cancelled: asyncio.CancelledError | None = None
    while not doing.done():
        try:
            await asyncio.wait((doing,))
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is None:
        return doing.result()
    if (failed := doing.exception()) is not None:
        log.warning("transaction_failed error=%r", failed)
    raise cancelled
