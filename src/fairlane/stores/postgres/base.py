"""PostgreSQL's part of the ground: connections, transactions behind the gate, and light ones.

A transaction that decides or steers holds the gate, a lock on a table that nobody writes. It takes the lock before its
snapshot (``LOCK TABLE`` needs none), so everything it reads is as of one instant at which it had the gate: jobs, rules,
and what the log says of them agree.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Collection, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

import psycopg
from psycopg.pq import TransactionStatus

from fairlane.clock import Clock
from fairlane.errors import StoreError
from fairlane.store import News, Presence
from fairlane.stores._mirror import PLAIN, Mirror, encode
from fairlane.stores.postgres.bells import Bells
from fairlane.stores.postgres.connection import (
    BUSY_MS,
    IDLE_MS,
    PLANS,
    Address,
    Statements,
    alive,
    connect,
    ended,
    lost,
    raise_translated,
    read_only,
    translated,
)
from fairlane.stores.postgres.fate import was_carried_out
from fairlane.stores.postgres.inbox import CATCH_UP, Inbox
from fairlane.stores.postgres.life import LOST_S, Lives
from fairlane.stores.tables.ground import LOG_INSERT, Db, Rows, Values

OPENING: Final = "opening"
POOLED: Final = tuple(
    f"SET LOCAL {name} = {value}".encode()
    for name, value in {"lock_timeout": BUSY_MS, "idle_in_transaction_session_timeout": IDLE_MS, **PLANS}.items()
)
"""What gives a transaction behind a pooler the settings that our own connections have."""


class Transaction:
    """A write transaction, as a context."""

    __slots__ = ("_light", "_store")

    def __init__(self, store: Base, *, light: bool) -> None:
        self._store = store
        self._light = light

    def __enter__(self) -> None:
        """Begin."""
        if self._light:
            self._store.begin_light()
        else:
            self._store.begin()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        """Commit, or roll back when something was raised."""
        if error is None:
            self._store.commit()
            return
        self._store.go_back(error)
        raise_translated(error, "change the store", only_ours=True)


class Unbegun:
    """Stands for the connection while a light transaction has said nothing: the first statement begins it."""

    __slots__ = ("_store",)

    def __init__(self, store: Base) -> None:
        self._store = store

    def execute(self, name: str, values: Values = ()) -> Rows:
        """Run the statement of that name."""
        return self._store.say_begin().execute(name, values)

    def executemany(self, name: str, rows: Iterable[Values]) -> None:
        """Run the statement of that name for each of the rows."""
        self._store.say_begin().executemany(name, rows)


class Base(Inbox):
    """Connections and transactions. One thread writes; others may read under the reading lock."""

    def __init__(self, url: str, address: Address, clock: Clock) -> None:
        super().__init__(url)
        self.address = address
        self._clock = clock
        self._closed = False
        self._light = False
        self._aside: Mirror | None = None  # the state in memory, while a light transaction is open
        self._bounded = False
        self._least_fence = 0
        self._line = ""  # the server's line of history that the state in memory is of
        self._mark: Sequence[str] = ()  # what the fate of the transaction is asked by
        self._number = 0  # one that was drawn at the beginning of a light transaction
        self._reading_lock = threading.RLock()
        self._raw = connect(address)
        self._own = Statements(self._raw, address.schema)
        self._db: Db = self._own
        self._unbegun = Unbegun(self)
        self._reader: Statements | None = None
        self._reader_doubted = False  # whether it may lead to a server that is behind for good
        self._lives = Lives(address)
        self._bells = Bells(address)
        self._back: list[str] = []  # workers that this transaction puts on record again
        settings = POOLED if address.pooled else ()  # else the connection has them
        self._begin = (b"BEGIN ISOLATION LEVEL REPEATABLE READ", *settings, self._own.text("gate_lock"))
        self._begin_light = (b"BEGIN", *settings)

    # ------------------------------------------------------------------ reading

    @contextmanager
    def reading(self, doing: str) -> Generator[Statements]:
        """Give the connection to read from: our own transaction's when we are inside one."""
        if self.inside():
            with translated(doing):
                if self._silent:
                    self.say_begin()
                yield self._own
            return
        with self.beside(doing) as db:
            yield db

    def _reading_connection(self) -> Statements:
        if self._closed:
            raise StoreError("the store is closed")
        if self._reader_doubted and self._reader is not None and not self._reader.raw.info.transaction_status:
            self._reader.raw.close()
            self._reader_doubted = False
        self._reader = alive(self._reader, self.address)
        return self._reader

    @contextmanager
    def beside(self, doing: str) -> Generator[Statements]:
        """Give the connection to read from, also inside a transaction: what is done there stays done."""
        with self._reading_lock, translated(doing):
            db = self._reading_connection()
            try:
                yield db
            except psycopg.Error as error:
                self._reader_doubted |= read_only(error)
                raise

    @contextmanager
    def snapshot(self, doing: str) -> Generator[Statements]:
        """Give the connection to read from, with everything as of one instant."""
        with self.reading(doing) as db:
            if self.inside() or db.raw.info.transaction_status:
                yield db
                return
            db.raw.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
            try:
                yield db
            finally:
                if not db.raw.closed:
                    db.raw.execute("COMMIT")  # ROLLBACK would have psycopg forget what it has prepared

    # ------------------------------------------------------------------ transactions

    @property
    def lights(self) -> bool:
        """Whether light transactions are of use: not while a bound on waiting jobs must be kept."""
        return not self._bounded

    def at_once(self) -> bool:
        """Say no: beside what the network takes, a change of thread is nothing."""
        return False

    def transaction(self, *, light: bool = False) -> Transaction:
        """Open a write transaction; see the protocol."""
        return Transaction(self, light=light)

    def begin_light(self) -> None:
        """Begin a transaction that waits for no other; the state in memory is out of its reach.

        The server is told with the first statement that needs it: a new job that was put off does not.
        """
        self._open()
        self._writer_thread = threading.get_ident()
        self._fresh_look()
        self._copied = False
        self._light = True
        self._aside, self._mirror = self._mirror, None
        self._db = self._unbegun

    @property
    def _silent(self) -> bool:
        """Whether a light transaction is open that the server was not told of yet."""
        return self._db is self._unbegun

    def say_begin(self) -> Statements:
        """Tell the server that a light transaction has begun, and return its connection."""
        self._db = self._own
        with translated("begin a transaction"):
            (look,) = self._ask_first(self._begin_light, ("light_look", ()))
            self._bounded, self._clock_ms, self._number, *self._mark = look.fetchone()
        self._of_line(self._mark[-1])
        return self._own

    def _of_line(self, line: str) -> None:
        """Forget what is in memory when it is of another server's, which may lack rows or have others in their place.

        A connection of our own ends then; behind a pooler only this tells.
        """
        if line != self._line:
            self._line, self._mirror, self._aside = line, None, None
            self._forget_lanes()

    def _open(self) -> None:
        if self._closed:
            raise StoreError("the store is closed")
        if ended(self._raw):
            self._connect_again()

    def _ask_first(self, begin: Sequence[bytes], *questions: tuple[str, Values]) -> list[Rows]:
        """Begin a transaction with its first questions, in one round trip; when the connection has ended, on another.

        Nobody is told of the loss: of what was said on the old one, the server keeps nothing.
        """
        self._open()
        for again in (False, True):
            try:
                with self._raw.pipeline():
                    for statement in begin:
                        self._raw.execute(statement)
                    answers = [self._x(*question) for question in questions]
            except psycopg.Error as error:
                if again or not lost(error):
                    if self._raw.info.transaction_status == TransactionStatus.IDLE:
                        # It was the first: psycopg believes that those behind it are prepared, and no rollback tells it
                        # that they are not.
                        self._raw.close()
                    raise
                self._connect_again()
            else:
                return answers
        raise AssertionError("it was tried twice")

    def begin(self) -> None:
        """Take the gate, and catch up with the log.

        Where much has come into the inbox, a portion goes into the log in a transaction of its own, and then the next:
        nobody waits long for the gate, and what was done stays done.
        """
        try:
            while self._begin_portion():
                self._copy()
                self._raw.execute(b"COMMIT")
                self._writer_thread = None
        except BaseException as error:  # noqa: BLE001 - raised again
            self.go_back(error)
            raise_translated(error, "begin a transaction")

    def _begin_portion(self) -> bool:
        """Begin behind the gate, and catch up as far as one may; return whether there is more."""
        mirror = self._mirror
        since = () if mirror is None else ((CATCH_UP, {"version": mirror.version, "most": self.portion}),)
        opening, *logged = self._ask_first(self._begin, (OPENING, {"most": self.portion}), *since)
        self._writer_thread = threading.get_ident()
        self._fresh_look()
        self._copied = mirror is not None
        self._deadline_ms = None
        *probe, more, crashed, self._least_fence, closed, number, line = opening.fetchone()
        if closed:  # else who changes nothing would not find out
            raise psycopg.errors.ReadOnlySqlTransaction("the database is read-only")
        self._last = self._found(probe)[0]
        self._of_line(line)
        self._mark = number, line
        if logged:
            self._take_in(logged[0].fetchall())
        if self._of_another:
            self._rebuild()
            more = False
        if crashed or self._of_another:
            (self._least_fence,) = self._x("awake_again").fetchone()
        return bool(more)

    def go_back(self, error: BaseException) -> None:
        """Roll back what failed; the next transaction begins elsewhere when no change is taken here."""
        self.rollback()
        if read_only(error):
            self._raw.close()
            self._reader_doubted = True

    def _rebuild(self) -> None:
        """Begin the log anew: its rows come from another server, whose numbers of transactions mean nothing here."""
        for name in ("rebuild_lanes", "rebuild_log", "rebuild_inbox"):
            self._x(name)
        last, lapse_ms, timer_ms = self._probe()
        body = encode([("c",)]).decode()
        self._x(LOG_INSERT, (last + 1, PLAIN, len(body), body, [], 0))
        self._mirror = None
        self._last = last + 1
        self._probed = (self._last, lapse_ms, timer_ms)
        self._copied = True

    def _connect_again(self) -> None:
        """Open another connection; who answers may lack the last rows: another server, or one that lost them."""
        self._raw.close()
        self._raw = connect(self.address)
        self._mirror = self._aside = None
        self._forget_lanes()
        self._own = Statements(self._raw, self.address.schema)
        self._db = self._own

    def commit(self) -> None:
        """Write what was collected and commit."""
        try:
            with self._raw.pipeline():
                self._flush()
                self._raw.execute(b"COMMIT")
        except BaseException as error:  # noqa: BLE001 - raised again
            carried_out = False
            try:
                if lost(error):
                    self._raw.close()  # psycopg may not know it yet
                    carried_out = was_carried_out(self.address, self._mark, error)
            except BaseException:
                self.rollback()
                raise
            if not carried_out:
                self.rollback()
                raise_translated(error, "commit")
        self._done()

    def _done(self) -> None:
        """A transaction is committed."""
        self._writer_thread = None
        self._light_over()
        for worker in self._back:
            self._lives.clear(worker)
        self._back.clear()
        self._keep_news()

    def rollback(self) -> None:
        """Go back to before the transaction, in memory too."""
        self._writer_thread = None
        self._back.clear()
        if self._light:  # what is in memory is as it was: lanes that it made are there for all
            self._drop_work()
            self._light_over()
        else:
            self._drop_all()
        if self._raw.closed:
            return
        try:
            # Not execute(): psycopg would go on to believe in statements that an error in a pipeline left unprepared.
            self._raw.rollback()
        except psycopg.Error:
            self._raw.close()

    def _light_over(self) -> None:
        """Have the state in memory again after a light transaction."""
        if self._light:
            self._light = False
            self._db = self._own
            self._number = 0
            self._mirror, self._aside = self._aside, None

    def numbers(self, count: int) -> Sequence[int]:
        """Draw numbers for new jobs, in order."""
        if count == 1 and self._number:
            number, self._number = self._number, 0
            return [number]
        return sorted(number for (number,) in self._x("numbers", (count,)))

    # ------------------------------------------------------------------ others

    def presence(self, worker: str) -> Presence:
        """Give a sign of life for a worker of this process."""
        return self._lives.begin(worker)

    def alive(self, workers: Collection[str]) -> Collection[str]:
        """Return the workers that gave a sign of life lately; all of them while that cannot be judged."""
        if not self._lives.steady():
            return workers
        with self.reading("look who is alive") as db:
            found = {worker for (worker,) in db.execute("lives_get", {"most_s": LOST_S}).fetchall()}
        return found.intersection(workers)

    def announce(self, news: Collection[News]) -> None:
        """Tell other processes."""
        self._bells.ring(self._raw, news)

    def listen(self, heard: Callable[[frozenset[News]], None]) -> Callable[[], None]:
        """Call ``heard`` from a thread of its own when another process announces something."""
        return self._bells.listen(heard)

    def damage(self, db: Db) -> list[str]:
        """Return what PostgreSQL finds wrong; it looks by itself."""
        return []

    def facts(self) -> Mapping[str, Any]:  # Any: for people to read
        """Return facts about the database for ``doctor``."""
        with self.reading("read facts") as db:
            info = db.raw.info
            return {
                "postgres": info.server_version // 10_000,
                "host": info.host,
                "database": info.dbname,
                "schema": self.address.schema,
                "pooled": self.address.pooled,
            }

    def close(self) -> None:
        """Close everything; safe to call twice."""
        if self._closed:
            return
        self._closed = True
        self._lives.close()
        self._bells.close()
        with contextlib.suppress(psycopg.Error):
            self._raw.close()
        with self._reading_lock:
            if self._reader is not None:
                self._reader.raw.close()
