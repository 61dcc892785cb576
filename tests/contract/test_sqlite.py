"""The contract suite on SQLite: a file, and a private database in memory."""

import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import ClassVar

import pytest

from fairlane.domain.policy import Capacities, Policy
from fairlane.store import Store
from fairlane.stores.sqlite.store import SqliteStore, open_sqlite
from fairlane.testing.clock import ManualClock
from fairlane.testing.contract import SharedContract, StoreContract
from fairlane.testing.contract.bench import Database, Rows


def rows_of(db: sqlite3.Connection) -> Rows:
    """Return every row of every table, by table, in the order of their own values."""
    names = [name for (name,) in db.execute("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name")]
    return {name: sorted(db.execute(f'SELECT * FROM "{name}"').fetchall(), key=repr) for name in names}


class SqliteFile:
    """A file in a folder of its own, copied from one made before: making it takes longer than most tests."""

    made: ClassVar[dict[tuple[Policy | None, Capacities | None], bytes]] = {}

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.path = folder / "jobs.db"

    def open_store(
        self, clock: ManualClock, *, policy: Policy | None = None, capacities: Capacities | None = None
    ) -> Store:
        if not self.path.exists():
            key = (policy, capacities)
            if key not in self.made:
                path = self.folder / "made.db"
                self._open(path, clock, policy, capacities).close()
                self.made[key] = path.read_bytes()
            self.path.write_bytes(self.made[key])
        return self._open(self.path, clock, policy, capacities)

    def _open(self, path: Path, clock: ManualClock, policy: Policy | None, capacities: Capacities | None) -> Store:
        # "normal": nothing here cuts the power, and the flushes would take most of the time.
        return open_sqlite(f"sqlite:///{path}", clock=clock, policy=policy, capacities=capacities, durability="normal")

    def rows(self, store: Store) -> Rows:
        db = sqlite3.connect(self.path)
        try:
            return rows_of(db)
        finally:
            db.close()


class SqliteMemory:
    """A database that lives and dies with its one store."""

    def open_store(
        self, clock: ManualClock, *, policy: Policy | None = None, capacities: Capacities | None = None
    ) -> Store:
        return open_sqlite("sqlite://", clock=clock, policy=policy, capacities=capacities)

    def rows(self, store: Store) -> Rows:
        assert isinstance(store, SqliteStore)
        return rows_of(store._raw)


class TestFile(StoreContract, SharedContract):
    @pytest.fixture
    def database(self, tmp_path: Path) -> Iterator[Database]:
        memory = Path("/dev/shm")  # where there is one, closing a file does not wait for the disk
        with TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else tmp_path) as folder:
            yield SqliteFile(Path(folder))


class TestMemory(StoreContract):
    @pytest.fixture
    def database(self, tmp_path: Path) -> Database:
        return SqliteMemory()


def test_no_test_of_the_suite_hides_another():
    """The suite is one class of many: a name that two of them use would run once."""
    parts = set(SharedContract.__mro__ + StoreContract.__mro__)
    names = [name for part in parts for name in vars(part) if name.startswith("test_")]
    assert sorted(names) == sorted(set(names))
