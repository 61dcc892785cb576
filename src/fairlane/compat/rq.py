"""RQ's calls on fairlane: ``from fairlane.compat.rq import Job, Queue, Retry, Worker, job``.

``connection=`` takes a ``Fairlane`` where RQ takes a Redis. A function is a task under its dotted name; RQ imports any
name that a job gives, fairlane runs what a worker was told of: ``Worker([...], functions=[send])``. Guide:
docs/moving-over.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta
from functools import cache
from typing import Any, Final, NoReturn, cast

import msgspec

from fairlane.app import Fairlane
from fairlane.compat import _common as common
from fairlane.compat import _words as words
from fairlane.compat._rq_job import MAX_RUNS, Dependency, Job, Retry, behind
from fairlane.context import Context
from fairlane.domain.tiers import Tier
from fairlane.errors import ConfigError
from fairlane.options import TierLike
from fairlane.signatures import Signature

__all__ = ["Dependency", "Job", "Queue", "Retry", "Worker", "job"]

_PARTS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_TIMEOUT_S: Final = 180.0
_RETRY: Final = common.Delays(max_attempts=MAX_RUNS, on=(), base=0.0, jitter=0.0)
"""Only what the job's own ``Retry`` lets be tried again is; see :func:`_task_of`."""


@cache
def _signature_of(fn: Callable[..., Any]) -> Signature | None:
    """Return what a function takes; None of one that takes arguments by position only, or does not say."""
    try:
        return Signature(fn, _name_of(fn))
    except (ConfigError, ValueError):  # RQ runs these too: their arguments stay plain JSON
        return None


def _name_of(fn: Callable[..., Any]) -> str:
    return f"{fn.__module__}.{fn.__qualname__}"


def _task_of(app: Fairlane, fn: Callable[..., Any], timeout: float | None) -> str:
    """Make a function the task of its dotted name, once, and return the name."""
    if fn.__module__ == "__main__":
        raise ConfigError("functions of the program itself have another name in a worker: put them into a module")
    name = _name_of(fn)
    held = app.registry.get(name)
    if held is not None:
        if timeout is not None and held.timeout_ms != round(timeout * 1000):
            raise ConfigError(f"{name} has a longest run already, {(held.timeout_ms or 0) / 1000:g} s; it has one only")
        return name
    takes = _signature_of(fn)

    def call(ctx: Context, args: list[Any], kwargs: dict[str, Any], retry: Retry | None = None) -> Any:
        try:
            if takes is None:
                value = fn(*args, **kwargs)
            else:
                value = takes.call(takes.decode(takes.bind(tuple(args), kwargs)), ctx)
            return asyncio.run(value) if inspect.iscoroutine(value) else value
        except Exception as error:
            delay = None if retry is None else retry.delay(ctx.attempt)
            if delay is None:
                common.never(error)
            else:
                common.again(error, delay)
            raise

    app.task(name=name, retry=_RETRY, timeout=_TIMEOUT_S if timeout is None else timeout)(call)
    return name


