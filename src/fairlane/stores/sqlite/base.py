"""SQLite's part of the ground: connections, transactions, the gate, forks."""

from __future__ import annotations

import os
import sqlite3
import threading
import weakref
from collections.abc import Callable, Collection, Generator, Iterable, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from fairlane.clock import Clock
from fairlane.errors import StoreError, StoreVersion
from fairlane.store import News, Presence
from fairlane.stores._queries import queries, query
from fairlane.stores.sqlite.beside import Bells, Gate, SignOfLife, alive
from fairlane.stores.sqlite.connection import Durability, connect, raise_translated, same_file, translated
from fairlane.stores.sqlite.log import Logging
from fairlane.stores.sqlite.steps import Steps
from fairlane.stores.tables.ground import Db, Values

SEQUENCES: Final = query("sqlite", "sequences")


class Transaction:
    """A write transaction of a store, as a context; a class of its own because it is entered for every claim."""

    __slots__ = ("_store",)

    def __init__(self, store: Base) -> None:
        self._store = store

    def __enter__(self) -> None:
        """Begin."""
        self._store.begin()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        """Commit, or roll back when something was raised."""
        if error is None:
            self._store.commit()
            return
        self._store.rollback()
        raise_translated(error, "change the store", only_sqlite=True)


class Statements:
    """A connection whose statements are called by the names of their files."""

    __slots__ = ("_sql", "raw")

    def __init__(self, raw: sqlite3.Connection) -> None:
        self.raw = raw
        self._sql = queries("sqlite")

    def execute(self, name: str, values: Values = ()) -> sqlite3.Cursor:
        """Run the statement of that name."""
        return self.raw.execute(self._sql[name], values)

    def executemany(self, name: str, rows: Iterable[Values]) -> sqlite3.Cursor:
        """Run the statement of that name for each of the rows."""
        return self.raw.executemany(self._sql[name], rows)


def _folder_beside(path: Path) -> Path:
    """Return the folder beside a database, made when it is missing."""
    folder = path.with_name(path.name + ".fairlane")
    try:
        folder.mkdir(exist_ok=True)
    except OSError as error:
        raise StoreError(f"could not make the folder {folder}: {error}") from error
    return folder


