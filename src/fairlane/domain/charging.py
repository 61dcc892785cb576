"""Turns by worker time: what a start costs its tenant in virtual time, and the running means that it is guessed from.

Virtual time is counted in whole units so that every store and the simulator get the same figure. One microsecond of
work at weight 1 in a tier of share 1 is :data:`UNIT` ÷ ``WEIGHT_UNIT`` units; UNIT is divisible by every share.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from fairlane.domain.policy import WEIGHT_UNIT
from fairlane.domain.tiers import SHARES

UNIT: Final = 8000
LEAST_RUN_US: Final = 1000
"""A start charges at least 1 ms."""


def divisor(weight_milli: int, tier: int) -> int:
    """Return what a run time is divided by: the tenant's weight in thousandths times the tier's share."""
    return weight_milli * SHARES[tier]


def cost(run_us: int, divided_by: int) -> int:
    """Return the virtual time that ``run_us`` microseconds of work cost.

    Args:
        run_us: Run time in microseconds; anything below 1 ms counts as 1 ms.
        divided_by: What :func:`divisor` returned at the start.

    Source:
        SPEC section 2, "Turns"; virtual time as in start-time fair queueing: P. Goyal, H. Vin, H. Cheng, "Start-time
        Fair Queuing", IEEE/ACM Transactions on Networking 5(5), 1997.

    Example:
        >>> cost(1_000_000, divisor(1000, 2)) * 4 == cost(1_000_000, divisor(1000, 4))
        True
    """
    return max(run_us, LEAST_RUN_US) * UNIT // divided_by


def lag(max_lag_us: int) -> int:
    """Return ``max_lag_us`` worker-microseconds at weight 1 and share 1 as virtual time."""
    return max_lag_us * UNIT // WEIGHT_UNIT


class Mean(NamedTuple):
    """A running mean over all runs: how many there were and their time together, in microseconds.

    It forgets nothing: a mean over the last 64 runs made the other tenants of google2011 wait 120 s instead of 99 s.
    """

    runs: int = 0
    total_us: int = 0

    def add(self, run_us: int) -> Mean:
        """Return the mean with one more run in it."""
        return Mean(self.runs + 1, self.total_us + run_us)

    def value_us(self) -> int | None:
        """Return the mean in whole microseconds, or None without any run."""
        return self.total_us // self.runs if self.runs else None
