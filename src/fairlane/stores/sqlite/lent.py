"""Jobs in callers' own transactions, and connections for handlers that end their job in one, on a SQLite file.

What is done there is what is done in the store's own transactions, over another connection and without the state in
memory: the log gets a row of its own, which those who hold the state replay. A caller's transaction holds the file's
write lock to its commit; it takes no gate, for whoever holds the gate may be waiting for that lock.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from fairlane.clock import Clock
from fairlane.domain.jobs import Enqueued, NewJob
from fairlane.errors import ConfigError, InvalidValue, StoreError
from fairlane.store.lending import Database, Declares, Do, Link, Loan, Script, StoredWith
from fairlane.stores.sqlite.base import Base
from fairlane.stores.sqlite.beside import Bells
from fairlane.stores.sqlite.connection import Durability, same_file, translated
from fairlane.stores.sqlite.loans import Desk, FileDesk, MemoryDesk, SqliteLoan
from fairlane.stores.sqlite.over import Over

FULL: Final = 2
"""What SQLite calls ``synchronous=FULL``; EXTRA is above it."""
LEVELS: Final = {0: "OFF", 1: "NORMAL"}


class Lent(Base):
    """The calls that use connections of callers, or lend ours to handlers."""

    database: Database = "sqlite"

    def __init__(
        self,
        url: str,
        path: Path | None,
        durability: Durability,
        clock: Clock | None = None,
        *,
        new: bool = True,
    ) -> None:
        super().__init__(url, path, durability, clock, new=new)
        self._lending = threading.Lock()
        self._callers_bells = None if self.folder is None else Bells(self.folder)
        self._desk: Desk | None = None

    # ------------------------------------------------------------------ enqueue

    def enqueue_with(
        self, jobs: Sequence[NewJob], now_ms: int, *, declare: Callable[[Declares], None] | None, ring: bool
    ) -> Script[StoredWith]:
        """Store jobs in a caller's transaction; see the protocol."""
        del ring  # who is told now waits for the caller's lock, and claims right after the commit

        def store(link: Link) -> list[Enqueued]:
            self._must_be_ours(link)
            with _inside(link):
                over = Over(self.url, link)
                if declare is not None:
                    declare(over)
                answers = over.enqueue(jobs, now_ms)
                over.flush()
            return answers

        answers = yield Do(store)
        with self._lending:
            if self._callers_bells is not None:
                with suppress(OSError):  # a hint may be lost
                    self._callers_bells.ring(("work", "end"))
        return StoredWith(answers, declared=False)

    def _must_be_ours(self, link: Link) -> None:
        """See that a connection is to our file, and as safe as we promise to be.

        Raises:
            InvalidValue: It is to another file.
            ConfigError: Its commits may be lost when the power is cut.
        """
        if self._closed:
            raise StoreError("the store is closed")
        if self.path is None:
            raise InvalidValue("the store is in memory, where conn cannot reach it: use a file, or leave conn out")
        same_file(self.path, self._file)
        theirs = next((file for _, name, file in link.execute("PRAGMA database_list").fetchall() if name == "main"), "")
        if not theirs or not _same(Path(theirs), self._file):
            raise InvalidValue(f"conn is a connection to {theirs or 'a database in memory'}; the store is {self.path}")
        if self._durability == "full":
            level = link.execute("PRAGMA synchronous").fetchone()[0]
            if level < FULL:
                raise ConfigError(
                    f"conn has synchronous={LEVELS[level]}, so its commit may be lost when the power is cut, and the "
                    'store promises otherwise (durability="full"): PRAGMA synchronous=FULL before the transaction, or '
                    'durability="normal"'
                )

    # ------------------------------------------------------------------ settle

    def lend(self) -> Loan:
        """Return a connection for a handler's transaction; see the protocol."""
        with self._lending:
            if self._closed:
                raise StoreError("the store is closed")
            if self._desk is None:
                self._desk = self._new_desk()
            return SqliteLoan(self._desk, self.url)

    def _new_desk(self) -> Desk:
        if self.path is None or self.folder is None:
            return MemoryDesk(self._raw, self._one)
        return FileDesk(self.path, self.folder, self._durability, self._file)

    def let_go_in_child(self) -> None:
        """Leave the parent's files to the parent, in a forked child."""
        self._lending = threading.Lock()  # a thread that is not here may have held it
        super().let_go_in_child()

    def close(self) -> None:
        """Close everything; safe to call twice."""
        super().close()
        with self._lending:
            desk, self._desk = self._desk, None
            if desk is not None:
                desk.close()
            if self._callers_bells is not None:
                self._callers_bells.close()


def _same(path: Path, opened: os.stat_result | None) -> bool:
    try:
        there = os.stat(path)
    except OSError:
        return False
    return opened is not None and (there.st_ino, there.st_dev) == (opened.st_ino, opened.st_dev)


@contextmanager
def _inside(link: Link) -> Generator[None]:
    """Do something in a caller's transaction, begun if need be; an error takes back what was done here, and no more.

    Raises:
        InvalidValue: No transaction is open, and none would be.
        StoreBusy: Others have written since the transaction began, or hold the file too long.
    """
    began = not link.in_transaction
    if began and link.autocommit:
        raise InvalidValue(
            "no transaction is open on conn and it commits every statement by itself, so nothing could be rolled back "
            "together: begin one first (BEGIN IMMEDIATE), or leave conn out"
        )
    with translated("store jobs in a caller's transaction"):
        link.execute("BEGIN IMMEDIATE" if began else "SAVEPOINT fairlane")
        try:
            yield
            if not began:
                link.execute("RELEASE fairlane")
        except BaseException:
            if link.in_transaction:  # a full disk makes SQLite roll back by itself
                if began:
                    link.execute("ROLLBACK")
                else:
                    link.execute("ROLLBACK TO fairlane")
                    link.execute("RELEASE fairlane")
            raise
