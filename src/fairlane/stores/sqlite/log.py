"""How SQLite writes at the end of a transaction: counts in the lanes' rows, one row of the log, numbers in a row.

The same for the store's own transactions and for those of a caller.
"""

from __future__ import annotations

from collections.abc import Sequence

from fairlane.stores._mirror import PLAIN, STATED, STORED, encode
from fairlane.stores.tables.ground import (
    JOB_LAST,
    LANE_COUNTS,
    LOG_BYTES,
    LOG_INSERT,
    LOG_PRUNE,
    LOG_ROWS,
    LOG_STORED,
    Ground,
)


class Logging(Ground):
    """What a transaction writes; one program at a time does, so a row's number says its place."""

    def numbers(self, count: int) -> Sequence[int]:
        """Draw numbers for new jobs, in order."""
        last: int = self._x(JOB_LAST).fetchone()[0] if self._last_seq is None else self._last_seq
        self._last_seq = last + count
        return range(last + 1, last + count + 1)

    def _flush(self) -> None:
        """Write counts and the log row; now and then store what the rows say."""
        self._write_counts()
        mirror = self._mirror
        changes = [] if mirror is None else mirror.changes()
        if not self._events and not changes:
            return
        body = encode(self._events + changes)
        self._events = []
        kind = PLAIN if mirror is None else STATED
        if self._storing(len(body)):
            if mirror is not None:
                self._store_state(mirror)
                kind = STORED
            # Rows after the last that the tables are as of are needed.
            stored = self._x(LOG_STORED).fetchone()[0] or 0
            self._x(LOG_PRUNE, {"rows": LOG_ROWS, "bytes": LOG_BYTES, "stored": stored})
        version: int = self._x(LOG_INSERT, (kind, len(body), body.decode())).fetchone()[0]
        if mirror is not None:
            mirror.version = version

    def _write_counts(self) -> None:
        """Write what was counted so far, for this transaction's own questions."""
        if self._counts:
            rows = [(counts[0], counts[1], lane) for lane, counts in self._counts.items() if counts[0] or counts[1]]
            self._counts.clear()
            self._db.executemany(LANE_COUNTS, rows)
