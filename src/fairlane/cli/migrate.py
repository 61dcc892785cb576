"""`fairlane migrate`: bring a store to the schema of this version, or tell what that would do."""

from __future__ import annotations

from contextlib import closing

import click

from fairlane.cli.groups import UNHEALTHY, example, store_options
from fairlane.cli.output import note, print_json, safe
from fairlane.cli.stores import Keeper, must_exist
from fairlane.settings import without_password
from fairlane.stores._migrate import Standing
from fairlane.stores.sqlite.connection import connect, translated
from fairlane.stores.sqlite.versions import refuse_others, schema_of


def standing(app: Keeper) -> Standing:
    """Return the migrations that were run on a store and those to come; changes nothing.

    Raises:
        StoreVersion: The store was written by a newer version.
        StoreError: It cannot be read, is another program's, or a migration that was run has been changed since.
    """
    file = must_exist(app)
    if file is None:
        from fairlane.stores.postgres.schema import schema_of as schema_on_server

        return schema_on_server(app.url, app.clock)
    refuse_others(file)
    with closing(connect(file, "full", reading=True)) as db, translated(f"read {file}"):
        return schema_of(db, file)


def run(app: Keeper) -> None:
    """Run the migrations that are to come.

    Raises:
        StoreError: They cannot be run; nothing has changed.
    """
    if must_exist(app) is None:
        from fairlane.stores.postgres.schema import migrate

        migrate(app.url, app.clock)
    else:
        app.owner.read(lambda store, _: store.settings())  # opening it runs them


@click.command("migrate", epilog=example("fairlane migrate --check", "fairlane migrate"))
@click.option("--check", is_flag=True, help="Change nothing; exit code 3 when the store is not up to date.")
@click.option("--plan", is_flag=True, help="Change nothing; print the SQL that would be run.")
@store_options
def migrate_command(*, url: str | None, as_json: bool, check: bool, plan: bool) -> None:
    """Bring a store to the schema of this version.

    A SQLite store is also brought there by whoever opens it next, and a backup first is a good habit: `fairlane backup`
    works on a store of an older version as it is. In a PostgreSQL database this command alone makes and changes the
    schema; the role that runs it owns the tables. Migrations only go forward; all that are to come are one transaction.
    Processes of an older version that use a SQLite store meanwhile are told to be restarted; those that use a
    PostgreSQL database are to be stopped first.
    """
    if check and plan:
        raise click.UsageError("give --check or --plan, not both")
    with Keeper(url) as app:
        done, to_come = standing(app)
        if not (check or plan):
            run(app)
    key = "pending" if check or plan else "run"
    names = [step.name for step in to_come]
    if as_json:
        sql = {"sql": {step.name: step.sql for step in to_come}} if plan else {}
        print_json({"url": without_password(app.url), "done": done, key: names, **sql})
    elif plan:
        click.echo("\n".join(f"-- {step.name}\n{step.sql}" for step in to_come), nl=False)
    elif to_come:
        click.echo("\n".join(safe(name) for name in names))
    else:
        click.echo(f"up to date: {len(done)} of {len(done)} migrations")
    if check and to_come:
        note(f"{len(to_come)} migrations are to come: run `fairlane migrate`")
        click.get_current_context().exit(UNHEALTHY)
