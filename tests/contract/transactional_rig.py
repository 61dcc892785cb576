"""What the tests of transactions share: an app on each store, and connections as a program beside it has them."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
from tests.pg import Server

import fairlane as fl
from fairlane.store import Store
from fairlane.testing.invariants import book_faults

LONG_S = 10.0
"""Longest wait for an event; only a failing test waits that long."""


class Place:
    """A store, and a table of the program's own in the same database.

    Attributes:
        mark: How its drivers write a parameter.
    """

    mark = ""

    def __init__(self, url: str, **options: Any) -> None:
        self.url = url
        self.options = options
        self.apps: list[fl.Fairlane] = []
        self.conns: list[Any] = []
        self.app = self.new_app()
        assert self.app.owner  # the store is made
        conn = self.connect()
        conn.execute("CREATE TABLE mine (n integer)")
        conn.commit()
        conn.close()

    def new_app(self, **options: Any) -> fl.Fairlane:
        """Another program on the same store."""
        app = fl.Fairlane(self.url, **(self.options | options))
        self.apps.append(app)
        return app

    def connect(self) -> Any:
        """A connection of the program, which begins a transaction with its first statement."""
        conn = self._connect()
        self.conns.append(conn)
        return conn

    def _connect(self) -> Any:
        raise NotImplementedError

    def put(self, conn: Any, n: int) -> None:
        """Write a row of the program's own."""
        conn.execute(f"INSERT INTO mine VALUES ({self.mark})", (n,))

    def mine(self) -> list[int]:
        """Return the program's rows."""
        conn = self.connect()
        try:
            return sorted(n for (n,) in conn.execute("SELECT n FROM mine").fetchall())
        finally:
            conn.close()

    def jobs(self) -> int:
        """Return how many jobs there are for others."""
        return sum(self.app.owner.read(lambda store, now_ms: store.counts()).values())

    def record(self, job: fl.Job[Any]) -> Any:
        """Return a job as it is stored."""
        return self.app.owner.read(lambda store, now_ms: store.get(job.id.bytes))

    def claim_all(self) -> list[int]:
        """Start everything that may start, one after the other, and return the ``n`` of each."""
        found = []
        while (claim := self.app.claim()) is not None:
            found.append(claim.args["n"])
            claim.ack()
        return found

    def faults(self) -> list[str]:
        """Return what is wrong with the store's books."""

        def look(store: Store, now_ms: int) -> list[str]:
            return book_faults(store, now_ms)

        return self.app.owner.call(look)

    def close(self) -> None:
        """End everything; the books must balance."""
        for conn in self.conns:
            conn.close()
        try:
            assert self.faults() == []
        finally:
            for app in self.apps:
                app.close()


class SqlitePlace(Place):
    mark = "?"

    def __init__(self, folder: Path, **options: Any) -> None:
        self.path = folder / "jobs.db"
        super().__init__(f"sqlite:///{self.path}", **({"durability": "normal"} | options))

    def _connect(self) -> sqlite3.Connection:
        return sqlite3.connect(self.path, timeout=LONG_S, check_same_thread=False)


class PostgresPlace(Place):
    mark = "%s"

    def _connect(self) -> psycopg.Connection[Any]:
        return psycopg.connect(self.url)


def sqlite_place(folder: Path) -> Iterator[Place]:
    place = SqlitePlace(folder)
    yield place
    place.close()


def postgres_place(running: Server) -> Iterator[Place]:
    url = running.database()
    place = PostgresPlace(url)
    try:
        yield place
    finally:
        place.close()
        running.drop(url)
