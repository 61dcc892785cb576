"""`fairlane backup` and `fairlane restore`: a store's file, copied and put back while it is in use."""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

import click

from fairlane.cli.groups import example, store_options
from fairlane.cli.output import note, print_json, safe
from fairlane.cli.stores import Keeper, file_of, must_exist, who
from fairlane.settings import without_password
from fairlane.stores.sqlite.backup import jobs_in


@contextmanager
def pages(what: str) -> Generator[Callable[[int, int], None], None, None]:
    """Show a progress bar of pages on a terminal; gives what is to be told how many are copied, and of how many."""
    if not sys.stderr.isatty():
        yield lambda done, total: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(safe(what).replace("[", r"\["), total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


@click.command("backup", epilog=example("fairlane backup /backups/jobs-monday.db", "fairlane backup jobs.bak --json"))
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--overwrite", is_flag=True, help="Replace a backup that has this name.")
@store_options
def backup_command(*, url: str | None, as_json: bool, file: Path, overwrite: bool) -> None:
    """Copy a store to FILE, as it is at one instant, while workers and producers go on.

    FILE appears when the copy is whole, was checked and is on the disk. A store of an older version is copied as it is.
    Do not copy the file of a store that is in use with other tools: the copy may be broken without a sign of it.
    """
    app = Keeper(url)
    must_exist(app)
    with pages(f"backing up {without_password(app.url)}") as told:
        made = app.backup(file, overwrite=overwrite, progress=told)
    if as_json:
        print_json({"url": app.url, "file": str(made.path), "bytes": made.bytes, "jobs": made.jobs})
    else:
        click.echo(f"{safe(made.path)}: {made.jobs:,} jobs, {made.bytes:,} bytes")


@click.command("restore", epilog=example("fairlane restore /backups/jobs-monday.db --yes"))
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--yes", is_flag=True, help="Do it; without it only what would be lost is shown.")
@store_options
def restore_command(*, url: str | None, as_json: bool, file: Path, yes: bool) -> None:
    """Make a store what the backup in FILE says it was, for everybody who uses it, or make it from the backup.

    What was enqueued or done since is gone: jobs that have ended since run again. Runs that are under way lose their
    lease. Workers and producers need not be stopped. If it fails, the store is as it was.
    """
    app = Keeper(url)
    store = file_of(app)
    if not yes and store is not None and store.exists() and store.stat().st_size:
        jobs = jobs_in(store)
        if as_json:
            print_json({"url": app.url, "would_replace": jobs, "restored": False})
        else:
            click.echo(f"{jobs:,} jobs would be replaced. Nothing has changed: add --yes to do it.")
        return
    with pages(f"restoring {app.url}") as told:
        done = app.restore(file, by=who(), progress=told)
    if as_json:
        answer = {"url": app.url, "restored": True, "jobs": done.jobs, "given_back": done.given_back}
        print_json(answer | {"replaced": done.replaced, "migrations": list(done.migrations)})
        return
    click.echo(
        f"{done.jobs:,} jobs restored in place of {done.replaced:,}; {done.given_back:,} of them ran and wait again"
    )
    if done.migrations:
        note(f"the backup was of an older version; run on it: {', '.join(done.migrations)}")
