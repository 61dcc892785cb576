"""What a scenario is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from bench.compare.adapters.base import Adapter
from bench.compare.figures import Figure
from bench.compare.system import System

TOTAL: Final = 4
"""Jobs at once in the scenarios about order: with jobs of 5 ms, at most 800 a second."""
SLEEP_MS: Final = 5
BACKGROUND: Final = 0
"""The kind of the jobs that make the load."""
PROBE: Final = 1
"""The kind of the jobs that are watched."""


def anyone(kind: type[Adapter]) -> str:
    """Exclude nobody."""
    return ""


def tiered(kind: type[Adapter]) -> str:
    """Exclude queues without tiers."""
    return "" if kind.tiers else "it has no tiers"


def on_postgres(kind: type[Adapter]) -> str:
    """Exclude queues on anything else."""
    return "" if kind.store == "postgres" else "asked of PostgreSQL's alone"


@dataclass(frozen=True)
class Scenario:
    """One question.

    Attributes:
        name: Its name on the command line.
        about: What is done, in a sentence.
        figures: What comes out; the first one ranks the queues.
        run: Measures once.
        runs: How often, unless the command says otherwise.
        excludes: Returns why a queue cannot answer, or "".
    """

    name: str
    about: str
    figures: tuple[Figure, ...]
    run: Callable[[System], dict[str, float]]
    runs: int = 3
    excludes: Callable[[type[Adapter]], str] = anyone
