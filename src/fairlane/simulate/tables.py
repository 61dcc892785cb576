"""The report of a simulation in the terminal: the policies side by side.

Imports rich: import this module only where something is printed.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Literal

from rich.box import SIMPLE_HEAD
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from fairlane.domain.tiers import TIERS, Tier
from fairlane.simulate.compare import Comparison, Result
from fairlane.simulate.labels import NONE, counted, duration, percent, summary, worker_count

Quantile = Literal["mean", "p50", "p90", "p99", "max"]
QUANTILES: Final[tuple[Quantile, ...]] = ("mean", "p50", "p90", "p99", "max")


def tables(comparison: Comparison) -> list[RenderableType]:
    """Return what to print: a line about the trace, waits by tier, and the summary."""
    trace = comparison.trace
    counts = trace.tenants()
    heaviest = trace.heaviest()
    busy = worker_count(comparison.workers, trace.utilisation(comparison.workers))
    size = f"{counted(len(trace.jobs), 'job')} of {counted(len(counts), 'tenant')} in {duration(trace.span_s)}"
    share = percent(counts[heaviest] / len(trace.jobs))
    facts = f"{trace.name}: {size}, {busy}; tenant {heaviest} has {share} of the jobs"
    return [Text(facts), wait_table(comparison), summary_table(comparison)]


def wait_table(comparison: Comparison) -> Table:
    """Return the waits by tier: a column for each policy; of a single policy, a column for each quantile."""
    results = list(comparison.results.values())
    alone = len(results) == 1
    table = _empty(
        "Waits by tier", ["Tier", "Jobs"] + ["Wait"] * (not alone), QUANTILES if alone else comparison.results
    )
    for tier in TIERS:
        figures = [own for result in results if (own := result.statistics["tiers"].get(tier.label))]
        if not figures:
            continue
        jobs = f"{max(own['jobs'] for own in figures):,}"
        if alone:
            table.add_row(tier.name, jobs, *(duration(figures[0][quantile]) for quantile in QUANTILES))
            continue
        for quantile in QUANTILES:
            first = [tier.name, jobs] if quantile == QUANTILES[0] else ["", ""]
            cells = [_shown(result, tier, quantile) for result in results]
            table.add_row(*first, quantile, *cells, end_section=quantile == QUANTILES[-1])
    return table


def _shown(result: Result, tier: Tier, quantile: Quantile) -> str:
    own = result.statistics["tiers"].get(tier.label)
    return duration(own[quantile]) if own else NONE


def summary_table(comparison: Comparison) -> Table:
    """Return what tells the policies apart: a line for each measure, a column for each policy, the best in bold."""
    table = _empty("Tenants", [""], comparison.results)
    for measure in summary(comparison):
        if any(value is not None for value in measure.values):
            cells = [
                Text(text, style="bold green" if best else "")
                for text, best in zip(measure.shown, measure.best, strict=True)
            ]
            table.add_row(Text(measure.label), *cells)
    return table


def _empty(title: str, left: list[str], names: Iterable[str]) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold", box=SIMPLE_HEAD, pad_edge=False)
    for text in left:
        table.add_column(text, justify="right" if text == "Jobs" else "left")
    for name in names:
        table.add_column(name, justify="right", no_wrap=True)
    return table
