"""`fairlane stats`: how many jobs wait and run, where, and for how long."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import click

from fairlane.app import Fairlane
from fairlane.cli import shapes
from fairlane.cli.explain import Part, inversions_part, waited, waits_part
from fairlane.cli.groups import example, store_options
from fairlane.cli.output import on_terminal, plain_table, print_json, rich_table, span
from fairlane.cli.signs import seen
from fairlane.cli.stores import keeping
from fairlane.domain.states import State
from fairlane.insight import MAX_WINDOW
from fairlane.instants import aware
from fairlane.shapes import overtaken
from fairlane.views import ALL_BY, By, depth_of

if TYPE_CHECKING:
    from rich.console import Group

DEFAULT_BY: Final[tuple[By, ...]] = ("tier", "queue", "tenant")
COUNTED: Final = ("scheduled", "available", "running")


def figures(app: Fairlane, by: tuple[By, ...] = DEFAULT_BY) -> dict[str, Any]:  # Any: ready for JSON
    """Return depth, counts by state and workers.

    Scheduled, available and running are counted once, by lanes; the counts by state take them from there, so that the
    two never contradict each other. Jobs that have ended are counted just after.
    """
    lanes, ended, workers, now_ms = app.owner.read(
        lambda store, now_ms: (store.depth(now_ms), store.counts(), store.workers(), now_ms)
    )
    depth = depth_of(lanes, by, now_ms)
    live = {State[name.upper()]: getattr(depth, name) for name in COUNTED}
    rows: list[dict[str, Any]] = []
    for row in depth:
        told: dict[str, Any] = {name: getattr(row, name) for name in by}
        if row.tier is not None:
            told["tier"] = row.tier.label
        told |= {name: getattr(row, name) for name in COUNTED} | {"oldest_at": shapes.instant(row.oldest_at)}
        told["oldest_wait_s"] = None if row.oldest_at is None else max(0.0, (depth.at - row.oldest_at).total_seconds())
        rows.append(told)
    return {
        "at": shapes.instant(depth.at),
        "counts": {state.label: live.get(state, ended[state]) for state in State},
        "depth": rows,
        "workers": [
            {
                "id": worker.id,
                "alive": alive,
                "pool": worker.pool,
                "queues": None if worker.queues is None else list(worker.queues),
                "slots": worker.slots,
                "host": worker.host,
                "pid": worker.pid,
                "started_at": shapes.instant(aware(worker.started_at_ms)),
            }
            for worker, alive in seen(app, workers)
        ],
    }


@click.command("stats", epilog=example("fairlane stats --by queue --by tenant", "fairlane stats --watch"))
@click.option(
    "--by",
    multiple=True,
    type=click.Choice(ALL_BY),
    help="What to tell apart; may be given again. [default: tier, queue, tenant]",
)
@click.option("--waits", is_flag=True, help="Also show how long the jobs waited that started lately.")
@click.option("--inversions", is_flag=True, help="Also show what was started while something more urgent waited.")
@click.option(
    "--window",
    type=click.FloatRange(0, MAX_WINDOW, min_open=True),
    default=3600.0,
    show_default=True,
    metavar="SECONDS",
    help="How far back these look.",
)
@click.option("--watch", is_flag=True, help="Show it again and again until Ctrl-C; with --json one object a line.")
@click.option(
    "--every", type=click.FloatRange(0.05), default=2.0, show_default=True, metavar="SECONDS", help="How often."
)
@click.option("--times", type=click.IntRange(1), help="How often in all, with --watch. [default: for ever]")
@store_options
def stats_command(
    *,
    url: str | None,
    as_json: bool,
    by: tuple[By, ...],
    waits: bool,
    inversions: bool,
    window: float,
    watch: bool,
    every: float,
    times: int | None,
) -> None:
    """Show how many jobs wait and run by tier, queue and tenant, with the oldest wait, and who works.

    The figures equal the rows in the store at the time shown with them.
    """
    fields = tuple(dict.fromkeys(by)) or DEFAULT_BY
    with keeping(url) as app:

        def look() -> dict[str, Any]:  # Any: ready for JSON
            told = figures(app, fields)
            if waits:
                told["waits"] = waited(app, fields, window)
            if inversions:
                told["inversions"] = overtaken(app.inversions(window=window))
            return told

        if watch:
            _watch(look, as_json=as_json, every_s=every, times=times)
        elif as_json:
            print_json(look())
        else:
            _print(look())


def _watch(
    look: Callable[[], dict[str, Any]], *, as_json: bool, every_s: float, times: int | None
) -> None:  # Any: ready for JSON
    pause = threading.Event()
    left = times
    try:
        if on_terminal() and not as_json:
            from rich.live import Live

            with Live(_drawn(look()), auto_refresh=False, screen=True) as live:
                while left is None or left > 1:
                    pause.wait(every_s)
                    left = None if left is None else left - 1
                    live.update(_drawn(look()), refresh=True)
            return
        while left is None or left > 0:
            if as_json:
                print_json(look(), one_line=True)
            else:
                _print(look())
            left = None if left is None else left - 1
            if left != 0:
                pause.wait(every_s)
    except KeyboardInterrupt:  # the way to end it
        return


def _tables(told: dict[str, Any]) -> list[Part]:
    """Return the title, columns and rows of each part."""
    counts: dict[str, int] = told["counts"]
    names = [name for name in ALL_BY if told["depth"] and name in told["depth"][0]]
    depth_rows = [
        [*(row[name] for name in names), *(row[name] for name in COUNTED), span(row["oldest_wait_s"])]
        for row in told["depth"]
    ]
    worker_rows = [
        [
            worker["id"], "yes" if worker["alive"] else "no: it is gone", worker["pool"],
            "all" if worker["queues"] is None else worker["queues"], worker["slots"],
            f"{worker['host']}:{worker['pid']}", worker["started_at"],
        ]
        for worker in told["workers"]
    ]  # fmt: skip
    more: list[Part] = []
    if "waits" in told:
        fields = tuple(name for name in ALL_BY if told["waits"]["rows"] and name in told["waits"]["rows"][0])
        more.append(waits_part(told["waits"], fields))
    if "inversions" in told:
        more.append(inversions_part(told["inversions"]))
    return [
        (f"Jobs at {told['at']}", tuple(f">{name}" for name in counts), [list(counts.values())]),
        ("Waiting and running", (*names, *(f">{name}" for name in COUNTED), ">oldest wait"), depth_rows),
        ("Workers", ("id", "alive", "pool", "queues", ">slots", "host:pid", "since"), worker_rows),
        *more,
    ]


def _drawn(told: dict[str, Any]) -> Group:
    from rich.console import Group
    from rich.text import Text

    return Group(
        *(
            rich_table(columns, rows, title=title) if rows else Text(f"{title}: none\n")
            for title, columns, rows in _tables(told)
        )
    )


def _print(told: dict[str, Any]) -> None:
    if on_terminal():
        from rich.console import Console

        Console(highlight=False).print(_drawn(told))
        return
    parts = [
        f"{title}:\n{plain_table(columns, rows)}" if rows else f"{title}: none"
        for title, columns, rows in _tables(told)
    ]
    click.echo("\n\n".join(parts))
