"""What has to be done to jobs from time to time.

Transactions, errors and time: see the package.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from fairlane.domain.preempting import MAX_PREEMPTIONS, PREEMPT_AFTER_MS
from fairlane.domain.states import State
from fairlane.store.values import Look


class Upkeep(Protocol):
    """One bounded pass each, safe to repeat."""

    def rescue(self, now_ms: int, *, limit: int) -> int:
        """Take back up to ``limit`` jobs of workers that are gone and of leases that ran out; return how many."""
        ...

    def may_rescue(self, now_ms: int) -> bool:
        """Return whether :meth:`rescue` would find something: a look without a transaction, made by who is idle."""
        ...

    def look(self, now_ms: int) -> Look:
        """Return what may be due, for all that wait for something: a look without a transaction, likewise."""
        ...

    def may_preempt(self) -> bool:
        """Return whether :meth:`preempt` may find something; likewise."""
        ...

    def preempt(
        self,
        now_ms: int,
        *,
        after_ms: int = PREEMPT_AFTER_MS,
        max_preemptions: int = MAX_PREEMPTIONS,
        limit: int = 100,
    ) -> int:
        """Ask running jobs to give way to urgent ones that only slots hold back; return how many were asked.

        Which ones, for whom, and how often: ``domain/preempting.py``. Repeating it asks nobody twice.

        Atomic: the look and the asking. Durable: as the transaction; a wish lasts until the run ends.

        Args:
            now_ms: The instant.
            after_ms: How long a CRITICAL or express job waits first, in milliseconds.
            max_preemptions: How often a job gives way at most.
            limit: Most jobs to ask.
        """
        ...

    def prune(self, now_ms: int, *, keep_ms: Mapping[State, int], surplus: Sequence[int] = (), limit: int) -> int:
        """Delete jobs that ended long ago, and completed ones beyond what is kept of them.

        Neither a job whose dedup key is still kept (``dedup_ttl_ms``) nor one whose followers have yet to be told is
        among them. Repeating it deletes nothing that should stay.

        Args:
            now_ms: The instant.
            keep_ms: How long jobs are kept after their end, in milliseconds; states that are not named stay.
            surplus: What :meth:`surplus` gave.
            limit: Most jobs to delete.

        Returns:
            How many were deleted.
        """
        ...

    def surplus(self, *, keep: int, limit: int) -> list[int]:
        """Return the numbers of completed jobs beyond the latest ``keep`` of their queue, oldest first.

        Takes a step for each completed job, outside of any transaction; what it gives stays right, since a completed
        job stays completed and only gets older than others. Reads only.
        """
        ...
