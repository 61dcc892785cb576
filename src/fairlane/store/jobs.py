"""Jobs come in, run and are settled.

Transactions, errors and time: see the package.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from fairlane.domain.jobs import (
    Beat,
    Claim,
    Enqueued,
    NewJob,
    Settlement,
)
from fairlane.domain.lanes import Ask


class Jobs(Protocol):
    """What a job's ordinary life needs."""

    def enqueue(self, jobs: Sequence[NewJob], now_ms: int) -> list[Enqueued]:
        """Store jobs; what dedup keys and the jobs that they wait for make of them is said in ``domain/intake.py``.

        A job behind others (``after``) is scheduled, without a time, until these have ended. The end of a job frees or
        cancels those behind it: a bounded number in the transaction that ends it, the rest by later claims and
        :meth:`~fairlane.store.watching.Watching.notice`, to which
        :meth:`~fairlane.store.reading.Reading.next_due_ms` calls.

        Atomic: all of them or none. Durable: as the transaction.

        Returns:
            For each job its id and whether it was created; one that a dedup key stands for returns that one's id.

        Raises:
            DedupConflict: The key is held, and the job says to raise then or would replace one that has begun.
            InvalidJob: Jobs wait for each other in a circle.
            JobNotFound: A job waits for one that there is not.
            ExpressFull: An express job finds the lane full.
            QueueFull: ``max_waiting`` of a queue or tenant would be exceeded.
        """
        ...

    def claim(self, ask: Ask, *, worker: str, lease_ms: int, now_ms: int) -> list[Claim]:
        """Start up to ``ask.count`` jobs, chosen by the policy one after the other.

        Atomic: the choice, the charge, the fence and the lease. Concurrent: claims are serial; no two ever get the
        same job. Durable: a job that was handed out stays running until settled or rescued.

        Args:
            ask: What may be started.
            worker: The worker's id, or "" for a claim that nobody renews by itself.
            lease_ms: How long the right to run lasts, in milliseconds; 1 or more.
            now_ms: The instant.

        Returns:
            Claims in the order of the decisions; fewer than asked for when nothing more may run.
        """
        ...

    def settle(self, settlements: Sequence[Settlement], now_ms: int) -> list[bool]:
        """End claims.

        Concurrent: of several calls for one claim, the first wins. A fence that is not the current one changes nothing.

        Returns:
            For each whether it was still the job's claim; False means the lease was lost.
        """
        ...

    def heartbeat(self, claims: Sequence[tuple[int, int]], *, lease_ms: int, now_ms: int) -> list[Beat]:
        """Renew the leases of claims given as (seq, fence), and learn which are lost or asked to stop."""
        ...

    def asked(self, worker: str) -> list[Beat]:
        """Return the running claims of a worker that somebody asked to stop. Reads only."""
        ...

    def save(self, seq: int, fence: int, *, progress: str | None, checkpoint: str | None) -> bool:
        """Store a running job's progress or checkpoint (JSON; None leaves it); False when the lease was lost."""
        ...
