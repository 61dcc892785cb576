"""`manage.py fairlane …`: the program `fairlane` on the store of a backend."""

from __future__ import annotations

import argparse
from importlib import import_module
from typing import Any, Final

from fairlane.cli.main import cli
from fairlane.integrations.django.stores import app_for

_management: Final[Any] = import_module("django.core.management.base")  # Any: Django does not say its types


class Command(_management.BaseCommand):  # type: ignore[misc]  # as above
    """Passes a command line on."""

    help = "Run a fairlane command on the store of the default backend in TASKS: manage.py fairlane stats"
    requires_system_checks: Final[list[str]] = []

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Take everything as it is."""
        parser.add_argument("line", nargs=argparse.REMAINDER, help="The command and its options.")

    def run_from_argv(self, argv: list[str]) -> None:
        """Run what was typed: Django's own options would be in the way of fairlane's."""
        self.handle(line=argv[2:])

    def handle(self, *args: Any, **options: Any) -> None:  # Any: as Django has it
        """Run the command, and exit with its code."""
        del args
        cli.main(["--url", app_for().url, *options["line"]], prog_name="manage.py fairlane")
