"""`fairlane replay`: a trace's jobs through real worker processes, at the times at which they came."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

import click

from fairlane.cli.groups import DATABASE_HELP

if TYPE_CHECKING:
    from rich.console import Console

    from fairlane.show.board import Board
    from fairlane.show.oracle import Verdict
    from fairlane.show.stage import Hand
    from fairlane.simulate.report import Statistics
    from fairlane.simulate.traces import Trace

POLICIES: Final = ("fair", "strict", "fifo")
MANY: Final = 1.5
"""Utilisation from which waits only grow, so that the reader is warned."""


class Outcome(NamedTuple):
    """What a replay came to."""

    board: Board
    hands: list[Hand]
    verdict: Verdict
    statistics: Statistics


@click.command("replay")
@click.argument("trace", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--speed",
    type=click.FloatRange(0.001, 1000),
    default=1.0,
    show_default=True,
    help="How many times as fast: gaps and run times are divided by it.",
)
@click.option("--policy", type=click.Choice(POLICIES), default="fair", show_default=True, help="Who runs next.")
@click.option(
    "--slots", type=click.IntRange(1, 10_000), default=32, show_default=True, help="How many jobs run at once."
)
@click.option(
    "--workers",
    "-p",
    "processes",
    type=click.IntRange(1, 256),
    default=4,
    show_default=True,
    help="How many worker processes share the slots.",
)
@click.option("--url", metavar="URL", help=DATABASE_HELP)
@click.option("--json", "as_json", is_flag=True, help="Print JSON, waits in seconds.")
def replay_command(
    *,
    trace: Path,
    speed: float,
    policy: Literal["fair", "strict", "fifo"],
    slots: int,
    processes: int,
    url: str | None,
    as_json: bool,
) -> None:
    """Run the jobs of TRACE through real worker processes at the times at which they came, and show the waits.

    TRACE is a CSV file as for `fairlane simulate`; `fairlane sample-trace` makes one. Each job sleeps for its run time.
    The queue is a SQLite file in a temporary folder, or in a PostgreSQL database. It ends when the last job has run.
    Exit code 1 if one was lost.
    """
    from rich.console import Console

    from fairlane.errors import FairlaneError
    from fairlane.show.stage import StageError, ending_well
    from fairlane.simulate.traces import read

    try:
        jobs = read(trace)
    except FairlaneError as error:
        raise click.ClickException(str(error)) from None
    except OSError as error:
        raise click.ClickException(f"cannot read {trace}: {error.strerror or error}") from None
    if processes > slots:
        raise click.BadParameter(f"{processes} processes cannot share {slots} slots", param_hint="--workers")
    console = Console(stderr=as_json, highlight=False)
    if as_json and not console.is_terminal:
        console.quiet = True
    try:
        with ending_well():
            outcome = perform(jobs, console, url, speed=speed, policy=policy, slots=slots, processes=processes)
    except StageError as error:
        raise click.ClickException(str(error)) from None
    if as_json:
        click.echo(json.dumps(as_object(jobs, slots, policy, outcome), indent=2, ensure_ascii=False))
        for line in _honest(outcome):
            click.echo(line, err=True)
    else:
        _print(console, outcome, trace=trace, policy=policy, slots=slots)
    if outcome.verdict.lost:
        raise click.exceptions.Exit(1)


def perform(
    trace: Trace, console: Console, url: str | None, *, speed: float, policy: str, slots: int, processes: int
) -> Outcome:
    """Run a trace and return what it came to.

    Raises:
        StageError: A worker ended by itself.
    """
    from fairlane.domain.policy import Policy
    from fairlane.show.feed import Feed
    from fairlane.show.oracle import judge
    from fairlane.show.play import Play
    from fairlane.show.scenario import of_trace
    from fairlane.show.screen import Screen
    from fairlane.show.stage import Stage
    from fairlane.simulate.labels import counted, duration, worker_count
    from fairlane.simulate.report import statistics

    pieces = of_trace(trace, speed)
    span_s = trace.span_s / speed
    busy = trace.utilisation(slots)
    console.print(
        f"{trace.name}: {counted(len(pieces), 'job')} of {counted(len(trace.tenants()), 'tenant')} in "
        f"{duration(span_s)}, on {worker_count(slots, busy).replace('worker', 'slot')} of {processes} processes, "
        f"policy {policy}.",
        soft_wrap=True,
    )
    if MANY < busy < math.inf:
        console.print(f"That is {busy:.1f} times what {slots} slots can do: waits grow to the end.", style="yellow")
    title = f"[bold]fairlane replay[/]  {trace.name}, {policy}, {slots} slots"
    with Stage("replay", Policy.named(policy), url) as stage, Screen(console, title, lambda: stage.hands) as screen:
        for number in range(processes):
            stage.start(slots // processes + (number < slots % processes))
        feed = Feed(stage.app, pieces)
        stage.wait_until_ready()
        play = Play(stage, feed)
        screen.show(play.board)
        try:
            play.run(screen)
            play.completed_by_store()
        finally:
            feed.stop()
        board, hands = play.board, list(stage.hands)
    figures = statistics(board.started(), workers=slots, span_s=span_s, heaviest=trace.heaviest())
    return Outcome(board, hands, judge(board.accepted, board.runs, {}), figures)


def as_object(  # JSON: any depth of dicts, texts and numbers
    trace: Trace, slots: int, policy: str, outcome: Outcome
) -> dict[str, Any]:
    """Return what ``fairlane replay --json`` prints: the object of ``simulate`` under one policy."""
    return {
        "trace": trace.name,
        "jobs": len(trace.jobs),
        "workers": slots,
        "policies": {policy: {**outcome.statistics, "others_mean_wait_without_heaviest": None}},
    }


def _honest(outcome: Outcome) -> list[str]:
    """Return what the figures rest on: what was lost, what ran twice, and how late the producer was."""
    from fairlane.simulate.labels import duration
    from fairlane.simulate.report import quantile

    verdict, late = outcome.verdict, outcome.board.late
    lines = [
        f"{verdict.accepted:,} jobs accepted, {verdict.completed:,} completed, {len(verdict.lost):,} lost, "
        f"{len(verdict.twice):,} ran twice, {len(outcome.board.refused):,} refused."
    ]
    if late:
        p50, p99 = (duration(quantile(late, share)) for share in (0.5, 0.99))
        lines.append(f"Enqueued late by: p50 {p50}, p99 {p99}, at most {duration(late[-1])}; the waits include it.")
    return lines


def _print(console: Console, outcome: Outcome, *, trace: Path, policy: str, slots: int) -> None:
    from fairlane.show.closing import replay_tenants, replay_tiers
    from fairlane.simulate.labels import index, ratio

    figures = outcome.statistics
    console.print()
    console.print(replay_tiers(figures))
    console.print(replay_tenants(outcome.board, figures))
    slowdown = figures["slowdown"]
    console.print(
        f"Slowdown of tenants: median {ratio(slowdown['p50'])}, worst {ratio(slowdown['max'])}; "
        f"Jain index of 1 / slowdown {index(figures['jain_inverse_slowdown'])}."
    )
    for line in _honest(outcome):
        console.print(line)
    other = "fifo" if policy != "fifo" else "fair"
    console.print(f"Compare: fairlane replay {trace} --policy {other}", markup=False, soft_wrap=True)
    console.print(
        f"Or all policies at once, on virtual time: fairlane simulate {trace} --workers {slots}",
        markup=False,
        soft_wrap=True,
    )
