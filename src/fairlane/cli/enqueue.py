"""`fairlane enqueue`: store a job by the name of its task."""

from __future__ import annotations

import json
import sys
from typing import Any, cast, get_args

import click

from fairlane.app import Fairlane
from fairlane.cli.groups import example, store_options
from fairlane.cli.output import note, print_json
from fairlane.cli.stores import file_of, load_app
from fairlane.domain.jobs import OnConflict, OnFailure
from fairlane.domain.tiers import TIERS
from fairlane.options import JobOptions

TIER = click.Choice([tier.label for tier in TIERS], case_sensitive=False)


def _object(ctx: click.Context, param: click.Parameter, value: str) -> dict[str, Any]:  # Any: what JSON holds
    body = sys.stdin.read() if value == "-" else value
    try:
        found: object = json.loads(body)
    except ValueError as error:
        raise click.BadParameter(f"{value[:80]!r} is not JSON: {error}", ctx, param) from None
    except RecursionError:
        raise click.BadParameter("the JSON is nested too deeply", ctx, param) from None
    if not isinstance(found, dict):
        raise click.BadParameter(
            f'{value[:80]!r} is no JSON object of named arguments, as {{"to": "a@b.c"}} is', ctx, param
        )
    return cast("dict[str, Any]", found)


@click.command("enqueue", epilog=example('fairlane enqueue mail.send \'{"to": "a@b.c"}\' --tenant acme --tier high'))
@click.argument("task")
@click.argument("args", metavar="[JSON]", default="{}", callback=_object)
@click.option("--tenant", help="On whose behalf. [default: default]")
@click.option("--tier", type=TIER, help="How urgent. [default: normal, or the task's own with --app]")
@click.option("--queue", help="Name of the queue. [default: default, or the task's own with --app]")
@click.option("--delay", type=float, metavar="SECONDS", help="Wait before it may run.")
@click.option("--expires-in", type=float, metavar="SECONDS", help="Cancel it if it has not started by then.")
@click.option("--dedup-key", help="At most one live job per key and queue.")
@click.option(
    "--on-conflict", type=click.Choice(get_args(OnConflict)), help="What to do when a live job holds the key."
)
@click.option("--dedup-ttl", type=float, metavar="SECONDS", help="How long its key stays taken after its end.")
@click.option("--after", multiple=True, metavar="ID", help="A job that must end first; may be given again.")
@click.option(
    "--on-failure",
    type=click.Choice(get_args(OnFailure)),
    help="What becomes of it when one of those fails. [default: cancel]",
)
@click.option("--tag", "tags", multiple=True, help="A word to find it by; may be given again.")
@click.option("--expedite", is_flag=True, help="Put it into the express lane; refused when that is full.")
@click.option(
    "--app",
    "where",
    metavar="MODULE:APP",
    help="Where the task is: its queue and tier hold, and the arguments are checked.",
)
@store_options
def enqueue_command(
    *,
    task: str,
    args: dict[str, Any],  # Any: what JSON holds
    where: str | None,
    after: tuple[str, ...],
    tags: tuple[str, ...],
    expedite: bool,
    url: str | None,
    as_json: bool,
    **options: Any,  # Any: each option has its own type
) -> None:
    """Store a job of TASK with the arguments in JSON, and print its id.

    JSON is an object of named arguments; `-` reads it from standard input. Any name of a task will do: a worker that
    knows it will run the job. The store is made when there is none.
    """
    asked = {name: value for name, value in options.items() if value is not None}
    asked |= {"expedite": True} if expedite else {}
    asked |= {"tags": list(tags)} if tags else {}
    asked |= {"after": after} if after else {}
    with Fairlane(url) if where is None else load_app(where, url) as app:
        file_of(app)
        job = app.enqueue(task, args, **cast("JobOptions", asked))
        if as_json:
            told = ("id", "created", "task", "queue", "tenant", "state")
            print_json({name: getattr(job, name) for name in told} | {"id": str(job.id), "tier": job.tier.label})
        else:
            click.echo(str(job.id))
            if not job.created:
                now = "" if job.record.state.live else ", which has ended, still"
                note(f"not created: this job{now} holds the dedup key {job.dedup_key!r}")
