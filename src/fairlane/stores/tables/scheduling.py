"""Schedules: what is stored of them, and which are due. What becomes of them is decided in ``domain/schedules.py``."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from fairlane.domain.policy import Pause
from fairlane.domain.schedules import ScheduleRecord, Spec
from fairlane.stores._mirror import encode
from fairlane.stores._queries import named
from fairlane.stores.tables.rules import Rules

SCHEDULES_ALL: Final = named("schedules_all")
SCHEDULES_DUE: Final = named("schedules_due")
SCHEDULE_GET: Final = named("schedule_get")
SCHEDULE_PUT: Final = named("schedule_put")
SCHEDULE_DELETE: Final = named("schedule_delete")
SCHEDULE_NEXT: Final = named("schedule_next")

_COLUMNS: Final = (
    "name", "spec", "source", "created_at_ms", "next_at_ms", "due_at_ms", "pause", "last_at_ms", "last_job", "runs",
    "missed", "skipped", "refused", "error", "error_at_ms", "gone_at_ms", "changed_at_ms", "changed_by",
)  # fmt: skip
_Row = tuple[Any, ...]  # Any: the database's own types


class Scheduling(Rules):
    """Schedules."""

    def schedules(self) -> list[ScheduleRecord]:
        """Return every schedule; see the protocol."""
        with self.reading("read the schedules") as db:
            return [_record_of(row) for row in db.execute(SCHEDULES_ALL).fetchall()]

    def schedule(self, name: str) -> ScheduleRecord | None:
        """Return a schedule; see the protocol."""
        with self.reading("read a schedule") as db:
            row = db.execute(SCHEDULE_GET, {"name": name}).fetchone()
        return None if row is None else _record_of(row)

    def due_schedules(self, now_ms: int, *, limit: int) -> list[ScheduleRecord]:
        """Return schedules that are due; see the protocol."""
        return [_record_of(row) for row in self._x(SCHEDULES_DUE, {"now_ms": now_ms, "most": limit}).fetchall()]

    def next_schedule_ms(self) -> int | None:
        """Return when the next schedule is due; see the protocol."""
        with self.reading("look at the schedules") as db:
            at_ms: int | None = db.execute(SCHEDULE_NEXT).fetchone()[0]
        return at_ms

    def put_schedule(self, record: ScheduleRecord, *, did: str = "", by: str = "", now_ms: int) -> None:
        """Store a schedule; see the protocol."""
        spec = encode(record.spec).decode()
        pause = None if record.pause is None else encode(record.pause).decode()
        self._x(SCHEDULE_PUT, msgspec.structs.asdict(record) | {"spec": spec, "pause": pause})
        if did:
            self._audit(by, did, record.name, pause or spec, now_ms)

    def remove_schedule(self, name: str, *, by: str, now_ms: int) -> bool:
        """Forget a schedule; see the protocol."""
        if self._x(SCHEDULE_DELETE, {"name": name}).fetchone() is None:
            return False
        self._audit(by, "remove schedule", name, "", now_ms)
        return True


def _record_of(row: _Row) -> ScheduleRecord:
    """Return a schedule from a row of the ``schedule…`` queries."""
    values = dict(zip(_COLUMNS, row, strict=True))
    values["spec"] = msgspec.json.decode(values["spec"], type=Spec)
    pause = values["pause"]
    values["pause"] = None if pause is None else msgspec.json.decode(pause, type=Pause)
    return ScheduleRecord(**values)
