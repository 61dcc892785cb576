"""How many requests a token may make: a bucket for each, in the memory of this process."""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

MOST: Final = 10_000
"""Buckets that are kept; the one that was used longest ago goes first, and is full again by then."""


class Buckets:
    """Token buckets by name.

    Args:
        rate: Requests in a second, above 0; twice as many may come at once.

    Example:
        >>> buckets = Buckets(1.0)
        >>> [buckets.wait_s("a", now) for now in (0.0, 0.0, 0.0, 1.0)]
        [0.0, 0.0, 1.0, 0.0]
    """

    def __init__(self, rate: float) -> None:
        self._rate = rate
        self._burst = max(1.0, 2 * rate)
        self._held: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def wait_s(self, name: str, now: float) -> float:
        """Take one request's share; return 0, or how many seconds to wait for it, and nothing was taken.

        Args:
            name: Whose bucket.
            now: Seconds of a clock that never steps back.
        """
        left, at = self._held.pop(name, (self._burst, now))
        left = min(self._burst, left + (now - at) * self._rate)
        taken = left >= 1
        self._held[name] = (left - 1 if taken else left, now)
        if len(self._held) > MOST:
            self._held.popitem(last=False)
        return 0.0 if taken else (1 - left) / self._rate
