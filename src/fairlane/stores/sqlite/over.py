"""What the shared code does over a SQLite connection that is not the store's."""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterable, Sequence
from contextlib import contextmanager

from fairlane.store import Presence
from fairlane.store.lending import Link
from fairlane.stores._queries import queries
from fairlane.stores.tables.ground import JOB_LAST, Db, Rows, Values
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


class Over(Running):
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

    def numbers(self, count: int) -> Sequence[int]:
        """Draw numbers for new jobs, in order."""
        last: int = self._x(JOB_LAST).fetchone()[0] if self._last_seq is None else self._last_seq
        self._last_seq = last + count
        return range(last + 1, last + count + 1)

    def flush(self) -> None:
        """Write counts and the log row: the last thing before the transaction ends, or goes on without us."""
        self._flush()

    # What nobody asks for over such a connection.

    def begin(self) -> None:
        """Never."""
        raise NotImplementedError

    def presence(self, worker: str) -> Presence:
        """Never."""
        raise NotImplementedError

    def alive(self, workers: Collection[str]) -> Collection[str]:
        """Never."""
        raise NotImplementedError

    def damage(self, db: Db) -> list[str]:
        """Never."""
        raise NotImplementedError
