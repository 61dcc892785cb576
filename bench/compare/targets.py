"""What fairlane wants to be, as ratios to others of the same run, and whether it is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from bench.compare.report import Results, number, rows

FILE: Final = "fairlane"
DATABASE: Final = "fairlane-postgres"


class Target(NamedTuple):
    """One aim.

    Attributes:
        queue: Which of fairlane's.
        scenario: Where.
        figure: What of.
        bound: The least, or with ``below`` the most: times the other's figure, or as it is where there is no other.
        other: The queue, or several: then the best of them.
        in_scenario: Where the other figure is, when it is elsewhere.
        below: Whether less is better.
    """

    queue: str
    scenario: str
    figure: str
    bound: float
    other: tuple[str, ...] = ()
    in_scenario: str = ""
    below: bool = False


TARGETS: Final = (
    Target(FILE, "drain1", "per_s", 1.5, ("huey",)),
    Target(FILE, "drain1", "per_s", 2.0, ("taskiq",)),
    Target(FILE, "drain2", "per_s", 0.8, (FILE,), "drain1"),
    Target(FILE, "enqueue", "per_s", 0.5, ("huey",)),
    Target(FILE, "together", "per_s", 4.0, ("huey",)),
    Target(FILE, "bulk", "per_s", 60_000),
    Target(DATABASE, "drain1", "per_s", 0.4, ("pgqueuer",)),
    Target(DATABASE, "drain1", "per_s", 3.0, ("oban",)),
    Target(DATABASE, "drain1", "per_s", 20.0, ("procrastinate",)),
    Target(DATABASE, "drain1", "per_s", 1.0, ("awa",)),
    Target(DATABASE, "enqueue", "per_s", 1.0, ("pgqueuer",)),
    Target(DATABASE, "bulk", "per_s", 1.0, ("pgqueuer",)),
    Target(DATABASE, "producers", "per_s", 1.0, (DATABASE,), "enqueue"),
    Target(DATABASE, "drain2", "per_s", 1.0, (DATABASE,), "drain1"),
    Target(DATABASE, "idle", "commits_per_s", 2.0, below=True),
    *(
        target
        for queue, latency_ms, back_s in ((FILE, 2.0, 2.0), (DATABASE, 3.5, 12.0))
        for target in (
            Target(queue, "latency", "p50_ms", latency_ms, below=True),
            Target(
                queue, "flood", "p99_ms", 1.2, ("huey", "bullmq", "celery", "pgqueuer", "awa", "oban", "rq"), below=True
            ),
            Target(queue, "flood", "background_per_s", 650),
            Target(queue, "noisy", "ratio", 1.2, below=True),
            Target(queue, "noisy", "again", 1.2, below=True),
            Target(queue, "starve", "low_ran", 20),
            Target(queue, "starve", "starts_a_place", 16, below=True),
            Target(queue, "starve", "urgent_p99_ms", 2.0, (f"{queue}-strict",), below=True),
            Target(queue, "aged", "p99_ms", 3.0, (queue,), "flood", below=True),
            Target(queue, "crash", "not_done", 0, below=True),
            Target(queue, "crash", "back_s", back_s, below=True),
        )
    ),
)


def _middle(results: Results, scenario: str, queue: str, figure: str) -> float | None:
    for row in rows(results, scenario):
        if row.queue == queue and figure in row.figures:
            return row.figures[figure].middle
    return None


def judged(results: Results) -> Iterator[str]:
    """Return the lines of a table of all aims for which there are figures."""
    yield "| queue | scenario | figure | is | wanted | met |"
    yield "|---|---|---|---|---|---|"
    for one in TARGETS:
        value = _middle(results, one.scenario, one.queue, one.figure)
        sign = "≤" if one.below else "≥"
        wanted = f"{sign} {number(one.bound)}"
        met = "not measured"
        told = "" if value is None else number(value)
        if value is not None and not one.other:
            met = "yes" if (value <= one.bound if one.below else value >= one.bound) else "**no**"
        elif one.other:
            where = one.in_scenario or one.scenario
            found = {queue: _middle(results, where, queue, one.figure) for queue in one.other}
            known = {queue: other for queue, other in found.items() if other}
            best = min(known, key=known.__getitem__) if known else ""
            named = best if known else " or ".join(one.other)
            elsewhere = f" in {one.in_scenario}" if one.in_scenario else ""
            wanted = f"{sign} {number(one.bound)} x {named}{elsewhere}"
            if value is not None and known:
                over = value / known[best]
                told = f"{number(value)} = {over:.2f} x"
                met = "yes" if (over <= one.bound if one.below else over >= one.bound) else "**no**"
        yield f"| {one.queue} | {one.scenario} | {one.figure} | {told} | {wanted} | {met} |"
