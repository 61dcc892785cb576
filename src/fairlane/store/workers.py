"""The workers on record.

Transactions, errors and time: see the package.
"""

from __future__ import annotations

from typing import Protocol

from fairlane.domain.jobs import (
    WorkerRecord,
)
from fairlane.store.values import (
    Presence,
)


class Workers(Protocol):
    """Who runs jobs, and how many."""

    def presence(self, worker: str) -> Presence:
        """Give a sign of life for a worker of this process, before it is registered."""
        ...

    def register(self, worker: WorkerRecord, now_ms: int) -> None:
        """Record a worker and what it declares."""
        ...

    def unregister(self, worker: str, now_ms: int) -> None:
        """Forget a worker that has stopped."""
        ...

    def workers(self) -> list[WorkerRecord]:
        """Return the workers on record. Reads only."""
        ...

    def busy(self) -> dict[str, int]:
        """Return how many jobs each worker runs, by its id; claims of programs' own are ``""``. Reads only."""
        ...
