"""Functions of the user that are called when runs start and end; one that fails is logged and harms nothing."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeVar, get_args
from uuid import UUID

from fairlane.domain.jobs import Kind, Phase
from fairlane.domain.policy import DEFAULT_QUEUE, DEFAULT_TENANT
from fairlane.domain.tiers import Tier
from fairlane.errors import InvalidValue
from fairlane.tracing import Tracer

Moment = Literal["start", "success", "failure", "dead", "finish"]
MOMENTS: Final[tuple[Moment, ...]] = get_args(Moment)

log = logging.getLogger("fairlane.hooks")


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """What a hook is told: one run, and how it ended.

    Attributes:
        moment: ``start`` (before the handler), ``success`` (the job is completed), ``failure`` (a run failed or
            crashed, whether or not the job is tried again), ``dead``, ``finish`` (the job has ended: completed, dead or
            cancelled; after the others).
        job_id: The job's id.
        task: Name of its task.
        queue: Name of its queue.
        tenant: On whose behalf it ran.
        tier: How urgent it was at the start.
        attempt: The run's number, from 1.
        phase: ``"process"`` or ``"verify"``.
        outcome: How the run ended; None at its start.
        result: What the handler returned, for ``success`` and ``finish``.
        error: What the handler raised, for ``failure``, ``dead`` and ``finish``; None for a crash in another process.
        reason: Why the job is dead or cancelled.
        run_s: How long the handler ran, in seconds.
    """

    moment: Moment
    job_id: UUID
    task: str
    queue: str = DEFAULT_QUEUE
    tenant: str = DEFAULT_TENANT
    tier: Tier = Tier.NORMAL
    attempt: int = 1
    phase: Phase = "process"
    outcome: Kind | None = None
    result: object = None
    error: BaseException | None = None
    reason: str | None = None
    run_s: float = 0.0


Hook = Callable[[Event], object]
"""A hook takes the event; what it returns is not looked at. It may be an ``async def`` function."""

H = TypeVar("H", bound=Hook)


class Hooks:
    """The hooks of an app: those for all tasks, then those of one task, each in the order of registration.

    Attributes:
        tracer: Who follows jobs from enqueue to attempt; None unless the app is instrumented.
    """

    def __init__(self) -> None:
        self._hooks: dict[tuple[Moment, str | None], list[Hook]] = {}
        self.tracer: Tracer | None = None

    def add(self, moment: Moment, hook: H, task: str | None = None) -> H:
        """Call ``hook`` from now on; return it, so that this can end a decorator.

        Args:
            moment: When to call it.
            hook: A function of one :class:`Event`.
            task: Only for the jobs of this task; None for all.

        Raises:
            InvalidValue: There is no such moment, or the hook cannot be called.
        """
        if moment not in MOMENTS:
            raise InvalidValue(f"moment {moment!r} is not one of {', '.join(MOMENTS)}")
        if not callable(hook):
            raise InvalidValue(f"a hook must be a function of one event, not {hook!r}")
        self._hooks.setdefault((moment, task), []).append(hook)
        return hook

    def wanted(self, moment: Moment, task: str) -> bool:
        """Return whether anybody wants to hear of this; quick, to save making the event."""
        hooks = self._hooks
        return bool(hooks) and ((moment, None) in hooks or (moment, task) in hooks)

    def fire(self, event: Event) -> None:
        """Call the hooks of an event, in a thread that may block: ``async def`` hooks run in a loop of their own.

        Never raises, except for what ends the process.
        """
        tasks: tuple[str | None, ...] = (None, event.task)
        for task in tasks:
            for hook in tuple(self._hooks.get((event.moment, task), ())):
                try:
                    answer = hook(event)
                    if inspect.isawaitable(answer):
                        asyncio.run(_awaited(answer))
                except Exception:
                    log.exception(
                        "hook_failed moment=%s job=%s task=%s hook=%r", event.moment, event.job_id, event.task, hook
                    )


async def _awaited(answer: Any) -> object:
    return await answer
