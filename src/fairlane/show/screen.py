"""The live picture on a terminal, with event lines above it; without a terminal, the lines alone.

Imports rich: import this module only where something is printed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Self

from rich.box import ASCII, ROUNDED
from rich.console import Console, ConsoleOptions, RenderResult
from rich.live import Live
from rich.measure import Measurement
from rich.panel import Panel
from rich.segment import Segment
from rich.style import Style
from rich.table import Table
from rich.text import Text

from fairlane.show.board import Board, Tally
from fairlane.show.stage import Hand
from fairlane.simulate.labels import NONE, duration
from fairlane.simulate.report import quantile

FRAMES_A_SECOND: Final = 8
STATUS_EVERY_S: Final = 5.0
TENANTS_SHOWN: Final = 8
WIDEST: Final = 110
LEAST_TALL: Final = 24
"""Lines of a terminal below which tenants and workers are left out."""

DONE: Final = Style(color="green")
RUNNING: Final = Style(color="yellow")
WAITING: Final = Style(color="red")
TO_COME: Final = Style(color="bright_black")
TIER_STYLES: Final = {"critical": "bold red", "high": "bold yellow", "normal": "bold", "low": "", "background": "dim"}
_BLOCKS: Final = ("█", "█", "▒", "┈")
_PLAIN_BLOCKS: Final = ("#", ">", ":", ".")


class Bar:
    """Done, running, waiting and to come, as parts of one bar; as wide as its place."""

    def __init__(self, tally: Tally) -> None:
        self._tally = tally

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        tally = self._tally
        blocks = _PLAIN_BLOCKS if options.ascii_only else _BLOCKS
        width = options.max_width
        counts = (tally.done, tally.running, tally.waiting, tally.total - tally.done - tally.running - tally.waiting)
        widths = parts(counts, width)
        for block, style, part in zip(blocks, (DONE, RUNNING, WAITING, TO_COME), widths, strict=True):
            if part:
                yield Segment(block * part, style)
        yield Segment.line()

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        return Measurement(6, options.max_width)


def parts(counts: Sequence[int], width: int) -> list[int]:
    """Divide a width among counts, so that what is there is seen.

    Args:
        counts: How many there are of each, 0 or more.
        width: What to divide; at least one for each count that is not 0.

    Example:
        >>> parts([500, 1, 499, 0], 10), parts([0, 0], 4)
        ([4, 1, 5, 0], [0, 4])
    """
    total = sum(counts)
    if not total:
        return [0] * (len(counts) - 1) + [width]
    widths = [max(round(width * count / total), 1 if count else 0) for count in counts]
    widths[widths.index(max(widths))] += width - sum(widths)  # the largest part pays for the rounding
    return widths


class Screen:
    """Shows a board; enter it to begin.

    Args:
        console: Where.
        title: What it is.
        hands: The workers, dead ones too; asked for at each picture.
    """

    def __init__(self, console: Console, title: str, hands: Callable[[], Sequence[Hand]]) -> None:
        self._console = console
        self._title = title
        self._hands = hands
        self._board: Board | None = None
        self._now_s = 0.0
        self._status_s = STATUS_EVERY_S
        self._live: Live | None = None
        if console.is_terminal and not console.quiet:
            self._live = Live(
                get_renderable=self._picture,
                console=console,
                refresh_per_second=FRAMES_A_SECOND,
                transient=True,
                auto_refresh=False,
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        if self._live is not None:
            self._live.stop()

    def show(self, board: Board) -> None:
        """Begin to show a board."""
        self._board = board
        if self._live is not None:
            self._live.start()

    def event(self, now_s: float | None, text: str, style: str = "") -> None:
        """Print a line about something that happened; without an instant it belongs to the one above."""
        at = Text(f"{max(0.0, now_s):6.1f} s  " if now_s is not None else " " * 10, style="bright_black")
        self._console.print(at.append(Text(text, style=style or "default")), soft_wrap=not self._console.is_terminal)

    def update(self, now_s: float) -> None:
        """Show what the board says now."""
        self._now_s = now_s
        if self._live is not None:
            self._live.refresh()
        elif self._board is not None and now_s >= self._status_s:
            self._status_s += STATUS_EVERY_S
            self._status(self._board)

    def _status(self, board: Board) -> None:
        everybody = board.all
        heaviest, own = next(iter(board.tenants.items()))
        urgent = next(iter(board.tiers.items()))
        self.event(
            self._now_s,
            f"waiting {everybody.waiting:,} ({heaviest} {own.waiting:,}), running {everybody.running:,}, "
            f"done {everybody.done:,} of {everybody.total:,}; {urgent[0].name} p99 {_at(urgent[1], 0.99)}",
            "bright_black",
        )

    # ------------------------------------------------------------------ the picture

    def _picture(self) -> Panel | Text:
        board = self._board
        if board is None:
            return Text("")
        width = min(self._console.width, WIDEST)
        grid = Table.grid(expand=True)
        grid.add_row(_tiers(board))
        if self._console.height >= LEAST_TALL:
            grid.add_row("")
            grid.add_row(self._below(board))
        grid.add_row(self._legend(board))
        box = ASCII if self._console.options.ascii_only else ROUNDED
        clock = f"[bold]{max(0.0, self._now_s):5.1f} s[/]"
        return Panel(
            grid, title=self._title, title_align="left", subtitle=clock, subtitle_align="right", box=box, width=width
        )

    def _below(self, board: Board) -> Table:
        both = Table.grid(expand=True, padding=(0, 2, 0, 0))
        both.add_column(ratio=5)
        both.add_column(ratio=3)
        both.add_row(_tenants(board), self._workers(board))
        return both

    def _workers(self, board: Board) -> Table:
        table = Table.grid(padding=(0, 2, 0, 0))
        table.add_column(no_wrap=True)
        table.add_column(no_wrap=True)
        table.add_column(justify="right")
        table.add_row(Text("Worker", style="bold"), Text("slots", style="bold"), Text("done", style="bold"))
        plain = self._console.options.ascii_only
        for hand in list(self._hands())[-TENANTS_SHOWN:]:
            tally = board.hands.get(hand.pid, Tally())
            if hand.killed_s is not None:
                table.add_row(
                    Text(f"{hand.number} {'x' if plain else '✖'}", style="bold red"),
                    Text("SIGKILL", style="bold red"),
                    f"{tally.done:,}",
                )
                continue
            busy = min(tally.running, hand.slots)
            slots = Text(("#" if plain else "●") * busy, style=RUNNING)
            slots.append(("." if plain else "○") * (hand.slots - busy), style=TO_COME)
            table.add_row(str(hand.number), slots, f"{tally.done:,}")
        return table

    def _legend(self, board: Board) -> Text:
        blocks = _PLAIN_BLOCKS if self._console.options.ascii_only else _BLOCKS
        everybody = board.all
        to_come = everybody.total - everybody.done - everybody.running - everybody.waiting
        parts = (
            ("done", everybody.done, DONE),
            ("running", everybody.running, RUNNING),
            ("waiting", everybody.waiting, WAITING),
            ("to come", to_come, TO_COME),
        )
        text = Text("\n")
        for block, (name, count, style) in zip(blocks, parts, strict=True):
            text.append(block * 2, style=style).append(f" {name} {count:,}   ")
        return text


def _head(left: str) -> Table:
    table = Table(box=None, expand=True, padding=(0, 1, 0, 0), pad_edge=False, header_style="bold")
    table.add_column(left, no_wrap=True, overflow="ellipsis")
    table.add_column("", ratio=1)
    for name in ("waiting", "done", "wait p50", "p99"):
        table.add_column(name, justify="right", no_wrap=True, min_width=7)
    return table


def _row(table: Table, name: Text, tally: Tally) -> None:
    waiting = Text(f"{tally.waiting:,}", style="red" if tally.waiting else "bright_black")
    table.add_row(name, Bar(tally), waiting, f"{tally.done:,}", _at(tally, 0.5), _at(tally, 0.99))


def _tiers(board: Board) -> Table:
    table = _head("Tier")
    table.columns[0].min_width = 10
    if board.express.total:
        _row(table, Text("express", style="bold cyan"), board.express)
    for tier, tally in board.tiers.items():
        _row(table, Text(tier.name, style=TIER_STYLES[tier.label]), tally)
    return table


def _tenants(board: Board) -> Table:
    table = Table(box=None, expand=True, padding=(0, 1, 0, 0), pad_edge=False, header_style="bold")
    table.add_column("Tenant", no_wrap=True, overflow="ellipsis", max_width=12)
    table.add_column("", ratio=1)
    for name in ("waiting", "wait p50", "p99"):
        table.add_column(name, justify="right", no_wrap=True, min_width=7)
    names = list(board.tenants)
    shown = names if len(names) <= TENANTS_SHOWN else names[: TENANTS_SHOWN - 1]
    for name in shown:
        _tenant_row(table, Text(name, style="bold magenta" if name == names[0] else ""), board.tenants[name])
    if rest := names[len(shown) :]:
        _tenant_row(table, Text(f"{len(rest)} others", style="dim"), _together([board.tenants[name] for name in rest]))
    return table


def _tenant_row(table: Table, name: Text, tally: Tally) -> None:
    waiting = Text(f"{tally.waiting:,}", style="red" if tally.waiting else "bright_black")
    table.add_row(name, Bar(tally), waiting, _at(tally, 0.5), _at(tally, 0.99))


def _together(tallies: Sequence[Tally]) -> Tally:
    return Tally(
        total=sum(tally.total for tally in tallies),
        waiting=sum(tally.waiting for tally in tallies),
        running=sum(tally.running for tally in tallies),
        done=sum(tally.done for tally in tallies),
        waits=sorted(wait_s for tally in tallies for wait_s in tally.waits),
    )


def _at(tally: Tally, share: float) -> str:
    return duration(quantile(tally.waits, share)) if tally.waits else NONE
