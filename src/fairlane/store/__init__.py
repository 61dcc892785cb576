"""The Store protocol: what fairlane needs from a database.

One protocol, synchronous, used by one owning thread (see ``owner``). Every method below that changes something runs
inside a transaction that its caller opens with :meth:`Store.transaction`; many calls may share one transaction, which
is how calls of a process are committed together. A method that raises a :class:`~fairlane.errors.FairlaneError` has
changed nothing, and the transaction goes on. Any other error spoils the transaction: the caller rolls back.

What it asks for is told in parts, one module each; :class:`Store` is all of them.

Stores take the instant as ``now_ms`` (milliseconds, UTC) and read no clock; PostgreSQL puts its own in its place.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import AbstractContextManager
from typing import Protocol

from fairlane.domain.jobs import JobRecord
from fairlane.store.access import Access
from fairlane.store.jobs import Jobs
from fairlane.store.lending import Lending
from fairlane.store.operations import Operations
from fairlane.store.reading import Reading
from fairlane.store.schedules import Schedules
from fairlane.store.settings import Settings
from fairlane.store.steering import Steering
from fairlane.store.upkeep import Upkeep
from fairlane.store.values import (
    KEPT_OPERATIONS,
    NOBODY,
    AnyRule,
    Backup,
    Boosted,
    Cleared,
    Conflict,
    Counted,
    DeadGroupRecord,
    FateUnknown,
    KeyHeld,
    Look,
    MonitorRecord,
    NeedsGate,
    News,
    Page,
    Presence,
    Restored,
    RuleKind,
)
from fairlane.store.watching import Watching
from fairlane.store.workers import Workers

__all__ = [
    "KEPT_OPERATIONS",
    "NOBODY",
    "AnyRule",
    "Backup",
    "Boosted",
    "Cleared",
    "Conflict",
    "Counted",
    "DeadGroupRecord",
    "FateUnknown",
    "KeyHeld",
    "Look",
    "MonitorRecord",
    "NeedsGate",
    "News",
    "Page",
    "Presence",
    "Restored",
    "RuleKind",
    "Store",
]


class Store(
    Jobs, Lending, Steering, Upkeep, Operations, Workers, Settings, Access, Schedules, Watching, Reading, Protocol
):
    """A database of jobs. See the module for transactions, errors and time."""

    url: str

    @property
    def lights(self) -> bool:
        """Whether light transactions are of use here now; else they are as any other."""
        ...

    def close(self) -> None:
        """Let go of the database; safe to call twice."""
        ...

    def sibling(self) -> Store | None:
        """Return another connection to the same database for another thread, or None where there can be only one."""
        ...

    def at_once(self) -> bool:
        """Take what the next transaction needs if nobody has it; return whether it was taken.

        Then the caller opens a transaction next, which waits for nobody. False, too, where it makes no difference.
        """
        ...

    def transaction(self, *, light: bool = False) -> AbstractContextManager[None]:
        """Open a write transaction; leaving it commits, an error rolls back.

        Atomic: everything done inside. Durable: on return, as ``durability`` says.

        Args:
            light: Only jobs without key, express or others to wait for are stored in it, only completed claims are
                ended, leases renewed, progress saved. Where :attr:`lights` says so, it waits for no other then.

        Raises:
            NeedsGate: It was light, and what was done in it is not; nothing has changed.
            Conflict: It met another transaction; nothing has changed, and it may be tried again.
            StoreBusy: Another program holds the database too long.
            FateUnknown: It may have been carried out: the connection ended with the commit.
            StoreFull: The disk is full.
            StoreError: Anything else that the database refuses.
        """
        ...

    def tell(self, news: Collection[News]) -> None:
        """Have the transaction that is open tell this too: what another connection has committed."""
        ...

    def news(self) -> frozenset[News]:
        """Return what the transactions since the last call have to tell, and forget it."""
        ...

    def deaths(self) -> list[JobRecord]:
        """Return the jobs that died in this object's transactions since the last call, and forget them.

        Every death is in the answer of one process, the one whose transaction it was, whose news hold ``end``; of more
        than a thousand, the latest.
        """
        ...

    def announce(self, news: Collection[News]) -> None:
        """Tell other processes; a hint that may be lost. Call it after the commit."""
        ...

    def listen(self, heard: Callable[[frozenset[News]], None]) -> Callable[[], None]:
        """Call ``heard`` from a thread of its own when another process announces something; return how to stop."""
        ...
