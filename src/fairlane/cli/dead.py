"""`fairlane dead`: dead jobs in groups that died of the same thing; bringing them back, deleting them."""

from __future__ import annotations

from typing import Any, Final

import click

from fairlane.app import Fairlane
from fairlane.cli import shapes
from fairlane.cli.bulk import carry_out, filter_options, named, rate_option, show_preview
from fairlane.cli.enqueue import TIER
from fairlane.cli.groups import Shared, example, store_options
from fairlane.cli.output import note, print_json, print_table, progress, span
from fairlane.cli.stores import keeping, who
from fairlane.dead import MAX_GROUPS, REPLAY_RATE, DeadGroup
from fairlane.domain.jobs import PHASES, Phase
from fairlane.domain.operations import Action
from fairlane.domain.tiers import Tier
from fairlane.errors import FairlaneError
from fairlane.instants import aware

MESSAGE_CHARS: Final = 80
SHOWN: Final = 5

dead_group: Final = Shared(
    "dead",
    help="Look at dead jobs and bring them back.\n\nDead jobs are grouped by fingerprint: what they died of.",
    epilog=example("fairlane dead groups"),
)

group_argument: Final = click.argument("group", metavar="GROUP")
maybe_group_argument: Final = click.argument("group", metavar="[GROUP]", required=False)


class NoSuchGroup(FairlaneError, LookupError):
    """No dead job, or jobs of several groups, are meant: look at ``fairlane dead groups``."""


@dead_group.command("groups", epilog=example("fairlane dead groups --limit 10"))
@click.option("--limit", type=click.IntRange(1, MAX_GROUPS), default=50, show_default=True, help="Most groups to show.")
@store_options
def groups_command(*, url: str | None, as_json: bool, limit: int) -> None:
    """List the groups of dead jobs, the largest first."""
    with keeping(url) as app:
        groups = app.dead.groups(limit=limit)
        if as_json:
            print_json({"groups": [group.shown() for group in groups]})
            return
        now = aware(app.clock.now_ms())
        rows = [
            (
                group.fingerprint, group.count, group.tasks, group.tenants,
                span((now - group.first_at).total_seconds()), span((now - group.last_at).total_seconds()), group.label,
            )
            for group in groups
        ]  # fmt: skip
        columns = ("group", ">jobs", "tasks", ">tenants", ">first died", ">last died", "what they died of")
        print_table(columns, rows, nothing="no dead jobs")


@dead_group.command("show", epilog=example("fairlane dead show ConnectionError --limit 5"))
@group_argument
@click.option("--limit", type=click.IntRange(1, 1000), default=20, show_default=True, help="Most jobs to show.")
@click.option("--cursor", help="Where to go on: what the page before gave.")
@store_options
def show_command(*, url: str | None, as_json: bool, group: str, limit: int, cursor: str | None) -> None:
    """List the jobs of one group, newest first, with their last error.

    GROUP is what `dead groups` shows, the beginning of it, or the type of an error that only one group has.
    """
    with keeping(url) as app:
        found = _group(app, group)
        page = app.dead.jobs(found.fingerprint, limit=limit, cursor=cursor)
        if as_json:
            jobs = [shapes.whole(job) for job in page]
            print_json({"fingerprint": found.fingerprint, "label": found.label, "jobs": jobs, "cursor": page.cursor})
            return
        now_ms = app.clock.now_ms()
        rows = [
            (
                record.uuid, record.task, record.tenant, span((now_ms - (record.finished_at_ms or now_ms)) / 1000),
                record.failures, record.crashes, record.errors[-1].message[:MESSAGE_CHARS] if record.errors else "",
            )
            for record in (job.record for job in page)
        ]  # fmt: skip
        columns = ("id", "task", "tenant", ">died", ">failures", ">crashes", "last error")
        print_table(columns, rows, title=found.label)
        if page.cursor is not None:
            note(f"more: --cursor {page.cursor}")


