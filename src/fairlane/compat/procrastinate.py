"""Procrastinate's calls on fairlane: ``from fairlane.compat.procrastinate import App, RetryStrategy``.

``connector=`` takes a ``Fairlane`` or the URL of a store; workers are ``fairlane worker proj:app.fairlane``. Guide:
docs/moving-over.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from functools import partial
from typing import Any, NoReturn, Self, cast
from uuid import UUID

from fairlane import handles
from fairlane.app import Fairlane
from fairlane.compat import _common as common
from fairlane.compat import _words as words
from fairlane.compat._procrastinate_run import JobContext, RetryStrategy, RunningJob
from fairlane.declarations import AnyTask, module_of
from fairlane.domain.jobs import NewJob
from fairlane.domain.schedules import Overlap
from fairlane.errors import ConfigError
from fairlane.worker import Worker

__all__ = ["AlreadyEnqueued", "App", "Deferrer", "JobContext", "RetryStrategy", "RunningJob", "Task"]

_DEFER = ("lock", "queueing_lock", "priority", "queue")


class AlreadyEnqueued(Exception):
    """A job with this queueing lock waits already."""


class Deferrer:
    """A task, or the name of one, with options for the jobs to come."""

    def __init__(self, app: App, name: str, given: common.Options) -> None:
        options = {name: value for name, value in given.items() if value is not None}
        self._app = app
        self._name = name
        self._kwargs: Mapping[str, Any] = options.pop("task_kwargs", {})
        self._lock: str | None = options.pop("lock", None)
        self._key: str | None = options.pop("queueing_lock", None)
        plan: dict[str, Any] = {}
        for theirs, ours in (("queue", "queue"), ("schedule_at", "scheduled_at"), ("connection", "conn")):
            if theirs in options:
                plan[ours] = options.pop(theirs)
        if "schedule_in" in options:
            plan["delay"] = timedelta(**options.pop("schedule_in")).total_seconds()
        if "priority" in options:
            plan["tier"] = common.tier_of("configure()", options.pop("priority"), app.tiers)
        common.refuse("configure()", options, {})
        if self._lock is not None:
            plan["tenant"] = self._lock
        if self._key is not None:  # held by the one that waits, not by the one that runs
            plan |= {"dedup_key": self._key, "on_conflict": "successor"}
        self._plan = plan

    def _new(self, kwargs: Mapping[str, Any]) -> tuple[NewJob, Any]:
        plan = dict(self._plan)
        conn = plan.pop("conn", None)
        return self._app.fairlane.new(self._name, {**self._kwargs, **kwargs}, **plan), conn

    def _stored(self, job: handles.Job[Any]) -> UUID:
        if not job.created:
            raise AlreadyEnqueued(f"job {job.id} waits with the queueing lock {self._key!r} already")
        return job.id

    def defer(self, **kwargs: Any) -> UUID:
        """Store a job with these arguments and return its id."""
        job, conn = self._new(kwargs)
        if self._lock is not None and self._app.is_new(self._lock):
            self._app.fairlane.limits[lock_limit(self._lock)].set(max_running=1)
        return self._stored(self._app.fairlane.enqueue(job, conn=conn))

    async def defer_async(self, **kwargs: Any) -> UUID:
        """Do what :meth:`defer` does, without blocking the event loop."""
        job, conn = self._new(kwargs)
        if self._lock is not None and self._app.is_new(self._lock):
            await self._app.fairlane.limits[lock_limit(self._lock)].aset(max_running=1)
        return self._stored(await self._app.fairlane.aenqueue(job, conn=conn))


def lock_limit(lock: str) -> str:
    """Return the key of the named limit that a lock is."""
    return f"procrastinate:{lock}"


class Task:
    """A function under a name. ``fairlane`` is fairlane's own task, for ``tenant=``, ``after=`` and the like."""

    def __init__(self, fn: Callable[..., Any], app: App, given: common.Options) -> None:
        options = dict(given)
        self.func = fn
        self.app = app
        self.name = str(options.pop("name", None) or f"{module_of(fn)}.{fn.__qualname__}")
        retry = options.pop("retry", False)
        if retry is True:
            raise ConfigError(f"task {self.name!r}: retry=True tries for ever; say how often: retry=5")
        strategy = retry if isinstance(retry, RetryStrategy) else RetryStrategy(max_attempts=int(retry))
        handler = common.with_first(fn, JobContext) if options.pop("pass_context", False) else fn
        self._defaults: dict[str, Any] = {name: options.pop(name) for name in _DEFER if name in options}
        self.lock: str | None = self._defaults.get("lock")
        self.queueing_lock: str | None = self._defaults.get("queueing_lock")
        common.refuse("@app.task", options, words.PROCRASTINATE_TASK)
        self.fairlane: AnyTask = app.fairlane.task(
            name=self.name,
            queue=self._defaults.get("queue", "default"),
            tier=common.tier_of("@app.task", self._defaults.get("priority", 0), app.tiers),
            retry=strategy.delays(),
            limits=[lock_limit("{tenant}")],
        )(handler)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function, without any queue."""
        return cast("Callable[..., Any]", self.fairlane)(*args, **kwargs)

    def configure(self, **options: Any) -> Deferrer:
        """Return the task with options for the jobs to come."""
        return Deferrer(self.app, self.name, {**self._defaults, **options})

    def defer(self, **kwargs: Any) -> UUID:
        """Store a job with these arguments and return its id."""
        return self.configure().defer(**kwargs)

    async def defer_async(self, **kwargs: Any) -> UUID:
        """Do what :meth:`defer` does, without blocking the event loop."""
        return await self.configure().defer_async(**kwargs)

    def __getattr__(self, name: str) -> NoReturn:
        raise common.advice("Task", name, words.PROCRASTINATE_GETS)


class App:
    """An app over a fairlane store.

    Args:
        connector: The store's URL, or a ``Fairlane``.
        tiers: What numbers of ``priority`` mean; a higher one is more urgent there. Only 0 is known: NORMAL.
        options: Procrastinate's other options; they are refused.
    """

    def __init__(
        self, *, connector: Fairlane | str, tiers: common.Tiers | None = None, **options: Any
    ) -> None:  # Any: unchecked options
        common.refuse("App()", options, words.PROCRASTINATE_APP)
        self.fairlane = common.store_of("App(connector=...)", connector)
        self.tiers: common.Tiers = {0: "normal", **(tiers or {})}
        self._locks: set[str] = set()

    def is_new(self, lock: str) -> bool:
        """Return whether the store was not told of a lock yet, and take note that it is."""
        new = lock not in self._locks
        self._locks.add(lock)
        return new

    def task(self, fn: Callable[..., Any] | None = None, **options: Any) -> Any:  # Any: a Task, or a decorator
        """Make a task; a decorator, with options or without."""
        return partial(self.task, **options) if fn is None else Task(fn, self, options)

    def periodic(self, *, cron: str, periodic_id: str = "", **options: Any) -> Callable[[Task], Task]:
        """Run a task at the instants of a cron expression (UTC); a decorator above ``@app.task``."""
        common.refuse("periodic()", options, dict.fromkeys((*_DEFER, "task_kwargs"), "use @app.fairlane.cron"))

        def decorate(task: Task) -> Task:
            if "timestamp" in inspect.signature(task.func).parameters:
                raise ConfigError(
                    f"task {task.name!r} takes a timestamp: take it out; the job's tag tick:… names the instant"
                )
            if task.lock is not None:
                raise ConfigError(f"task {task.name!r} has a lock=: give @app.fairlane.cron(...) a tenant= instead")
            overlap: Overlap = "queue" if task.queueing_lock is None else "skip"
            name = f"{task.name}:{periodic_id}" if periodic_id else None
            self.fairlane.cron(cron, name=name, overlap=overlap)(task.fairlane)
            return task

        return decorate

    def configure_task(self, name: str, **options: Any) -> Deferrer:
        """Return a task by its name, with options for the jobs to come; its code need not be here."""
        return Deferrer(self, name, options)

    def run_worker(self, queues: Iterable[str] | None = None, name: str = "worker", **options: Any) -> None:
        """Run a worker in this thread, with ``wait=False`` until nothing is left; ``concurrency`` is 1 by default."""
        worker, until_idle = self._worker(queues, name, options)
        worker.run(until_idle=until_idle)

    async def run_worker_async(
        self, queues: Iterable[str] | None = None, name: str = "worker", **options: Any
    ) -> None:  # Any: unchecked options, as above
        """Do what :meth:`run_worker` does, without blocking the event loop; it stops when it is cancelled."""
        worker, until_idle = await asyncio.to_thread(self._worker, queues, name, options)
        try:
            await asyncio.to_thread(worker.start, until_idle=until_idle)
            await asyncio.to_thread(worker.join)
        finally:
            worker.request_stop()
            await asyncio.to_thread(worker.stop)

    def _worker(self, queues: Iterable[str] | None, name: str, options: dict[str, Any]) -> tuple[Worker, bool]:
        concurrency, wait = options.pop("concurrency", 1), options.pop("wait", True)
        grace = options.pop("shutdown_graceful_timeout", None)
        common.refuse("run_worker()", options, words.PROCRASTINATE_WORKER)
        return self.fairlane.worker(concurrency=concurrency, queues=queues, grace=grace, name=name), not wait

    def open(self) -> Self:
        """Return itself: the store is opened at the first use, and closed at the end of ``with``."""
        return self

    open_async = open

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.fairlane.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.fairlane.aclose()

    def __getattr__(self, name: str) -> NoReturn:
        raise common.advice("App", name, words.PROCRASTINATE_GETS)


def __getattr__(name: str) -> NoReturn:
    raise common.missing(__name__, name, words.PROCRASTINATE_NAMES)
