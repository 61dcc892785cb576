"""The inbox, and the log that it is copied to: how the state in memory is brought up to date, and what others get.

Processes that hold no state in memory, and those that only store jobs, write what they do to the **inbox**, each in its
own transaction and with its number. The next transaction that holds the state copies to the log what has become visible
to it since the log's last row, whose snapshot is stored with it, and so gives it its place in the order of all. No row
is lost between two such looks: each transaction is visible to all snapshots from some instant on.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from fairlane.stores._mirror import PLAIN, STATED, STORED, LogRow, Mirror, encode
from fairlane.stores.postgres.tail import Tail
from fairlane.stores.tables.ground import LANE_COUNTS, LOG_INSERT, LOG_PRUNE, LOG_ROWS, LOG_STORED, Db, Ground

CATCH_UP: Final = "catch_up"
INBOX_INSERT: Final = "inbox_insert"
INBOX_PRUNE: Final = "inbox_prune"


class Inbox(Tail, Ground):
    """What a transaction takes over from others, and leaves for them."""

    portion = 10_000
    """Rows of the inbox that one transaction copies to the log, about: a third of a second with the replay."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self._copied = False
        self._last = 0  # the log's last row, in this transaction
        self._deadline_ms: int | None = None  # the first end of a lease that this transaction gave
        self._pruned, self._inbox_pruned = 0, "0"  # up to where the log and the inbox were pruned

    def _copy(self) -> None:
        """Copy to the log what has become visible of the inbox; once a transaction."""
        if not self._copied:
            self._copied = True
            self._take_in(self._x(CATCH_UP, {"version": self._last, "most": self.portion}).fetchall())

    def _take_in(self, rows: Sequence[LogRow]) -> None:
        """Replay the last rows of the log, those among them that were copied to it just now."""
        if rows:
            _, lapse_ms, timer_ms = self._probe()
            self._last = rows[-1][0]
            self._probed = (self._last, lapse_ms, timer_ms)
        if self._mirror is not None:
            self._replay(self._mirror, rows)

    def _live(self) -> Mirror:
        """Return the mirror, loaded when this process has not claimed before."""
        if self._mirror is None:
            self._copy()
        return super()._live()

    def _flush(self) -> None:
        """Write the log row; now and then store what the rows say. Without the state, leave it in the inbox."""
        mirror = self._mirror
        if mirror is None:
            counts, events, self._events = self._moved_counts(), self._events, []
            if counts or events:
                self._x(INBOX_INSERT, (counts, encode(events).decode()))
            return
        changes, counts = mirror.changes(), self._moved_counts()
        if not self._events and not changes and not counts:
            return
        body = encode(self._events + changes)
        self._events = []
        stored: int = 0
        storing = self._storing(len(body))
        if storing:
            stored = self._x(LOG_STORED).fetchone()[0] or 0
            self._store_state(mirror)
        mirror.version = self._last = self._last + 1
        kind = STORED if storing else STATED
        self._x(LOG_INSERT, (self._last, kind, len(body), body.decode(), counts, self._next_floor()))
        if storing:
            self._x(LANE_COUNTS, {"stored": stored, "last": self._last})
            self._prune(stored)

    def _next_floor(self) -> int:
        """Return an instant that no lease ends before: heartbeats and ends only move them up."""
        instants = [at_ms for at_ms in (self._probe()[1], self._deadline_ms) if at_ms is not None]
        return min(instants, default=self._floor)

    def _prune(self, stored: int) -> None:
        """Drop rows of the log and the inbox that nobody needs any more."""
        below = min(stored, self._last - LOG_ROWS)
        if below > self._pruned:
            self._x(LOG_PRUNE, {"above": self._pruned, "below": below})
            self._pruned = below - 1
        if self._seen.text is not None:
            self._x(INBOX_PRUNE, {"above": self._inbox_pruned, "snap": self._seen.text})
            self._inbox_pruned = self._seen.text.partition(":")[0]

    def _moved_counts(self) -> list[int]:
        """Return lanes and by how much their counts change, one behind the other, and forget it."""
        counts = [number for lane, moved in self._counts.items() if any(moved) for number in (lane, *moved)]
        self._counts.clear()
        return counts

    def _write_counts(self) -> None:
        """Leave what was counted so far in the inbox, where this transaction's own questions find it."""
        counts = self._moved_counts()
        if counts:
            self._x(INBOX_INSERT, (counts, "[]"))

    def _is_latest(self, db: Db) -> bool:
        """Return whether the mirror contains everything."""
        return super()._is_latest(db) and not self._unread(db)

    def _rows_after(self, db: Db, version: int) -> list[tuple[int, int, str]]:
        """Return number, kind and body of what was logged after a row; for readers, also of what will be."""
        rows = super()._rows_after(db, version)
        if self.inside() and (self._copied or self._mirror is not None):  # then it is copied, or is about to be
            return rows
        last = rows[-1][0] if rows else version
        return rows + [(last + place, PLAIN, body) for place, body in enumerate(self._unread(db), 1)]
