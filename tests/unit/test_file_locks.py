"""What one process does with a store's file must not end the locks that SQLite holds on it for that process.

A process that closes any handle of its own on a file loses all its locks on it (POSIX). Another one that then closes
the store believes that it is the last, deletes the log, and what the first one commits afterwards is lost.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import fairlane as fl
from fairlane.cli.migrate import standing
from fairlane.stores.sqlite.backup import jobs_in

ANOTHER = """
import sys
import fairlane as fl
with fl.Fairlane(sys.argv[1]) as app:
    app.enqueue("theirs")
    print(len(app.jobs(limit=100)))
"""


def another_process(url: str) -> int:
    """Let another process open the store, store a job, close it; return how many jobs it saw."""
    done = subprocess.run([sys.executable, "-c", ANOTHER, url], capture_output=True, text=True, check=True)
    return int(done.stdout)


def backup(app: fl.Fairlane, folder: Path) -> None:
    app.backup(folder / "copy.db")


def a_second_app(app: fl.Fairlane, _: Path) -> None:
    with fl.Fairlane(app.url) as second:
        second.jobs()


def restore_into_it(app: fl.Fairlane, folder: Path) -> None:
    app.backup(folder / "copy.db")
    app.restore(folder / "copy.db")


def restore_from_it(_: fl.Fairlane, folder: Path) -> None:
    with fl.Fairlane(f"sqlite:///{folder / 'other.db'}") as other:
        other.restore(folder / "jobs.db")


def look_at_its_migrations(app: fl.Fairlane, _: Path) -> None:
    standing(app)


def count_its_jobs(_: fl.Fairlane, folder: Path) -> None:
    jobs_in(folder / "jobs.db")


@pytest.mark.parametrize(
    "what", [backup, a_second_app, restore_into_it, restore_from_it, look_at_its_migrations, count_its_jobs]
)
def test_what_is_committed_afterwards_is_there_for_all(
    tmp_path: Path, what: Callable[[fl.Fairlane, Path], None]
) -> None:
    url = f"sqlite:///{tmp_path / 'jobs.db'}"
    with fl.Fairlane(url) as app:
        app.enqueue("ours")
        what(app, tmp_path)
        assert another_process(url) == 2
        app.enqueue("ours")
        assert another_process(url) == 4
        assert len(app.jobs(limit=100)) == 4