class Base(Logging):
    """Connections and transactions. One thread writes; others may read under the reading lock."""

    def __init__(
        self,
        url: str,
        path: Path | None,
        durability: Durability,
        clock: Clock | None = None,
        *,
        new: bool = True,
    ) -> None:
        super().__init__(url)
        self.path = path
        self._clock = clock
        self._steps = None if clock is None else Steps(clock)
        self._ready = not new  # whether there are tables to look into
        self.folder = None if path is None else _folder_beside(path)
        self._durability: Durability = durability
        self._closed = False
        self._taken = False  # whether the gate is held for the transaction that is about to begin
        self._still_held = False
        self.still = threading.RLock()  # held while we write: a fork waits for it
        self.still_reading = threading.RLock()  # and while we read
        self._one = threading.RLock()  # in memory there is one connection for writing and reading
        self._raw = connect(path, durability, new=new)  # first: it may refuse, and leaves nothing open then
        self._gate = None if self.folder is None else Gate(self.folder)
        self._bells = None if self.folder is None else Bells(self.folder)
        self._own = Statements(self._raw)
        self._statements = queries("sqlite")
        self._db = self._own
        self._file = None if path is None else os.stat(path)
        self._reader: Statements | None = self._own if path is None else None
        self._changes_before = 0
        self._schema: int | None = None  # SQLite's count of changes of the schema, at the last transaction
        self._version: int | None = None  # how many migrations the file has, once we know
        _open.add(self)

    # ------------------------------------------------------------------ statements

    def _x(self, name: str, values: Values = ()) -> sqlite3.Cursor:
        """Run a statement on the writing connection; not through another call, for it is what everything is made of."""
        return self._raw.execute(self._statements[name], values)

    def _sql(
        self, sql: str, values: Mapping[str, Any] | tuple[Any, ...] = ()
    ) -> sqlite3.Cursor:  # Any: SQLite's own types
        """Run a statement that only SQLite has on the writing connection."""
        return self._raw.execute(sql, values)

    @contextmanager
    def reading(self, doing: str) -> Generator[Statements]:
        """Give the connection to read from: our own transaction's when we are inside one."""
        if self.inside():
            with translated(doing):
                yield self._own
            return
        with self._one if self.path is None else self.still_reading:
            same_file(self.path, self._file)
            if self._reader is None:
                self._reader = Statements(connect(self.path, self._durability, reading=True, new=False))
            with translated(doing):
                yield self._reader

    @contextmanager
    def snapshot(self, doing: str) -> Generator[Statements]:
        """Give the connection to read from, with everything as of one instant."""
        with self.reading(doing) as db:
            if self.inside():
                yield db
                return
            db.raw.execute("BEGIN")
            try:
                yield db
            finally:
                db.raw.execute("ROLLBACK")

    # ------------------------------------------------------------------ transactions

    @property
    def lights(self) -> bool:
        """Whether light transactions are of use: SQLite has one writer at a time, whatever it writes."""
        return False

    def at_once(self) -> bool:
        """Take the gate if no other process has it; see the protocol."""
        self._taken = self._one.acquire(blocking=False) if self._gate is None else self._gate.lock_at_once()
        return self._taken

    def transaction(self, *, light: bool = False) -> Transaction:
        """Open a write transaction; see the protocol."""
        del light
        return Transaction(self)

    def begin(self) -> None:
        """Take the gate and the write lock, and catch up with the log."""
        if self._taken:
            self._taken = False
        elif self._gate is None:
            self._one.acquire()
        else:
            self._gate.lock()
        try:
            if self._closed:
                raise StoreError("the store is closed")
            self.still.acquire()
            self._still_held = True
            same_file(self.path, self._file)
            self._sql("BEGIN IMMEDIATE")
            self._writer_thread = threading.get_ident()
            self._changes_before = self._raw.total_changes
            self._fresh_look()
            (schema,) = self._sql("PRAGMA schema_version").fetchone()  # takes 0.7 us
            if schema != self._schema:
                self._look_again(schema)
            if self._ready and self._steps is not None:
                self._steps.look(self._raw)
            if self._mirror is not None:
                self._catch_up()
        except BaseException as error:  # noqa: BLE001 - raised again
            self.rollback()
            raise_translated(error, "begin a transaction")

    def _look_again(self, schema: int) -> None:
        """See that the file still has the schema we know; what we remember of it may be of before a restore.

        Raises:
            StoreVersion: Another version of fairlane has migrated it while this process used it.
        """
        (version,) = self._sql("PRAGMA user_version").fetchone()
        if self._version not in {None, version}:
            raise StoreVersion(
                f"{self.path} was migrated to schema {version} while this process used it, which knows schema "
                f"{self._version}: restart it with the version of fairlane that migrated the file"
            )
        self._schema = schema
        self._mirror = None
        self._forget_lanes()

    def commit(self) -> None:
        """Write what was collected, commit, let go of the gate."""
        try:
            self._flush()
            self._sql("COMMIT" if self._raw.total_changes != self._changes_before else "ROLLBACK")
        except BaseException as error:  # noqa: BLE001 - raised again
            self.rollback()
            raise_translated(error, "commit")
        self._keep_news()
        self._let_go()

    def rollback(self) -> None:
        """Go back to before the transaction, in memory too, and let go of the gate."""
        try:
            if not self._closed and self._raw.in_transaction:  # a full disk makes SQLite roll back by itself
                self._raw.rollback()
        finally:
            self._drop_all()
            self._let_go()

    def _let_go(self) -> None:
        self._writer_thread = None
        if self._still_held:
            self._still_held = False
            self.still.release()
        if self._gate is None:
            self._one.release()
        else:
            self._gate.unlock()

    @contextmanager
    def apart(self) -> Generator[sqlite3.Connection]:
        """Hold the gate without a transaction and give the writing connection: for what SQLite does by itself."""
        if self._gate is None:
            raise StoreError("a store in memory has no gate")
        self._gate.lock()
        try:
            with self.still, translated("change the store"):
                yield self._raw
        finally:
            self._gate.unlock()

    @contextmanager
    def lent(self, doing: str) -> Generator[sqlite3.Connection]:
        """Lend the connection to read from; in memory it is the only one, and everybody else waits."""
        with self.reading(doing) as db:
            yield db.raw

    def sequences(self) -> dict[str, int]:
        """Return the highest number ever given in each table that never gives one twice; in a transaction."""
        return dict(self._sql(SEQUENCES).fetchall())

    def announce(self, news: Collection[News]) -> None:
        """Ring the bells of other processes."""
        if self._bells is not None:
            self._bells.ring(news)

    def listen(self, heard: Callable[[frozenset[News]], None]) -> Callable[[], None]:
        """Listen to the bell of this process; a store in memory has no others to hear."""
        if self._bells is None:
            return lambda: None
        return self._bells.listen(heard)

    def let_go_in_child(self) -> None:
        """Leave the parent's files to the parent, in a forked child; a store in memory is lost to it."""
        self.still, self.still_reading = threading.RLock(), threading.RLock()
        if self.path is not None:
            self.close()

    def close(self) -> None:
        """Close everything; safe to call twice."""
        if self._closed:
            return
        self._closed = True
        self._raw.close()
        if self._reader is not None:
            self._reader.raw.close()
        if self._gate is not None:
            self._gate.close()
        if self._bells is not None:
            self._bells.close()
        _open.discard(self)

    # ------------------------------------------------------------------ signs of life, damage

    def presence(self, worker: str) -> Presence:
        """Give a sign of life for a worker of this process."""
        return Nothing() if self.folder is None else SignOfLife(self.folder, worker)

    def alive(self, workers: Collection[str]) -> Collection[str]:
        """Return the workers whose process lives; in memory there is only ours."""
        folder = self.folder
        return workers if folder is None else {worker for worker in workers if alive(folder, worker)}

    def damage(self, db: Db) -> list[str]:
        """Return what SQLite finds wrong with the file."""
        assert isinstance(db, Statements)
        rows = db.raw.execute("PRAGMA quick_check(5)")
        return [f"the file is damaged: {row[0]}" for row in rows if row[0] != "ok"]

    def facts(self) -> Mapping[str, Any]:  # Any: for people to read
        """Return facts about the database for ``doctor``."""
        with self.lent("read facts") as db:
            pragmas = ("journal_mode", "synchronous", "page_count", "page_size", "freelist_count", "user_version")
            facts: dict[str, Any] = {name: db.execute(f"PRAGMA {name}").fetchone()[0] for name in pragmas}
        facts["sqlite"] = sqlite3.sqlite_version
        facts["file"] = None if self.path is None else str(self.path)
        facts["durability"] = self._durability
        return facts


class Nothing:
    """The sign of life of a worker whose store dies with its process."""

    def close(self) -> None:
        """Do nothing."""


_open: Final[weakref.WeakSet[Base]] = weakref.WeakSet()
_forking: Final[list[list[Base]]] = []


def _before_fork() -> None:
    # A fork in the middle of a statement would leave the child with SQLite's mutexes and locks held by nobody.
    _forking.append(list(_open))
    for store in _forking[-1]:
        store.still.acquire()
        store.still_reading.acquire()


def _after_fork_in_parent() -> None:
    for store in _forking.pop():
        store.still_reading.release()
        store.still.release()


def _after_fork_in_child() -> None:
    # SQLite would count the parent's locks as this process's own, for every connection that is opened later; and the
    # gate's lock would live as long as the child. Closing ends both, and cannot touch the parent's locks.
    for store in _forking.pop():
        store.let_go_in_child()


os.register_at_fork(before=_before_fork, after_in_parent=_after_fork_in_parent, after_in_child=_after_fork_in_child)
