"""`fairlane monitor`: watches over waits, in a process of its own that needs no worker."""

from __future__ import annotations

import signal
import threading
from types import FrameType
from typing import Any, Final

import click

from fairlane.alerts.dispatcher import TIMEOUT_S
from fairlane.app import Fairlane
from fairlane.cli.groups import example, log_level_option, store_options
from fairlane.cli.output import note, print_json, print_table, span
from fairlane.cli.shapes import instant
from fairlane.cli.stores import keeping
from fairlane.cli.worker import start_logging
from fairlane.errors import StoreError
from fairlane.firing import Ticker
from fairlane.monitor import RESCUE_MOST, WATCH_EVERY_S
from fairlane.watch import Incident, Watched

COLUMNS: Final = ("queue", "tier", ">wait", ">objective", ">jobs", "cause", "tenant", "task", "oldest job")
EVENTS: Final = ("raised", "again", "resolved")


def shape(app: Fairlane, done: Watched) -> dict[str, Any]:  # Any: ready for JSON
    """Return a pass as JSON has it."""
    told: dict[str, Any] = {"at": instant(done.at), "active": done.active, "holder": done.holder}
    for name in ("incidents", *EVENTS):
        told[name] = [incident.shown() for incident in getattr(done, name)]
    told |= {"escalated": done.escalated, "rescued": done.rescued}
    return told | {"sinks": [health._asdict() for health in app.alerts.health()]}


def _row(incident: Incident) -> tuple[object, ...]:
    return (
        incident.queue, incident.tier.label, span(incident.wait), span(incident.objective), incident.count,
        "; ".join(cause.text for cause in incident.causes), incident.tenant, incident.task, str(incident.job_id),
    )  # fmt: skip


def _show(done: Watched) -> None:
    """Print what a single pass found."""
    print_table(COLUMNS, [_row(incident) for incident in done.incidents], nothing="no job waits longer than it should")
    for incident in done.resolved:
        click.echo(f"resolved: {incident.tier.label} jobs of queue {incident.queue!r} start in time again")
    if not done.active:
        note(f"another monitor watches, {done.holder}: this pass only looked")


def _told(done: Watched) -> None:
    """Print what has changed since the pass before."""
    for name in EVENTS:
        for incident in getattr(done, name):
            click.echo(
                f"{instant(done.at)} {name}: {incident.tier.label} jobs of queue {incident.queue!r}, "
                f"{incident.count:,} waiting, longest {span(incident.wait)}, cause {incident.cause}"
            )


def _watch(app: Fairlane, every_s: float, *, as_json: bool) -> None:
    """Make passes until a signal."""
    stopping = threading.Event()

    def stop(number: int, frame: FrameType | None) -> None:
        del number, frame
        stopping.set()

    before = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGINT)}
    ticker = Ticker(app.owner)
    ticker.start()
    try:
        while not stopping.is_set():
            wait_s = every_s
            try:
                done = app.monitor()
            except StoreError as error:  # the store may be busy, or its disk full: it is looked at again
                note(f"fairlane: {error}")
            else:
                if as_json:
                    print_json(shape(app, done), one_line=True)
                else:
                    _told(done)
                if done.rescued >= RESCUE_MOST:
                    wait_s = 0.0
            stopping.wait(wait_s)
    finally:
        ticker.stop(TIMEOUT_S)
        for number, handler in before.items():
            signal.signal(number, handler)


@click.command("monitor", epilog=example("fairlane monitor", "fairlane monitor --once --json"))
@click.option("--once", is_flag=True, help="Make one pass, wait for its alerts to be sent, and end.")
@click.option(
    "--every",
    type=click.FloatRange(0.1, 15.0),
    default=WATCH_EVERY_S,
    show_default=True,
    metavar="SECONDS",
    help="Time between passes.",
)
@log_level_option
@store_options
def monitor_command(*, url: str | None, as_json: bool, once: bool, every: float, log_level: str) -> None:
    """Watch over waits until SIGTERM or Ctrl-C, with or without workers.

    Raises an incident for each queue and tier in which a job waits longer than its objective, tells it to the log and
    to the Apprise URLs of the setting `alerts`, boosts or expedites where the objective says so, and resolves it. Jobs
    of lost workers are taken back. Of several monitors, in workers too, one acts at a time; --once, when another one
    does, only looks. Incidents do not change the exit code; --json shows them.

    Schedules are fired too, within a second of their ticks; with --once, what is due now.
    """
    start_logging(log_level)
    with keeping(url) as app:
        if not once:
            _watch(app, every, as_json=as_json)
            return
        app.schedules.fire()
        done = app.monitor()
        app.alerts.drain(TIMEOUT_S + 1)
        if as_json:
            print_json(shape(app, done))
        else:
            _show(done)
