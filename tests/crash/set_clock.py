"""A wall clock that can be set, in several processes at once."""

from __future__ import annotations

import time
from pathlib import Path

from fairlane.clock import SystemClock


class SetClock:
    """The machine's clock, set forward by the seconds that a file says at the moment; below 0: back."""

    def __init__(self, path: str) -> None:
        self._path = path

    def now_ms(self) -> int:
        shift_s = float(Path(self._path).read_text()) if self._path else 0.0
        return SystemClock().now_ms() + round(shift_s * 1000)

    def monotonic(self) -> float:
        return time.monotonic()


def put(path: Path, seconds: float) -> None:
    """Set a clock; a reader sees the old time or the new one."""
    fresh = path.with_suffix(".new")
    fresh.write_text(str(seconds))
    fresh.replace(path)
