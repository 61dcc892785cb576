"""The only module that reads a clock."""

from __future__ import annotations

import time
from typing import Final, Protocol

_AWAKE_OR_NOT: Final = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
"""The steady clock that goes on while the machine sleeps; what Linux calls monotonic stands still then."""


class Clock(Protocol):
    """Where time comes from; tests put a clock of their own here."""

    def now_ms(self) -> int:
        """Return the wall time in milliseconds since 1970, UTC."""
        ...

    def monotonic(self) -> float:
        """Return seconds of a clock that never steps; only differences mean anything."""
        ...


class SystemClock:
    """The machine's own clocks."""

    def now_ms(self) -> int:
        """Return the wall time in milliseconds since 1970, UTC."""
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        """Return seconds of a clock that never steps; only differences mean anything."""
        return time.monotonic()

    def steady_ns(self) -> int:
        """Return nanoseconds of a clock that never steps and goes on while the machine sleeps."""
        return time.clock_gettime_ns(_AWAKE_OR_NOT)


def instant_of(clock: Clock, now_ms: int) -> float:
    """Return when ``clock`` told ``now_ms``, by its monotonic time, or a little before that; never after.

    So a lease that is counted from there ends here no later than in the store, where it is counted from ``now_ms``.

    Args:
        clock: Both its times are read.
        now_ms: What it told a moment ago, in milliseconds.
    """
    at = clock.monotonic()
    return at - max(0, clock.now_ms() - now_ms + 1) / 1000  # + 1: now_ms leaves out parts of a millisecond
