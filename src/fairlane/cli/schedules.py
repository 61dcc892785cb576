"""`fairlane schedules`: jobs that come again and again; when they come next, running one now, pausing."""

from __future__ import annotations

from datetime import UTC, datetime, tzinfo
from typing import Any, Final
from zoneinfo import ZoneInfo

import click

from fairlane.app import Fairlane
from fairlane.cli.groups import Shared, example, store_options
from fairlane.cli.output import note, print_facts, print_json, print_table, span
from fairlane.cli.pauses import end_of, pause_options
from fairlane.cli.shapes import instant
from fairlane.cli.stores import keeping, who
from fairlane.errors import InvalidValue, ScheduleNotFound
from fairlane.instants import aware
from fairlane.schedules import MAX_NEXT, ScheduleInfo

SHOWN: Final = 5
COLUMNS: Final = ("schedule", "when", "task", "state", ">next", ">last", ">runs", ">missed", ">skipped", ">refused")

schedules_group: Final = Shared(
    "schedules",
    help="Look at schedules and steer them.\n\nCode declares them with `@app.cron` and `@app.every`, programs make "
    "them with `app.schedule`; workers and `fairlane monitor` fire them.",
    epilog=example("fairlane schedules list"),
)


def _now(app: Fairlane) -> datetime:
    return aware(app.clock.now_ms())


def _from_now(at: datetime | None, now: datetime) -> str:
    if at is None:
        return ""
    seconds = (at - now).total_seconds()
    return f"in {span(seconds)}" if seconds > 0 else f"{span(-seconds)} ago"


def _state(info: ScheduleInfo) -> str:
    pause = info.pause
    if pause is None:
        return info.state
    words = (
        "paused",
        f"by {pause.by}" if pause.by else "",
        f"until {instant(aware(pause.until_ms))}" if pause.until_ms is not None else "",
    )
    told = " ".join(word for word in words if word)
    return f"{told}: {pause.reason}" if pause.reason else told


def _zone(info: ScheduleInfo) -> tzinfo:
    try:
        return UTC if info.tz is None else ZoneInfo(info.tz)
    except (LookupError, ValueError, OSError):  # this machine does not know it
        return UTC


def _shape(app: Fairlane, info: ScheduleInfo, most: int) -> dict[str, Any]:  # Any: ready for JSON
    """Return a schedule and its next ticks as JSON has them."""
    return info.shown() | {"next": [instant(at) for at in _next(app, info, most)]}


def _next(app: Fairlane, info: ScheduleInfo, most: int) -> list[datetime]:
    try:
        return app.schedules[info.name].next(most)
    except (InvalidValue, ScheduleNotFound):  # a zone that this machine does not know; removed meanwhile
        return []


def _told(app: Fairlane, name: str, as_json: bool, most: int = SHOWN) -> None:
    """Show what a schedule is now."""
    info = app.schedules[name].get()
    if as_json:
        print_json(_shape(app, info, most))
        return
    now, zone = _now(app), _zone(info)
    print_facts(
        [
            ("schedule", info.name),
            ("when", info.when),
            ("cron", info.cron),
            ("state", _state(info)),
            ("task", info.task),
            ("args", info.args),
            ("queue", info.queue),
            ("tenant", info.tenant),
            ("tier", info.tier.label + (", express" if info.expedite else "")),
            ("tags", info.tags),
            ("misfire", f"{info.misfire}, after {span(info.grace)}"),
            ("overlap", info.overlap),
            ("from", info.source or "by hand"),
            ("last tick", _from_now(info.last_at, now)),
            ("last job", info.last_job),
            ("runs", info.runs),
            ("missed", info.missed or None),
            ("skipped", info.skipped or None),
            ("refused", info.refused or None),
            ("error", info.error),
        ]
    )
    rows = [
        (at.astimezone(zone).isoformat(sep=" ", timespec="seconds"), _from_now(at, now))
        for at in _next(app, info, most)
    ]
    print_table(("next", ">from now"), rows, nothing="no further tick")


@schedules_group.command("list", epilog=example("fairlane schedules list --json"))
@store_options
def list_command(*, url: str | None, as_json: bool) -> None:
    """List the schedules: when they come next, what they ran, and what was passed over.

    `missed` ticks came while nothing was there to fire them, `skipped` ones while an earlier job was live, `refused`
    ones when the store had no room. A schedule that is `gone` is no longer in the code.
    """
    with keeping(url) as app:
        infos = app.schedules.all()
        if as_json:
            print_json({"schedules": [_shape(app, info, SHOWN) for info in infos]})
            return
        now = _now(app)
        rows = [
            (
                info.name, info.when, info.task, _state(info), _from_now(info.next_at, now),
                _from_now(info.last_at, now), info.runs, info.missed, info.skipped, info.refused,
            )
            for info in infos
        ]  # fmt: skip
        print_table(COLUMNS, rows, nothing="no schedules")
        for info in infos:
            if info.error:
                note(f"{info.name}: {info.error}")


@schedules_group.command("show", epilog=example("fairlane schedules show nightly --next 10"))
@click.argument("name")
@click.option(
    "--next", "most", type=click.IntRange(1, MAX_NEXT), default=SHOWN, show_default=True, help="Ticks to show."
)
@store_options
def show_command(*, name: str, url: str | None, as_json: bool, most: int) -> None:
    """Show a schedule and its next ticks, in its own time zone; with --json in UTC."""
    with keeping(url) as app:
        _told(app, name, as_json, most)


@schedules_group.command("run", epilog=example("fairlane schedules run nightly"))
@click.argument("name")
@store_options
def run_command(*, name: str, url: str | None, as_json: bool) -> None:
    """Make a job of a schedule now, also while it is paused; its ticks stay as they are."""
    with keeping(url) as app:
        job = app.schedules[name].run(by=who())
        if as_json:
            print_json({"id": str(job.id), "created": job.created})
        else:
            click.echo(f"{job.id}" if job.created else f"{job.id} is live still; no other was made")


@schedules_group.command("pause", epilog=example("fairlane schedules pause nightly --reason holidays --for 86400"))
@click.argument("name")
@pause_options
@store_options
def pause_command(*, name: str, url: str | None, as_json: bool, reason: str, seconds: float | None) -> None:
    """Fire nothing of a schedule until it is resumed, deploys included; its ticks are not made up for."""
    with keeping(url) as app:
        app.schedules[name].pause(reason, by=who(), until=end_of(app, seconds))
        _told(app, name, as_json)


@schedules_group.command("resume", epilog=example("fairlane schedules resume nightly"))
@click.argument("name")
@store_options
def resume_command(*, name: str, url: str | None, as_json: bool) -> None:
    """End the pause of a schedule: its next tick is the first from now on."""
    with keeping(url) as app:
        app.schedules[name].resume(by=who())
        _told(app, name, as_json)


@schedules_group.command("remove", epilog=example("fairlane schedules remove nightly"))
@click.argument("name")
@store_options
def remove_command(*, name: str, url: str | None, as_json: bool) -> None:
    """Forget a schedule and its figures; its jobs stay.

    One that code declares comes back when a worker of that code starts: pause it instead.
    """
    with keeping(url) as app:
        if not app.schedules[name].remove(by=who()):
            raise ScheduleNotFound(name)
        if as_json:
            print_json({"removed": name})
        else:
            click.echo(f"removed {name}")
