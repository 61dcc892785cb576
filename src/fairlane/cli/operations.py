"""`fairlane operations`: what is being done to many jobs at once, and how far it is."""

from __future__ import annotations

from typing import Any, Final

import click

from fairlane.bulk import Operation
from fairlane.cli.bulk import carry_out
from fairlane.cli.groups import Shared, example, store_options
from fairlane.cli.output import print_facts, print_json, print_table, safe, span
from fairlane.cli.stores import keeping, who

ID: Final = "0198f0de-0000-7000-8000-000000000001"

operations_group: Final = Shared(
    "operations",
    help="Look at what is being done to many jobs at once, and steer it.\n\n`jobs cancel`, `jobs boost`, `dead replay` "
    "and so on start operations; workers carry them on.",
    epilog=example("fairlane operations list"),
)

id_argument: Final = click.argument("operation_id", metavar="ID")


@operations_group.command("list", epilog=example("fairlane operations list --limit 5"))
@click.option("--limit", type=click.IntRange(1, 1000), default=20, show_default=True, help="Most operations to show.")
@store_options
def list_command(*, url: str | None, as_json: bool, limit: int) -> None:
    """List operations, newest first."""
    with keeping(url) as app:
        operations = app.operations(limit=limit)
        if as_json:
            print_json({"operations": [operation.shown() for operation in operations]})
            return
        now_ms = app.clock.now_ms()
        rows = [
            (
                operation.id, operation.action, operation.state, operation.done, operation.refused,
                f"{operation.total:,}{'+' if operation.more else ''}",
                span((now_ms - operation.record.created_at_ms) / 1000), operation.record.by, operation.record.reason,
            )
            for operation in operations
        ]  # fmt: skip
        columns = ("id", "action", "state", ">done", ">refused", ">of", ">started", "by", "reason")
        print_table(columns, rows, nothing="no operations")


@operations_group.command("show", epilog=example(f"fairlane operations show {ID}"))
@id_argument
@store_options
def show_command(*, url: str | None, as_json: bool, operation_id: str) -> None:
    """Show everything of one operation, with the latest jobs that refused."""
    with keeping(url) as app:
        told = app.operation(operation_id).shown()
        if as_json:
            print_json(told)
            return
        refusals: list[dict[str, str]] = told.pop("refusals")
        which: dict[str, Any] = told.pop("which")
        print_facts([*told.items(), *((f"which {name}", value) for name, value in which.items())])
        for one in refusals:
            click.echo(f"{one['id']}  refused: {safe(one['reason'])}")


@operations_group.command("cancel", epilog=example(f"fairlane operations cancel {ID}"))
@id_argument
@store_options
def cancel_command(*, url: str | None, as_json: bool, operation_id: str) -> None:
    """Leave the rest of its jobs as they are; what is done stays done."""
    with keeping(url) as app:
        _told(app.operation(operation_id).cancel(by=who()), as_json)


@operations_group.command("pause", epilog=example(f"fairlane operations pause {ID}"))
@id_argument
@store_options
def pause_command(*, url: str | None, as_json: bool, operation_id: str) -> None:
    """Let it do nothing until it is resumed."""
    with keeping(url) as app:
        _told(app.operation(operation_id).pause(by=who()), as_json)


@operations_group.command("resume", epilog=example(f"fairlane operations resume {ID}"))
@id_argument
@store_options
def resume_command(*, url: str | None, as_json: bool, operation_id: str) -> None:
    """Let a paused one go on."""
    with keeping(url) as app:
        _told(app.operation(operation_id).resume(by=who()), as_json)


@operations_group.command("run", epilog=example(f"fairlane operations run {ID}"))
@id_argument
@store_options
def run_command(*, url: str | None, as_json: bool, operation_id: str) -> None:
    """Carry one on to its end here, where no worker does."""
    with keeping(url) as app:
        carry_out(app.operation(operation_id), as_json=as_json)


def _told(operation: Operation, as_json: bool) -> None:
    if as_json:
        print_json(operation.shown())
    else:
        click.echo(f"{operation.state}: {operation.done:,} of {operation.total:,} jobs are done")
