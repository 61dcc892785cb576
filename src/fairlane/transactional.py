"""Jobs stored in a caller's own transaction: the step that carries out a store's script on the caller's connection."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

from fairlane.borrowed import Borrowed, borrowed
from fairlane.domain.jobs import NewJob
from fairlane.errors import FairlaneError, InvalidValue
from fairlane.faces import Steps
from fairlane.owner import Owner
from fairlane.store import Store
from fairlane.store.lending import Ask, Declares, Script, StoredWith

T = TypeVar("T")


def carried(conn: Borrowed, script: Script[T]) -> T:
    """Carry a script out in this thread, and return what it returns."""
    try:
        conn.look()
        ask = next(script)
        while True:
            with _noted():
                answer = conn.carry(ask)
            ask = script.send(answer)
    except StopIteration as end:
        done: T = end.value
        return done
    finally:
        script.close()


async def acarried(conn: Borrowed, script: Script[T]) -> T:
    """Carry a script out without blocking the event loop: between asks it runs in a thread."""
    try:
        if not conn.awaited:
            conn.look()
        ask: Ask | _End = await asyncio.to_thread(_next, script, None)
        while not isinstance(ask, _End):
            with _noted():
                answer = await conn.acarry(ask) if conn.awaited else conn.carry(ask)
            ask = await asyncio.to_thread(_next, script, answer)
        done: T = ask.value
        return done
    finally:
        with suppress(ValueError):  # who was cancelled leaves it running in its thread, and nobody asks it to go on
            script.close()


class _End:
    """The end of a script, told across threads: a StopIteration cannot be."""

    def __init__(self, value: Any) -> None:  # Any: what the script returns
        self.value = value


def _next(script: Script[Any], answer: object) -> Ask | _End:
    try:
        return script.send(answer)
    except StopIteration as end:
        return _End(end.value)


@contextmanager
def _noted() -> Generator[None]:
    try:
        yield
    except FairlaneError:
        raise
    except Exception as error:
        error.add_note("fairlane was storing jobs in this transaction; they are in it only if the call returned")
        raise


class _WithConn:
    """Stores jobs on a caller's connection."""

    __slots__ = ("_conn", "_declare", "_jobs")

    def __init__(self, conn: Borrowed, jobs: Sequence[NewJob], declare: Callable[[Declares, int], None] | None) -> None:
        self._conn = conn
        self._jobs = jobs
        self._declare = declare

    def now(self, owner: Owner) -> StoredWith:
        return carried(self._conn, self._script(owner))

    async def later(self, owner: Owner) -> StoredWith:
        return await acarried(self._conn, await asyncio.to_thread(self._script, owner))

    def _script(self, owner: Owner) -> Script[StoredWith]:
        store = owner.store
        _must_fit(self._conn, store)
        now_ms = owner.clock.now_ms()
        declare = self._declare
        return store.enqueue_with(
            self._jobs,
            now_ms,
            declare=None if declare is None else lambda known: declare(known, now_ms),
            ring=self._conn.rings,
        )


def _must_fit(conn: Borrowed, store: Store) -> None:
    """See that a connection and a store are of one kind of database.

    Raises:
        InvalidValue: They are not.
    """
    if conn.database != store.database:
        names = {"postgresql": "PostgreSQL", "sqlite": "SQLite"}
        raise InvalidValue(
            f"conn is a connection to {names[conn.database]}, and the store is in {names[store.database]}: one commit "
            "cannot be for both"
        )


def with_conn(
    conn: object, jobs: Sequence[NewJob], declare: Callable[[Declares, int], None] | None
) -> Steps[StoredWith]:
    """Store jobs on a caller's connection.

    Args:
        conn: The connection; see :func:`~fairlane.borrowed.borrowed` for what it may be.
        jobs: The jobs.
        declare: Tells what the code says about their tasks; None when the store knows.

    Raises:
        InvalidValue: It is no such connection, no transaction is open on it, or it is to another database.
        InvalidJob, ConfigError, DedupConflict, ExpressFull, JobNotFound, QueueFull, StoreError: See
            :meth:`~fairlane.store.lending.Lending.enqueue_with`.
    """
    stored: StoredWith = yield _WithConn(borrowed(conn), jobs, declare)
    return stored
