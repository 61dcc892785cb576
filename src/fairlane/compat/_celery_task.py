"""Celery's tasks, and what they get as ``self``, on fairlane's."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, NoReturn, cast

from fairlane.compat import _common as common
from fairlane.compat import _words as words
from fairlane.compat._celery_result import App, AsyncResult
from fairlane.context import Context
from fairlane.declarations import AnyTask, module_of
from fairlane.domain.policy import Rate
from fairlane.domain.tiers import Tier
from fairlane.errors import ConfigError

_ALWAYS: Final = {"acks_late": True, "reject_on_worker_lost": True, "track_started": True, "serializer": "json"}
_UNITS: Final = {"s": 1, "m": 60, "h": 3600}


class Retry(Exception):
    """The task asked to be tried again, with no error of its own."""


@dataclass(frozen=True, slots=True)
class Request:
    """The run: the job's id, and how many runs failed or crashed before."""

    id: str
    retries: int


class Run:
    """What a task made with ``bind=True`` gets as ``self``: the task, and this run of it."""

    def __init__(self, task: Task, ctx: Context) -> None:
        self._task = task
        self.context = ctx
        self.request = Request(str(ctx.job_id), ctx.attempt - 1)

    def __getattr__(self, name: str) -> Any:  # Any: an attribute of the task
        return getattr(self._task, name)

    def retry(
        self,
        *,
        exc: BaseException | None = None,
        countdown: float | None = None,
        throw: bool = True,
        **options: Any,  # Any: unchecked options
    ) -> BaseException:
        """Fail the run so that it is tried again while ``max_retries`` allows, and is dead with ``exc`` after that."""
        common.refuse("self.retry()", options, words.CELERY_CALL)
        error = exc or sys.exception() or Retry(f"{self._task.name} asked for another try")
        common.again(error, self._task.default_retry_delay if countdown is None else countdown)
        if throw:
            raise error
        return error


