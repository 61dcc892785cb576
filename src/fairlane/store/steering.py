"""What people do to jobs one by one, and clearing.

Transactions, errors and time: see the package.
"""

from __future__ import annotations

from typing import Protocol

from fairlane.domain.jobs import (
    JobFilter,
    JobRecord,
)
from fairlane.domain.states import State
from fairlane.store.values import (
    Boosted,
    Cleared,
)


class Steering(Protocol):
    """Changes to jobs that somebody asks for."""

    def expedite(self, job_id: bytes, *, reason: str, by: str, now_ms: int) -> JobRecord:
        """Put a waiting job in the express lane, making a scheduled one available.

        A job behind others takes its place there and becomes available, without its delay, when these have ended.

        Raises:
            JobNotFound, IllegalMove, ExpressFull: Nothing has changed.
        """
        ...

    def boost(
        self, job_id: bytes, tier: int, *, by: str, now_ms: int, lower: bool = False, reason: str = ""
    ) -> Boosted:
        """Raise a waiting job's tier, keeping its arrival; ``lower`` allows any tier.

        Raises:
            JobNotFound, IllegalMove: Nothing has changed.
        """
        ...

    def cancel(self, job_id: bytes, *, reason: str, now_ms: int) -> State:
        """Cancel a waiting job, or ask a running one to stop.

        Returns:
            The state after it: cancelled, or running while the holder has yet to stop.

        Raises:
            JobNotFound, IllegalMove: Nothing has changed; a job that ended cannot be cancelled.
        """
        ...

    def retry(self, job_id: bytes, *, by: str, now_ms: int, reason: str = "") -> None:
        """Make a dead job available again with its counts at zero and its history kept.

        One that died in its verify phase is processed again.

        Raises:
            JobNotFound, IllegalMove: Nothing has changed; only dead jobs can be retried.
            DedupConflict: Another live job holds its dedup key by now.
        """
        ...

    def process(self, job_id: bytes, *, expedite: bool, by: str, now_ms: int) -> JobRecord:
        """Have a job processed: one that waits for that becomes available now, a dead one is retried.

        Args:
            job_id: Its id.
            expedite: Whether it goes to the express lane, where it stays if it is there already.
            by: Who asks.
            now_ms: The instant.

        Raises:
            JobNotFound, IllegalMove, ExpressFull: Nothing has changed. A job that runs, waits for checks, waits for
                other jobs or has ended in another way than death cannot be processed.
            DedupConflict: Another live job holds the dedup key of the dead one by now.
        """
        ...

    def reverify(self, job_id: bytes, *, expedite: bool, by: str, now_ms: int, reason: str = "") -> JobRecord:
        """Have a job's work checked now: one that waits for a check, or died in its verify phase.

        The dead one has its checks and crashes counted from zero; its failures and its history stay.

        Args:
            job_id: Its id.
            expedite: Whether it goes to the express lane of the verify phase, where it stays if it is there already.
            by: Who asks.
            now_ms: The instant.
            reason: Why, for the record.

        Raises:
            JobNotFound, IllegalMove, ExpressFull: Nothing has changed.
            DedupConflict: Another live job holds the dedup key of the dead one by now.
        """
        ...

    def clear(self, which: JobFilter, *, reason: str, limit: int, now_ms: int, after: int = 0) -> Cleared:
        """Cancel up to ``limit`` waiting jobs, oldest first, among a bounded number that are looked at.

        Args:
            which: The jobs that are meant; those that run or have ended are left as they are.
            reason: Why.
            limit: Most jobs to cancel, 1 or more.
            now_ms: The instant.
            after: ``place`` of the portion before; 0: none.
        """
        ...
