"""Celery's beat on fairlane's schedules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import msgspec

from fairlane.compat import _common as common
from fairlane.declarations import AnyTask, Declaration, when_of
from fairlane.domain.schedules import Spec
from fairlane.errors import ConfigError, InvalidValue
from fairlane.registry import Registry
from fairlane.scheduling import GRACE_S


class crontab:
    """When a task runs, as Celery writes it.

    Raises:
        ConfigError: Both days are restricted: Celery runs where both match, cron where either does.
    """

    def __init__(
        self,
        minute: str | int = "*",
        hour: str | int = "*",
        day_of_week: str | int = "*",
        day_of_month: str | int = "*",
        month_of_year: str | int = "*",
        **options: Any,  # Any: unchecked options
    ) -> None:
        common.refuse("crontab()", options, {"nowfun": "the store's clock decides", "app": "leave it out"})
        if str(day_of_week) != "*" and str(day_of_month) != "*":
            raise ConfigError(
                "crontab: day_of_week and day_of_month together run where both match in Celery, where either does in "
                "cron; restrict one of them and look at the other in the task"
            )
        fields = (minute, hour, day_of_month, month_of_year, day_of_week)
        self.expression = " ".join(str(field).replace(" ", "") for field in fields)


@dataclass(frozen=True)
class Entry(Declaration):
    """An entry of a ``beat_schedule``: it names its task, and may give arguments by position.

    Attributes:
        wanted: The task's name.
        positional: Arguments by position.
    """

    wanted: str = ""
    positional: tuple[Any, ...] = ()  # Any: arguments

    def task(self, registry: Registry) -> AnyTask:
        """Return the task.

        Raises:
            ConfigError: There is none of that name.
        """
        task = registry.get(self.wanted)
        if task is None:
            raise ConfigError(f"beat_schedule {self.name!r} names the task {self.wanted!r}, and there is none")
        return task

    def settled(self, registry: Registry) -> tuple[str, Spec, str]:
        """Return the schedule's name, what is said of it, and its source; see :class:`Declaration`."""
        body = self.task(registry).signature.bind(self.positional, self.args or {})
        named = replace(self, args=msgspec.json.decode(body), positional=())
        return Declaration.settled(named, registry)


def entry_of(name: str, said: Mapping[str, Any], options: Mapping[str, Any], tz: str) -> Entry:
    """Return what an entry says.

    Raises:
        ConfigError: Something in it is wrong, or has no counterpart.
    """
    rest = {key: value for key, value in said.items() if key not in {"task", "schedule", "args", "kwargs", "options"}}
    common.refuse(f"beat_schedule {name!r}", rest, {"relative": "ticks of an interval are whole intervals apart"})
    when = said.get("schedule")
    positional: Sequence[Any] = said.get("args", ())
    try:
        if isinstance(when, crontab):
            ticks = when_of(when.expression, None, tz, None)
        else:
            ticks = when_of(None, when.total_seconds() if isinstance(when, timedelta) else when, None, None)
    except InvalidValue as error:
        raise ConfigError(f"beat_schedule {name!r}: {error}") from None
    wanted = str(said.get("task", ""))
    return Entry(
        _by_name, name, ticks, "run_once", GRACE_S, "queue", said.get("kwargs"), options, wanted, tuple(positional)
    )


def _by_name() -> None:
    """Stand for the function of a task that is found by its name when a worker starts."""