class Task:
    """A function under a name. ``fairlane`` is fairlane's own task, for ``tenant=`` and the like."""

    def __init__(self, fn: Callable[..., Any], given: common.Options) -> None:
        options = dict(given)
        self.__name__ = fn.__name__
        self.run = fn
        self.name = str(options.pop("name", None) or f"{module_of(fn)}.{fn.__name__}")
        self.bind = bool(options.pop("bind", False))
        kwargs = dict(options.pop("retry_kwargs", {}))
        self.max_retries: int = kwargs.pop("max_retries", options.pop("max_retries", 3))
        self.default_retry_delay: float = kwargs.pop("countdown", options.pop("default_retry_delay", 180))
        common.refuse("retry_kwargs", kwargs, words.CELERY_CALL)
        self._rate = _rate(options.pop("rate_limit", None))
        self._priority: int | None = options.pop("priority", None)
        self._retry = self._retries(options)
        self._queue: str = options.pop("queue", "default")
        self._time_limit: float | None = options.pop("time_limit", None)
        common.refuse("@app.task", options, words.CELERY_TASK, _ALWAYS)
        self._app: App | None = None
        self._told = False

    def _retries(self, options: dict[str, Any]) -> common.Delays:
        if self.max_retries is None:  # pyright: ignore[reportUnnecessaryComparison]  Celery's word for "for ever"
            raise ConfigError(f"task {self.name!r}: max_retries=None tries for ever; say how often, 1000 if you like")
        backoff = options.pop("retry_backoff", False)
        base = float(max(1, backoff)) if backoff else float(self.default_retry_delay)
        longest = float(options.pop("retry_backoff_max", 600))
        jitter = options.pop("retry_jitter", True) and backoff
        return common.Delays(
            max_attempts=self.max_retries + 1,
            base=base,
            factor=2.0 if backoff else 1.0,
            cap=max(base, longest),
            jitter=1.0 if jitter else 0.0,
            on=tuple(options.pop("autoretry_for", ())),
            give_up_on=tuple(options.pop("dont_autoretry_for", ())),
        )

    def bound_to(self, app: App) -> None:
        """Make the fairlane task of an app; what ``@shared_task`` made gets its app here."""
        self._app = app
        fn = common.with_first(self.run, lambda ctx: Run(self, ctx)) if self.bind else self.run
        limits = [] if self._rate is None else [f"celery:{self.name}"]
        tier = Tier.NORMAL if self._priority is None else common.tier_of("@app.task", self._priority, app.tiers)
        made: AnyTask = app.fairlane.task(
            name=self.name, retry=self._retry, tier=tier, limits=limits, queue=self._queue, timeout=self._time_limit
        )(fn)
        if limits:
            made.on_start(self._tell_rate)  # jobs of a schedule come without a call of apply_async

    def _tell_rate(self, event: object = None) -> None:
        """Put the rate down, once a process: what the code says holds, and is written only where it is new."""
        del event
        if self._rate is None or self._told:
            return
        limit = self.app.fairlane.limits[f"celery:{self.name}"]
        if limit.get().rate != self._rate:
            limit.set(rate=self._rate.starts, per=self._rate.per_ms / 1000, burst=1)
        self._told = True

    @property
    def app(self) -> App:
        """The app that it belongs to."""
        if self._app is None:
            raise ConfigError(f"task {self.name!r} has no app yet: make a Celery(...) before you use it")
        return self._app

    @property
    def fairlane(self) -> AnyTask:
        """Fairlane's own task."""
        held = self.app.fairlane.registry.get(self.name)
        assert held is not None, "it was registered when it got its app"
        return held

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function, without any queue."""
        return cast("Callable[..., Any]", self.fairlane)(*args, **kwargs)

    def __getattr__(self, name: str) -> NoReturn:
        raise common.advice("Task", name, words.CELERY_TASK_GETS)

    def delay(self, *args: Any, **kwargs: Any) -> AsyncResult:
        """Store a job with these arguments."""
        return self.apply_async(args, kwargs)

    def apply_async(
        self, args: Sequence[Any] | None = None, kwargs: Mapping[str, Any] | None = None, **options: Any
    ) -> AsyncResult:
        """Store a job; ``countdown``, ``eta``, ``expires``, ``priority`` and ``queue`` are as in Celery."""
        self._tell_rate()
        plan = plan_of("apply_async()", options, self.app.tiers)
        return AsyncResult(self.fairlane.using(**plan).enqueue(*(args or ()), **(kwargs or {})), self.app)


def plan_of(call: str, given: common.Options, tiers: common.Tiers) -> Any:  # Any: options, which fairlane checks
    """Return options of a call as fairlane has them."""
    options = {name: value for name, value in given.items() if value is not None}
    plan: dict[str, Any] = {}
    for theirs, ours in (("countdown", "delay"), ("eta", "scheduled_at"), ("queue", "queue")):
        if theirs in options:
            plan[ours] = options.pop(theirs)
    if "expires" in options:
        expires = options.pop("expires")
        plan["expires_at" if isinstance(expires, datetime) else "expires_in"] = expires
    if "priority" in options:
        plan["tier"] = common.tier_of(call, options.pop("priority"), tiers)
    common.refuse(call, options, words.CELERY_CALL, _ALWAYS)
    return plan


def _rate(rate_limit: str | float | None) -> Rate | None:
    """Return a rate like ``"10/m"``; one start at a time, evenly, as Celery does it."""
    if not rate_limit:
        return None
    count, _, unit = str(rate_limit).partition("/")
    if (unit or "s") not in _UNITS:
        raise ConfigError(f"rate_limit is {rate_limit!r}; it must be like '10/s', '10/m' or '10/h'")
    starts, per = float(count), float(_UNITS[unit or "s"])
    return Rate.of(int(starts), per, 1) if starts.is_integer() else Rate.of(1, per / starts, 1)
