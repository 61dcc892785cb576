"""The wall clock is set while jobs run: leases, delays and waits of retries are spans of time, and go along with it.

A lease ends at an instant of the wall clock. Were the clock set forward by an hour, every lease would be over at once
and every running job would start a second time; set back, a lapsed one would hold its job for an hour. All processes
that share a SQLite file share one machine, and so its steady clock. The store keeps how far the two clocks are apart;
the first transaction that finds them further apart moves what is a span of time by the difference. What people asked
for by the wall clock (``scheduled_at``, ``expires_at``) stays, and so does every arrival.

The steady clock begins anew when the machine does. Where the system does not tell one start from another (other than
Linux), nothing is moved.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Final
from uuid import UUID

from fairlane.clock import Clock
from fairlane.stores._queries import query

OFFSET: Final = query("sqlite", "offset")
BOOT: Final = query("sqlite", "boot")
CLOCK_PUT: Final = query("sqlite", "clock_put")
STEP_LEASES: Final = query("sqlite", "step_leases")
STEP_WAITS: Final = query("sqlite", "step_waits")
STEP_BEHIND: Final = query("sqlite", "step_behind")

STEP_MS: Final = 500
"""A difference from here on is a step; below it is what reading two clocks one after the other may bring."""
TOGETHER_S: Final = 0.05
"""Two looks at clocks count as one when no more time passed between them."""
LOOKS: Final = 20
_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")


def offset_ms(clock: Clock) -> int | None:
    """Return how far the wall clock is ahead of the steady one, in milliseconds.

    None when the process was held up at every try: the one clock would have been read long after the other.
    """
    for _ in range(LOOKS):
        before = clock.monotonic()
        now_ms = clock.now_ms()
        if clock.monotonic() - before < TOGETHER_S:
            return now_ms - round(before * 1000)
    return None


def boot() -> int | None:
    """Return a number of this start of the machine, or None where the system does not tell."""
    try:
        return UUID(_BOOT_ID.read_text().strip()).int >> 65  # 63 bits: what a column holds
    except (OSError, ValueError):
        return None


class Steps:
    """Notices that the wall clock was set; one for each store object.

    Args:
        clock: Both its times are read, in every transaction.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._anchored = False

    def look(self, db: sqlite3.Connection) -> int:
        """Move what is a span of time if the clock was set, inside a transaction; return by how many milliseconds."""
        offset = offset_ms(self._clock)
        if offset is None:
            return 0
        row = db.execute(OFFSET).fetchone()
        if not self._anchored:
            self._anchored = True
            if self._rebooted(db) or row is None:
                db.execute(CLOCK_PUT, {"name": "clock_offset_ms", "value": offset})
                return 0
        before_ms: int = row[0]
        step = offset - before_ms
        if abs(step) < STEP_MS:
            return 0
        db.execute(CLOCK_PUT, {"name": "clock_offset_ms", "value": offset})
        for sql in (STEP_LEASES, STEP_WAITS, STEP_BEHIND):
            db.execute(sql, {"step_ms": step})
        return step

    def _rebooted(self, db: sqlite3.Connection) -> bool:
        """Return whether the store was last used before this start of the machine, and note this one."""
        now = boot()
        row = db.execute(BOOT).fetchone()
        if now is None:
            return True
        if row is not None and row[0] == now:
            return False
        db.execute(CLOCK_PUT, {"name": "boot", "value": now})
        return True
