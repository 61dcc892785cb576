"""The five tiers, their names, numbers and shares, and how a waiting job ages between them."""

from __future__ import annotations

from enum import IntEnum
from typing import Final

from fairlane.errors import InvalidValue

_SCALE: Final = (1, 10, 50, 100, 200)


class Tier(IntEnum):
    """How urgent a job is; a smaller number is more urgent."""

    CRITICAL = 0
    HIGH = 1
    NORMAL = 2
    LOW = 3
    BACKGROUND = 4

    @classmethod
    def of(cls, value: object) -> Tier:
        """Return the tier that ``value`` names.

        Args:
            value: A :class:`Tier`, its number 0 to 4, or its name in any case.

        Raises:
            InvalidValue: Anything else: -1, 5, 1.5, True, "", NaN, None.

        Example:
            >>> Tier.of("critical"), Tier.of(4)
            (<Tier.CRITICAL: 0>, <Tier.BACKGROUND: 4>)
        """
        if isinstance(value, Tier):
            return value
        if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < len(_SCALE):
            return cls(value)
        if isinstance(value, str) and value.upper() in cls.__members__:
            return cls[value.upper()]
        names = ", ".join(f"{tier.name.lower()}={tier.value}" for tier in cls)
        raise InvalidValue(f"tier {value!r} is not one of {names}")

    @classmethod
    def from_scale(cls, value: int) -> Tier:
        """Return the tier for a priority on the common 1/10/50/100/200 scale.

        Raises:
            InvalidValue: ``value`` is none of the five numbers.

        Example:
            >>> Tier.from_scale(50)
            <Tier.NORMAL: 2>
        """
        if isinstance(value, bool) or value not in _SCALE:
            raise InvalidValue(f"scale {value!r} is not one of 1, 10, 50, 100, 200")
        return cls(_SCALE.index(value))

    @property
    def scale(self) -> int:
        """This tier on the common 1/10/50/100/200 scale."""
        return _SCALE[self]

    @property
    def label(self) -> str:
        """The name in lower case, as it is printed and exported."""
        return self.name.lower()


TIERS: Final = tuple(Tier)
SHARES: Final = (8, 8, 4, 2, 1)
"""A tier's share: a start is charged its run time divided by the weight and by this (SPEC section 2)."""


def effective_tier(tier: int, waited_ms: int, *, step_ms: int, ceiling: int) -> int:
    """Return the tier that a job counts as after waiting.

    Computed from the job's own tier and its whole wait, so it never compounds and never depends on how often it
    is asked for.

    Args:
        tier: The job's own tier, 0 to 4.
        waited_ms: Time since its arrival, in milliseconds; a negative wait counts as none.
        step_ms: Time that raises it by one tier, in milliseconds; more than 0.
        ceiling: The most urgent tier that ageing reaches; a job above it keeps its own tier.

    Source:
        SPEC section 2, "Ageing".

    Example:
        >>> [effective_tier(4, s * 1000, step_ms=60_000, ceiling=0) for s in (59, 60, 120, 180, 240, 999)]
        [4, 3, 2, 1, 0, 0]
    """
    if tier <= ceiling:
        return tier
    return max(ceiling, tier - max(0, waited_ms) // step_ms)


def rise_delay_ms(tier: int, step_ms: int) -> int | None:
    """Return how long a job waits before it is risen: aged to HIGH, or one step in HIGH itself; CRITICAL never is.

    Source:
        SPEC section 2, rule 1.

    Example:
        >>> [rise_delay_ms(tier, 60) for tier in range(5)]
        [None, 60, 60, 120, 180]
    """
    return None if tier == Tier.CRITICAL else max(1, tier - Tier.HIGH) * step_ms
