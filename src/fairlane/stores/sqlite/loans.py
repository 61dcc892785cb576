"""Connections that are lent to handlers, one at a time: a file has one writer.

Whoever wants one waits for the **desk**, then for the gate, then for the file's write lock, and keeps all three to the
end of its transaction. What blocks is done for coroutines by a thread of the desk's own; theirs, and the loop's other
threads, may all be waiting for this very transaction.
"""

from __future__ import annotations

import asyncio
import os
import queue
import sqlite3
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, Protocol, TypeVar

from fairlane.background import started
from fairlane.borrowed import SqliteLink
from fairlane.clock import SystemClock
from fairlane.domain.jobs import Settlement
from fairlane.errors import StoreBusy, StoreError
from fairlane.stores.sqlite import base as _first  # noqa: F401  # pyright: ignore[reportUnusedImport]  its hooks of forks must be there before ours, see below
from fairlane.stores.sqlite.beside import Gate
from fairlane.stores.sqlite.connection import Durability, connect, raise_translated, same_file, translated
from fairlane.stores.sqlite.over import Over

T = TypeVar("T")

WAIT_S: Final = 30.0
"""How long a handler waits for others of its process that are in such a transaction."""
LOOK_S: Final = 0.005
"""How often a coroutine looks whether they are out."""
NOT_YOURS: Final = frozenset({"COMMIT", "ROLLBACK"})


class Desk(Protocol):
    """Lends one connection at a time."""

    still: threading.RLock

    def take(self) -> sqlite3.Connection:
        """Wait for the connection and what writing needs; not its transaction."""
        ...

    def give(self) -> None:
        """Let the next one have it; in the thread that took it."""
        ...

    def close(self) -> None:
        """Close it; safe to call twice."""
        ...

    def hand(self) -> Hand:
        """Return the thread that blocks for coroutines."""
        ...

    @property
    def place(self) -> threading.Lock:
        """Held by who has the connection, or waits for the gate."""
        ...


class Hand:
    """A thread that does one thing after the other for coroutines."""

    def __init__(self) -> None:
        self._line: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        started(self._run, "fairlane-lent")

    def _run(self) -> None:
        while (step := self._line.get()) is not None:
            step()

    def close(self) -> None:
        """End when all is done; safe to call twice."""
        self._line.put(None)

    async def do(self, fn: Callable[[], T]) -> T:
        """Do it there. It is done to its end even when the caller is cancelled, who is told so only then."""
        future: Future[T] = Future()

        def step() -> None:
            try:
                future.set_result(fn())
            except BaseException as error:  # noqa: BLE001  its caller gets it
                future.set_exception(error)

        self._line.put(step)
        waiting = asyncio.ensure_future(asyncio.wrap_future(future))
        cancelled: asyncio.CancelledError | None = None
        while not waiting.done():
            try:
                await asyncio.wait((waiting,))
            except asyncio.CancelledError as error:
                cancelled = error
        if cancelled is not None:
            waiting.exception()  # looked at
            raise cancelled
        return waiting.result()


class _Lender:
    """What both desks have."""

    def __init__(self) -> None:
        self.place = threading.Lock()
        self.still = threading.RLock()  # held while a handler has the connection: a fork waits for it
        self._hand: Hand | None = None
        self._closed = False
        _desks.add(self)

    def hand(self) -> Hand:
        """Return the thread that blocks for coroutines."""
        if self._hand is None:
            self._hand = Hand()
        return self._hand

    def close(self) -> None:
        """Close it; safe to call twice."""
        self._closed = True
        hand, self._hand = self._hand, None
        if hand is not None:
            hand.close()

    def let_go_in_child(self) -> None:
        """Leave the parent's file to the parent, in a forked child."""


class FileDesk(_Lender):
    """Lends a connection to a file."""

    def __init__(self, path: Path, folder: Path, durability: Durability, opened: os.stat_result | None) -> None:
        super().__init__()
        self._path = path
        self._opened = opened  # the file that the store has open
        self._durability: Durability = durability
        self._gate = Gate(folder)
        self._raw: sqlite3.Connection | None = None

    def take(self) -> sqlite3.Connection:
        """Wait for the gate."""
        self._gate.lock()
        try:
            if self._closed:
                raise StoreError("the store is closed")
            same_file(self._path, self._opened)
            if self._raw is None:
                self._raw = connect(self._path, self._durability, new=False)
                self._raw.execute("PRAGMA foreign_keys=ON")  # of the handler's tables; it cannot ask for it in a block
        except BaseException:
            self._gate.unlock()
            raise
        return self._raw

    def give(self) -> None:
        """Let the next one have it."""
        self._gate.unlock()
        if self._closed:
            self._shut()

    def close(self) -> None:
        """Close it; who has it just now closes it at the end."""
        super().close()
        if self.place.acquire(blocking=False):
            try:
                self._shut()
            finally:
                self.place.release()

    def _shut(self) -> None:
        raw, self._raw = self._raw, None
        if raw is not None:
            raw.close()
        self._gate.close()

    def let_go_in_child(self) -> None:
        """Leave the parent's file to the parent: a connection in the middle of a transaction as it is."""
        if self._raw is not None and self._raw.in_transaction:
            _left.append(self._raw)  # rolling back would reach into the parent's part of the shared memory
            self._raw = None
        self._shut()


class MemoryDesk(_Lender):
    """Lends the one connection of a store in memory; everybody else waits."""

    def __init__(self, raw: sqlite3.Connection, one: threading.RLock) -> None:
        super().__init__()
        self._raw = raw
        self._one = one

    def take(self) -> sqlite3.Connection:
        """Wait for the connection."""
        self._one.acquire()
        return self._raw

    def give(self) -> None:
        """Let the next one have it."""
        self._one.release()


