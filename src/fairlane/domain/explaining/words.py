"""The words in which explanations are told."""

from __future__ import annotations


def jobs(number: int) -> str:
    """Return a number of jobs in words."""
    return "1 job" if number == 1 else f"{number:,} jobs"


def goes(number: int) -> str:
    """Return what so many jobs do: one goes, several go."""
    return "goes" if number == 1 else "go"


def span(span_ms: int) -> str:
    """Return a time in words, short."""
    seconds = max(0, span_ms) / 1000
    for unit_s, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= 2 * unit_s:
            return f"{seconds / unit_s:.0f} {unit}"
    return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"  # noqa: PLR2004  two digits are enough
