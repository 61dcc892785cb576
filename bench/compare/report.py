"""What comes out: Markdown made of the JSON, so that both say the same."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from bench.compare.figures import Figure, Spread, spread

Results = Mapping[str, Any]  # Any: JSON
LARGE = 100


class Row(NamedTuple):
    """What one queue did in one scenario.

    Attributes:
        queue: Its name.
        figures: By name, over all runs that gave one.
        troubles: Why runs gave none.
    """

    queue: str
    figures: dict[str, Spread]
    troubles: list[str]


def rows(results: Results, scenario: str) -> list[Row]:
    """Return a row for each queue that was asked, in the order in which they were."""
    mine = [one for one in results["measurements"] if one["scenario"] == scenario]
    found: list[Row] = []
    for queue in dict.fromkeys(one["queue"] for one in mine):
        values: dict[str, list[float]] = {}
        for one in mine:
            if one["queue"] == queue:
                for name, value in one.get("figures", {}).items():
                    values.setdefault(name, []).append(value)
        figures = {name: spread(many) for name, many in values.items()}
        found.append(
            Row(queue, figures, [one["trouble"] for one in mine if one["queue"] == queue and "trouble" in one])
        )
    return found


def number(value: float) -> str:
    """Return a value as people read it: three figures that count, thousands apart.

    Example:
        >>> [number(value) for value in (12345.6, 123.4, 12.34, 1.234, 0.0, 20.0)]
        ['12,346', '123', '12.3', '1.23', '0', '20']
    """
    if value == round(value) or abs(value) >= LARGE:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def shown(one: Spread | None) -> str:
    """Return the middle, and the ends where there are several."""
    if one is None:
        return ""
    middle = number(one.middle)
    if one.runs == 1 or one.least == one.most:
        return middle
    return f"{middle} ({number(one.least)}..{number(one.most)})"


def own(queue: str, stores: Mapping[str, str]) -> str:
    """Return which of fairlane's a queue is set against: PostgreSQL's with its like, the others with the file."""
    return "fairlane-postgres" if stores.get(queue) == "postgres" else "fairlane"


def ratio(mine: Spread | None, theirs: Spread | None) -> float | None:
    """Return fairlane's figure over another's, or None where there is none."""
    if mine is None or theirs is None or not theirs.middle:
        return None
    return mine.middle / theirs.middle


def table(results: Results, scenario: str, figures: tuple[Figure, ...]) -> Iterator[str]:
    """Return the lines of a scenario's table, the best first."""
    found = rows(results, scenario)
    queues = results["queues"]
    stores = {name: str(one["store"]) for name, one in queues.items()}
    first = figures[0]
    by_name = {row.queue: row for row in found}
    kept = [figure for figure in figures if any(figure.name in row.figures for row in found)]
    heads = [figure.about for figure in kept]
    yield "| " + " | ".join(["queue", "power cut", *heads, "fairlane ÷ it", "runs"]) + " |"
    yield "|---" * (len(heads) + 4) + "|"
    for row in sorted(found, key=lambda row: _rank(row, first)):
        theirs = row.figures.get(first.name)
        cells = [row.queue, str(queues[row.queue]["durability"])]
        if not row.figures:
            yield "| " + " | ".join([*cells, row.troubles[-1], *[""] * (len(kept) - 1), "", ""]) + " |"
            continue
        mine = by_name.get(own(row.queue, stores))
        over = ratio(mine.figures.get(first.name) if mine else None, theirs)
        runs = max(one.runs for one in row.figures.values())
        cells += [shown(row.figures.get(figure.name)) for figure in kept]
        cells += ["" if over is None or row is mine else f"{over:.2f}", str(runs)]
        yield "| " + " | ".join(cells) + " |"


def _rank(row: Row, first: Figure) -> float:
    one = row.figures.get(first.name)
    if one is None:
        return float("inf")
    return -one.middle if first.more else one.middle


def settings(results: Results) -> Iterator[str]:
    """Return the lines of the table of versions and settings."""
    yield "| queue | store | versions | settings |"
    yield "|---|---|---|---|"
    for name, one in results["queues"].items():
        versions = ", ".join(f"{package} {version}" for package, version in one["versions"].items())
        tuned = f"; crash-tuned: {one['tuned_crash']}" if one["tuned_crash"] else ""
        yield f"| {name} | {one['store']} | {versions} | {one['settings']}{tuned} |"


def markdown(results: Results, scenarios: Iterable[Any]) -> str:  # Any: Scenario, which imports more than is needed
    """Return everything as Markdown."""
    lines: list[str] = []
    for scenario in scenarios:
        if not rows(results, scenario.name):
            continue
        lines += [f"### {scenario.name}", "", scenario.about, "", *table(results, scenario.name, scenario.figures), ""]
    lines += ["### versions and settings", "", *settings(results), ""]
    left_out = [f"* {one['queue']}, {one['scenario']}: {one['why']}" for one in results["skipped"]]
    if left_out:
        lines += ["Left out:", "", *left_out, ""]
    machine = ", ".join(f"{name} {value}" for name, value in results["machine"].items())
    lines += [f"Measured {results['at']}: {machine}. Medians (least..most).", ""]
    return "\n".join(lines)
