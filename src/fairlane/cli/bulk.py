"""Which jobs a command means, and doing one thing to many of them: by their ids, or as an operation on a filter."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, TypeVar

import click

from fairlane.app import Fairlane
from fairlane.bulk import Operation, Preview
from fairlane.cli.enqueue import TIER
from fairlane.cli.output import note, print_json, progress, safe
from fairlane.cli.stores import who
from fairlane.domain.jobs import JobFilter, JobRecord
from fairlane.domain.operations import ALLOWED, MAX_RATE, Action
from fairlane.domain.states import State
from fairlane.errors import FairlaneError
from fairlane.views import state_of

PORTION: Final = 500
SHOWN_REFUSALS: Final = 3

F = TypeVar("F", bound=Callable[..., Any])  # Any: a command's own arguments
Act = Callable[[str], dict[str, Any]]  # Any: ready for JSON
"""Does the thing to the job with an id; tells what became of it."""
DOES: Final[dict[Action, tuple[str, str]]] = {
    # what an operation has done, and what it is doing
    "cancel": ("cancelled", "cancelling"),
    "retry": ("retried", "retrying"),
    "discard": ("discarded", "discarding"),
    "boost": ("boosted", "boosting"),
    "set_tier": ("moved", "moving"),
    "expedite": ("expedited", "expediting"),
    "reverify": ("reverified", "reverifying"),
}


_FILTERS: Final = (
    click.option("--find", "q", metavar="TEXT", help="Only jobs with this in their names, tags, key or last error."),
    click.option("--older-than", type=click.FloatRange(0), metavar="SECONDS", help="Only jobs enqueued longer ago."),
    click.option("--error", metavar="TYPE", help="Only jobs whose last error is of this type."),
    click.option("--dedup-key", metavar="KEY", help="Only jobs with this dedup key."),
    click.option("--tag", metavar="TAG", help="Only jobs with this tag."),
    click.option("--task", metavar="TASK", help="Only jobs of this task."),
    click.option("--tier", type=TIER, help="Only jobs of this tier."),
    click.option("--tenant", metavar="TENANT", help="Only jobs of this tenant."),
    click.option("--queue", metavar="QUEUE", help="Only jobs in this queue."),
)


def filter_options(states: bool = True) -> Callable[[F], F]:
    """Give a command options that say which jobs are meant."""

    def decorate(command: F) -> F:
        for option in _FILTERS:
            command = option(command)
        if states:
            command = click.option(
                "--state",
                multiple=True,
                type=click.Choice([state.label for state in State], case_sensitive=False),
                help="Only jobs in this state; may be given again: any of them.",
            )(command)
        return command

    return decorate


def bulk_options(command: F) -> F:
    """Give a command that takes a filter the options of an operation."""
    command = click.option(
        "--limit", type=click.IntRange(1), metavar="JOBS", help="Most jobs to change, oldest first."
    )(command)
    command = rate_option()(command)
    command = click.option("--dry-run", is_flag=True, help="Only show how many jobs a filter means.")(command)
    return click.option("--yes", is_flag=True, help="Do it; without it a filter only shows how many are meant.")(
        command
    )


def rate_option(default: float | None = None) -> Callable[[F], F]:
    """Return the option for how many jobs a second."""
    return click.option(
        "--rate",
        type=click.FloatRange(0, MAX_RATE, min_open=True),
        default=default,
        show_default=default is not None,
        metavar="PER_SECOND",
        help="Most jobs to change in a second." + ("" if default is not None else " [default: no bound]"),
    )


def named(filters: dict[str, Any]) -> dict[str, Any]:  # Any: each filter has its own type
    """Return the filters that were given."""
    return {name: value for name, value in filters.items() if value not in {None, ()}}


def meant(action: Action, ids: tuple[str, ...], filters: dict[str, Any]) -> dict[str, Any] | None:  # Any: as above
    """Return what a command that takes ids or a filter says about the jobs that it means; None: ids.

    Args:
        action: What shall be done to them.
        ids: The ids that were given.
        filters: The filters by name, given or not.

    Raises:
        click.UsageError: Both are given, or neither, or a state that the action is not for.
    """
    given = named(filters)
    if ids and given:
        raise click.UsageError(f"give ids or filters ({', '.join(_option(name) for name in given)}), not both")
    if ids:
        return None
    if not given:
        raise click.UsageError("name jobs: by their ids, or by --queue, --tenant, --tier, --task, --tag and so on")
    able = sorted(ALLOWED[action][0])
    for name in given.get("state", ()):
        if state_of(name) not in able:
            raise click.UsageError(f"--state {name}: only {_words(able)} jobs can be meant here")
    return given


def _option(name: str) -> str:
    return "--find" if name == "q" else f"--{name.replace('_', '-')}"


def _words(states: list[State]) -> str:
    labels = [state.label for state in states]
    return labels[0] if len(labels) == 1 else f"{', '.join(labels[:-1])} and {labels[-1]}"


def steer_all(
    app: Fairlane,
    action: Action,
    which: dict[str, Any],  # Any: as above
    *,
    as_json: bool,
    yes: bool,
    dry_run: bool,
    to: Any = None,  # Any: a tier's name
    rate: float | None = None,
    limit: int | None = None,
    reason: str = "",
) -> None:
    """Do a thing to all jobs of a filter and tell what became of them, or show how many that would be."""
    if dry_run or not yes:
        show_preview(app.preview(action, to=to, **which), as_json=as_json)
        return
    operation = app.bulk(action, to=to, rate=rate, limit=limit, by=who(), reason=reason, **which)
    carry_out(operation, as_json=as_json)


def show_preview(preview: Preview, *, as_json: bool) -> None:
    """Show how many jobs an operation would mean; more than are counted is said as it is."""
    if as_json:
        more = {"more": True} if preview.more else {}
        print_json({"matched": preview.count, **more, "done": False})
    else:
        done = DOES[preview.action][0]
        click.echo(f"{preview} jobs would be {done}. Nothing has changed: add --yes to do it.")


def carry_out(operation: Operation, *, as_json: bool, told: dict[str, Any] | None = None) -> None:  # Any: as above
    """Carry an operation on to its end with a progress bar, and tell what became of its jobs.

    Args:
        operation: It.
        as_json: Whether to tell it as JSON.
        told: What the JSON begins with.
    """
    done_word, doing_word = DOES[operation.action]
    try:
        with progress(doing_word, operation.total) as tell:
            operation.run(lambda it: tell(it.done + it.refused))
    except KeyboardInterrupt:
        note(
            f"stopped after {operation.done:,} jobs. Workers carry it on: `fairlane operations cancel {operation.id}` "
            "ends it"
        )
        raise
    left = max(operation.refused, operation.total - operation.done)
    if as_json:
        print_json(
            {
                **(told or {}),
                "operation": str(operation.id),
                "matched": operation.total,
                "done": operation.state == "done",
                done_word: operation.done,
                "left": left,
            }
        )
        return
    click.echo(f"{operation.done:,} jobs {done_word}" + (f"; {left:,} left as they were" if left else ""))
    for refusal in operation.refusals[:SHOWN_REFUSALS]:
        note(f"{refusal.job_id} refused: {safe(refusal.reason)}")
    if operation.refused > SHOWN_REFUSALS:
        note(f"{operation.refused:,} refused; the others: fairlane operations show {operation.id}")


def pages(app: Fairlane, which: JobFilter) -> Iterator[list[JobRecord]]:
    """Give all jobs that a filter means, newest first, in portions."""
    cursor: str | None = None
    while True:
        page = app.owner.read(lambda store, _: store.jobs(which, limit=PORTION, cursor=cursor))  # noqa: B023  at once
        yield page.jobs
        cursor = page.cursor
        if cursor is None:
            return


def each(ids: tuple[str, ...], act: Act) -> tuple[list[dict[str, Any]], bool]:
    """Do a thing to jobs by their ids, one after the other; return what became of each, and whether one refused.

    With one id its refusal is raised: the command fails in the usual way.
    """
    if len(ids) == 1:
        return [{"id": ids[0]} | act(ids[0])], False
    told: list[dict[str, Any]] = []
    for job_id in ids:
        try:
            told.append({"id": job_id} | act(job_id))
        except FairlaneError as error:
            told.append({"id": job_id, "error": {"type": type(error).__name__, "message": str(error)}})
    return told, any("error" in one for one in told)
