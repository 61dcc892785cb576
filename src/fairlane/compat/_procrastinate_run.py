"""Procrastinate's retry strategy and job context, on fairlane's."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from fairlane.compat import _common as common
from fairlane.context import Context
from fairlane.errors import ConfigError


@dataclass(frozen=True, kw_only=True)
class RetryStrategy:
    """How often and how soon: ``wait + linear_wait * retries + exponential_wait ** (retries + 1)`` seconds.

    Attributes:
        max_attempts: Retries; it must be said.
        wait: Seconds each time.
        linear_wait: Seconds more each time.
        exponential_wait: A number of seconds that is raised to a power.
        retry_exceptions: Errors that are worth another try; None: all.
    """

    max_attempts: int | None = None
    wait: float = 0
    linear_wait: float = 0
    exponential_wait: float = 0
    retry_exceptions: Iterable[type[Exception]] | None = None

    def delays(self) -> common.Delays:
        """Return the same as fairlane has it.

        Raises:
            ConfigError: It would try for ever.
        """
        if self.max_attempts is None:
            raise ConfigError(
                "a retry without max_attempts tries for ever; say how often: RetryStrategy(max_attempts=…)"
            )
        on = (Exception,) if self.retry_exceptions is None else tuple(self.retry_exceptions)
        return common.Delays(max_attempts=self.max_attempts + 1, on=on, wait=self.after)

    def after(self, failures: int) -> float:
        """Return the delay after so many failures, in seconds."""
        return self.wait + self.linear_wait * (failures - 1) + self.exponential_wait**failures


class RunningJob(NamedTuple):
    """The job of a run: its id, task, queue, and how many runs failed or crashed before."""

    id: str
    task_name: str
    queue: str
    attempts: int


class JobContext:
    """What a task made with ``pass_context=True`` gets first."""

    def __init__(self, ctx: Context) -> None:
        self.fairlane = ctx
        self.job = RunningJob(str(ctx.job_id), ctx.task, ctx.queue, ctx.attempt - 1)

    def should_abort(self) -> bool:
        """Whether somebody wants the run to stop."""
        return self.fairlane.should_stop
