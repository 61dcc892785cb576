"""People steer: expedite, boost, cancel, retry, clear; and retention prunes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple
from uuid import UUID

from fairlane.domain.jobs import PHASES, JobFilter, JobRecord
from fairlane.domain.lanes import LaneKey
from fairlane.domain.states import State, check_move
from fairlane.domain.tiers import Tier
from fairlane.errors import DedupConflict, IllegalMove, JobNotFound, StoreError
from fairlane.store import Boosted, Cleared
from fairlane.stores._queries import named
from fairlane.stores.tables.reading import Reading, filter_values
from fairlane.stores.tables.running import ASK_CANCEL, PROCESS, VERIFY, Running
from fairlane.stores.tables.writing import COUNTER_NEXT, JOB_BY_DEDUP

STEER_ROW: Final = named("steer_row")
EXPEDITE: Final = named("expedite")
EXPEDITE_BEHIND: Final = named("expedite_behind")
MOVE_LANE: Final = named("move_lane")
CANCEL_WAITING: Final = named("cancel_waiting")
ASK: Final = named("ask")
RETRY: Final = named("retry")
REVERIFY: Final = named("reverify")
RUN_NOW: Final = named("run_now")
MOVE_OTHER_LANE: Final = named("move_other_lane")
JOBS_PORTION: Final = named("jobs_portion")
JOBS_PORTION_END: Final = named("jobs_portion_end")
PRUNE_OLD: Final = named("prune_old")
PRUNE_SURPLUS: Final = named("prune_surplus")
EDGES_ANY: Final = named("edges_any")
EDGES_LEAVE: Final = named("edges_leave")
PORTION_SCAN: Final = 5_000
"""Jobs that one portion looks at: 4 ms where none of them is meant, and others wait for the store so long."""
WAITING: Final = 1 << State.SCHEDULED | 1 << State.AVAILABLE
"""The states of a filter that wait, as bits."""


class _Row(NamedTuple):
    """What a change of a job depends on."""

    seq: int
    state: int
    lane: int
    arrival_ms: int
    number: int | None
    phase: int
    dedup: str | None
    other_lane: int | None
    behind: int


class Steering(Running, Reading):
    """What people do to jobs."""

    def _row(self, job_id: bytes) -> _Row:
        row = self._x(STEER_ROW, {"id": job_id}).fetchone()
        if row is None:
            raise JobNotFound(UUID(bytes=job_id))
        return _Row(*row)

    def _record(self, job_id: bytes) -> JobRecord:
        record = self.get(job_id)
        if record is None:
            raise StoreError(f"job {UUID(bytes=job_id)} vanished inside a transaction")
        return record

    def expedite(self, job_id: bytes, *, reason: str, by: str, now_ms: int) -> JobRecord:
        """Put a waiting job in the express lane; see the protocol."""
        seq, state, lane, arrival_ms, number, phase, *_, behind = self._row(job_id)
        check_move(UUID(bytes=job_id), State(state), "be expedited")
        if number is None:
            self._check_express([(self.lane_key(lane).tenant, phase)])
        new = self._x(COUNTER_NEXT, {"name": "express"}).fetchone()[0] if number is None else number
        if behind:  # it becomes available when it waits for no other any more, without its delay
            self._x(EXPEDITE_BEHIND, {"seq": seq, "number": new, "now_ms": now_ms})
        elif number is None or state == State.SCHEDULED:
            self._x(EXPEDITE, {"seq": seq, "number": new, "now_ms": now_ms})
            self._joined(lane, arrival_ms, seq, new)
            if state == State.SCHEDULED:
                self._count(lane, scheduled=-1)
            else:
                self._left(lane, arrival_ms, seq, None, state=state)
        self._audit(by, "expedite", str(UUID(bytes=job_id)), reason, now_ms)
        return self._record(job_id)

    def boost(
        self, job_id: bytes, tier: int, *, by: str, now_ms: int, lower: bool = False, reason: str = ""
    ) -> Boosted:
        """Raise a waiting job's tier; see the protocol."""
        seq, state, lane, arrival_ms, number, phase, _, other_lane, *_ = self._row(job_id)
        key = self.lane_key(lane)
        Tier.of(tier)
        check_move(UUID(bytes=job_id), State(state), "change tier")
        if tier == key.tier or (tier > key.tier and not lower):
            return Boosted("not_higher", key.tier)
        new = self.lane_id(LaneKey(key.queue, key.task, key.tenant, tier))
        self._x(MOVE_LANE, {"seq": seq, "lane": new})
        if state == State.SCHEDULED:
            self._count(new, scheduled=1)
            self._count(lane, scheduled=-1)
        else:
            self._joined(new, arrival_ms, seq, number)
            self._left(lane, arrival_ms, seq, number, state=state)
        if phase == VERIFY and other_lane is not None:  # it comes back as urgent as it is now
            home = self.lane_key(other_lane)._replace(tier=tier)
            self._x(MOVE_OTHER_LANE, {"seq": seq, "lane": self.lane_id(home)})
        self._audit(by, "set tier" if lower else "boost", str(UUID(bytes=job_id)), reason or f"to {tier}", now_ms)
        return Boosted("boosted", tier)

    def cancel(self, job_id: bytes, *, reason: str, now_ms: int) -> State:
        """Cancel a waiting job, or ask a running one to stop; see the protocol."""
        seq, state, lane, arrival_ms, number, *_ = self._row(job_id)
        check_move(UUID(bytes=job_id), State(state), "be cancelled")
        if state == State.RUNNING:
            self._x(ASK, {"seq": seq, "ask": ASK_CANCEL})
            self._fresh.add("ask")
            return State.RUNNING
        self._cancel_waiting((seq, state, lane, arrival_ms, number), reason, now_ms)
        return State.CANCELLED

    def _cancel_waiting(self, row: tuple[int, int, int, int, int | None], reason: str, now_ms: int) -> None:
        seq, state, lane, arrival_ms, number = row
        (followed,) = self._x(CANCEL_WAITING, {"seq": seq, "reason": reason, "now_ms": now_ms}).fetchone()
        self._left(lane, arrival_ms, seq, number, state=state)
        self._ended(seq, State.CANCELLED, followed, now_ms)

    def retry(self, job_id: bytes, *, by: str, now_ms: int, reason: str = "") -> None:
        """Make a dead job available again; see the protocol."""
        row = self._row(job_id)
        check_move(UUID(bytes=job_id), State(row.state), "be retried")
        self._check_key_free(row)
        self._revive(row, None, now_ms)
        self._audit(by, "retry", str(UUID(bytes=job_id)), reason, now_ms)

    def _check_key_free(self, row: _Row) -> None:
        """Refuse to bring back a job whose dedup key another live one holds."""
        if row.dedup is None:
            return
        self._take_keys((row.dedup,))
        held = self._x(JOB_BY_DEDUP, {"dedup": row.dedup}).fetchone()
        if held is not None:
            queue = self._home(row).queue
            raise DedupConflict(row.dedup.removeprefix(f"{len(queue)}:{queue}:"), queue, UUID(bytes=held[0]))

    def _home(self, row: _Row) -> LaneKey:
        """Return the lane of a job's process phase."""
        swapped = row.phase == VERIFY and row.other_lane is not None
        return self.lane_key(row.other_lane if swapped and row.other_lane is not None else row.lane)

    def _revive(self, row: _Row, number: int | None, now_ms: int) -> None:
        """Make a dead job available for processing."""
        lane, other_lane = row.lane, row.other_lane
        if row.phase == VERIFY and other_lane is not None:
            lane, other_lane = other_lane, lane
        values = {"seq": row.seq, "now_ms": now_ms, "lane": lane, "other_lane": other_lane, "express": number}
        self._x(RETRY, values)
        self._joined(lane, row.arrival_ms, row.seq, number)

    # ------------------------------------------------------------------ one phase

    def process(self, job_id: bytes, *, expedite: bool, by: str, now_ms: int) -> JobRecord:
        """Have a job processed; see the protocol."""
        row = self._in_phase(job_id, PROCESS, "be processed")
        number = self._express_number(row, PROCESS, wanted=expedite)
        if row.state == State.DEAD:
            self._revive(row, number, now_ms)
        else:
            self._start_now(row, number, now_ms)
        self._audit(by, "process", str(UUID(bytes=job_id)), "expedited" if expedite else "", now_ms)
        return self._record(job_id)

    def reverify(self, job_id: bytes, *, expedite: bool, by: str, now_ms: int, reason: str = "") -> JobRecord:
        """Have a job's work checked now; see the protocol."""
        row = self._in_phase(job_id, VERIFY, "be checked")
        number = self._express_number(row, VERIFY, wanted=expedite)
        if row.state == State.DEAD:
            self._x(REVERIFY, {"seq": row.seq, "now_ms": now_ms, "express": number})
            self._joined(row.lane, row.arrival_ms, row.seq, number)
        else:
            self._start_now(row, number, now_ms)
        detail = ": ".join(part for part in ("expedited" if expedite else "", reason) if part)
        self._audit(by, "reverify", str(UUID(bytes=job_id)), detail, now_ms)
        return self._record(job_id)

    def _in_phase(self, job_id: bytes, phase: int, move: str) -> _Row:
        """Return a job's row if its phase and state allow the move; a dead one may be processed from either phase."""
        row = self._row(job_id)
        state = State(row.state)
        check_move(UUID(bytes=job_id), state, move)
        elsewhere = row.phase != phase and not (state is State.DEAD and phase == PROCESS)
        if elsewhere:
            raise IllegalMove(UUID(bytes=job_id), f"{state.label} in its {PHASES[row.phase]} phase", move)
        if row.behind:
            raise IllegalMove(UUID(bytes=job_id), f"{state.label} behind {row.behind} other jobs", move)
        if state is State.DEAD:
            self._check_key_free(row)
        return row

    def _express_number(self, row: _Row, phase: int, *, wanted: bool) -> int | None:
        """Return a job's number in the express lane of a phase: the one it has, a new one if wanted, or None."""
        if row.state != State.DEAD and row.number is not None:
            return row.number
        if not wanted:
            return None
        self._check_express([(self.lane_key(row.lane).tenant, phase)])
        number: int = self._x(COUNTER_NEXT, {"name": "express"}).fetchone()[0]
        return number

    def _start_now(self, row: _Row, number: int | None, now_ms: int) -> None:
        """Make a waiting job available, in the express lane when it has a number there."""
        if row.state == State.AVAILABLE and number == row.number:
            return
        if number is None:
            self._x(RUN_NOW, {"seq": row.seq, "now_ms": now_ms})
        else:
            self._x(EXPEDITE, {"seq": row.seq, "number": number, "now_ms": now_ms})
        self._joined(row.lane, row.arrival_ms, row.seq, number)
        self._left(row.lane, row.arrival_ms, row.seq, row.number, state=row.state)

    def clear(self, which: JobFilter, *, reason: str, limit: int, now_ms: int, after: int = 0) -> Cleared:
        """Cancel waiting jobs; see the protocol."""
        values = filter_values(which)
        rows, place = self._portion(values | {"states": values["states"] & WAITING, "above": after, "most": limit})
        with self._together(now_ms):
            for seq, _, *row in rows:
                self._cancel_waiting((seq, *row), reason, now_ms)
        return Cleared(len(rows), place)

    def _portion(self, values: Mapping[str, Any]) -> tuple[list[tuple[Any, ...]], int | None]:  # Any: of the database
        """Return the next jobs that a filter means, oldest first, of a bounded number that are looked at.

        Args:
            values: The filter, ``above`` and ``below`` which numbers to look, and how many jobs at ``most``.

        Returns:
            Rows of ``jobs_portion``, and the number of the last job that was looked at; None: there are no more.
        """
        bounded = {**values, "scan": PORTION_SCAN}
        rows = self._x(JOBS_PORTION, bounded).fetchall()
        if len(rows) == values["most"]:
            return rows, rows[-1][0]
        looked, last = self._x(JOBS_PORTION_END, bounded).fetchone()
        return rows, None if looked < PORTION_SCAN else last

    # ------------------------------------------------------------------ retention

    def prune(self, now_ms: int, *, keep_ms: Mapping[State, int], surplus: Sequence[int] = (), limit: int) -> int:
        """Delete jobs that ended long ago; see the protocol."""
        deleted: list[tuple[int]] = []
        for state, keep in keep_ms.items():
            values = {"state": int(state), "before_ms": now_ms - keep, "now_ms": now_ms, "most": limit - len(deleted)}
            deleted += self._x(PRUNE_OLD, values).fetchall()
        for seq in surplus[: limit - len(deleted)]:
            deleted += self._x(PRUNE_SURPLUS, {"seq": seq, "now_ms": now_ms}).fetchall()
        self._forget(deleted)
        return len(deleted)

    def _forget(self, deleted: Sequence[tuple[int]]) -> None:
        """Drop what was kept beside jobs that are deleted."""
        if deleted and self._x(EDGES_ANY).fetchone()[0]:
            self._db.executemany(EDGES_LEAVE, [{"child": seq, "marks": 0} for (seq,) in deleted])
