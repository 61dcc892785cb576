"""Dedup keys that other programs' open transactions are about to take.

A job that is stored in a caller's own transaction holds its key in the index at once, and nobody sees it until the
commit. Whoever stored the same key meanwhile would wait for that commit, however long it takes; behind the gate, all
claims would wait with it. So a key is also a lock: a caller's transaction waits for it, and one behind the gate asks
for it, never waits, and is told :class:`~fairlane.store.KeyHeld` when it cannot have it: the client tries again.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from hashlib import blake2b
from typing import Final

from fairlane.domain.jobs import Enqueued, NewJob
from fairlane.store import KeyHeld
from fairlane.stores._queries import query
from fairlane.stores.postgres.lighter import Lighter
from fairlane.stores.tables.writing import dedup_value

KEYS_TRY: Final = query("postgres", "keys_try").encode()
KEYS_HELD: Final = query("postgres", "keys_held").encode()
MOST_LOCKS: Final = 500
"""Keys that one call locks; the server has room for 6,400 locks of all by default. Beyond it is only looked who holds
them: one that is taken in the very moment between may hold up the gate until its commit, or for ten seconds."""


def lock_of(schema: str, dedup: str) -> int:
    """Return the number of the lock that stands for a dedup key.

    Args:
        schema: The store's schema; the locks of a database are one space.
        dedup: Queue and key, as the constraint compares them.
    """
    return int.from_bytes(blake2b(f"fairlane:{schema}:{dedup}".encode(), digest_size=8).digest(), signed=True)


class Keyed(Lighter):
    """What takes a dedup key behind the gate."""

    def enqueue(self, jobs: Sequence[NewJob], now_ms: int) -> list[Enqueued]:
        """Store jobs; see the protocol."""
        keys = {dedup for job in jobs if (dedup := dedup_value(job.queue, job.dedup_key)) is not None}
        if keys and not self._light:  # a light transaction refuses them
            self._take_keys(keys)
        return super().enqueue(jobs, now_ms)

    def _take_keys(self, keys: Collection[str]) -> None:
        """Take dedup keys to the end of the transaction.

        Raises:
            KeyHeld: Another program's open transaction has one of them.
        """
        locks = {lock_of(self.address.schema, dedup): dedup for dedup in keys}
        sql = KEYS_TRY if len(locks) <= MOST_LOCKS else KEYS_HELD
        held = self._raw.execute(sql, (list(locks),)).fetchone()
        if held is not None:
            raise KeyHeld(*_parts(locks[held[0]]))


def _parts(dedup: str) -> tuple[str, str]:
    """Return key and queue of what :func:`~fairlane.stores.tables.writing.dedup_value` joined.

    Example:
        >>> _parts("4:mail:a:b")
        ('a:b', 'mail')
    """
    length, _, rest = dedup.partition(":")
    return rest[int(length) + 1 :], rest[: int(length)]
