"""What the commands that pause something share."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any, TypeVar

import click

from fairlane.app import Fairlane
from fairlane.instants import aware
from fairlane.options import MAX_SPAN_S

F = TypeVar("F", bound=Callable[..., Any])  # Any: a command's own arguments


def pause_options(command: F) -> F:
    """Give a command ``--reason`` and ``--for``, the latter as ``seconds``."""
    command = click.option(
        "--for",
        "seconds",
        type=click.FloatRange(0, MAX_SPAN_S, min_open=True),
        metavar="SECONDS",
        help="End it by itself after this time. [default: never]",
    )(command)
    return click.option("--reason", default="", help="Why, for people.")(command)


def end_of(app: Fairlane, seconds: float | None) -> datetime | None:
    """Return when a pause of so many seconds ends; None: never."""
    return None if seconds is None else aware(app.clock.now_ms()) + timedelta(seconds=seconds)
