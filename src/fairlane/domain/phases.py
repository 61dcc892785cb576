"""Work that another system finishes has two phases: ``process`` hands it over, ``verify`` asks whether it is done.

Both are one job, one row. In its verify phase it waits in a lane of another task name, the task's own with
:data:`VERIFY` behind it; so turns, limits, run-time means, pauses and what workers know are its own, and the rules that
choose jobs need to know nothing of phases. Where a job is shown its task has its plain name, and the phase beside it.
"""

from __future__ import annotations

from typing import Final

import msgspec

from fairlane.domain.checks import text, whole
from fairlane.domain.lanes import LaneKey
from fairlane.domain.tiers import Tier
from fairlane.errors import InvalidValue

VERIFY: Final = ":verify"
"""What the name of a task's lanes ends in where its jobs wait for checks."""

TIMED_OUT: Final = "verification_timeout"
"""Why a job is dead whose checks are used up."""

DEFAULT_EVERY_S: Final = 30.0
DEFAULT_MAX_CHECKS: Final = 900
MAX_CHECKS: Final = 1_000_000_000
MAX_EVERY_MS: Final = 366 * 86_400_000
_MAX_NAME_BYTES: Final = 255


class Verification(msgspec.Struct, frozen=True, kw_only=True):
    """How the work of a task is checked.

    Attributes:
        every_ms: Wait before the first check, and between two, in milliseconds; 1 to a year.
        max_checks: Checks after which a job is dead when the work is still not finished; 1 to a billion.
        queue: Where jobs wait for checks; None: in the queue that they were processed in.
        tier: How urgent checks are, 0 to 4; None: as urgent as the job was when it was processed.

    Raises:
        InvalidValue: A value is outside the range given above.
    """

    every_ms: int = round(DEFAULT_EVERY_S * 1000)
    max_checks: int = DEFAULT_MAX_CHECKS
    queue: str | None = None
    tier: int | None = None

    def __post_init__(self) -> None:
        whole("every_ms", self.every_ms, least=1, most=MAX_EVERY_MS)
        whole("max_checks", self.max_checks, least=1, most=MAX_CHECKS)
        if self.queue is not None:
            text("queue", self.queue)
        if self.tier is not None:
            Tier.of(self.tier)

    def lane(self, process: LaneKey) -> LaneKey:
        """Return the lane in which a job waits for checks.

        Args:
            process: The lane that its process phase was started from.

        Example:
            >>> Verification(queue="checks").lane(LaneKey("gpu", "prove", "acme", 2))
            LaneKey(queue='checks', task='prove:verify', tenant='acme', tier=2)
        """
        return LaneKey(
            process.queue if self.queue is None else self.queue,
            verify_task(process.task),
            process.tenant,
            process.tier if self.tier is None else self.tier,
        )


def verify_task(task: str) -> str:
    """Return what the verify phase of a task is called in lanes, pauses and claims."""
    return task + VERIFY


def lane_task(task: str, phase: str) -> str:
    """Return the task name of the lane in which a job of a task waits in a phase.

    Example:
        >>> lane_task("prove", "process"), lane_task("prove", "verify")
        ('prove', 'prove:verify')
    """
    return verify_task(task) if phase == "verify" else task


def plain_task(name: str, phase: str) -> str:
    """Return a job's task by the task name of its lane; what :func:`lane_task` undoes.

    Example:
        >>> plain_task("prove:verify", "verify")
        'prove'
    """
    return name.removesuffix(VERIFY) if phase == "verify" else name


def check_task_name(what: str, name: object, *, phases: int = 1) -> str:
    """Return a task's name if it may be one.

    Args:
        what: What errors call it.
        name: The name.
        phases: 2 for a task with a verify phase, whose name must leave room for the phase's.

    Raises:
        InvalidValue: It is no text of 1 to 255 bytes, or ends as the names of verify phases do.
    """
    checked = text(what, name)
    if checked.endswith(VERIFY):
        raise InvalidValue(f"{what} {checked!r} ends in {VERIFY!r}, which names the verify phase of a task")
    if phases > 1 and len(checked.encode()) + len(VERIFY) > _MAX_NAME_BYTES:
        raise InvalidValue(f"{what} {checked!r} is too long for a task with a verify phase: 248 bytes at most")
    return checked
