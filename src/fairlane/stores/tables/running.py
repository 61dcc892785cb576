"""Jobs run: claim, settle, heartbeat, save, rescue."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, Final, Literal, NamedTuple

import msgspec

from fairlane.domain.checks import MAX_NAME_BYTES
from fairlane.domain.fingerprints import fingerprint_of
from fairlane.domain.jobs import MAX_ERROR_BYTES, MAX_ERRORS, PHASES, Beat, Claim, ErrorRecord, Settlement
from fairlane.domain.lanes import Ask, LaneKey, Start
from fairlane.domain.payloads import sanitised
from fairlane.domain.states import State
from fairlane.domain.tiers import TIERS
from fairlane.errors import StoreError
from fairlane.failpoints import failpoint
from fairlane.stores._mirror import RULE_NUMBERS, encode, start_items
from fairlane.stores._queries import named
from fairlane.stores.tables.following import AVAILABLE, CANCELLED, SCHEDULED
from fairlane.stores.tables.reading import JOB_BY_SEQ, record_of
from fairlane.stores.tables.writing import Writing

CLAIM: Final = named("claim")
CLAIM_LIMITS: Final = named("claim_limits")
COMPLETE: Final = named("complete")
SETTLE_ROW: Final = named("settle_row")
SETTLE: Final = named("settle")
BEAT: Final = named("beat")
ASKED_JOBS: Final = named("asked_jobs")
SAVE: Final = named("save")
LAPSED: Final = named("lapsed")
RUNNING_OF: Final = named("running_of")
ORPHANED: Final = named("orphaned")
TASK_CRASHES: Final = named("task_crashes")
ASKED_PUT: Final = named("asked_put")
JOB_ERRORS: Final = named("job_errors")
WORKER_IDS: Final = named("worker_ids")

ASK_CANCEL, ASK_PREEMPT = 1, 2
ASKED_WRITE_MS: Final = 10_000
"""An empty claim writes down that it asked for a queue at most this often."""
RESCUE_IN_CLAIM: Final = 20
PROCESS, VERIFY = PHASES.index("process"), PHASES.index("verify")
DEFAULT_MAX_CRASHES: Final = 3
COMPLETED, DEAD = int(State.COMPLETED), int(State.DEAD)

_errors_of = msgspec.json.Decoder(list[ErrorRecord]).decode


class _Way(NamedTuple):
    """Where a job goes on: its phase by number, its lane there, that of the other phase, whether the phase is new."""

    phase: int
    lane: int
    other_lane: int | None
    new: bool = False


class Running(Writing):
    """Claims and their ends."""

    # ------------------------------------------------------------------ claim

    def claim(self, ask: Ask, *, worker: str, lease_ms: int, now_ms: int) -> list[Claim]:
        """Start jobs; see the protocol."""
        _, lapse_ms, timer_ms = self._probe()
        if lapse_ms is not None and lapse_ms <= now_ms:
            self._rescue_lapsed(now_ms, RESCUE_IN_CLAIM)
        if timer_ms is not None and timer_ms <= now_ms:
            self._notice_due(now_ms)
        mirror = self._live()
        scheduler = mirror.scheduler
        openings = scheduler.openings
        starts = scheduler.claim(ask, now_ms)
        self._note_asked(ask, now_ms, wrote=bool(starts))
        if starts or scheduler.changed_turns or scheduler.changed_pools or scheduler.openings != openings:
            self._events.append(("n", scheduler.now_ms))
            mirror.unstored["n",] = ("n", scheduler.now_ms)
        claims: list[Claim] = []
        while starts:
            rows = self._take(starts, worker, lease_ms, now_ms)
            started = [self._start(start, row, lease_ms, now_ms) for start, row in zip(starts, rows, strict=True)]
            claims += [claim for claim in started if claim is not None]
            if len(claims) == ask.count or None not in started:
                break  # else some had expired while their timers waited behind others that are due
            starts = scheduler.claim(_rest(ask, claims), now_ms)
        return claims

    def _take(
        self, starts: Sequence[Start], worker: str, lease_ms: int, now_ms: int
    ) -> list[tuple[Any, ...] | None]:  # Any: the database's own types
        """Write that these jobs run; return what their claims need, in order, None for one that is not available."""
        rows: list[tuple[Any, ...] | None] = [
            self._x(
                CLAIM,
                (
                    worker,
                    RULE_NUMBERS[start.rule],
                    start.expected_us,
                    start.divided_by,
                    now_ms,
                    now_ms,
                    now_ms + lease_ms,
                    start.place.seq,
                ),
            ).fetchone()
            for start in starts
        ]
        return rows

    def _start(self, start: Start, row: tuple[Any, ...] | None, lease_ms: int, now_ms: int) -> Claim | None:
        lane = self._lane_ids[start.lane]
        deadline_ms = now_ms + lease_ms
        seq = start.place.seq
        if row is None:
            raise StoreError(f"job number {seq} was chosen but is not available: the state in memory is stale")
        (
            job_id,
            fence,
            failures,
            crashes,
            checks,
            phase,
            args,
            checkpoint,
            available_ms,
            trace,
            expires_ms,
            reference,
            handed,
        ) = row
        self._events.append(("b", *start_items(lane, start), now_ms))
        if start.express is None:
            self._count(lane, available=-1)
        mirror = self._live()
        keys = mirror.scheduler.limits_of(seq)
        if keys:
            self._x(CLAIM_LIMITS, {"seq": seq, "limits": encode(keys).decode()})
        if expires_ms is not None and expires_ms <= now_ms:  # its timer waits behind others that are due
            phase, other_lane, followed = self._x(SETTLE_ROW, {"seq": seq, "fence": fence}).fetchone()[-3:]
            self._settle_row(seq, fence, CANCELLED, now_ms, way=_Way(phase, lane, other_lane), reason="expired")
            self._emit(("f", *start_items(lane, start), 0, 0, None))
            self._ended(seq, CANCELLED, followed, now_ms)
            return None
        return Claim(
            seq=seq,
            id=job_id,
            fence=fence,
            attempt=handed if phase == VERIFY else failures + crashes + 1,
            failures=failures,
            crashes=crashes,
            checks=checks,
            phase=PHASES[int(phase)],
            args=args,
            checkpoint=checkpoint,
            arrival_ms=start.place.arrival_ms,
            available_at_ms=available_ms,
            started_at_ms=now_ms,
            deadline_ms=deadline_ms,
            trace=trace,
            start=start,
            reference=reference,
        )

    def _note_asked(self, ask: Ask, now_ms: int, *, wrote: bool) -> None:
        """Remember that a claim asked for queues that no live worker serves: they count for the pool's time."""
        served = self._live().scheduler.pool(ask.pool).served
        if served is None:
            return
        names = (
            [""]
            if ask.queues is None
            else [name for name, free in ask.queues.items() if free > 0 and name not in served]
        )
        if ask.queues is None or names:
            stale = [name for name in names if now_ms - self._asked_ms.get((ask.pool, name), -1) >= ASKED_WRITE_MS]
            if stale:
                self._db.executemany(ASKED_PUT, [(ask.pool, name, now_ms) for name in stale])
                self._asked_ms.update(((ask.pool, name), now_ms) for name in stale)
            if stale or wrote:
                self._events.append(("q", ask.pool, None if ask.queues is None else names, now_ms))

    # ------------------------------------------------------------------ settle

    def settle(self, settlements: Sequence[Settlement], now_ms: int) -> list[bool]:
        """End claims; see the protocol."""
        return [
            self._complete(item, now_ms) if item.kind == "completed" else self._end(item, now_ms)
            for item in settlements
        ]

    def _complete(self, item: Settlement, now_ms: int) -> bool:
        row = self._x(COMPLETE, (now_ms, item.result, item.seq, item.fence)).fetchone()
        if row is None:
            return False
        lane, arrival_ms, number, rule, expected_us, divided_by, followed = row
        start = (lane, arrival_ms, item.seq, number, rule, expected_us, divided_by)
        self._finished(start, item.run_us, in_mean=True, units_us=item.units_us)
        self._ended(item.seq, COMPLETED, followed, now_ms)
        return True

    def _end(self, item: Settlement, now_ms: int) -> bool:
        """End a claim in any way but success."""
        row = self._x(SETTLE_ROW, {"seq": item.seq, "fence": item.fence}).fetchone()
        if row is None:
            return False
        lane, arrival_ms, number, *charged, ask, crashes, expires_ms, phase, other_lane, followed = row
        state, reason = self._outcome(item, self.lane_key(lane), ask, crashes)
        way = _Way(phase, lane, other_lane)
        if state in {SCHEDULED, AVAILABLE}:
            way = self._way(item, way)
            if way.phase == VERIFY:
                expires_ms = None  # it bounds the start of the process phase
            elif expires_ms is not None and expires_ms <= now_ms:
                state, reason = CANCELLED, "expired"
        self._settle_row(item.seq, item.fence, state, now_ms, way=way, reason=reason, item=item, expires_ms=expires_ms)
        start = (lane, arrival_ms, item.seq, number, *charged)
        self._finished(start, item.run_us, in_mean=item.kind != "released", units_us=item.units_us)
        if item.wait_for is not None:
            key, wait_ms = item.wait_for
            self._emit(("h", key, now_ms + wait_ms))
        if state == AVAILABLE:
            self._joined(way.lane, arrival_ms, item.seq, None if way.new else number)
        elif state == SCHEDULED:
            self._count(way.lane, scheduled=1)
            self._fresh.add("work")
        else:
            if state == DEAD:
                self._note_death(item.seq)
            self._ended(item.seq, state, followed, now_ms)
        return True

    def _way(self, item: Settlement, way: _Way) -> _Way:
        """Return where a job that goes on does so."""
        if item.to is None:
            return way
        name, key = item.to
        phase = PHASES.index(name)
        lane = way.other_lane if key is None else self.lane_id(key)
        if phase == way.phase or lane is None:
            return way
        return _Way(phase, lane, way.lane, new=True)

    def _note_death(self, seq: int) -> None:
        """Keep a job that died for those who tell people of it after the commit."""
        self._died.append(record_of(self._x(JOB_BY_SEQ, {"seq": seq}).fetchone()))

    def _outcome(self, item: Settlement, lane: LaneKey, ask: int | None, crashes: int) -> tuple[int, str | None]:
        """Return the state and reason that a claim ends in."""
        if item.kind in {"dead", "cancelled"}:
            return (DEAD if item.kind == "dead" else CANCELLED), item.reason
        if ask == ASK_CANCEL:
            return CANCELLED, "cancelled while it ran"
        if item.kind == "crashed":
            row = self._x(TASK_CRASHES, {"task": lane.task}).fetchone()
            most = DEFAULT_MAX_CRASHES if row is None else row[0]
            if crashes + 1 > most:
                return DEAD, f"crashed {crashes + 1} times; the maximum is {most}"
        return (SCHEDULED if item.delay_ms > 0 else AVAILABLE), None

    def _settle_row(
        self,
        seq: int,
        fence: int,
        state: int,
        now_ms: int,
        *,
        way: _Way,
        reason: str | None,
        item: Settlement | None = None,
        expires_ms: int | None = None,
    ) -> None:
        error = None if item is None else item.error
        waits = state in {SCHEDULED, AVAILABLE}
        timer_ms = expires_ms if waits else None
        if state == SCHEDULED and item is not None:
            timer_ms = now_ms + item.delay_ms
        self._x(
            SETTLE,
            {
                "seq": seq,
                "fence": fence,
                "state": state,
                "timer_ms": timer_ms,
                "available_at_ms": now_ms if state == AVAILABLE else None,
                "finished_at_ms": None if waits else now_ms,
                **_counted(item),
                "reason": None if reason is None else sanitised(reason, MAX_ERROR_BYTES),
                "fingerprint": _fingerprint(error, reason) if state == DEAD else None,
                "errors": None if error is None else self._with_error(seq, error),
                "result": None if item is None else item.result,
                "lane": way.lane,
                "phase": way.phase,
                "other_lane": way.other_lane,
                "handed": int(way.new and way.phase == VERIFY),
                "reference": None if item is None else item.reference,
            },
        )

    def _with_error(self, seq: int, error: ErrorRecord) -> str:
        """Return the job's errors with one more; beyond the bound the first and the latest stay."""
        (body,) = self._x(JOB_ERRORS, {"seq": seq}).fetchone()
        errors = [] if body is None else _errors_of(body)
        errors.append(_put_right(error))
        if len(errors) > MAX_ERRORS:
            del errors[1 : len(errors) - MAX_ERRORS + 1]
        return encode(errors).decode()

    def _finished(
        self,
        start: tuple[int, int, int, int | None, int, int, int],
        run_us: int,
        *,
        in_mean: bool,
        units_us: int | None,
    ) -> None:
        opened = None if self._mirror is None else self._mirror.scheduler.openings
        self._emit(("f", *start, run_us, int(in_mean), units_us))
        if self._mirror is None or self._mirror.scheduler.openings != opened:
            self._fresh.add("work")

    # ------------------------------------------------------------------ while it runs

    def heartbeat(self, claims: Sequence[tuple[int, int]], *, lease_ms: int, now_ms: int) -> list[Beat]:
        """Renew leases; see the protocol."""
        beats: dict[tuple[int, int], Beat] = {}
        for seq, fence in sorted(claims):  # rows are locked in the order of their numbers
            values = {"seq": seq, "fence": fence, "now_ms": now_ms, "deadline_ms": now_ms + lease_ms}
            row = self._x(BEAT, values).fetchone()
            beats[seq, fence] = Beat(seq, fence, "lost" if row is None else _answer(row[0]))
        return [beats[claim] for claim in claims]

    def asked(self, worker: str) -> list[Beat]:
        """Return the claims of a worker that are asked to stop; see the protocol."""
        with self.reading("read requests to stop") as db:
            rows = db.execute(ASKED_JOBS, {"worker": worker}).fetchall()
        return [Beat(seq, fence, _answer(ask)) for seq, fence, ask in rows]

    def save(self, seq: int, fence: int, *, progress: str | None, checkpoint: str | None) -> bool:
        """Store progress or a checkpoint; see the protocol."""
        values = {"seq": seq, "fence": fence, "progress": progress, "checkpoint": checkpoint}
        return self._x(SAVE, values).rowcount == 1

    # ------------------------------------------------------------------ rescue

    def may_rescue(self, now_ms: int) -> bool:
        """Return whether a rescue would find something; see the protocol."""
        with self.snapshot("look for jobs that nobody runs") as db:
            if db.execute(LAPSED, {"now_ms": now_ms, "most": 1}).fetchall():
                return True
            workers = {worker for name in (WORKER_IDS, ORPHANED) for (worker,) in db.execute(name).fetchall()}
            return not workers <= set(self.alive(workers))

    def rescue(self, now_ms: int, *, limit: int) -> int:
        """Take back jobs that nobody runs any more; see the protocol."""
        rescued = self._rescue_lapsed(now_ms, limit)
        known = [worker for (worker,) in self._x(WORKER_IDS).fetchall()]
        orphaned = [worker for (worker,) in self._x(ORPHANED).fetchall()]
        alive = self.alive({*known, *orphaned})
        for worker in known:
            if rescued >= limit:
                return rescued
            if worker not in alive:
                rescued += self._rescue_of(worker, f"worker {worker} is gone", limit - rescued, now_ms)
                if rescued < limit:
                    self.unregister(worker, now_ms)
        for worker in orphaned:
            if rescued < limit and worker not in alive:
                rescued += self._rescue_of(worker, "its worker is not on record", limit - rescued, now_ms)
        return rescued

    def _rescue_of(self, worker: str, message: str, most: int, now_ms: int) -> int:
        return self._crash(self._x(RUNNING_OF, {"worker": worker, "most": most}), "WorkerLost", message, now_ms)

    def _rescue_lapsed(self, now_ms: int, limit: int) -> int:
        lapsed = self._x(LAPSED, {"now_ms": now_ms, "most": limit}).fetchall()
        return self._crash(lapsed, "LeaseLapsed", "nobody renewed its lease", now_ms) if lapsed else 0

    def _crash(
        self,
        rows: Iterable[tuple[int, int, int, int, int, int, str]],
        kind: str,
        message: str,
        now_ms: int,
    ) -> int:
        done = 0
        for seq, fence, started_ms, beat_ms, attempt, check, worker in list(rows):
            failpoint("mid_recovery")
            error = ErrorRecord(attempt, now_ms, "crash", kind, message, worker=worker or "", check=check)
            run_us = max(0, beat_ms - started_ms) * 1000
            done += self._end(Settlement(seq=seq, fence=fence, kind="crashed", run_us=run_us, error=error), now_ms)
        return done


