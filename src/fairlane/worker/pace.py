"""How many runs that ended together are settled together.

Slots that become free in step fill up in step, so their next runs end in step too. Then urgent work waits for a whole
run and not for a share of one, and each slot waits for the transaction of all. So where runs are long enough for each
slot to have a transaction of its own, half of those that ended together goes first and the rest with the next: after a
few rounds the slots are out of step. Where runs are shorter all go together, for they share a flush of the disk.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from fairlane.worker.attempt import Attempt

WEIGHT: Final = 1 / 16
"""Weight of the latest in the moving averages."""


class Pace:
    """One worker's pace.

    Args:
        slots: How many jobs it runs at once.
    """

    def __init__(self, slots: int) -> None:
        self._slots = slots
        self._trade_s = self._run_s = 0.0

    def traded(self, took_s: float, ended: Sequence[Attempt]) -> None:
        """Take note of how long a transaction took, and of the runs that it ended."""
        self._trade_s += (took_s - self._trade_s) * WEIGHT
        for attempt in ended:
            if attempt.settlement is not None:
                self._run_s += (attempt.settlement.run_us / 1e6 - self._run_s) * WEIGHT

    def portion(self, ended: int) -> int:
        """Return how many of so many runs that have ended are to be settled now."""
        return (ended + 1) // 2 if self._slots * self._trade_s < self._run_s else ended
