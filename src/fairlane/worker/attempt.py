"""One attempt: from a claim to what the store is told about it. Handlers run here and nowhere else."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import logging
import math
import os
from collections.abc import Callable, Coroutine
from typing import Any, Final, Protocol

from fairlane.clock import Clock
from fairlane.context import Context, Transaction
from fairlane.domain.jobs import Claim, ErrorRecord, Settlement
from fairlane.domain.tiers import TIERS
from fairlane.errors import ConfigError, LeaseLost
from fairlane.hooks import Moment
from fairlane.outcomes import StopRequested, Verified
from fairlane.owner import Owner
from fairlane.tasks import Task
from fairlane.tracing import Tracer
from fairlane.verifying import Check
from fairlane.worker.block import Block
from fairlane.worker.logs import running
from fairlane.worker.records import led_to, type_name
from fairlane.worker.saves import Saved, Saves
from fairlane.worker.verdict import STRENGTH, Ending, Judge, Stop, bad_arguments

NEVER: Final = math.inf
NO_CONTEXT: Final = Context()
"""What a handler that takes no context is called with, and never sees."""
AnyTask = Task[..., Any]  # Any: handlers take and return anything
Handler = AnyTask | Check
"""What runs one phase of a task."""
_UNITS: Final = 1_000_000

log = logging.getLogger("fairlane.worker")


class Crew(Protocol):
    """What an attempt needs of its worker."""

    owner: Owner
    clock: Clock
    judge: Judge

    def began(self, attempt: Attempt) -> None:
        """Take note that its handler is about to run; called in the handler's thread."""
        ...

    def interrupt(self, attempt: Attempt) -> None:
        """Cancel its coroutine, from any thread."""
        ...

    def in_loop(self) -> bool:
        """Whether the caller runs in the event loop's thread, which must not wait."""
        ...

    def wanted(self, moment: Moment, task: str) -> bool:
        """Whether a hook waits for this."""
        ...

    def fire(self, attempt: Attempt, moment: Moment) -> None:
        """Call the hooks of a moment, in this thread, which they may block; raises nothing."""
        ...

    def settled(self, attempt: Attempt) -> None:
        """Take note that it has settled itself; called in the handler's thread."""
        ...


