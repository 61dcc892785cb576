"""Operations: one action on the jobs that a filter means, carried out in portions at a steady rate."""

from __future__ import annotations

import math
from enum import IntEnum
from types import MappingProxyType
from typing import Final, Literal, get_args

import msgspec

from fairlane.domain.checks import number, whole
from fairlane.domain.jobs import JobFilter
from fairlane.domain.states import MOVES, State
from fairlane.domain.tiers import Tier
from fairlane.errors import InvalidValue

Action = Literal["retry", "cancel", "discard", "boost", "set_tier", "expedite", "reverify"]
ACTIONS: Final[tuple[Action, ...]] = get_args(Action)
MAX_RATE: Final = 1e6
MAX_REFUSALS: Final = 10
"""Refusals that an operation keeps with their reasons: the latest."""
MADE_UP_MS: Final = 1_000
"""How much of its time an operation makes up for when nobody carried it on, in milliseconds."""

_WAITING: Final = frozenset({State.SCHEDULED, State.AVAILABLE})
ALLOWED: Final = MappingProxyType(
    {
        # action: (the states that it may mean, those it means when nobody names any)
        "retry": (MOVES["be retried"][0], MOVES["be retried"][0]),
        "cancel": (MOVES["be cancelled"][0], _WAITING),
        "discard": (frozenset({State.DEAD}), frozenset({State.DEAD})),
        "boost": (MOVES["change tier"][0], _WAITING),
        "set_tier": (MOVES["change tier"][0], _WAITING),
        "expedite": (MOVES["be expedited"][0], _WAITING),
        # those that wait for a check are checked anyway: bringing all of them forward takes saying so
        "reverify": (MOVES["be checked"][0], frozenset({State.DEAD})),
    }
)


class OperationState(IntEnum):
    """How far an operation is. The numbers are stored; never change one."""

    RUNNING = 0
    DONE = 1
    CANCELLED = 2
    PAUSED = 3

    @property
    def label(self) -> str:
        """The name in lower case."""
        return self.name.lower()

    @property
    def over(self) -> bool:
        """Whether it will never do anything more."""
        return self in {OperationState.DONE, OperationState.CANCELLED}


class OperationPlan(msgspec.Struct, frozen=True, kw_only=True):
    """What an operation does.

    Attributes:
        action: ``retry`` dead jobs, ``cancel``, ``discard`` dead jobs, ``boost``, ``set_tier`` or ``expedite`` waiting
            ones, ``reverify`` jobs that died in their verify phase.
        which: The jobs that it means.
        tier: The tier that jobs get: needed by ``boost`` and ``set_tier``; retried jobs keep theirs without it.
        rate: Most jobs a second, over all processes; None: as fast as the store can.
        limit: Most jobs that are changed; None: all.
    """

    action: Action
    which: JobFilter
    tier: int | None = None
    rate: float | None = None
    limit: int | None = None

    def checked(self) -> OperationPlan:
        """Return the plan with the states that it means.

        Raises:
            InvalidValue: A part of it is out of range, missing, or makes no sense with the action.
        """
        if self.action not in ACTIONS:
            raise InvalidValue(f"action {self.action!r} is not one of {', '.join(ACTIONS)}")
        if self.rate is not None:
            number("rate", self.rate, least=0, most=MAX_RATE, above=True)
        if self.limit is not None:
            whole("limit", self.limit, least=1)
        if self.tier is None and self.action in {"boost", "set_tier"}:
            raise InvalidValue(f"{self.action} needs a tier")
        if self.tier is not None:
            Tier.of(self.tier)
            if self.action not in {"boost", "set_tier", "retry"}:
                raise InvalidValue(f"{self.action} takes no tier")
        return msgspec.structs.replace(self, which=self._meant())

    def _meant(self) -> JobFilter:
        allowed, usual = ALLOWED[self.action]
        states = self.which.states
        wrong = [state.label for state in states or () if state not in allowed]
        if wrong:
            able = ", ".join(state.label for state in sorted(allowed))
            raise InvalidValue(f"{self.action} means jobs that are {able}, not {', '.join(wrong)}")
        return msgspec.structs.replace(self.which, states=tuple(sorted(usual if states is None else set(states))))


class Refusal(msgspec.Struct, frozen=True):
    """A job that an operation left as it was: its id, and why."""

    job: bytes
    reason: str


class OperationRecord(msgspec.Struct, frozen=True, kw_only=True):
    """An operation as it is stored; instants in milliseconds UTC.

    Attributes:
        id: A UUIDv7, 16 bytes.
        plan: What it does.
        state: How far it is.
        total: How many jobs it meant at its start, at most ``plan.limit``.
        more: Whether there were more than ``total``, which says only how far was counted.
        done: Jobs that it changed.
        refused: Jobs that it left as they were, because they refused.
        refusals: The latest ten of these, with why.
        place: The number of the last job that it looked at; -1: none yet.
        last: The highest number of a job at its start: younger ones are not meant.
        due_at_ms: When its rate allows the next job.
        by: Who started it.
        reason: Why.
        created_at_ms: When it was started.
        ended_at_ms: When it was over; None while it is not.
    """

    id: bytes
    plan: OperationPlan
    state: OperationState
    total: int
    more: bool
    done: int
    refused: int
    refusals: tuple[Refusal, ...]
    place: int
    last: int
    due_at_ms: int
    by: str
    reason: str
    created_at_ms: int
    ended_at_ms: int | None


def allowed_now(rate: float | None, due_at_ms: int, now_ms: int, most: int) -> int:
    """Return how many jobs an operation may change now; 0 before it is due.

    Args:
        rate: Jobs a second; None: no bound but ``most``.
        due_at_ms: When its next job is due.
        now_ms: The instant.
        most: Most jobs of one portion.

    Source:
        The generic cell rate algorithm (ITU-T I.371) with a tolerance of :data:`MADE_UP_MS`: in any W seconds at most
        ``rate * (W + 1) + 1`` jobs, and over a long time exactly the rate however seldom somebody looks.

    Example:
        >>> [allowed_now(10, 5_000, now_ms, 200) for now_ms in (4_999, 5_000, 5_250, 60_000)]
        [0, 1, 3, 11]
    """
    if due_at_ms > now_ms:
        return 0
    if rate is None:
        return most
    behind_ms = min(now_ms - due_at_ms, MADE_UP_MS)
    return min(most, math.floor(behind_ms * rate / 1000) + 1)


def due_after(rate: float | None, due_at_ms: int, now_ms: int, done: int) -> int:
    """Return when an operation is due next, after it changed ``done`` jobs now; never sooner than its rate says.

    Example:
        >>> due_after(10, 5_000, 5_250, 3), due_after(10, 5_000, 60_000, 11), due_after(None, 5_000, 5_250, 3)
        (5300, 60100, 5250)
    """
    if rate is None:
        return now_ms
    return max(due_at_ms, now_ms - MADE_UP_MS) + math.ceil(done * 1000 / rate)
