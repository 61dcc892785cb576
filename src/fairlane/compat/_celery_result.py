"""Celery's results: jobs, as Celery asks about them."""

from __future__ import annotations

import contextlib
from typing import Any, Final, NoReturn, Protocol

from fairlane import handles
from fairlane.app import Fairlane
from fairlane.compat import _common as common
from fairlane.compat import _words as words
from fairlane.errors import ConfigError, IllegalMove, JobCancelled, JobFailed

_STATES: Final = {
    "scheduled": "PENDING", "available": "PENDING", "running": "STARTED", "completed": "SUCCESS", "dead": "FAILURE",
    "cancelled": "REVOKED",
}  # fmt: skip


class App(Protocol):
    """What a task needs of its app."""

    fairlane: Fairlane
    tiers: common.Tiers


apps: Final[list[App]] = []
"""Every app that was made; the latest one is the current one."""


def current() -> App:
    """Return the current app.

    Raises:
        ConfigError: There is none yet.
    """
    if not apps:
        raise ConfigError("there is no app yet: make a Celery(...) first")
    return apps[-1]


class AsyncResult:
    """A job, as Celery asks about it. ``fairlane`` is fairlane's own handle; an unknown id raises ``JobNotFound``."""

    def __init__(self, id: str | handles.Job[Any], app: App | None = None) -> None:
        self.app = app or current()
        self.fairlane = id if isinstance(id, handles.Job) else self.app.fairlane.get(id)
        self.id = self.task_id = str(self.fairlane.id)

    @property
    def state(self) -> str:
        """Celery's word for its state, as it is now."""
        job = self.fairlane.refresh()
        return "RETRY" if job.state == "scheduled" and job.failures else _STATES[job.state]

    status = state

    def ready(self) -> bool:
        """Whether it has ended."""
        return self.fairlane.refresh().ended

    def successful(self) -> bool:
        """Whether it is completed."""
        return self.state == "SUCCESS"

    def failed(self) -> bool:
        """Whether it is dead."""
        return self.state == "FAILURE"

    def get(self, timeout: float | None = None, propagate: bool = True) -> Any:
        """Wait for its end and return the result; ``WaitTimeout`` is a ``TimeoutError``, a dead job ``JobFailed``."""
        try:
            return self.fairlane.result(timeout)
        except (JobFailed, JobCancelled) as error:
            if propagate:
                raise
            return error

    @property
    def result(self) -> Any:
        """The result, the error of a job without one, or None while it has not ended."""
        return self.get(0, propagate=False) if self.ready() else None

    def revoke(self, terminate: bool = False) -> None:
        """Cancel it if it waits; with ``terminate`` a run is asked to stop, too."""
        if self.fairlane.refresh().state == "running" and not terminate:
            return
        with contextlib.suppress(IllegalMove):  # it has ended; Celery says nothing about that either
            self.app.fairlane.cancel(self.fairlane, reason="revoked")

    def __getattr__(self, name: str) -> NoReturn:
        raise common.advice("AsyncResult", name, words.CELERY_RESULT_GETS)
