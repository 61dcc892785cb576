"""One look for everything that may be due."""

from __future__ import annotations

from fairlane.store import Look
from fairlane.stores.tables.ground import PROBE
from fairlane.stores.tables.operating import Operating
from fairlane.stores.tables.preempting import Preempting
from fairlane.stores.tables.scheduling import Scheduling


class Looking(Operating, Preempting, Scheduling):
    """Looks at what other methods would have to do."""

    def look(self, now_ms: int) -> Look:
        """Return what may be due; see the protocol."""
        with self.snapshot("look at what is due") as db:
            last, lapse_ms, timer_ms = db.execute(PROBE).fetchone()
        due = any(at_ms is not None and at_ms <= now_ms for at_ms in (lapse_ms, timer_ms))
        return Look(
            rescue=self.may_rescue(now_ms),
            preempt=self.may_preempt(),
            operation_ms=self.operations_due_ms(),
            schedule_ms=self.next_schedule_ms(),
            version=None if due or last is None else (last, timer_ms),
        )
