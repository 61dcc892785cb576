"""`fairlane jobs`: look at jobs and steer them."""

from __future__ import annotations

import json
from typing import Any, Final

import click

from fairlane.app import Fairlane
from fairlane.cli import shapes
from fairlane.cli.bulk import Act, bulk_options, each, filter_options, meant, named, steer_all
from fairlane.cli.enqueue import TIER
from fairlane.cli.explain import explain_command
from fairlane.cli.groups import FAILED, Shared, example, store_options
from fairlane.cli.output import note, print_facts, print_json, print_table, safe, span
from fairlane.cli.stores import keeping, who
from fairlane.domain.operations import Action
from fairlane.domain.tiers import Tier
from fairlane.handles import Job

jobs_group: Final = Shared(
    "jobs", help="Look at jobs and steer them.", epilog=example("fairlane jobs list --state dead")
)

ids_argument: Final = click.argument("ids", metavar="[ID]...", nargs=-1)


# ---------------------------------------------------------------- look


@jobs_group.command("list", epilog=example("fairlane jobs list --state available --tenant acme --limit 20"))
@filter_options()
@click.option("--limit", type=click.IntRange(1, 1000), default=50, show_default=True, help="Most jobs to show.")
@click.option("--cursor", help="Where to go on: what the page before gave.")
@store_options
def list_command(*, url: str | None, as_json: bool, limit: int, cursor: str | None, **filters: Any) -> None:
    """List jobs, newest first."""
    with keeping(url) as app:
        page = app.jobs(limit=limit, cursor=cursor, **named(filters))
        if as_json:
            print_json({"jobs": [shapes.brief(job) for job in page], "cursor": page.cursor})
            return
        now_ms = app.clock.now_ms()
        rows = [
            (
                str(job.id), job.task, job.queue, job.tenant, job.tier.label + ("!" if job.express else ""), job.state,
                span((now_ms - job.record.enqueued_at_ms) / 1000), job.reason or "",
            )
            for job in page
        ]  # fmt: skip
        print_table(("id", "task", "queue", "tenant", "tier", "state", ">age", "reason"), rows, nothing="no jobs")
        if page.cursor is not None:
            note(f"more: --cursor {page.cursor}")


@jobs_group.command("show", epilog=example("fairlane jobs show 0198f0de-0000-7000-8000-000000000001"))
@click.argument("job_id", metavar="ID")
@store_options
def show_command(*, url: str | None, as_json: bool, job_id: str) -> None:
    """Show everything of one job: arguments, times, errors, result."""
    with keeping(url) as app:
        job = app.get(job_id)
        if as_json:
            print_json(shapes.whole(job))
        else:
            _show(job)


def _show(job: Job[Any]) -> None:
    told = shapes.whole(job)
    errors: list[dict[str, Any]] = told.pop("errors")
    for name in ("args", "progress", "checkpoint", "result", "reference"):
        told[name] = None if told[name] is None else json.dumps(told[name], ensure_ascii=False)
    print_facts(told.items())
    for error in errors:
        click.echo(f"\nattempt {error['attempt']}, {error['kind']} at {error['at']}:")
        click.echo(f"  {safe(error['type'])}: {safe(error['message'])}")
        for line in error["traceback"].splitlines():
            click.echo(f"    {safe(line)}")


jobs_group.add_command(explain_command)


# ---------------------------------------------------------------- steer


@jobs_group.command(
    "cancel",
    epilog=example(
        "fairlane jobs cancel 0198f0de-0000-7000-8000-000000000001",
        "fairlane jobs cancel --tenant acme --queue mail --yes",
    ),
)
@ids_argument
@filter_options()
@click.option("--reason", default="", help="Why, for the record.")
@bulk_options
@store_options
def cancel_command(*, url: str | None, as_json: bool, ids: tuple[str, ...], reason: str, **options: Any) -> None:
    """Cancel waiting jobs, by id or by filter; a running one is asked to stop.

    A filter means scheduled and available jobs, and running ones only with --state running.
    """
    how, which = _asked("cancel", ids, options)
    with keeping(url) as app:
        if which is None:
            _steer(ids, lambda one: {"state": app.cancel(one, reason=reason, by=who())}, as_json)
        else:
            steer_all(app, "cancel", which, as_json=as_json, reason=reason or "cancelled by hand", **how)


@jobs_group.command(
    "retry",
    epilog=example(
        "fairlane jobs retry 0198f0de-0000-7000-8000-000000000001", "fairlane jobs retry --task send --rate 10 --yes"
    ),
)
@ids_argument
@filter_options(states=False)
@click.option("--reason", default="", help="Why, for the record.")
@bulk_options
@store_options
def retry_command(*, url: str | None, as_json: bool, ids: tuple[str, ...], reason: str, **options: Any) -> None:
    """Make dead jobs available again, by id or by filter; their history is kept.

    `fairlane dead replay` does it for a group that died of the same thing.
    """
    how, which = _asked("retry", ids, options)
    with keeping(url) as app:
        if which is None:
            _steer(ids, lambda one: {"state": app.retry(one, reason=reason, by=who()).state}, as_json)
        else:
            steer_all(app, "retry", which, as_json=as_json, reason=reason, **how)


