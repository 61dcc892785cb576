"""Helpers for tests of programs that use fairlane."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from fairlane.app import Fairlane
from fairlane.handles import Job

LOOKED_AT = 1_000
"""Jobs that :func:`assert_enqueued` looks at, the newest first."""


def drain(app: Fairlane, *, concurrency: int = 8) -> None:
    """Run jobs in this process until none is left that could start now.

    Jobs that wait for a time stay where they are: move the app's clock and drain again.

    Args:
        app: The application; its tasks run here.
        concurrency: How many jobs run at once; 1 makes the order of starts the order of runs.
    """
    app.run_worker(until_idle=True, signals=False, concurrency=concurrency)


def assert_enqueued(
    app: Fairlane,
    task: str,
    args: Mapping[str, Any] | None = None,  # Any: as handlers take them
    *,
    count: int | None = None,
    **fields: object,
) -> list[Job[Any]]:
    """Assert that jobs of a task are stored, in any state, and return them, newest first.

    Args:
        app: The application.
        task: The task's name.
        args: Arguments that the job must have; it may have others. None: any.
        count: How many there must be; None: at least one.
        fields: Attributes that the job must have: ``tenant="acme"``, ``state="available"``.

    Raises:
        AssertionError: There are others, or none; the message shows what is stored of the task.
    """
    stored = list(app.jobs(task=task, limit=LOOKED_AT).jobs)
    wanted = dict(args or {})

    def fits(job: Job[Any]) -> bool:
        given = msgspec.json.decode(job.record.args)
        return all(name in given and given[name] == value for name, value in wanted.items()) and all(
            getattr(job, name) == value for name, value in fields.items()
        )

    found = [job for job in stored if fits(job)]
    if len(found) != count if count is not None else not found:
        shown = "\n".join(f"  {job.record.args} tenant={job.tenant} state={job.state}" for job in stored[:20])
        expected = "at least one" if count is None else count
        have = shown or "  none"
        raise AssertionError(
            f"{len(found)} jobs of task {task!r} fit {wanted | fields}; expected {expected}; stored:\n{have}"
        )
    return found