class Attempt:
    """One run of a job in this worker. It is also the ``Holder`` behind the handler's context.

    Attributes:
        claim: The right to run it.
        task: What to run: the task, or its check.
        lapses_at: When the lease ends unless it is renewed, by the monotonic clock.
        renewed_at: When it was claimed or last renewed, likewise.
        tried_at: When the heartbeat last tried to renew it, likewise.
        moment_at: When the end of the lease was last put off because everything had stood still, likewise.
        times_out_at: When its time is up, likewise; infinite before it began and without a timeout.
        stop: Why it should stop, or None.
        begun: Whether its handler has been started.
        ended: Whether its handler has ended; from then on nothing changes any more.
        dropped: Whether its outcome interests nobody any more: the lease is lost, or was given back.
        end: How the handler ended, until the hooks were told.
        settlement: What the store is to be told; None until it has ended, and for a lost lease.
        rest: What is to be saved with the settlement.
        settling: Whether it ends its job itself just now, or has: its lease is its own affair.
        settled: Whether it has; the handler may go on.
        coroutine: The asyncio task that runs it, if one does.
    """

    __slots__ = (
        "_block",
        "_context",
        "_crew",
        "_process",
        "_saves",
        "_started",
        "_tracer",
        "begun",
        "claim",
        "coroutine",
        "dropped",
        "end",
        "ended",
        "lapses_at",
        "moment_at",
        "refusals",
        "renewed_at",
        "rest",
        "settled",
        "settlement",
        "settling",
        "stop",
        "task",
        "times_out_at",
        "tried_at",
    )

    def __init__(
        self,
        claim: Claim,
        task: Handler,
        crew: Crew,
        *,
        claimed_at: float,
        lapses_at: float,
        tracer: Tracer | None = None,
    ) -> None:
        self.claim = claim
        self.task = task
        self.lapses_at = lapses_at
        self.renewed_at = claimed_at
        self.tried_at = claimed_at
        self.moment_at = claimed_at
        self.times_out_at = NEVER
        self.stop: Stop | None = None
        self.begun = False
        self.ended = False
        self.dropped = False
        self.end: Ending | None = None
        self.settlement: Settlement | None = None
        self.rest: Saved | None = None
        self.settling = False
        self.settled = False
        self.coroutine: asyncio.Task[None] | None = None
        self.refusals = 0
        self._crew = crew
        self._process = os.getpid()
        self._saves: Saves | None = None
        self._block: Block | None = None
        self._context: Context | None = None
        self._started = 0.0
        self._tracer = tracer

    def __repr__(self) -> str:
        return f"<Attempt {self.claim.attempt} of {self.claim.task} {self.claim.uuid}>"

    # ------------------------------------------------------------------ what others ask of it

    def tell(self, stop: Stop, *, interrupt: bool = True) -> None:
        """Ask the handler to stop; safe from any thread, and again.

        Args:
            stop: Why. A stronger reason replaces a weaker one, and never the other way round.
            interrupt: Whether an asynchronous handler is cancelled; a synchronous one finds out by ``should_stop``.
        """
        if self.ended or STRENGTH[stop] < STRENGTH[self.stop]:
            return
        again = stop == self.stop
        self.stop = stop
        if stop == "lost":
            self.dropped = True
        if interrupt and not again:
            self.interrupt()

    def interrupt(self) -> None:
        """Cancel the coroutine of an asynchronous handler, whatever it was told before; safe from any thread."""
        if self.task.is_async:
            self._crew.interrupt(self)

    def stopping(self) -> str | None:
        """Return why the handler should stop, or None."""
        return self.stop

    def save(self, progress: str | None, checkpoint: str | None) -> None:
        """Store progress or a checkpoint.

        Progress is stored soon; a checkpoint on return, except for a call from the event loop, which cannot wait:
        there it is stored soon too (``await ctx.acheckpoint(…)`` waits).

        Raises:
            LeaseLost: The claim is no longer the job's current one.
        """
        if self.dropped or self.ended or self.settled:
            raise LeaseLost(self.claim.uuid, self.claim.fence)
        if (
            self._block is not None
        ):  # part of the transaction, whose end is the job's: a checkpoint is of no use any more
            self._block.progress = progress or self._block.progress
            return
        if self._saves is None:
            self._saves = Saves(self._crew.owner, self.claim, self._lease_lost)
        saved = Saved(progress, checkpoint)
        if (progress is not None and checkpoint is None) or self._crew.in_loop():
            self._saves.put(saved)
        else:
            self._saves.put_and_wait(saved)

    def _lease_lost(self) -> None:
        if not self.settling:  # else what was saved came behind the end, or the end finds out
            self.tell("lost")

    # ------------------------------------------------------------------ ending its job itself

    def transaction(self, result: Callable[[], object]) -> Transaction:
        """Return a transaction that ends the job with its commit; see :class:`~fairlane.context.Holder`."""
        if self.task.terms is not None and self.claim.phase == "process":
            raise ConfigError(
                f"task {self.task.name!r} has a verify phase: when it has processed a job it hands it over, which ends "
                "nothing that could be committed with your writes; its check can use ctx.transaction()"
            )
        return Block(self, self._crew.owner.store.lend(), result)

    def _must_be_one(self) -> None:
        if self.settled:
            raise ConfigError("ctx.transaction() has ended this job already")
        if self._block is not None:
            raise ConfigError("ctx.transaction() is open already; one commit ends the job")

    def in_loop(self) -> bool:
        """Whether the caller runs in the worker's event loop, which must not wait."""
        return self._crew.in_loop()

    def now_ms(self) -> int:
        """Return the instant."""
        return self._crew.clock.now_ms()

    def enter(self, block: Block) -> None:
        """Take note that a transaction begins that is to end the job.

        Raises:
            ConfigError: There is, or was, another one.
            LeaseLost: The claim is no longer the job's current one.
        """
        self._must_be_one()
        if self.dropped:
            raise LeaseLost(self.claim.uuid, self.claim.fence)
        self._block = block

    def leave(self) -> None:
        """Take note that it is over."""
        self._block = None
        self.settling = self.settled

    def about_to_settle(self, value: object) -> Settlement:
        """Return how the job ends when the transaction is committed now; the heartbeat leaves it alone from here on.

        Raises:
            LeaseLost: The claim is no longer the job's current one.
            StopRequested: The run's time is over: it failed.
        """
        if self.dropped:
            raise LeaseLost(self.claim.uuid, self.claim.fence)
        if self.stop == "timeout":
            raise StopRequested(self.stop)
        self.settling = True
        end = self._ending(value if self.task.terms is None else Verified(value), None, None)
        settlement = self._crew.judge(self.claim, self.task.retry, end, self.now_ms())
        assert settlement.kind == "completed", "it has returned, in its time, and hands nothing over"
        self.end = end
        return settlement

    def has_settled(self, settlement: Settlement) -> None:
        """Take note that the job has ended with a commit; the handler may go on."""
        self.settlement = settlement
        self.settled = True
        if self._saves is not None:
            self._saves.close()
        self._crew.settled(self)

    # ------------------------------------------------------------------ running

    def run(self) -> None:
        """Run a synchronous handler to its end, in this thread; raises nothing."""
        contextvars.Context().run(self._run if self._tracer is None else self._run_traced)

    def _run_traced(self) -> None:
        assert self._tracer is not None
        with self._tracer.running(self):
            self._run()

    def _run(self) -> None:
        try:
            if self._crew.wanted("start", self.claim.task):
                self._crew.fire(self, "start")
            arguments, ctx = self._begin()
            value = self.task.invoke(arguments, ctx)
            if inspect.iscoroutine(value):
                value.close()
                raise TypeError(f"task {self.task.name!r} is no `async def` and returned a coroutine")
        except BaseException as error:  # noqa: BLE001  whatever a handler does must not end the worker
            self.finish(None, error)
        else:
            self.finish(value, None)

    def run_async(self) -> Coroutine[Any, Any, None]:  # Any: as the event loop has it
        """Run an asynchronous handler to its end, as an asyncio task of its own; raises nothing."""
        return self._run_async() if self._tracer is None else self._run_async_traced()

    async def _run_async_traced(self) -> None:
        assert self._tracer is not None
        with self._tracer.running(self):
            await self._run_async()

    async def _run_async(self) -> None:
        try:
            if self._crew.wanted("start", self.claim.task):
                await asyncio.to_thread(self._crew.fire, self, "start")
            arguments, ctx = self._begin()
            value = await self.task.invoke(arguments, ctx)
        except BaseException as error:  # noqa: BLE001  as above; a cancelled handler ends here too
            self.finish(None, error)
        else:
            self.finish(value, None)

    def _begin(self) -> tuple[dict[str, Any], Context]:  # Any: the handler's own arguments
        """Return what to call the handler with, and start its time."""
        task, crew = self.task, self._crew
        running.set(self.claim)
        self.begun = True
        self._started = crew.clock.monotonic()
        if self.stop is not None:  # asked to stop before it began
            raise StopRequested(self.stop)
        try:
            arguments = task.arguments_of(self.claim)
        except Exception as error:  # a type's own code may raise other things than InvalidJob
            raise bad_arguments(task.name, error) from error
        context = NO_CONTEXT
        if task.context_parameter is not None:
            context = self._context = self._new_context()
        if task.timeout_ms is not None:
            self.times_out_at = self._started + task.timeout_ms / 1000
            crew.began(self)
        return arguments, context

    def _new_context(self) -> Context:
        claim = self.claim
        lane = claim.start.lane
        return Context(
            self,
            job_id=claim.uuid,
            task=claim.task,
            queue=lane.queue,
            tenant=lane.tenant,
            tier=TIERS[lane.tier],
            attempt=claim.attempt,
            phase=claim.phase,
            check=claim.checks + 1 if claim.phase == "verify" else 0,
            checkpoint=claim.checkpoint,
        )

    def finish(self, value: object, error: BaseException | None) -> None:
        """Take what the handler returned or raised, once; called in the handler's thread."""
        if os.getpid() != self._process:
            # A child that the handler forked returns here as if it were the worker. It is none: it has no other thread,
            # would wait for ever, and the run is its parent's to end.
            os._exit(0 if error is None else 1)
        if self.ended:
            return
        if self.settled:
            self._finish_after_settling(value, error)
            return
        seconds = self._seconds()
        stop = self.stop
        timeout_ms = self.task.timeout_ms
        if stop == "timeout" and timeout_ms is not None and seconds * 1000 < timeout_ms:
            stop = None  # it was told while it ended in time
        self.ended = True
        if self._saves is not None:
            self.rest = self._saves.close()
        if stop == "lost":
            return
        end = self._ending(value, error, stop)
        self._context = None
        self.end = end
        self.settlement = self._judged(end)

    def _finish_after_settling(self, value: object, error: BaseException | None) -> None:
        self.ended = True
        self._context = None
        if error is not None and not led_to(error, (StopRequested, asyncio.CancelledError)):
            log.error("failed_after_its_job job=%s error=%s", self.claim.uuid, type_name(error), exc_info=error)
        elif value is not None:
            log.warning(
                "result_dropped job=%s: ctx.transaction() has ended it; ctx.set_result says what its result is",
                self.claim.uuid,
            )

    def _seconds(self) -> float:
        return self._crew.clock.monotonic() - self._started if self.begun else 0.0

    def _ending(self, value: object, error: BaseException | None, stop: Stop | None) -> Ending:
        units = None if self._context is None else self._context.charged
        return Ending(
            value=value,
            error=error,
            stop=stop,
            run_us=max(0, round(self._seconds() * 1_000_000)),
            units_us=None if units is None else round(units * _UNITS),
            timeout_ms=self.task.timeout_ms,
            terms=self.task.terms,
        )

    def _judged(self, end: Ending) -> Settlement:
        try:
            return self._crew.judge(self.claim, self.task.retry, end, self._crew.clock.now_ms())
        except BaseException as error:  # noqa: BLE001  no memory left, or an exception that breaks whoever looks at it
            log.error("attempt_unreadable job=%s error=%s", self.claim.uuid, type_name(error))
            record = ErrorRecord(self.claim.attempt, self._crew.clock.now_ms(), "crash", type_name(error))
            return Settlement(
                seq=self.claim.seq, fence=self.claim.fence, kind="crashed", run_us=end.run_us, error=record
            )


Done = Callable[[Attempt], None]
"""Takes an attempt whose handler has ended."""