class Queue:
    """A queue of a store.

    Args:
        name: Its name.
        connection: The ``Fairlane``, or the URL of its store.
        default_timeout: Longest run of the functions that are enqueued here, in seconds or like ``"3m"``. A function
            has one only. None: what the function has, or RQ's 180 s.
        tier: How urgent its jobs are. RQ's workers take queues in the order in which they name them; here the tier
            says it, whatever worker it is.
        options: RQ's other options; they are refused.
    """

    def __init__(
        self,
        name: str = "default",
        connection: Fairlane | str | None = None,
        default_timeout: float | str | None = None,
        *,
        tier: TierLike = Tier.NORMAL,
        **options: Any,  # Any: unchecked options
    ) -> None:
        common.refuse("Queue()", options, words.RQ_QUEUE)
        self.name = name
        self.fairlane = common.store_of("Queue(connection=...)", connection)
        self.tier = Tier.of(tier)
        self.timeout = None if default_timeout is None else seconds(default_timeout)

    def enqueue(self, f: Callable[..., Any], *args: Any, **options: Any) -> Job:
        """Store a call of a function. Options of RQ are told from arguments by their names, as RQ does it."""
        return self._put(f, args, options, {})

    def enqueue_in(self, time_delta: timedelta, func: Callable[..., Any], *args: Any, **options: Any) -> Job:
        """Store a call for later."""
        return self._put(func, args, options, {"delay": time_delta.total_seconds()})

    def enqueue_at(self, datetime: datetime, f: Callable[..., Any], *args: Any, **options: Any) -> Job:
        """Store a call for an instant, a datetime with a timezone."""
        return self._put(f, args, options, {"scheduled_at": datetime})

    def __getattr__(self, name: str) -> NoReturn:
        raise common.advice("Queue", name, words.RQ_QUEUE_GETS)

    def _put(self, fn: Any, args: Sequence[Any], given: dict[str, Any], plan: dict[str, Any]) -> Job:
        if not callable(fn):
            raise ConfigError(f"enqueue takes the function itself, not {fn!r}: a name alone could be anything")
        ours = {name: given.pop(name) for name in ("retry", "ttl", "depends_on", "at_front") if name in given}
        theirs = {name: given[name] for name in given if name in words.RQ_ENQUEUE}
        common.refuse("enqueue()", theirs, words.RQ_ENQUEUE)
        if "args" in given or "kwargs" in given:
            args, given = given.pop("args", None) or args, given.pop("kwargs", None) or {}
        plan |= {"queue": self.name, "tier": self.tier, "expedite": bool(ours.get("at_front"))}
        if ours.get("ttl") is not None:
            plan["expires_in"] = seconds(ours["ttl"])
        if ours.get("depends_on"):
            plan |= behind(ours["depends_on"])
        name = _task_of(self.fairlane, fn, self.timeout)
        if (takes := _signature_of(fn)) is not None:
            takes.bind(tuple(args), given)  # refuses what does not fit
        stored: dict[str, Any] = {"args": list(args), "kwargs": given}
        if ours.get("retry") is not None:
            stored["retry"] = msgspec.to_builtins(ours["retry"])
        return Job(self.fairlane.enqueue(name, stored, **plan), self.fairlane)


class Worker:
    """A worker of some queues, of which each is more urgent than the next.

    Args:
        queues: A queue, or several; with several, their tiers must fall in that order.
        connection: As for :class:`Queue`; that of the queues by default.
        functions: What it may run besides what this process enqueued or decorated.
        options: RQ's other options; they are refused.
    """

    def __init__(
        self,
        queues: Queue | Sequence[Queue],
        name: str | None = None,
        *,
        connection: Fairlane | None = None,
        functions: Iterable[Callable[..., Any]] = (),
        **options: Any,  # Any: unchecked options
    ) -> None:
        common.refuse("Worker()", options, words.RQ_WORKER)
        self.queues = [queues] if isinstance(queues, Queue) else list(queues)
        for first, second in zip(self.queues, self.queues[1:], strict=False):
            if first.tier >= second.tier:
                raise ConfigError(
                    f"Worker: {first.name!r} stands before {second.name!r} and is no more urgent; give them tiers: "
                    f"Queue({first.name!r}, tier='high'), Queue({second.name!r}, tier='low')"
                )
        self.name = name
        self.fairlane = connection or self.queues[0].fairlane
        for fn in functions:
            _task_of(self.fairlane, fn, self.queues[0].timeout)

    def work(self, burst: bool = False, with_scheduler: bool = True, **options: Any) -> bool:
        """Run jobs, one at a time as RQ does it; later ones are always looked after."""
        common.refuse("work()", options, words.RQ_WORKER)
        common.refuse("work()", {"with_scheduler": with_scheduler}, {}, {"with_scheduler": True})
        self.fairlane.run_worker(
            until_idle=burst, concurrency=1, queues=[queue.name for queue in self.queues], name=self.name
        )
        return True


def job(
    queue: Queue | str, connection: Fairlane | None = None, timeout: float | str | None = None, **options: Any
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Give a function ``delay(...)``, and let workers of this process run it; a decorator."""
    where = queue if isinstance(queue, Queue) else Queue(queue, connection)
    if timeout is not None:
        where = Queue(where.name, where.fairlane, timeout, tier=where.tier)

    def decorate(fn: Callable[..., Any]) -> Callable[..., Any]:
        _task_of(where.fairlane, fn, where.timeout)

        def delay(*args: Any, **kwargs: Any) -> Job:
            return where.enqueue(fn, args=args, kwargs=kwargs, **options)

        cast("Any", fn).delay = delay
        return fn

    return decorate


def seconds(span: float | str) -> float:
    """Return a span like 90, ``"90"``, ``"1m"`` or ``"2h"`` in seconds.

    Example:
        >>> seconds("1m"), seconds(5)
        (60.0, 5.0)
    """
    text = str(span)
    return float(text[:-1]) * _PARTS[text[-1]] if text[-1:] in _PARTS else float(text)


def __getattr__(name: str) -> NoReturn:
    raise common.missing(__name__, name, words.RQ_NAMES)
