"""`fairlane simulate` and `fairlane sample-trace`: the policy on a trace, without a store."""

from __future__ import annotations

import json
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from fairlane.cli.groups import json_option
from fairlane.cli.output import print_json
from fairlane.domain.policy import Policy
from fairlane.errors import FairlaneError

if TYPE_CHECKING:
    from rich.console import Console

    from fairlane.simulate.compare import Comparison
    from fairlane.simulate.engine import Progress
    from fairlane.simulate.traces import Trace

POLICIES = ("fair", "strict", "fifo")


class Named(click.ParamType[tuple[str, float]]):
    """``name=number``; the name may hold ``=`` itself."""

    def __init__(self, metavar: str, *, least: float, is_whole: bool) -> None:
        self.name = metavar
        self._least = least
        self._is_whole = is_whole

    def convert(
        self, value: str | tuple[str, float], param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, float]:
        """Return the name and the number."""
        if isinstance(value, tuple):
            return value
        name, equals, figure = value.rpartition("=")
        kind = "a whole number" if self._is_whole else "a number"
        try:
            parsed = int(figure) if self._is_whole else float(figure)
        except ValueError:
            parsed = -1
        if not (name and equals and self._least <= parsed <= 1e9):  # noqa: PLR2004  # more is a slip of the keyboard
            self.fail(f"{value!r} is not {self.name}, with {kind} of at least {self._least:g}", param, ctx)
        return name, parsed


@contextmanager
def _usage(parameter: str) -> Generator[None, None, None]:
    """Turn a refused argument into a usage error (exit code 2)."""
    try:
        yield
    except FairlaneError as error:
        raise click.BadParameter(str(error), param_hint=parameter) from None


@contextmanager
def _failure(what: str, path: Path) -> Generator[None, None, None]:
    """Turn what is wrong with a file into a failure (exit code 1)."""
    try:
        yield
    except FairlaneError as error:
        raise click.ClickException(str(error)) from None
    except OSError as error:
        raise click.ClickException(f"cannot {what} {path}: {error.strerror or error}") from None


@contextmanager
def _progress(console: Console, total: int) -> Generator[Progress | None, None, None]:
    """A progress bar on a terminal; nothing elsewhere."""
    if not console.is_terminal:
        yield None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("simulating"), BarColumn(), MofNCompleteColumn(), TextColumn("jobs"), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("", total=total)
        yield lambda ended: bar.update(task, completed=ended)


