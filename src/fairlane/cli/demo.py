"""`fairlane demo`: the main job in one command. Workers, a flood, urgent jobs that jump the line, a killed worker."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import click

from fairlane.cli.groups import DATABASE_HELP

if TYPE_CHECKING:
    from rich.console import Console

    from fairlane.show.board import Board
    from fairlane.show.director import Director
    from fairlane.show.feed import Feed
    from fairlane.show.oracle import Verdict
    from fairlane.show.play import Play
    from fairlane.show.scenario import Piece
    from fairlane.show.site import Site
    from fairlane.show.stage import Hand, Stage
    from fairlane.simulate.report import Statistics, Waits

WORKERS: Final = 4
SLOTS: Final = 6
SITE_S: Final = 15.0
"""How long the dashboard may take to start, while the workers start too."""
SEEN_S: Final = 0.5
"""Waits of the flood that are shorter than this are nothing to talk about."""


class Outcome(NamedTuple):
    """What a demo came to."""

    board: Board
    hands: list[Hand]
    verdict: Verdict
    statistics: Statistics
    fifo: Statistics
    fifo_tenants: dict[str, Waits]
    back_after_s: float | None
    seconds: float
    by_store: int


@click.command("demo")
@click.option("--jobs", type=click.IntRange(1, 100_000), default=2400, show_default=True, help="How many jobs.")
@click.option(
    "--seconds",
    type=click.FloatRange(1, 3600),
    default=20.0,
    show_default=True,
    help="Time in which they come; it ends some seconds later.",
)
@click.option("--no-server", is_flag=True, help="No dashboard.")
@click.option("--keep", is_flag=True, help="Leave dashboard and workers up at the end, until Ctrl-C.")
@click.option("--url", metavar="URL", help=DATABASE_HELP)
@click.option("--json", "as_json", is_flag=True, help="Print JSON, waits in seconds.")
def demo_command(*, jobs: int, seconds: float, no_server: bool, keep: bool, url: str | None, as_json: bool) -> None:
    """Watch the main job: workers, a flood, urgent jobs that jump the line, a killed worker, nothing lost.

    Four worker processes share one SQLite file, or a PostgreSQL database. One tenant floods the queue; seven small
    ones go on with their work of all tiers, some of it CRITICAL and some express. One worker is killed with SIGKILL on
    the way. What was lost and what ran twice is judged by a log that the jobs write beside the queue. Exit code 1 if
    anything was lost. The dashboard shows all of it meanwhile, where the extra `server` is installed.
    """
    from rich.console import Console

    from fairlane.show.stage import StageError, ending_well

    console = Console(stderr=as_json, highlight=False)
    if as_json and not console.is_terminal:
        console.quiet = True
    try:
        with ending_well(), performing(jobs, seconds, console, url, server=not no_server) as (outcome, site):
            if as_json:
                click.echo(json.dumps(as_object(outcome), indent=2, ensure_ascii=False))
            else:
                _print(console, outcome)
            if keep and site is not None:
                _stay(console, site)
    except StageError as error:
        raise click.ClickException(str(error)) from None
    if outcome.verdict.lost:
        raise click.exceptions.Exit(1)


def _stay(console: Console, site: Site) -> None:
    """Leave everything up until Ctrl-C."""
    if (address := site.address(0)) is None:
        return
    console.print(f"The dashboard stays up until Ctrl-C: [bold]{address}[/]")
    with suppress(KeyboardInterrupt):
        threading.Event().wait()


@contextmanager
def performing(
    jobs: int, seconds: float, console: Console, url: str | None = None, *, server: bool
) -> Generator[tuple[Outcome, Site | None]]:
    """Run a demo and give what it came to, and its dashboard if there is one; workers and files go at the end.

    Raises:
        StageError: A worker ended by itself.
    """
    from fairlane.clock import SystemClock
    from fairlane.domain.policy import Policy
    from fairlane.show.feed import Feed
    from fairlane.show.play import Play
    from fairlane.show.scenario import flood
    from fairlane.show.site import installed
    from fairlane.show.stage import Stage
    from fairlane.simulate.report import statistics

    clock = SystemClock()
    began = clock.monotonic()
    pieces = flood(jobs, seconds, WORKERS * SLOTS)
    with Stage("demo", Policy.fair(), url) as stage:
        for _ in range(WORKERS):
            stage.start(SLOTS)
        site = stage.serve() if server and installed() else None
        fifo, fifo_tenants = _under_fifo(pieces)  # while the workers start
        feed = Feed(stage.app, pieces)
        stage.wait_until_ready()
        play = Play(stage, feed)
        console.print(_opening(pieces, clock.monotonic() - began, url), soft_wrap=True)
        _announce(console, site, server=server)
        director, by_store = _play(stage, feed, play, console, seconds)
        board = play.board
        verdict = _judged(stage, play)
        figures = statistics(board.started(), workers=WORKERS * SLOTS, span_s=pieces[-1].due_s)
        elapsed_s, back_s = clock.monotonic() - began, director.back_after_s
        hands = list(stage.hands)
        yield Outcome(board, hands, verdict, figures, fifo, fifo_tenants, back_s, elapsed_s, by_store), site


def _announce(console: Console, site: Site | None, *, server: bool) -> None:
    """Say where the dashboard is, or how to get one."""
    from fairlane.show.site import HINT

    if site is not None:
        address = site.address(SITE_S)
        told = "The dashboard did not start." if address is None else f"Watch it in a browser: [bold]{address}[/]"
        console.print(told, soft_wrap=True)
    elif server:
        console.print(HINT, soft_wrap=True, markup=False)


def _play(stage: Stage, feed: Feed, play: Play, console: Console, seconds: float) -> tuple[Director, int]:
    """Let it run to its end; return who directed it, and how many jobs the queue counts as completed."""
    from fairlane.show.director import Director
    from fairlane.show.screen import Screen

    title = f"[bold]fairlane demo[/]  {WORKERS} workers, {SLOTS} slots each"
    with Screen(console, title, lambda: stage.hands) as screen:
        director = Director(stage, feed, play, screen, seconds=seconds, slots=SLOTS)
        screen.show(play.board)
        try:
            play.run(screen, director.tick)
            if director.killed is None:  # so short a demo that all was done before
                director.kill(stage.alive[0])
                screen.event(
                    play.now_s, "worker 1 killed with SIGKILL; all jobs were done already", "bold white on red"
                )
            by_store = play.completed_by_store()
        finally:
            feed.stop()
        lost = _judged(stage, play).lost
        screen.event(play.now_s, "all jobs are done" if not lost else "nothing happens any more", "bold")
    return director, by_store


def _judged(stage: Stage, play: Play) -> Verdict:
    """Return what was lost and what ran twice."""
    from fairlane.show.oracle import judge

    killed = {hand.pid: hand.number for hand in stage.hands if hand.killed_s is not None}
    return judge(play.board.accepted, play.board.runs, killed)


def _opening(pieces: list[Piece], after_s: float, url: str | None) -> str:
    from fairlane.simulate.labels import counted

    tenants = Counter(piece.tenant for piece in pieces)
    where = "one SQLite file" if url is None else "a schema of their own in PostgreSQL"
    return (
        f"{WORKERS} worker processes with {SLOTS} slots each are up after {after_s:.1f} s, on {where}.\n"
        f"{counted(len(pieces), 'job')} of {counted(len(tenants), 'tenant')} will come."
    )


def _under_fifo(pieces: list[Piece]) -> tuple[Statistics, dict[str, Waits]]:
    """Return the waits of the same jobs on as many slots, first come first served, by the simulator."""
    from fairlane.domain.policy import Policy
    from fairlane.show.scenario import as_trace
    from fairlane.simulate.engine import simulate
    from fairlane.simulate.report import statistics, waits

    trace = as_trace("demo", pieces)
    runs = list(simulate(trace, Policy.fifo(), WORKERS * SLOTS).runs())
    by_tenant = {name: waits(run.wait_s for run in runs if run.tenant == name) for name in trace.tenants()}
    return statistics(runs, workers=WORKERS * SLOTS, span_s=trace.span_s), by_tenant


def as_object(outcome: Outcome) -> dict[str, Any]:  # JSON: any depth of dicts, texts and numbers
    """Return what ``fairlane demo --json`` prints."""
    from uuid import UUID

    from fairlane.domain.tiers import TIERS
    from fairlane.simulate.report import waits

    board, verdict = outcome.board, outcome.verdict
    numbers = {hand.pid: hand.number for hand in outcome.hands}
    return {
        "jobs": verdict.accepted,
        "completed": verdict.completed,
        "lost": len(verdict.lost),
        "ran_twice": len(verdict.twice),
        "killed_workers": sum(1 for hand in outcome.hands if hand.killed_s is not None),
        "tiers": outcome.statistics["tiers"],
        "tenants": {name: waits(tally.waits) for name, tally in board.tenants.items()},
        "express": waits(board.express.waits),
        "ran_twice_jobs": [
            {
                "id": str(UUID(hex=board.ids[one.number])),
                "tenant": board.pieces[one.number].tenant,
                "tier": TIERS[board.pieces[one.number].tier].label,
                "why": one.why,
                "runs": [
                    {
                        "worker": numbers.get(run.pid),
                        "started_s": round(run.started_s - board.start_s, 3),
                        "ended_s": None if run.ended_s is None else round(run.ended_s - board.start_s, 3),
                    }
                    for run in one.runs
                ],
            }
            for one in verdict.twice
        ],
        "back_after_s": None if outcome.back_after_s is None else round(outcome.back_after_s, 3),
        "refused": len(board.refused),
        "completed_by_store": outcome.by_store,
        "seconds": round(outcome.seconds, 3),
        "fifo_simulated": {"tiers": outcome.fifo["tiers"], "tenants": outcome.fifo_tenants},
    }


def _headline(outcome: Outcome) -> str:
    """Return the point in a sentence; nothing where so few jobs came that nobody had to wait."""
    from fairlane.simulate.labels import duration
    from fairlane.simulate.report import waits

    board, others = outcome.board, outcome.statistics["others_mean_wait"]
    heaviest, tally = next(iter(board.tenants.items()))
    own, fifo = waits(tally.waits)["mean"], outcome.fifo["others_mean_wait"]
    if own is None or others is None or fifo is None or own < SEEN_S or others > own:
        return ""
    parts: list[str] = []
    if critical := outcome.statistics["tiers"].get("critical"):
        parts.append(f"CRITICAL jobs waited {duration(critical['max'])} at most, ")
    if board.express.waits:
        parts.append(f"express ones {duration(board.express.waits[-1])}, ")
    return (
        f"[bold]While {heaviest} flooded the queue (its jobs waited {duration(own)} on average), {''.join(parts)}"
        f"the other tenants' jobs {duration(others)} on average. First come, first served, those would have waited "
        f"{duration(fifo)}.[/]\n"
    )


def _print(console: Console, outcome: Outcome) -> None:
    from fairlane.show.closing import demo_tenants, demo_tiers, verdict_lines

    console.print()
    if headline := _headline(outcome):
        console.print(headline)
    console.print(demo_tiers(outcome.board, outcome.statistics, outcome.fifo))
    console.print(demo_tenants(outcome.board, outcome.fifo_tenants))
    console.print(
        "* the same jobs first come, first served, on the same slots, by fairlane's simulator, with no worker killed",
        style="bright_black",
    )
    console.print()
    for line in verdict_lines(outcome.verdict, outcome.board, outcome.hands):
        console.print(line)
    agrees = outcome.by_store == outcome.verdict.completed
    console.print(
        f"By a log that the jobs wrote themselves; the queue counts {outcome.by_store:,} completed"
        + (" too." if agrees else ": they differ.")
    )
    console.print(f"Took {outcome.seconds:.1f} s.")
