"""A clock that stands still until a test moves it."""

from __future__ import annotations

import threading
from typing import Final

START_MS: Final = 1_700_000_000_000
"""Where a clock starts when nobody says: November 2023, a whole number that is easy to see in a failure."""


class ManualClock:
    """A :class:`fairlane.clock.Clock` under a test's control; any thread may read or move it.

    Args:
        now_ms: The wall time that it starts at, in milliseconds UTC.

    Example:
        >>> clock = ManualClock(now_ms=1_000)
        >>> clock.advance(seconds=2, ms=500)
        >>> clock.now_ms(), clock.monotonic()
        (3500, 2.5)
    """

    def __init__(self, now_ms: int = START_MS) -> None:
        self._lock = threading.Lock()
        self._now_ms = now_ms
        self._elapsed_ms = 0

    def now_ms(self) -> int:
        """Return the wall time in milliseconds since 1970, UTC."""
        with self._lock:
            return self._now_ms

    def monotonic(self) -> float:
        """Return seconds since the clock was made; :meth:`step` does not move it."""
        with self._lock:
            return self._elapsed_ms / 1000

    def advance(self, *, seconds: float = 0, ms: int = 0) -> None:
        """Let time pass.

        Args:
            seconds: How much, in seconds; rounded to whole milliseconds.
            ms: How much more, in milliseconds.

        Raises:
            ValueError: Time would run backwards; see :meth:`step`.
        """
        passed_ms = round(seconds * 1000) + ms
        if passed_ms < 0:
            raise ValueError(f"time does not run backwards by {-passed_ms} ms; use step() to set the wall clock")
        with self._lock:
            self._now_ms += passed_ms
            self._elapsed_ms += passed_ms

    def step(self, *, seconds: float) -> None:
        """Set the wall clock forwards or backwards, as an administrator or NTP does, while no time passes.

        Args:
            seconds: How far; below 0 is backwards.
        """
        with self._lock:
            self._now_ms += round(seconds * 1000)
