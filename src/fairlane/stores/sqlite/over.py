"""What the shared code does over a SQLite connection that is not the store's."""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterable
from contextlib import contextmanager

from fairlane.store.lending import Link
from fairlane.stores._queries import queries
from fairlane.stores.sqlite.inserting import Inserting
from fairlane.stores.sqlite.log import Logging
from fairlane.stores.tables.ground import Db, Rows, Values
from fairlane.stores.tables.running import Running


class _Named:
    """A connection whose statements are called by the names of their files."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._sql = queries("sqlite")

    def execute(self, name: str, values: Values = ()) -> Rows:
        rows: Rows = self._link.execute(self._sql[name], values)
        return rows

    def executemany(self, name: str, rows: Iterable[Values]) -> object:
        return self._link.executemany(self._sql[name], list(rows))


class Over(Inserting, Running, Logging):
    """What is done over a connection that is not the store's: for one transaction, which somebody else ends."""

    def __init__(self, url: str, link: Link) -> None:
        super().__init__(url)
        self._db = _Named(link)

    @contextmanager
    def reading(self, doing: str) -> Generator[Db]:
        """Give the connection, which sees what was written on it."""
        del doing
        yield self._db

    snapshot = reading

    def flush(self) -> None:
        """Write counts and the log row: the last thing before the transaction ends, or goes on without us."""
        self._flush()

    # What nobody asks for over such a connection.

    def alive(self, workers: Collection[str]) -> Collection[str]:
        """Never."""
        raise NotImplementedError

    def damage(self, db: Db) -> list[str]:
        """Never."""
        raise NotImplementedError
