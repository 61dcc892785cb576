"""Figures as people read them, the same in the terminal and in the HTML report."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final, NamedTuple

from fairlane.simulate.compare import Comparison, Result

NONE: Final = "-"
MINUTE_S: Final = 60.0
HOUR_S: Final = 3600.0
DAY_S: Final = 86400.0
TEN: Final = 10
"""Figures from here on need a digit less behind the point."""

_UNITS: Final = ((1.0, 1e-3, "ms"), (2 * MINUTE_S, 1.0, "s"), (2 * HOUR_S, MINUTE_S, "min"), (2 * DAY_S, HOUR_S, "h"))
"""Below how many seconds which unit is used, and its length."""


def duration(seconds: float | None) -> str:
    """Return a length of time in the unit that suits it.

    Example:
        >>> [duration(s) for s in (None, 0, 0.0004, 0.0712, 4.56, 98.9, 809.9, 50_000, 434_568)]
        ['-', '0 s', '0.4 ms', '71 ms', '4.6 s', '99 s', '13.5 min', '13.9 h', '5.0 d']
    """
    if seconds is None:
        return NONE
    if seconds == 0:
        return "0 s"
    for below, unit_s, unit in _UNITS:
        if seconds < below:
            value = seconds / unit_s
            digits = 0 if unit.endswith("s") and value >= TEN else 1
            return f"{value:.{digits}f}".removesuffix(".0") + f" {unit}"
    return f"{seconds / DAY_S:,.1f} d"


def ratio(value: float | None) -> str:
    """Return a slowdown: two digits behind the point while it is small.

    Example:
        >>> ratio(None), ratio(1.234), ratio(56.78), ratio(1234.5)
        ('-', '1.23', '56.8', '1,234')
    """
    if value is None:
        return NONE
    digits = 2 if value < TEN else 1 if value < TEN * TEN else 0
    return f"{value:,.{digits}f}"


def index(value: float | None) -> str:
    """Return a figure between 0 and 1.

    Example:
        >>> index(None), index(0.98405)
        ('-', '0.984')
    """
    return NONE if value is None else f"{value:.3f}"


def percent(share: float) -> str:
    """Return a share in percent.

    Example:
        >>> percent(0.663), percent(0.0012), percent(1)
        ('66 %', '0.1 %', '100 %')
    """
    return f"{share * 100:.1f} %" if 0 < share * 1000 < TEN else f"{share * 100:.0f} %"


def counted(number: int, what: str) -> str:
    """Return how many there are of something.

    Example:
        >>> counted(1, "job"), counted(56711, "job")
        ('1 job', '56,711 jobs')
    """
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def worker_count(workers: int, utilisation: float) -> str:
    """Return how many workers there are and how busy that makes them.

    Example:
        >>> worker_count(9086, 0.95003)
        '9,086 workers (utilisation 0.95)'
    """
    busy = "all jobs at one instant" if math.isinf(utilisation) else f"utilisation {utilisation:.2f}"
    return f"{counted(workers, 'worker')} ({busy})"


class Measure(NamedTuple):
    """One line of the summary: a value for each policy, in the order of the comparison.

    ``best`` marks the policies that do best, where they differ.
    """

    label: str
    values: list[float | None]
    shown: list[str]
    best: list[bool]


def _measure(
    label: str,
    values: list[float | None],
    *,
    best: Callable[[list[float]], float] | None = min,
    show: Callable[[float | None], str] = duration,
) -> Measure:
    shown = [show(value) for value in values]
    known = [value for value in values if value is not None]
    top = show(best(known)) if best is not None and known and len(set(shown)) > 1 else None
    return Measure(label, values, shown, [text == top for text in shown])


def own_mean_wait(result: Result, tenant: str) -> float | None:
    """Return the mean wait of one tenant's jobs, or None when none of them started."""
    waits_s = [run.wait_s for run in result.runs if run.tenant == tenant]
    return math.fsum(waits_s) / len(waits_s) if waits_s else None


def summary(comparison: Comparison) -> list[Measure]:
    """Return what tells the policies apart, one line each."""
    results = list(comparison.results.values())
    all_statistics = [result.statistics for result in results]
    heaviest = comparison.trace.heaviest()
    alone = f"… and if tenant {heaviest} were not there"
    return [
        _measure("Mean wait of the others", [figures["others_mean_wait"] for figures in all_statistics]),
        _measure(alone, [result.alone for result in results], best=None),
        _measure("p99 wait of their urgent jobs", [figures["others"]["urgent"]["p99"] for figures in all_statistics]),
        _measure(
            f"Mean wait of tenant {heaviest} itself", [own_mean_wait(result, heaviest) for result in results], best=None
        ),
        _measure(
            "Slowdown of the median tenant", [figures["slowdown"]["p50"] for figures in all_statistics], show=ratio
        ),
        _measure(
            "Slowdown, 90 % of tenants below", [figures["slowdown"]["p90"] for figures in all_statistics], show=ratio
        ),
        _measure(
            "Slowdown of the worst tenant", [figures["slowdown"]["max"] for figures in all_statistics], show=ratio
        ),
        _measure(
            "Jain index of 1 / slowdown",
            [figures["jain_inverse_slowdown"] for figures in all_statistics],
            best=max,
            show=index,
        ),
    ]
