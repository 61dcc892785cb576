"""What became of a commit with which the connection ended: the database knows, by the transaction's number."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Final

import psycopg

from fairlane.errors import StoreError
from fairlane.store import FateUnknown
from fairlane.stores.postgres.connection import Address, Statements, connect

FATE_S: Final = 10.0
"""How long a process asks; the server may have to start first."""
PAUSE_S: Final = 0.1


def was_carried_out(address: Address, mark: Sequence[str], error: BaseException) -> bool:
    """Return whether a commit was carried out with which the connection ended.

    Args:
        address: Where the store is.
        mark: The number of the transaction, and the server's line of history.
        error: How the connection ended.

    Raises:
        FateUnknown: Nobody can tell: the server cannot be asked, or another one has taken its place.
    """
    number, line = mark
    end = time.monotonic() + FATE_S
    while True:
        fate: str | None = "in progress"  # as far as we know
        try:
            with connect(address) as raw:
                ((fate,),) = (
                    Statements(raw, address.schema).execute("fate", {"number": number, "line": line}).fetchall()
                )
        except (psycopg.Error, StoreError):
            pass
        if fate in {"committed", "aborted"}:
            return fate == "committed"
        if fate is None or time.monotonic() >= end:
            raise FateUnknown(
                f"not known whether it was carried out: the connection ended with it ({error})"
            ) from error
        time.sleep(PAUSE_S)
