"""RQ's jobs, and what they are told, on fairlane's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NoReturn, Self, cast

import msgspec

from fairlane import handles
from fairlane.app import Fairlane
from fairlane.compat import _common as common
from fairlane.compat import _words as words
from fairlane.errors import ConfigError, JobCancelled, JobFailed

_STATES: Final = {
    "scheduled": "scheduled", "available": "queued", "running": "started", "completed": "finished", "dead": "failed",
    "cancelled": "canceled",
}  # fmt: skip
MAX_RUNS: Final = 1_000
"""More than any ``Retry`` asks for."""


class Retry(msgspec.Struct):
    """How often a job is tried again, and after how many seconds: one number, or one for each time.

    Attributes:
        max: Retries; 1 to 999.
        interval: Seconds before each; of several the last belongs to the last retry, and the first may hold for many.
    """

    max: int
    interval: int | list[int] = 0
    enqueue_at_front: bool = False

    def __post_init__(self) -> None:
        if self.enqueue_at_front:
            raise ConfigError("Retry: enqueue_at_front= has no counterpart in fairlane; a job keeps its place in line")
        if not 1 <= self.max < MAX_RUNS:
            raise ConfigError(f"Retry(max={self.max!r}): from 1 to {MAX_RUNS - 1} can be had")

    def delay(self, attempt: int) -> float | None:
        """Return the delay after this run, in seconds, or None when it was the last one."""
        if attempt > self.max:
            return None
        waits = [self.interval] if isinstance(self.interval, int) else self.interval or [0]
        left = self.max - attempt + 1
        return waits[max(0, len(waits) - left)]


def behind(given: Any) -> dict[str, Any]:
    """Return what ``depends_on`` says: a job, its id, several of them, or a :class:`Dependency`."""
    one = given if isinstance(given, Dependency) else Dependency(given)
    jobs = cast("Sequence[Any]", one.jobs if isinstance(one.jobs, list | tuple) else [one.jobs])
    after = [job.fairlane if isinstance(job, Job) else job for job in jobs]
    return {"after": after, "on_failure": "run" if one.allow_failure else "cancel"}


class Dependency(msgspec.Struct):
    """Jobs that must end first; with ``allow_failure`` in any way, else a job that fails cancels those behind it."""

    jobs: Any
    allow_failure: bool = False


class Job:
    """A job, as RQ asks about it. ``fairlane`` is fairlane's own handle."""

    def __init__(self, job: handles.Job[Any], app: Fairlane) -> None:
        self.fairlane = job
        self.app = app
        self.id = str(job.id)

    @classmethod
    def fetch(cls, id: str, connection: Fairlane) -> Self:
        """Return a handle on a job by its id; ``JobNotFound`` if there is none."""
        return cls(connection.get(id), connection)

    def get_status(self, refresh: bool = True) -> str:
        """Return RQ's word for its state."""
        job = self.fairlane.refresh() if refresh else self.fairlane
        return "deferred" if job.behind else _STATES[job.state]

    is_queued = property(lambda self: self.get_status() == "queued")
    is_started = property(lambda self: self.get_status() == "started")
    is_finished = property(lambda self: self.get_status() == "finished")
    is_failed = property(lambda self: self.get_status() == "failed")
    is_canceled = property(lambda self: self.get_status() == "canceled")
    is_deferred = property(lambda self: self.get_status() == "deferred")
    is_scheduled = property(lambda self: self.get_status() == "scheduled")

    def return_value(self, refresh: bool = True) -> Any:
        """Return the result, or None while there is none; it waits for nothing."""
        job = self.fairlane.refresh() if refresh else self.fairlane
        try:
            return job.result(0) if job.ended else None
        except (JobFailed, JobCancelled):
            return None

    @property
    def exc_info(self) -> str | None:
        """The last failed run's traceback."""
        errors = self.fairlane.refresh().errors
        return errors[-1].traceback if errors else None

    def refresh(self) -> None:
        """Read its record again."""
        self.fairlane.refresh()

    def cancel(self) -> None:
        """Cancel it; a run is asked to stop."""
        self.app.cancel(self.fairlane, reason="cancelled")

    def __getattr__(self, name: str) -> NoReturn:
        raise common.advice("Job", name, words.RQ_JOB_GETS)
