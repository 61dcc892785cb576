"""Schedules and when they are due.

Transactions, errors and time: see the package.
"""

from __future__ import annotations

from typing import Protocol

from fairlane.domain.schedules import ScheduleRecord


class Schedules(Protocol):
    """What is enqueued by the clock."""

    def schedules(self) -> list[ScheduleRecord]:
        """Return every schedule by name, those that the code no longer has too. Reads only."""
        ...

    def schedule(self, name: str) -> ScheduleRecord | None:
        """Return a schedule, or None. Reads only."""
        ...

    def due_schedules(self, now_ms: int, *, limit: int) -> list[ScheduleRecord]:
        """Return up to ``limit`` schedules that there is something to do about, the longest due first.

        Concurrent: until the transaction ends, no other one gets them or changes them. Whoever asks enqueues their
        jobs and stores what becomes of them in the same transaction (:func:`fairlane.firing.fire`), so a tick is
        fired once, and is neither lost nor doubled when the process dies.
        """
        ...

    def next_schedule_ms(self) -> int | None:
        """Return the instant at which the next schedule is due, or None. Reads only."""
        ...

    def put_schedule(self, record: ScheduleRecord, *, did: str = "", by: str = "", now_ms: int) -> None:
        """Store a schedule, in place of the one of its name.

        Args:
            record: The schedule.
            did: What somebody did to it, for the record of changes; ``""`` when it only took its course.
            by: Who did.
            now_ms: The instant.
        """
        ...

    def remove_schedule(self, name: str, *, by: str, now_ms: int) -> bool:
        """Forget a schedule and its figures; False when there is none. Jobs that it made stay."""
        ...
