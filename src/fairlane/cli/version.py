"""`fairlane version`."""

from __future__ import annotations

import platform
import sqlite3

import click

import fairlane
from fairlane.cli.groups import example, json_option
from fairlane.cli.output import print_facts, print_json


def versions() -> dict[str, str]:
    """Return the versions that a report of a fault should name."""
    return {
        "fairlane": fairlane.__version__,
        "python": platform.python_version(),
        "sqlite": sqlite3.sqlite_version,
        "system": platform.platform(),
    }


@click.command("version", epilog=example("fairlane version --json"))
@json_option
def version_command(*, as_json: bool) -> None:
    """Show the versions of fairlane, Python and SQLite."""
    if as_json:
        print_json(versions())
    else:
        print_facts(versions().items())