@dead_group.command(
    "replay",
    epilog=example(
        "fairlane dead replay ConnectionError --limit 5",
        "fairlane dead replay --task send --older-than 3600 --rate 50 --to low",
    ),
)
@maybe_group_argument
@filter_options(states=False)
@click.option("--limit", type=click.IntRange(1), metavar="JOBS", help="Most jobs to bring back. [default: all]")
@rate_option(REPLAY_RATE)
@click.option("--to", type=TIER, help="The tier that they come back in. [default: their own]")
@click.option(
    "--phase",
    type=click.Choice(PHASES),
    default="process",
    show_default=True,
    help="verify: check the work of those that died in their verify phase again, without running them.",
)
@click.option("--reason", default="", help="Why, for the record.")
@click.option("--dry-run", is_flag=True, help="Only show how many jobs would come back.")
@click.option("--detach", is_flag=True, help="Leave it to workers instead of waiting for it.")
@store_options
def replay_command(
    *,
    url: str | None,
    as_json: bool,
    group: str | None,
    limit: int | None,
    rate: float,
    to: str | None,
    phase: Phase,
    reason: str,
    dry_run: bool,
    detach: bool,
    **filters: Any,  # Any: each filter has its own type
) -> None:
    """Make dead jobs available again, oldest first, at a steady rate.

    Their counts start anew and their history is kept. They run when their turn comes, like all others. Name a group, a
    filter, or both; to try a few first, give --limit.
    """
    with keeping(url) as app:
        which = _which(app, group, filters)
        if dry_run:
            _preview(app, "retry" if phase == "process" else "reverify", which, as_json=as_json)
            return
        tier = None if to is None else Tier.of(to)
        operation = app.dead.replay(limit=limit, rate=rate, to=tier, phase=phase, by=who(), reason=reason, **which)
        told = {"fingerprint": which.get("fingerprint")}
        if not detach:
            carry_out(operation, as_json=as_json, told=told)
        elif as_json:
            print_json({**told, "operation": str(operation.id), "matched": operation.total, "done": False})
        else:
            click.echo(f"operation {operation.id}: workers bring back up to {operation.total:,} jobs")


@dead_group.command("discard", epilog=example("fairlane dead discard ConnectionError --yes"))
@maybe_group_argument
@filter_options(states=False)
@click.option("--limit", type=click.IntRange(1), metavar="JOBS", help="Most jobs to delete. [default: all]")
@click.option("--reason", default="", help="Why, for the record.")
@click.option("--dry-run", is_flag=True, help="Only show how many jobs are meant.")
@click.option("--yes", is_flag=True, help="Do it; without it, it only shows how many are meant.")
@store_options
def discard_command(
    *,
    url: str | None,
    as_json: bool,
    group: str | None,
    limit: int | None,
    reason: str,
    dry_run: bool,
    yes: bool,
    **filters: Any,  # Any: as above
) -> None:
    """Delete dead jobs for good. `fairlane dead export` writes them to a file first."""
    with keeping(url) as app:
        which = _which(app, group, filters)
        if dry_run or not yes:
            _preview(app, "discard", which, as_json=as_json)
            return
        operation = app.dead.discard(limit=limit, by=who(), reason=reason, **which)
        carry_out(operation, as_json=as_json, told={"fingerprint": which.get("fingerprint")})


@dead_group.command("export", epilog=example("fairlane dead export ConnectionError --output dead.jsonl"))
@maybe_group_argument
@filter_options(states=False)
@click.option(
    "--output", type=click.File("w", encoding="utf-8", atomic=True), default="-", metavar="FILE",
    help="Where to write it. [default: stdout]",
)  # fmt: skip
@store_options
def export_command(
    *, url: str | None, as_json: bool, group: str | None, output: Any, **filters: Any
) -> None:  # Any: click's file; as above
    """Write dead jobs with everything that is kept of them, one JSON object a line, newest first."""
    import json

    del as_json  # it is JSON
    with keeping(url) as app:
        which = _which(app, group, filters)
        counted = app.count(state="dead", **which)
        with progress("exporting", None if counted.more else counted.count) as told:
            for number, job in enumerate(app.dead.export(**which), 1):
                output.write(json.dumps(job, ensure_ascii=True) + "\n")
                told(number)


def _preview(app: Fairlane, action: Action, which: dict[str, Any], *, as_json: bool) -> None:  # Any: as above
    show_preview(app.preview(action, state="dead", **which), as_json=as_json)


def _which(app: Fairlane, group: str | None, filters: dict[str, Any]) -> dict[str, Any]:  # Any: as above
    """Return what is said about the jobs.

    Raises:
        click.UsageError: Nothing is.
        NoSuchGroup: The group is not there.
    """
    given = named(filters)
    if group is not None:
        given["fingerprint"] = _group(app, group).fingerprint
    if not given:
        raise click.UsageError("name a group (fairlane dead groups), or jobs by --task, --tenant, --error and so on")
    return given


def _group(app: Fairlane, name: str) -> DeadGroup:
    """Return the group with this fingerprint, the only one that begins so, or the only one of this type of error.

    Raises:
        NoSuchGroup: There is none, or several; the message names some that there are.
    """
    groups = app.dead.groups(limit=MAX_GROUPS)
    ways = (
        [group for group in groups if group.fingerprint == name],
        [group for group in groups if group.type == name],
        [group for group in groups if group.fingerprint.startswith(name)],
    )
    found: list[DeadGroup] = next((way for way in ways if way), ways[0])
    if len(found) == 1:
        return found[0]
    others = "; ".join(f"{group.fingerprint} ({group.label})" for group in (found or groups)[:SHOWN])
    if found:
        raise NoSuchGroup(f"{name!r} is {len(found)} groups; give the fingerprint of one: {others}")
    raise NoSuchGroup(f"no dead job has the fingerprint {name!r}; there are {others or 'no dead jobs at all'}")
