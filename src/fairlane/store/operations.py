"""Changes to many jobs, a portion at a time.

Transactions, errors and time: see the package.
"""

from __future__ import annotations

from typing import Protocol

from fairlane.domain.operations import OperationPlan, OperationRecord, OperationState
from fairlane.store.values import (
    Counted,
)


class Operations(Protocol):
    """Bulk operations and how far they are."""

    def start_operation(
        self,
        operation: bytes,
        plan: OperationPlan,
        *,
        counted: Counted,
        by: str,
        reason: str,
        now_ms: int,
    ) -> OperationRecord:
        """Begin an operation on the jobs that its filter means and that exist now; no job is changed yet.

        Of operations that are over the latest :data:`KEPT_OPERATIONS` stay on record.

        Args:
            operation: A fresh UUIDv7, 16 bytes.
            plan: What it does, checked.
            counted: How many jobs it means.
            by: Who starts it.
            reason: Why.
            now_ms: The instant.
        """
        ...

    def advance(self, now_ms: int, *, limit: int, operation: bytes | None = None) -> OperationRecord | None:
        """Carry out one portion of the operation that has been due longest.

        A job that refuses is counted and left as it is. Each job is looked at once, in the order of their numbers.

        Atomic: what the portion changes, and how far the operation is; so a crash repeats nothing and skips nothing.
        Concurrent: portions are serial, and their rate holds for all callers together.

        Args:
            now_ms: The instant.
            limit: Most jobs to change.
            operation: Only this one; None: any.

        Returns:
            The operation after it, or None when none is due.
        """
        ...

    def steer_operation(self, operation: bytes, state: OperationState, *, by: str, now_ms: int) -> OperationRecord:
        """Pause an operation, let it go on, or cancel what is left of it; what it has done stays done.

        Raises:
            OperationNotFound: There is no such operation.
            IllegalMove: It is over. To ask for the state that it has changes nothing.
        """
        ...

    def operation(self, operation: bytes) -> OperationRecord | None:
        """Return an operation, or None. Reads only."""
        ...

    def operations(self, *, limit: int) -> list[OperationRecord]:
        """Return the latest operations, newest first. Reads only."""
        ...

    def operations_due_ms(self) -> int | None:
        """Return when the first operation is due; None: none is under way. Reads only."""
        ...