class SqliteLoan:
    """One transaction of one handler; see the protocol.

    Args:
        desk: Who lends.
        url: The store's.
    """

    def __init__(self, desk: Desk, url: str) -> None:
        self._desk = desk
        self._url = url
        self._raw: sqlite3.Connection | None = None

    # ------------------------------------------------------------------ blocking

    def begin(self) -> sqlite3.Connection:
        """Begin a transaction and return the connection."""
        if not self._desk.place.acquire(timeout=WAIT_S):
            raise _all_lent()
        try:
            raw = self._begin()
            self._desk.still.acquire()
        except BaseException:
            self._desk.place.release()
            raise
        return raw

    def settle(self, settlement: Settlement, *, progress: str | None, now_ms: int) -> bool:
        """End a claim with success in the transaction and commit it; see the protocol."""
        try:
            return self._settle(settlement, progress, now_ms)
        finally:
            self._over()

    def undo(self) -> None:
        """Roll the transaction back; raises nothing."""
        if self._raw is not None:
            self._undo()
            self._over()

    def _over(self) -> None:
        self._desk.still.release()
        self._desk.place.release()

    # ------------------------------------------------------------------ awaited

    async def abegin(self) -> sqlite3.Connection:
        """Do what :meth:`begin` does, without blocking the event loop."""
        clock = SystemClock()
        until = clock.monotonic() + WAIT_S
        while not self._desk.place.acquire(blocking=False):
            if clock.monotonic() > until:
                raise _all_lent()
            await asyncio.sleep(LOOK_S)
        try:
            raw = await self._desk.hand().do(self._begin)
            self._desk.still.acquire()
        except BaseException:
            try:
                if self._raw is not None:
                    await self._desk.hand().do(self._undo)
            finally:
                self._desk.place.release()
            raise
        return raw

    async def asettle(self, settlement: Settlement, *, progress: str | None, now_ms: int) -> bool:
        """Do what :meth:`settle` does, without blocking the event loop."""
        try:
            return await self._desk.hand().do(lambda: self._settle(settlement, progress, now_ms))
        finally:
            self._over()

    async def aundo(self) -> None:
        """Do what :meth:`undo` does, without blocking the event loop."""
        if self._raw is not None:
            try:
                await self._desk.hand().do(self._undo)
            finally:
                self._over()

    # ------------------------------------------------------------------ the steps, each in one thread

    def _begin(self) -> sqlite3.Connection:
        raw = self._desk.take()
        try:
            with translated("begin a transaction"):
                raw.execute("BEGIN IMMEDIATE")
            raw.set_authorizer(_authorize)
        except BaseException:
            self._desk.give()
            raise
        self._raw = raw
        return raw

    def _settle(self, settlement: Settlement, progress: str | None, now_ms: int) -> bool:
        raw = self._raw
        assert raw is not None
        self._ours_again(raw)
        try:
            with translated("end a job in ctx.transaction()"):
                over = Over(self._url, SqliteLink(raw))
                if progress is not None:
                    over.save(settlement.seq, settlement.fence, progress=progress, checkpoint=None)
                (kept,) = over.settle([settlement], now_ms)
                if kept:
                    over.flush()
            if kept:
                _commit(raw)
            return kept
        finally:
            self._end(raw)

    def _end(self, raw: sqlite3.Connection) -> None:
        """Roll back what was not committed, and let the next one have the connection."""
        self._raw = None
        try:
            if raw.in_transaction:
                with suppress(sqlite3.Error):
                    raw.execute("ROLLBACK")
        finally:
            self._desk.give()

    def _undo(self) -> None:
        raw = self._raw
        assert raw is not None
        self._ours_again(raw)
        self._end(raw)

    @staticmethod
    def _ours_again(raw: sqlite3.Connection) -> None:
        raw.set_authorizer(None)
        raw.row_factory, raw.text_factory = None, str


def _commit(raw: sqlite3.Connection) -> None:
    """Commit.

    Raises:
        sqlite3.IntegrityError: What the handler has written breaks a rule of its own tables.
        StoreError: The database could not do it.
    """
    try:
        raw.execute("COMMIT")
    except sqlite3.IntegrityError:
        raise
    except sqlite3.Error as error:
        raise_translated(error, "commit ctx.transaction()")


def _authorize(action: int, what: str | None, *_: str | None) -> int:
    """Leave the end of the transaction to the end of the block, whatever way a handler asks for it."""
    refused = action == sqlite3.SQLITE_TRANSACTION and what in NOT_YOURS
    return sqlite3.SQLITE_DENY if refused else sqlite3.SQLITE_OK


def _all_lent() -> StoreBusy:
    return StoreBusy(f"another ctx.transaction() of this process has lasted for {WAIT_S:.0f} s")


_desks: Final[weakref.WeakSet[_Lender]] = weakref.WeakSet()
_forking: Final[list[list[_Lender]]] = []
_left: Final[list[Any]] = []


def _before_fork() -> None:
    _forking.append(list(_desks))
    for desk in _forking[-1]:
        desk.still.acquire()


def _after_fork_in_parent() -> None:
    for desk in _forking.pop():
        desk.still.release()


def _after_fork_in_child() -> None:
    for desk in _forking.pop():
        desk.still = threading.RLock()
        desk.let_go_in_child()


# Hooks run in the reverse order: ours before those of the stores. A handler in its transaction may still have to read.
os.register_at_fork(before=_before_fork, after_in_parent=_after_fork_in_parent, after_in_child=_after_fork_in_child)