def _counted(item: Settlement | None) -> dict[str, int]:
    """Return what a claim's end adds to its job's counts: a check that fails is no failure of the attempt."""
    if item is None:
        return {"failures": 0, "crashes": 0, "preemptions": 0, "checked": 0}
    failed = item.error is not None and item.kind in {"retry", "dead"} and not item.error.check
    return {
        "failures": int(failed),
        "crashes": int(item.kind == "crashed"),
        "preemptions": int(item.preempted),
        "checked": int(item.checked),
    }


def _put_right(error: ErrorRecord) -> ErrorRecord:
    """Return an error record whose texts can be stored: they must never be a reason to fail a settle."""
    return msgspec.structs.replace(
        error,
        type=sanitised(error.type, MAX_NAME_BYTES),
        message=sanitised(error.message, MAX_ERROR_BYTES),
        traceback=sanitised(error.traceback, MAX_ERROR_BYTES),
        worker=sanitised(error.worker, MAX_NAME_BYTES),
        frame=sanitised(error.frame, MAX_NAME_BYTES),
    )


def _fingerprint(error: ErrorRecord | None, reason: str | None) -> str:
    """Return what dead jobs are grouped by, of texts as they are stored."""
    return fingerprint_of(
        None if error is None else _put_right(error), None if reason is None else sanitised(reason, MAX_ERROR_BYTES)
    ).id


def _rest(ask: Ask, claims: Sequence[Claim]) -> Ask:
    """Return what is left of an ask after some claims."""
    queues = None if ask.queues is None else dict(ask.queues)
    rooms = ask.rooms
    for claim in claims:
        lane = claim.start.lane
        if queues is not None:
            queues[lane.queue] -= 1
        if rooms is not None and claim.start.express is None:
            used = [int(tier <= lane.tier) for tier in TIERS]
            rooms = (rooms[0] - used[0], rooms[1] - used[1], rooms[2] - used[2], rooms[3] - used[3], rooms[4] - used[4])
    return replace(ask, count=ask.count - len(claims), queues=queues, rooms=rooms)


def _answer(ask: int | None) -> Literal["ok", "cancel", "preempt"]:
    if ask is None:
        return "ok"
    return "cancel" if ask == ASK_CANCEL else "preempt"
