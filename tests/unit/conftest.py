"""What the unit tests share: a clock that stands still, an application or a store on it, a worker's surroundings."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import fairlane as fl
from fairlane.domain.policy import Capacities, Policy
from fairlane.stores.sqlite.store import SqliteStore, open_sqlite
from fairlane.testing.clock import ManualClock
from fairlane.testing.contract.bench import Bench, Rows

sys.path.insert(0, str(Path(__file__).parent))  # "importlib" mode finds no neighbours by itself

from rig import Rig


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def app(clock: ManualClock) -> Iterator[fl.Fairlane]:
    """An application over a store in memory."""
    with fl.Fairlane("sqlite://", clock=clock) as app:
        yield app


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    made = Rig(tmp_path)
    yield made
    made.close()


class OneFile:
    """What a bench opens: always the same file."""

    def __init__(self, path: Path) -> None:
        self.url = f"sqlite:///{path}"

    def open_store(
        self, clock: ManualClock, *, policy: Policy | None = None, capacities: Capacities | None = None
    ) -> SqliteStore:
        return open_sqlite(self.url, clock=clock, policy=policy, capacities=capacities, durability="normal")

    def rows(self, store: object) -> Rows:
        raise NotImplementedError


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    """Calls of a SQLite store on a file."""
    made = Bench(OneFile(tmp_path / "jobs.db"), ManualClock())
    yield made
    made.close()
