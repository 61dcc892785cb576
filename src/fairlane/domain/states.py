"""Every state of a job and every move between states, in one table."""

from __future__ import annotations

from enum import IntEnum
from types import MappingProxyType
from typing import Final

from fairlane.errors import IllegalMove


class State(IntEnum):
    """Where a job is in its life. The numbers are stored; never change one."""

    SCHEDULED = 0
    AVAILABLE = 1
    RUNNING = 2
    COMPLETED = 3
    DEAD = 4
    CANCELLED = 5

    @property
    def label(self) -> str:
        """The name in lower case, as it is printed and exported."""
        return self.name.lower()

    @property
    def waiting(self) -> bool:
        """Whether the job has yet to start."""
        return self <= State.AVAILABLE

    @property
    def live(self) -> bool:
        """Whether the job has yet to end."""
        return self <= State.RUNNING


S = State
MOVES: Final = MappingProxyType(
    {
        # move: (from, to)
        "become available": (frozenset({S.SCHEDULED}), S.AVAILABLE),
        "start": (frozenset({S.AVAILABLE}), S.RUNNING),
        "complete": (frozenset({S.RUNNING}), S.COMPLETED),
        "wait for a retry": (frozenset({S.RUNNING}), S.SCHEDULED),
        "wait for a check": (frozenset({S.RUNNING}), S.SCHEDULED),
        "go back": (frozenset({S.RUNNING}), S.AVAILABLE),
        "die": (frozenset({S.RUNNING, S.SCHEDULED, S.AVAILABLE}), S.DEAD),
        "be cancelled": (frozenset({S.SCHEDULED, S.AVAILABLE, S.RUNNING}), S.CANCELLED),
        "expire": (frozenset({S.SCHEDULED, S.AVAILABLE}), S.CANCELLED),
        "be retried": (frozenset({S.DEAD}), S.AVAILABLE),
        "be processed": (frozenset({S.SCHEDULED, S.AVAILABLE, S.DEAD}), S.AVAILABLE),
        "be checked": (frozenset({S.SCHEDULED, S.AVAILABLE, S.DEAD}), S.AVAILABLE),
        "be expedited": (frozenset({S.SCHEDULED, S.AVAILABLE}), S.AVAILABLE),
        "change tier": (frozenset({S.SCHEDULED, S.AVAILABLE}), None),
        "be replaced": (frozenset({S.SCHEDULED, S.AVAILABLE}), None),
        "be put off": (frozenset({S.SCHEDULED, S.AVAILABLE}), S.SCHEDULED),
    }
)
"""Each move's name, the states it may start from, and the state it leads to (None: the state stays)."""


def check_move(job_id: object, state: State, move: str) -> State:
    """Return the state that ``move`` leads to.

    Args:
        job_id: Only named in the error.
        state: The job's state now.
        move: A key of :data:`MOVES`.

    Raises:
        IllegalMove: The table does not allow the move from this state.

    Example:
        >>> check_move("j", State.AVAILABLE, "start")
        <State.RUNNING: 2>
    """
    allowed, target = MOVES[move]
    if state not in allowed:
        raise IllegalMove(job_id, state.label, move)
    return state if target is None else target