@click.command("simulate")
@click.argument("trace", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--policy",
    "policies",
    multiple=True,
    type=click.Choice(POLICIES),
    help="A policy; may be given again. [default: all]",
)
@click.option(
    "--workers",
    type=click.IntRange(1),
    help="How many jobs may run at once. [default: as many as give utilisation 0.95]",
)
@click.option(
    "--ageing-step",
    type=click.FloatRange(0.001),
    default=60.0,
    show_default=True,
    help="Wait that raises a job by one tier, in seconds.",
)
@click.option(
    "--charge",
    type=click.Choice(("time", "count")),
    default="time",
    show_default=True,
    help="What a start costs its tenant.",
)
@click.option(
    "--risen-every",
    type=click.IntRange(0),
    default=Policy().risen_every,
    show_default=True,
    help="Every how many starts one belongs to jobs that have waited long; 0 turns this off. For fair.",
)
@click.option(
    "--urgent-share",
    type=click.FloatRange(0, 1, min_open=True),
    default=Policy().urgent_share,
    show_default=True,
    help="Share of the workers that one tenant's urgent jobs may fill first. For fair.",
)
@click.option(
    "--max-lag",
    type=click.FloatRange(0),
    default=600.0,
    show_default=True,
    help="How far a tenant may fall behind and still catch up, in seconds. For fair.",
)
@click.option(
    "--weight",
    "weights",
    multiple=True,
    type=Named("tenant=weight", least=0.001, is_whole=False),
    help="A tenant's weight; others have 1.",
)
@click.option(
    "--cap",
    "caps",
    multiple=True,
    type=Named("tenant=jobs", least=0, is_whole=True),
    help="How many jobs of a tenant may run at once.",
)
@click.option(
    "--queue-cap",
    "queue_caps",
    multiple=True,
    type=Named("queue=jobs", least=0, is_whole=True),
    help="How many jobs of a queue may run at once.",
)
@click.option(
    "--pause",
    "paused",
    multiple=True,
    metavar="TENANT",
    help="A tenant that runs nothing; its jobs are left out of the figures.",
)
@click.option("--without", multiple=True, metavar="TENANT", help="Leave out all jobs of a tenant.")
@click.option(
    "--tau",
    type=click.FloatRange(0, min_open=True),
    default=10.0,
    show_default=True,
    help="Run time that shorter jobs count as in slowdown, in seconds.",
)
@click.option(
    "--html",
    "html_path",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write a report with charts to this file.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON, waits in seconds.")
def simulate_command(
    *,
    trace: Path,
    policies: tuple[str, ...],
    workers: int | None,
    ageing_step: float,
    charge: str,
    risen_every: int,
    urgent_share: float,
    max_lag: float,
    weights: tuple[tuple[str, float], ...],
    caps: tuple[tuple[str, int], ...],
    queue_caps: tuple[tuple[str, int], ...],
    paused: tuple[str, ...],
    without: tuple[str, ...],
    tau: float,
    html_path: Path | None,
    as_json: bool,
) -> None:
    """Run TRACE through the scheduler on virtual time and show who would have waited how long.

    TRACE is a CSV file, plain or gzip, with the columns submit_s, tenant, queue, tier and run_s (others are ignored);
    `fairlane sample-trace` makes one. The policies get the same jobs and the same workers and stand side by side.
    """
    from rich.console import Console

    from fairlane.simulate.compare import compare, jobs_to_run
    from fairlane.simulate.engine import Setup, policy_named
    from fairlane.simulate.traces import read

    with _failure("read", trace):
        jobs = read(trace)
    with _usage("--without"):
        jobs = _left_out(jobs, without)
    with _usage("--workers"):
        count = jobs.workers_for() if workers is None else workers
    with _usage("--weight / --cap / --queue-cap / --pause"):
        setup = Setup(weights=dict(weights), caps=dict(caps), queue_caps=dict(queue_caps), paused=frozenset(paused))
        setup.check(jobs)
    with _usage("--policy"):
        fair = {"risen_every": risen_every, "urgent_share": urgent_share, "max_lag": max_lag}
        chosen = [
            policy_named(name, ageing_step=ageing_step, charge="count" if charge == "count" else "time", **fair)
            for name in dict.fromkeys(policies or POLICIES)
        ]
    with _progress(Console(stderr=True), jobs_to_run(jobs, len(chosen))) as progress:
        comparison = compare(jobs, chosen, count, setup, tau_s=tau, progress=progress)
    if html_path is not None:
        _write_html(comparison, html_path)
    if as_json:
        click.echo(json.dumps(comparison.as_json(), indent=2, ensure_ascii=False))
    else:
        _print(comparison, chosen_for_you=workers is None, html_path=html_path)


def _left_out(trace: Trace, tenants: tuple[str, ...]) -> Trace:
    from fairlane.simulate.engine import Setup

    Setup(paused=frozenset(tenants)).check(trace)
    return trace.without(tenants) if tenants else trace


def _write_html(comparison: Comparison, path: Path) -> None:
    from fairlane.simulate import html

    with _failure("write", path):
        html.write(comparison, path)


def _print(comparison: Comparison, *, chosen_for_you: bool, html_path: Path | None) -> None:
    from rich.console import Console

    from fairlane.simulate.tables import tables
    from fairlane.simulate.traces import DEFAULT_UTILISATION

    console = Console(highlight=False)
    for part in tables(comparison):
        console.print(part)
    if chosen_for_you:
        console.print(
            f"Workers: {comparison.workers:,}, chosen to come near utilisation {DEFAULT_UTILISATION}; "
            "--workers sets another number."
        )
    left = {name: len(comparison.trace.jobs) - len(result.runs) for name, result in comparison.results.items()}
    for name, jobs in left.items():
        if jobs:
            console.print(
                f"Under {name} {jobs:,} jobs never started: paused, or held by a cap of 0. They are in no figure."
            )
    if html_path is not None:
        console.print(f"Report: {html_path}", markup=False)


@click.command("sample-trace")
@click.argument("out", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--jobs", type=click.IntRange(1), default=5000, show_default=True, help="How many jobs.")
@click.option(
    "--tenants",
    type=click.IntRange(1),
    default=50,
    show_default=True,
    help="How many tenants; one has 60 % of the jobs.",
)
@click.option(
    "--seconds",
    type=click.FloatRange(0, min_open=True),
    default=600.0,
    show_default=True,
    help="Time from the first job to the last.",
)
@click.option(
    "--slots",
    type=click.IntRange(1),
    default=32,
    show_default=True,
    help="The number of workers that the utilisation is meant for.",
)
@click.option(
    "--utilisation",
    type=click.FloatRange(0, min_open=True),
    default=0.9,
    show_default=True,
    help="Work ÷ what the slots can do in that time.",
)
@click.option(
    "--seed",
    type=click.IntRange(0),
    default=1,
    show_default=True,
    help="Picks the draws; the same seed gives the same file.",
)
@json_option
def sample_trace_command(
    *, out: Path, jobs: int, tenants: int, seconds: float, slots: int, utilisation: float, seed: int, as_json: bool
) -> None:
    """Write a made-up trace to OUT: one heavy tenant that comes in bursts, many small ones, five tiers, long run times.

    OUT is CSV, packed if it ends in .gz. The run times are stretched so that the work makes the utilisation asked for.
    """
    from fairlane.simulate.traces import sample, write

    with _usage("--jobs"):
        trace = sample(jobs=jobs, tenants=tenants, seconds=seconds, slots=slots, utilisation=utilisation, seed=seed)
    with _failure("write", out):
        write(trace, out)
    if as_json:
        told = {"file": str(out), "jobs": jobs, "tenants": tenants, "seconds": seconds, "slots": slots}
        print_json(told | {"utilisation": trace.utilisation(slots)})
        return
    click.echo(
        f"{out}: {jobs:,} jobs of {tenants:,} tenants in {seconds:g} s, "
        f"utilisation {trace.utilisation(slots):.2f} on {slots:,} slots"
    )
