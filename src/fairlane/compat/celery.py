"""Celery's calls on fairlane: ``from fairlane.compat.celery import Celery, crontab, shared_task``.

``Celery(...).fairlane`` is the app that workers run: ``fairlane worker proj:app.fairlane``. Guide: docs/moving-over.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any, NoReturn

from fairlane.app import Fairlane
from fairlane.compat import _common as common
from fairlane.compat import _words as words
from fairlane.compat._celery_beat import crontab, entry_of
from fairlane.compat._celery_result import AsyncResult, apps
from fairlane.compat._celery_task import Retry, plan_of
from fairlane.compat._celery_task import Task as _Task
from fairlane.errors import ConfigError

__all__ = ["AsyncResult", "Celery", "Conf", "Retry", "crontab", "shared_task"]

_BY_NAME = {"args": "a job that is stored by the name of its task has its arguments by name: kwargs={...}"}


class Conf:
    """``app.conf``: ``timezone`` and ``beat_schedule``; every other setting is refused with what to use instead."""

    _app: Celery
    timezone: str
    beat_schedule: Mapping[str, Mapping[str, Any]]

    def __init__(self, app: Celery) -> None:
        nothing: Mapping[str, Mapping[str, Any]] = MappingProxyType({})
        self.__dict__.update(_app=app, timezone="UTC", beat_schedule=nothing)

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in {"timezone", "beat_schedule"}:
            common.refuse("app.conf", {name: value}, words.CELERY_CONF)
        if self.beat_schedule:
            raise ConfigError(
                f"app.conf.{name}: the schedules are declared; set timezone first, and beat_schedule once"
            )
        if name == "beat_schedule":
            self._app.declare(value)
            value = MappingProxyType(dict(value))  # a later change would not be seen
        object.__setattr__(self, name, value)

    def update(self, *given: Mapping[str, Any], **more: Any) -> None:
        """Set several."""
        for one in (*given, more):
            for name in sorted(one, key=lambda name: name != "timezone"):  # crontabs are meant in it
                setattr(self, name, one[name])


class Celery:
    """An app over a fairlane store.

    Args:
        main: Its name; of no consequence.
        broker: The store's URL, or a ``Fairlane``.
        tiers: What numbers of ``priority`` mean: ``{9: "critical", 5: "normal"}``. On RabbitMQ 9 is the most urgent, on
            Redis 0 is: nothing is assumed.
        options: Celery's other options; they are refused.

    Attributes:
        fairlane: The fairlane app: ``fairlane worker proj:app.fairlane``, ``app.fairlane.run_worker()``.
    """

    def __init__(
        self,
        main: str | None = None,
        *,
        broker: str | Fairlane | None = None,
        tiers: common.Tiers | None = None,
        **options: Any,  # Any: unchecked options
    ) -> None:
        common.refuse("Celery()", options, words.CELERY_APP)
        self.main = main
        self.fairlane = common.store_of("Celery(broker=...)", broker)
        self.tiers: common.Tiers = tiers or {}
        self.conf = Conf(self)
        apps.append(self)
        while _waiting:
            _waiting.pop(0).bound_to(self)

    def task(self, fn: Callable[..., Any] | None = None, **options: Any) -> Any:  # Any: a Task, or a decorator
        """Make a task; a decorator, with options or without."""
        if fn is None:
            return partial(self.task, **options)
        task = _Task(fn, options)
        task.bound_to(self)
        return task

    def declare(self, beat_schedule: Mapping[str, Mapping[str, Any]]) -> None:
        """Take in a ``beat_schedule``; workers tell the store at their start, and one of them fires each tick."""
        for name, said in beat_schedule.items():
            options = plan_of(f"beat_schedule {name!r}", said.get("options", {}), self.tiers)
            self.fairlane.schedules.add(entry_of(name, said, options, self.conf.timezone))

    def send_task(self, name: str, kwargs: Mapping[str, Any] | None = None, **options: Any) -> AsyncResult:
        """Store a job by the name of its task, with arguments by name; its code need not be here."""
        if options.pop("args", None):
            common.refuse("send_task()", {"args": ...}, _BY_NAME)
        return AsyncResult(self.fairlane.enqueue(name, kwargs, **plan_of("send_task()", options, self.tiers)), self)

    def AsyncResult(self, id: str) -> AsyncResult:
        """Return a handle on a job by its id."""
        return AsyncResult(id, self)

    def __getattr__(self, name: str) -> NoReturn:
        raise common.advice("Celery", name, words.CELERY_APP_GETS)


def shared_task(fn: Callable[..., Any] | None = None, **options: Any) -> Any:  # Any: a Task, or a decorator
    """Make a task of the latest app, or of the first one that is made."""
    if fn is None:
        return partial(shared_task, **options)
    task = _Task(fn, options)
    if apps:
        task.bound_to(apps[-1])
    else:
        _waiting.append(task)
    return task


_waiting: list[_Task] = []
"""What ``@shared_task`` made before there was an app."""


def __getattr__(name: str) -> NoReturn:
    raise common.missing(__name__, name, words.CELERY_NAMES)
