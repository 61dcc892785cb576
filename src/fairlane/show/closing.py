"""The tables at the end, and what the log says about jobs lost and jobs run twice.

Imports rich: import this module only where something is printed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from fairlane.domain.tiers import TIERS
from fairlane.show.board import Board
from fairlane.show.oracle import Twice, Verdict
from fairlane.show.screen import TIER_STYLES
from fairlane.show.stage import Hand
from fairlane.simulate.labels import NONE, counted, duration
from fairlane.simulate.report import Statistics, Waits, waits

TWICE_SHOWN: Final = 12
FULL: Final = ("mean", "p50", "p90", "p99", "max")
SHORT: Final = ("p50", "p99", "max")


def table(title: str, left: str, columns: Sequence[str]) -> Table:
    """Return an empty table: a name, a number of jobs, and columns of waits."""
    made = Table(title=title, title_justify="left", title_style="bold", box=SIMPLE_HEAD, pad_edge=False)
    made.add_column(left, min_width=19)
    made.add_column("Jobs", justify="right", min_width=5)
    for name in columns:
        made.add_column(name, justify="right", no_wrap=True, min_width=6)
    return made


def figures(own: Waits, columns: Sequence[str]) -> list[str]:
    """Return the cells of a row: the number of jobs, then waits."""
    values: Mapping[str, object] = {**own}
    cells = [values[name] for name in columns]
    return [f"{own['jobs']:,}", *(duration(cell) if isinstance(cell, float) else NONE for cell in cells)]


def demo_tiers(board: Board, statistics: Statistics, fifo: Statistics) -> Table:
    """Return the demo's waits by tier, next to what plain first come, first served would have made of them."""
    made = table("Waits by tier", "Tier", [*SHORT, "FIFO p99 *"])
    for tier in TIERS:
        if own := statistics["tiers"].get(tier.label):
            under = duration(fifo["tiers"][tier.label]["p99"]) if tier.label in fifo["tiers"] else NONE
            made.add_row(Text(tier.name, style=TIER_STYLES[tier.label]), *figures(own, SHORT), Text(under, style="dim"))
    if board.express.total:
        made.add_row(
            Text("of these: express", style="bold cyan"),
            *figures(waits(board.express.waits), SHORT),
            Text(NONE, style="dim"),
        )
    return made


def demo_tenants(board: Board, fifo: Mapping[str, Waits]) -> Table:
    """Return the demo's waits by tenant, the heaviest first."""
    made = table("Waits by tenant", "Tenant", [*SHORT, "FIFO p99 *"])
    heaviest = next(iter(board.tenants))
    for name, tally in board.tenants.items():
        under = duration(fifo[name]["p99"]) if name in fifo else NONE
        shown = Text(f"{name} (the flood)", style="bold magenta") if name == heaviest else Text(name)
        made.add_row(shown, *figures(waits(tally.waits), SHORT), Text(under, style="dim"))
    return made


def replay_tiers(statistics: Statistics) -> Table:
    """Return the waits of a replay by tier."""
    made = table("Waits by tier", "Tier", FULL)
    for tier in TIERS:
        if own := statistics["tiers"].get(tier.label):
            made.add_row(Text(tier.name, style=TIER_STYLES[tier.label]), *figures(own, FULL))
    return made


def replay_tenants(board: Board, statistics: Statistics) -> Table:
    """Return the waits of a replay: of the heaviest tenant, and of the others."""
    made = table("Waits by tenant", "Tenant", FULL)
    heaviest = statistics["heaviest_tenant"]
    if heaviest is not None:
        own = waits(board.tenants[heaviest].waits)
        made.add_row(Text(f"{heaviest} (the heaviest)", style="bold magenta"), *figures(own, FULL))
    others = statistics["others"]
    made.add_row(counted(len(board.tenants) - 1, "other"), *figures(others["all"], FULL))
    made.add_row("  CRITICAL and HIGH", *figures(others["urgent"], FULL))
    return made


def verdict_lines(verdict: Verdict, board: Board, hands: Sequence[Hand]) -> list[Text]:
    """Return what became of the jobs, by the log of the handlers."""
    lost = len(verdict.lost)
    lines = [
        Text.assemble(
            f"{counted(verdict.accepted, 'job')} accepted, {verdict.completed:,} completed, ",
            (f"{lost:,} lost", "bold red" if lost else "bold green"),
            f", {len(verdict.twice):,} ran twice.",
        )
    ]
    if board.refused:
        lines.append(Text(f"{counted(len(board.refused), 'job')} refused: {board.refused[0][1]}", style="red"))
    for why, group in by_cause(verdict.twice).items():
        style = "bold red" if "unexplained" in why else ""
        lines.append(Text(f"Ran twice, {counted(len(group), 'job')}: {why} (at least once).", style=style))
        lines += [_runs(one, board, hands) for one in group[:TWICE_SHOWN]]
        if more := len(group) - TWICE_SHOWN:
            lines += [Text(f"  and {more:,} more", style="bright_black")] * (more > 0)
    return lines


def by_cause(twice: Sequence[Twice]) -> dict[str, list[Twice]]:
    """Return the jobs that ran twice by the reason why."""
    groups: dict[str, list[Twice]] = {}
    for one in twice:
        groups.setdefault(one.why, []).append(one)
    return groups


def _runs(one: Twice, board: Board, hands: Sequence[Hand]) -> Text:
    piece = board.pieces[one.number]
    numbers = {hand.pid: hand.number for hand in hands}
    runs = ", then ".join(
        f"worker {numbers.get(run.pid, '?')} at {run.started_s - board.start_s:.2f} s"
        + ("" if run.ended_s is not None else " (cut off)")
        for run in one.runs
    )
    return Text(f"  {piece.tenant} {TIERS[piece.tier].name} {piece.queue}: {runs}", style="bright_black")
