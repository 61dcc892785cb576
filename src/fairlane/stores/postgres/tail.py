"""What a process knows of the log and the inbox: the last row of one, and what of the other no row contains yet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from fairlane.domain.lanes import Place
from fairlane.stores._mirror import PLAIN
from fairlane.stores.tables.explaining import Follower
from fairlane.stores.tables.ground import LANE_HEADS, PROBE, Db, Replica

INBOX_UNREAD: Final = "inbox_unread"


class Seen:
    """What was visible to the transaction that wrote the log's last row; nothing, if there is no row yet."""

    __slots__ = ("text", "values")

    def __init__(self, text: str | None) -> None:
        self.text = text
        _, before, running = ("0:0:" if text is None else text).split(":")
        self.values: Mapping[str, Any] = {
            "before": before,
            "running": [] if not running else running.split(","),
        }


class Tail(Replica):
    """A replica that knows of the inbox."""

    _seen: Seen
    _floor: int = 0
    _of_another: bool = False

    def _probe(self) -> tuple[int, int | None, int | None]:
        """Return the log's last row, when the first lease lapses, when the first timer is due; once a transaction."""
        if self._probed is None:
            return self._found(self._x(PROBE).fetchone())
        return self._probed

    def _found(self, row: Sequence[Any]) -> tuple[int, int | None, int | None]:  # Any: the database's own types
        last, lapse_ms, timer_ms, seen, self._floor, self._of_another = row
        self._seen = Seen(seen)
        self._probed = (last or 0, lapse_ms, timer_ms)
        return self._probed

    def _heads(self, db: Db, lanes: Sequence[tuple[int, Place]], most: int) -> list[list[Place]]:
        """Return the first available jobs of lanes, of each at most so many behind a place; all in one statement."""
        heads: dict[int, list[Place]] = {lane: [] for lane, _ in lanes}
        asked = [lane for lane, _ in lanes], [after.arrival_ms for _, after in lanes], [after.seq for _, after in lanes]
        for lane, arrival_ms, seq in db.execute(LANE_HEADS, (*asked, most)).fetchall():
            heads[lane].append(Place(arrival_ms, seq))
        return list(heads.values())

    def _unread(self, db: Db) -> list[str]:
        """Return the events of what no row of the log contains yet."""
        seen = Seen(db.execute(PROBE).fetchone()[3])
        return [body for (body,) in db.execute(INBOX_UNREAD, seen.values).fetchall()]


class PostgresFollower(Tail, Follower):
    """Follows the state on a connection that only reads; what the log does not contain yet is loaded each time."""

    _beyond = False

    def _rows_after(self, db: Db, version: int) -> list[tuple[int, int, str]]:
        """Return number, kind and body of what was logged after a row, then of what will be."""
        rows = super()._rows_after(db, version)
        unread = self._unread(db)
        self._beyond = bool(unread)
        last = rows[-1][0] if rows else version
        return rows + [(last + place, PLAIN, body) for place, body in enumerate(unread, 1)]

    def _catch_up(self) -> None:
        """Replay what was logged since; what was beyond the log has its place there now, or others do."""
        if self._beyond or self._unread(self._db):
            self._mirror = None
        super()._catch_up()
