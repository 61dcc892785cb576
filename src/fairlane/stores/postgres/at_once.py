"""New jobs as one statement takes them that stores them all, or none.

It needs no transaction around it: with it a plain enqueue is one question and one answer, whoever else waits with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, TypeVar

from fairlane.domain.jobs import ON_FAILURE, NewJob
from fairlane.stores.tables.ground import LANE_BUFFER
from fairlane.stores.tables.writing import tags_of

T = TypeVar("T")

ENQUEUE_ONE: Final = "enqueue_one"
ENQUEUE_MANY: Final = "enqueue_many"
MOST_JOBS: Final = 5_000
"""Jobs in one statement; beyond, COPY is cheaper."""
MOST_CHARACTERS: Final = 8 * 2**20
"""Arguments in one statement: each parameter must fit in memory several times."""


def statement(jobs: Sequence[NewJob], lanes: Sequence[int], now_ms: int, line: str | None) -> tuple[str, Sequence[Any]]:
    """Return the name of the statement that stores plain jobs, and its parameters.

    Args:
        jobs: One at least.
        lanes: The number of the lane of each.
        now_ms: The instant.
        line: The server's line of history that the numbers are of; None: they are of this connection's server.
    """
    if len(jobs) == 1:
        job = jobs[0]
        return ENQUEUE_ONE, (
            now_ms,
            job.arrival_ms(now_ms),
            line,
            job.id,
            lanes[0],
            job.expires_at_ms,
            ON_FAILURE.index(job.on_failure),
            job.bundle,
            tags_of(job),
            job.trace,
            job.args,
            int(job.scheduled_at_ms is not None),
        )
    return ENQUEUE_MANY, (
        now_ms,
        LANE_BUFFER,
        line,
        [job.id for job in jobs],
        lanes,
        [job.arrival_ms(now_ms) for job in jobs],
        [job.args for job in jobs],
        _unless_all([job.expires_at_ms for job in jobs], None),
        _unless_all([ON_FAILURE.index(job.on_failure) for job in jobs], 0),
        _unless_all([job.bundle for job in jobs], None),
        _unless_all([tags_of(job) for job in jobs], None),
        _unless_all([job.trace for job in jobs], None),
        _unless_all([int(job.scheduled_at_ms is not None) for job in jobs], 0),
    )


def _unless_all(values: list[T], usual: T) -> list[T] | None:
    """Return values; None when all of them are as usual, which costs nothing to send.

    Example:
        >>> _unless_all([0, 0], 0), _unless_all([0, 1], 0)
        (None, [0, 1])
    """
    return None if values.count(usual) == len(values) else values