@jobs_group.command(
    "reverify",
    epilog=example(
        "fairlane jobs reverify 0198f0de-0000-7000-8000-000000000001",
        "fairlane jobs reverify --task prove --rate 10 --yes",
    ),
)
@ids_argument
@filter_options()
@click.option("--reason", default="", help="Why, for the record.")
@bulk_options
@store_options
def reverify_command(*, url: str | None, as_json: bool, ids: tuple[str, ...], reason: str, **options: Any) -> None:
    """Have the work of jobs checked now, by id or by filter, without running them again.

    A filter means jobs that died in their verify phase, with all their checks anew; those that wait for a check only
    with --state scheduled. Jobs that have handed nothing over refuse and are counted.
    """
    how, which = _asked("reverify", ids, options)
    with keeping(url) as app:
        if which is None:
            _steer(ids, lambda one: {"state": app.reverify(one, reason=reason, by=who()).state}, as_json)
        else:
            steer_all(app, "reverify", which, as_json=as_json, reason=reason, **how)


@jobs_group.command(
    "expedite",
    epilog=example(
        "fairlane jobs expedite 0198f0de-0000-7000-8000-000000000001 --reason 'VIP waits'",
        "fairlane jobs expedite --tenant acme --limit 3 --yes",
    ),
)
@ids_argument
@filter_options()
@click.option("--reason", default="", help="Why, for the record.")
@bulk_options
@store_options
def expedite_command(*, url: str | None, as_json: bool, ids: tuple[str, ...], reason: str, **options: Any) -> None:
    """Put waiting jobs into the express lane, by id or by filter; refused when it is full."""
    how, which = _asked("expedite", ids, options)
    with keeping(url) as app:
        if which is None:
            _steer(
                ids, lambda one: {"state": app.expedite(one, reason=reason, by=who()).state, "express": True}, as_json
            )
        else:
            steer_all(app, "expedite", which, as_json=as_json, reason=reason, **how)


@jobs_group.command(
    "boost",
    epilog=example(
        "fairlane jobs boost 0198f0de-0000-7000-8000-000000000001 --to high",
        "fairlane jobs boost --tenant acme --to critical --yes",
    ),
)
@ids_argument
@click.option("--to", type=TIER, required=True, help="The tier to raise them to.")
@filter_options()
@click.option("--reason", default="", help="Why, for the record.")
@bulk_options
@store_options
def boost_command(
    *, url: str | None, as_json: bool, ids: tuple[str, ...], to: str, reason: str, **options: Any
) -> None:
    """Raise the tier of waiting jobs, by id or by filter; their arrival stays."""
    how, which = _asked("boost", ids, options)
    with keeping(url) as app:
        if which is None:
            _steer(ids, lambda one: _boosted(app, one, Tier.of(to), reason), as_json)
        else:
            steer_all(app, "boost", which, as_json=as_json, to=to, reason=reason, **how)


def _asked(
    action: Action, ids: tuple[str, ...], options: dict[str, Any]
) -> tuple[dict[str, Any], dict[str, Any] | None]:  # Any: each option has its own type
    """Return how an operation shall go, and which jobs it means (None: those with the ids).

    Raises:
        click.UsageError: They contradict each other: an option that only an operation on a filter knows would otherwise
            be passed over, and ``--dry-run`` would change jobs.
    """
    how = {name: options.pop(name) for name in ("yes", "dry_run", "rate", "limit")}
    which = meant(action, ids, options)
    unmeant = [f"--{name.replace('_', '-')}" for name in ("dry_run", "rate", "limit") if how[name]]
    if which is None and unmeant:
        raise click.UsageError(f"only a filter goes with {' and '.join(unmeant)}, ids do not; nothing has changed")
    return how, which


def _boosted(app: Fairlane, job_id: str, tier: Tier, reason: str) -> dict[str, Any]:  # Any: ready for JSON
    done = app.boost(job_id, tier, reason=reason, by=who())
    return {"outcome": done.outcome, "tier": Tier(done.tier).label}


def _steer(ids: tuple[str, ...], act: Act, as_json: bool) -> None:
    """Do a thing to each job and tell what became of it; exit code 1 when one of several refused."""
    told, refused = each(ids, act)
    if as_json:
        print_json({"jobs": told})
    else:
        for one in told:
            error = one.pop("error", None)
            job_id = one.pop("id")
            outcome = f"refused: {error['message']}" if error else ", ".join(_said(*item) for item in one.items())
            click.echo(f"{safe(job_id)}  {safe(outcome)}")
    if refused:
        click.get_current_context().exit(FAILED)


def _said(name: str, value: object) -> str:
    return name if value is True else str(value)


# ---------------------------------------------------------------- wait


@jobs_group.command("wait", epilog=example("fairlane jobs wait 0198f0de-0000-7000-8000-000000000001 --timeout 60"))
@click.argument("job_id", metavar="ID")
@click.option("--timeout", type=click.FloatRange(0), metavar="SECONDS", help="Longest wait. [default: for ever]")
@store_options
def wait_command(*, url: str | None, as_json: bool, job_id: str, timeout: float | None) -> None:
    """Wait until a job has ended and show its result; exit code 1 if it is not completed."""
    with keeping(url) as app:
        job = app.get(job_id)
        state = job.join(timeout)
        if as_json:
            print_json(shapes.whole(job))
        else:
            click.echo(state if not job.reason else f"{state}: {safe(job.reason)}")
            if job.record.result is not None:
                click.echo(safe(job.record.result))
        if state != "completed":
            click.get_current_context().exit(FAILED)
