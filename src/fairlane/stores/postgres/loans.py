"""Connections that are lent to handlers: plain ones of psycopg, some kept for the next handler."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Generator
from typing import Any, Final

import psycopg
from psycopg.pq import TransactionStatus

from fairlane.clock import SystemClock
from fairlane.domain.jobs import Settlement
from fairlane.errors import StoreBusy, StoreError
from fairlane.stores._queries import query
from fairlane.stores.postgres.connection import (
    Address,
    connect,
    ended,
    in_schema,
    lost,
    raise_translated,
    translated,
    watched,
)
from fairlane.stores.postgres.fate import ask

LENT_SETTLE: Final = query("postgres", "lent_settle")
LENT_RELEASE: Final = query("postgres", "lent_release")
LENT_FATE: Final = query("postgres", "lent_fate")
COMMIT: Final = "commit ctx.transaction()"
MOST: Final = 32
"""Connections that a process lends at once; more handlers than that wait for one."""
KEPT: Final = 8
"""Connections of each kind that are kept open between two handlers."""
WAIT_S: Final = 30.0
"""How long a handler waits for a connection."""
LOOK_S: Final = 0.01
"""How often a coroutine looks whether there is one: only when all are in use."""
NOT_NULL: Final = "23502"

PREPARE: Final = None
"""After how often a statement is prepared: never. DISCARD ALL forgets it, and a pooler never knew it."""

Sync = psycopg.Connection[Any]  # Any: rows as the handler likes them
Async = psycopg.AsyncConnection[Any]  # Any: likewise


class Loans:
    """What is lent, and what is kept for the next one.

    Args:
        address: Where the store is.
    """

    def __init__(self, address: Address) -> None:
        self.address = address
        self.settle = in_schema(LENT_SETTLE, address.schema)
        self.release = in_schema(LENT_RELEASE, address.schema)
        self._free = threading.BoundedSemaphore(MOST)
        self._lock = threading.Lock()
        self._kept: list[Sync] = []
        self._kept_async: dict[asyncio.AbstractEventLoop, list[Async]] = {}
        self._closed = False

    def take(self) -> Sync:
        """Return a connection.

        Raises:
            StoreBusy: All are in use.
            StoreError: The database cannot be reached, or refuses.
        """
        if not self._free.acquire(timeout=WAIT_S):
            raise _all_lent()
        with self._or_free(), translated("connect for ctx.transaction()"):
            while True:
                with self._lock:
                    self._must_be_open()
                    conn = self._kept.pop() if self._kept else None
                if conn is None:
                    return psycopg.Connection.connect(**self._how())
                if not ended(conn):
                    return conn
                conn.pgconn.finish()

    def give(self, conn: Sync) -> None:
        """Take a connection back; raises nothing."""
        try:
            with contextlib.suppress(psycopg.Error):
                if self._worth_keeping(conn):
                    _begin_anew(conn)
                    conn.autocommit = True
                    if not self.address.pooled:
                        conn.execute("DISCARD ALL")
                    conn.autocommit = False
                    with self._lock:
                        if len(self._kept) < KEPT and not self._closed:
                            self._kept.append(conn)
                            return
            conn.close()
        finally:
            self._free.release()

    async def atake(self) -> Async:
        """Do what :meth:`take` does, without blocking the event loop."""
        clock = SystemClock()
        until = clock.monotonic() + WAIT_S
        while not self._free.acquire(blocking=False):
            if clock.monotonic() > until:
                raise _all_lent()
            await asyncio.sleep(LOOK_S)
        with self._or_free(), translated("connect for ctx.transaction()"):
            while True:
                with self._lock:
                    self._must_be_open()
                    self._drop_closed_loops()
                    kept = self._kept_async.get(asyncio.get_running_loop())
                    conn = kept.pop() if kept else None
                if conn is None:
                    return await psycopg.AsyncConnection.connect(**self._how())
                if not ended(conn):
                    return conn
                conn.pgconn.finish()

    async def agive(self, conn: Async) -> None:
        """Do what :meth:`give` does, without blocking the event loop."""
        try:
            with contextlib.suppress(psycopg.Error):
                if self._worth_keeping(conn):
                    _begin_anew(conn)
                    await conn.set_autocommit(True)
                    if not self.address.pooled:
                        await conn.execute("DISCARD ALL")
                    await conn.set_autocommit(False)
                    with self._lock:
                        kept = self._kept_async.setdefault(asyncio.get_running_loop(), [])
                        if len(kept) < KEPT and not self._closed:
                            kept.append(conn)
                            return
            await conn.close()
        finally:
            self._free.release()

    def fate(self, settlement: Settlement, backend: int) -> tuple[bool, bool | None]:
        """Return whether a backend is there, and whether a claim has ended in success; None: its job is gone."""
        sql = in_schema(LENT_FATE, self.address.schema)
        with connect(self.address) as raw:
            row = raw.execute(sql, (backend, settlement.fence, settlement.seq)).fetchone()
        assert row is not None
        return row[0], row[1]

    def _how(self) -> dict[str, Any]:  # Any: arguments of psycopg's own types
        return {
            "conninfo": self.address.url,
            "client_encoding": "utf8",
            "prepare_threshold": PREPARE,
            **watched(self.address),
        }

    def _must_be_open(self) -> None:
        if self._closed:
            raise StoreError("the store is closed")

    @contextlib.contextmanager
    def _or_free(self) -> Generator[None]:
        try:
            yield
        except BaseException:
            self._free.release()
            raise

    @staticmethod
    def _worth_keeping(conn: Sync | Async) -> bool:
        return not conn.closed and conn.info.transaction_status == TransactionStatus.IDLE

    def _drop_closed_loops(self) -> None:
        for loop in [loop for loop in self._kept_async if loop.is_closed()]:
            for conn in self._kept_async.pop(loop):
                conn.pgconn.finish()

    def close(self) -> None:
        """Let go of what is kept; what is lent is closed when it comes back. Safe to call twice."""
        with self._lock:
            self._closed = True
            left: list[Sync | Async] = [*self._kept, *(conn for kept in self._kept_async.values() for conn in kept)]
            self._kept.clear()
            self._kept_async.clear()
        for conn in left:
            conn.pgconn.finish()  # also one of a loop that does not run any more


def _begin_anew(conn: Sync | Async) -> None:
    """Have a connection forget what the last handler made of it: adapters, factories, who is told of notices."""
    conn.__init__(conn.pgconn)  # type: ignore[misc]  # as psycopg made it: nobody else knows all that it keeps
    conn.prepare_threshold = PREPARE


def _all_lent() -> StoreBusy:
    return StoreBusy(f"all {MOST} connections for ctx.transaction() have been in use for {WAIT_S:.0f} s")


class PostgresLoan:
    """One transaction of one handler; see the protocol."""

    def __init__(self, loans: Loans) -> None:
        self._loans = loans
        self._conn: Sync | None = None
        self._block: contextlib.AbstractContextManager[psycopg.Transaction] | None = None
        self._aconn: Async | None = None
        self._ablock: contextlib.AbstractAsyncContextManager[psycopg.AsyncTransaction] | None = None

    # ------------------------------------------------------------------ blocking

    def begin(self) -> Sync:
        """Begin a transaction and return the connection."""
        conn = self._conn = self._loans.take()
        try:
            with translated("begin a transaction"):
                self._block = conn.transaction()
                self._block.__enter__()
        except BaseException:
            self._end(conn)
            raise
        return conn

    def settle(self, settlement: Settlement, *, progress: str | None, now_ms: int) -> bool:
        """End a claim with success in the transaction and commit it; see the protocol."""
        assert self._conn is not None
        assert self._block is not None
        conn, backend = self._conn, 0
        try:
            _must_be_open(conn)
            backend = conn.info.backend_pid
            conn.cursor_factory = psycopg.Cursor  # the handler may have set another one
            # One message holds all three: nobody but the server can be stopped in the middle, with the row locked.
            with conn.pipeline():
                conn.execute(self._loans.settle, _values(settlement, progress, now_ms))
                conn.execute(self._loans.release, (settlement.seq,))
                self._block.__exit__(None, None, None)
        except psycopg.Error as error:
            if not lost(error):
                return _kept(error)
            conn.close()  # psycopg may not know it yet
            return self._fate(settlement, backend, error)
        finally:
            self._end(conn)
        return True

    def _fate(self, settlement: Settlement, backend: int, error: psycopg.Error) -> bool:
        """Return that a commit was carried out with which the connection ended.

        Raises:
            FateUnknown: Nobody can tell.
            StoreError: It was not.
        """

        def look() -> bool | None:
            at_it, succeeded = self._loans.fate(settlement, backend)
            return succeeded if succeeded or not at_it else None  # a backend that is at it may commit yet

        if not ask(look, COMMIT, error):
            raise_translated(error, COMMIT)
        return True

    def undo(self) -> None:
        """Roll the transaction back; raises nothing."""
        if self._conn is None or self._block is None:
            return
        with contextlib.suppress(psycopg.Error):
            self._block.__exit__(_Undone, _Undone(), None)
        self._end(self._conn)

    def _end(self, conn: Sync) -> None:
        if not conn.closed and conn.info.transaction_status != TransactionStatus.IDLE:
            conn.close()  # the server rolls back
        self._loans.give(conn)

    # ------------------------------------------------------------------ awaited

    async def abegin(self) -> Async:
        """Do what :meth:`begin` does, without blocking the event loop."""
        conn = self._aconn = await self._loans.atake()
        try:
            with translated("begin a transaction"):
                self._ablock = conn.transaction()
                await self._ablock.__aenter__()
        except BaseException:
            await self._aend(conn)
            raise
        return conn

    async def asettle(self, settlement: Settlement, *, progress: str | None, now_ms: int) -> bool:
        """Do what :meth:`settle` does, without blocking the event loop."""
        assert self._aconn is not None
        assert self._ablock is not None
        conn, backend = self._aconn, 0
        try:
            _must_be_open(conn)
            backend = conn.info.backend_pid
            conn.cursor_factory = psycopg.AsyncCursor
            async with conn.pipeline():
                await conn.execute(self._loans.settle, _values(settlement, progress, now_ms))
                await conn.execute(self._loans.release, (settlement.seq,))
                await self._ablock.__aexit__(None, None, None)
        except psycopg.Error as error:
            if not lost(error):
                return _kept(error)
            await conn.close()
            return await asyncio.to_thread(self._fate, settlement, backend, error)
        finally:
            await self._aend(conn)
        return True

    async def aundo(self) -> None:
        """Do what :meth:`undo` does, without blocking the event loop."""
        if self._aconn is None or self._ablock is None:
            return
        with contextlib.suppress(psycopg.Error):
            await self._ablock.__aexit__(_Undone, _Undone(), None)
        await self._aend(self._aconn)

    async def _aend(self, conn: Async) -> None:
        if not conn.closed and conn.info.transaction_status != TransactionStatus.IDLE:
            await conn.close()
        await self._loans.agive(conn)


class _Undone(Exception):
    """Why a block is rolled back, for psycopg."""


def _values(settlement: Settlement, progress: str | None, now_ms: int) -> tuple[Any, ...]:  # Any: of each column
    return (
        now_ms,
        settlement.result,
        progress,
        settlement.seq,
        settlement.fence,
        settlement.run_us,
        settlement.units_us,
    )


def _must_be_open(conn: Sync | Async) -> None:
    """See that the handler has left the transaction to us.

    Raises:
        StoreError: It was ended, is broken, or has failed.
    """
    status = TransactionStatus.UNKNOWN if conn.closed else conn.info.transaction_status
    if status == TransactionStatus.INERROR:
        raise StoreError(
            "a statement in ctx.transaction() failed, so PostgreSQL takes no others there: let its error pass, or give "
            "the statement a savepoint (with conn.transaction())"
        )
    if status != TransactionStatus.INTRANS:
        raise StoreError(
            "the transaction of ctx.transaction() was ended, or its connection closed, inside the block: leave that "
            "to the end of the block"
        )


def _kept(error: psycopg.Error) -> bool:
    """Return that the lease was lost, if that is what the database told.

    Raises:
        psycopg.Error: The handler's own writes were at fault.
        StoreError: The database could not do it.
    """
    if error.sqlstate == NOT_NULL and error.diag.table_name == "inbox" and error.diag.column_name == "body":
        return False
    if isinstance(error, psycopg.OperationalError | psycopg.InternalError):
        raise_translated(error, COMMIT)
    raise error
