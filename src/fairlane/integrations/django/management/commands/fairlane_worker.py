"""`manage.py fairlane_worker`: runs the tasks of a Django project."""

from __future__ import annotations

from argparse import ArgumentParser, ArgumentTypeError
from importlib import import_module
from typing import Any, Final

from fairlane.cli.worker import finish
from fairlane.domain.tiers import Tier
from fairlane.errors import FairlaneError
from fairlane.integrations.django.stores import app_for, forget

_management: Final[Any] = import_module("django.core.management.base")  # Any: Django does not say its types
_loading: Final[Any] = import_module("django.utils.module_loading")


def slots(value: str) -> tuple[str, int | None]:
    """Return the name and the slots of ``name`` or ``name=slots``."""
    name, _, figure = value.partition("=")
    if not name or (figure and not (figure.isascii() and figure.isdecimal() and int(figure))):
        raise ArgumentTypeError(f"{value!r} is not NAME or NAME=SLOTS, with a whole number of at least 1")
    return name, int(figure) if figure else None


def kept(value: str) -> tuple[str, int]:
    """Return the tier and the slots of ``tier=slots``."""
    name, figure = slots(value)
    if figure is None or name.upper() not in Tier.__members__:
        names = ", ".join(tier.label for tier in Tier)
        raise ArgumentTypeError(f"{value!r} is not TIER=SLOTS, with one of {names} and a whole number of at least 1")
    return name.lower(), figure


class Command(_management.BaseCommand):  # type: ignore[misc]  # Django does not say its types
    """Runs a worker in this process."""

    help = (
        "Run the tasks of this project until SIGTERM or Ctrl-C. The first signal stops claiming and waits for running "
        "tasks up to the grace; a second one gives them back at once. Start it several times for several processes."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Say what it takes."""
        parser.add_argument("--backend", default="default", help="The backend in TASKS. [default: default]")
        parser.add_argument("-c", "--concurrency", type=int, help="Tasks it runs at once. [default: 8]")
        parser.add_argument(
            "-q", "--queue", dest="queues", action="append", type=slots, metavar="NAME[=SLOTS]",
            help="A queue to serve, with its slots; may be given again. [default: all]",
        )  # fmt: skip
        parser.add_argument(
            "--reserve", action="append", type=kept, metavar="TIER=SLOTS",
            help="Slots kept for this tier or better; may be given again.",
        )  # fmt: skip
        parser.add_argument("--burst", action="store_true", help="End when no task is left that could start now.")
        parser.add_argument("--grace", type=float, metavar="SECONDS", help="Wait for running tasks. [default: 25]")
        parser.add_argument("--lease", type=float, metavar="SECONDS", help="Length of a lease. [default: 30]")
        parser.add_argument("--name", help="How the worker's id begins, for people.")
        parser.add_argument(
            "--module", dest="modules", action="append", default=[],
            help="A module with tasks, beside the module `tasks` of every app; may be given again.",
        )  # fmt: skip

    def handle(self, *args: Any, **options: Any) -> None:  # Any: as Django has it
        """Import the tasks, and run them until told to stop."""
        del args
        _loading.autodiscover_modules("tasks")
        for module in options["modules"]:
            import_module(module)
        try:
            self._run(**{name: options[name] for name in ("backend", "burst")}, **_shape(options))
        except FairlaneError as error:
            raise _management.CommandError(str(error)) from error

    def _run(self, *, backend: str, burst: bool, **shape: Any) -> None:  # Any: each option has its own type
        app = app_for(backend)
        worker = app.worker(**shape)
        if not burst:
            self.stdout.write(f"fairlane worker: {len(app.registry)} tasks, {worker.options.concurrency} at once")
        try:
            worker.run(until_idle=burst)
        finally:
            forget(backend)
            finish(app, worker)


def _shape(options: dict[str, Any]) -> dict[str, Any]:  # Any: as above
    """Return what the worker is told."""
    shape = {name: options[name] for name in ("concurrency", "grace", "lease", "name")}
    if options["queues"]:
        full = options["concurrency"] or 8
        shape["queues"] = {name: full if figure is None else figure for name, figure in options["queues"]}
    if options["reserve"]:
        shape["reserve"] = dict(options["reserve"])
    return shape
