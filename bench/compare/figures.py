"""Arithmetic on measurements: no I/O."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import median
from typing import NamedTuple

from bench.compare.joblog import Event


class Figure(NamedTuple):
    """One number that a scenario gives.

    Attributes:
        name: Its name in the results.
        about: Its column's head, with the unit.
        more: Whether more is better; None: it is told for understanding.
    """

    name: str
    about: str
    more: bool | None = None


class Spread(NamedTuple):
    """The middle of several runs, and their ends."""

    middle: float
    least: float
    most: float
    runs: int


def spread(values: Sequence[float]) -> Spread:
    """Return the median and the ends of one run's figure or of several runs'.

    Example:
        >>> spread([3, 1, 2])
        Spread(middle=2, least=1, most=3, runs=3)
    """
    return Spread(median(values), min(values), max(values), len(values))


def percentile(values: Sequence[float], share: float) -> float:
    """Return the smallest value that at least such a share of the values does not exceed (nearest rank).

    Example:
        >>> percentile(list(range(1, 101)), 0.99), percentile([5.0], 0.5)
        (99, 5.0)
    """
    rank = max(1, math.ceil(share * len(values)))
    return sorted(values)[rank - 1]


def waits_ms(events: Sequence[Event]) -> list[float]:
    """Return how long jobs waited, from just before their enqueue to the event."""
    return [(event.at_ns - event.enqueued_ns) / 1e6 for event in events]


def steady_rate(ends: Sequence[Event]) -> float:
    """Return jobs a second, without the first twentieth, in which further processes start.

    Args:
        ends: In order of time; at least 20.
    """
    skipped = len(ends) // 20
    seconds = (ends[-1].at_ns - ends[skipped].at_ns) / 1e9
    return (len(ends) - 1 - skipped) / seconds


def most_starts_a_place(order: Sequence[int], risen_from: int) -> float:
    """Return how many starts a place cost at most: the p-th waiting job's starts since all had risen, over p.

    Args:
        order: Starts in order of time; 1 is one of the waiting jobs, 0 any other.
        risen_from: The first start after they had risen.

    Example:
        >>> most_starts_a_place([0, 1, 0, 0, 0, 1], risen_from=0)
        3.0
    """
    worst, place = 0.0, 0
    for number, one in enumerate(order, 1):
        if one:
            place += 1
            worst = max(worst, (number - risen_from) / place)
    return worst
