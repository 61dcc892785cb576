"""What became of a commit with which the connection ended: the database knows, by the transaction's number."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Final

import psycopg

from fairlane.clock import SystemClock
from fairlane.errors import StoreError
from fairlane.store import FateUnknown
from fairlane.stores.postgres.connection import Address, Statements, connect

FATE_S: Final = 10.0
"""How long a process asks; the server may have to start first."""
PAUSE_S: Final = 0.1


def ask(look: Callable[[], bool | None], what: str, error: BaseException) -> bool:
    """Ask until it is known whether a commit was carried out with which the connection ended.

    Args:
        look: Asks once; None while nobody can tell yet. Errors of the database count as that.
        what: The commit, for the message.
        error: How the connection ended.

    Raises:
        FateUnknown: Nobody can tell: the server cannot be asked, or ``look`` says so.
    """
    clock = SystemClock()
    until = clock.monotonic() + FATE_S
    pause = threading.Event()
    while True:
        try:
            fate = look()
        except FateUnknown:
            raise
        except (psycopg.Error, StoreError):
            fate = None
        if fate is not None:
            return fate
        if clock.monotonic() >= until:
            raise _unknown(what, error) from error
        pause.wait(PAUSE_S)


def was_carried_out(address: Address, mark: Sequence[str], error: BaseException) -> bool:
    """Return whether a commit of the store's own was carried out with which the connection ended.

    Args:
        address: Where the store is.
        mark: The number of the transaction, and the server's line of history.
        error: How the connection ended.

    Raises:
        FateUnknown: Nobody can tell: the server cannot be asked, or another one has taken its place.
    """
    number, line = mark

    def look() -> bool | None:
        with connect(address) as raw:
            ((fate,),) = Statements(raw, address.schema).execute("fate", {"number": number, "line": line}).fetchall()
        if fate is None:
            raise _unknown("commit", error) from error
        return {"committed": True, "aborted": False}.get(fate)

    return ask(look, "commit", error)


def _unknown(what: str, error: BaseException) -> FateUnknown:
    return FateUnknown(f"not known whether {what!r} was carried out: the connection ended with it ({error})")
