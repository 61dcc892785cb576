"""Why jobs wait: explanations, and what inversions and percentiles of waits are worked out from.

An explanation needs the state that claims decide on. A store object keeps a second one of its own for this, on the
connection that only reads: loaded at the first call, then brought up to date with the log at each. Reading only the
rows needed would mean the order of turns a second time, in SQL. ``bench/explain.py`` has the figures.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, Final
from uuid import UUID

from fairlane.domain.explaining import SHOWN_PLACE, Around, Explanation, Figure, explain
from fairlane.domain.fairness import Scheduler
from fairlane.domain.jobs import JobRecord, WorkerRecord
from fairlane.domain.lanes import RULES, LaneKey, Place
from fairlane.domain.sightings import Sighting, Steered
from fairlane.domain.states import State
from fairlane.domain.turns import Turn
from fairlane.errors import JobNotFound
from fairlane.stores._mirror import set_rule
from fairlane.stores._queries import named
from fairlane.stores.tables.following import DUE_AT_ONCE
from fairlane.stores.tables.ground import Db, Replica
from fairlane.stores.tables.reading import DUE, JOB_BY_ID, Reading, record_of
from fairlane.stores.tables.rules import Rules

EXPLAIN_JOB: Final = named("explain_job")
LANE_BEFORE: Final = named("lane_before")
RUNNING_BY_WORKER: Final = named("running_by_worker")
STARTS: Final = named("starts")
LANE_ENDS: Final = named("lane_ends")
AUDIT_SINCE: Final = named("audit_since")
WAITS_FOR: Final = named("waits_for")
MOST_AUDIT: Final = 10_000
SHOWN_PARENTS: Final = 3
"""Jobs that are named when a job waits for the end of others."""


class Follower(Replica):
    """The state that claims decide on, kept on a connection that only reads."""

    def __init__(self, db: Db) -> None:
        super().__init__()
        self._db = db

    def is_on(self, db: Db) -> bool:
        """Return whether this is the connection that it follows on: a store's may have been replaced by another."""
        return self._db is db

    def scheduler(self) -> Scheduler:
        """Return the state as of the transaction that is open."""
        self._probed = None
        try:
            self._catch_up()
            scheduler = self._live().scheduler
        except BaseException:
            self._mirror = None
            raise
        scheduler.clear_changes()
        return scheduler

    def forget(self) -> None:
        """Load the state anew at the next look."""
        self._mirror = None

    @contextmanager
    def as_claimed(self, scheduler: Scheduler, now_ms: int) -> Generator[None]:
        """Let timers be due as a claim would, and take that back afterwards: the log tells when it has happened."""
        rows = self._x(DUE, {"now_ms": now_ms, "most": DUE_AT_ONCE}).fetchall()
        joined: list[tuple[LaneKey, Place, int | None]] = []
        left: list[tuple[LaneKey, Place, int | None]] = []
        for seq, state, lane, arrival_ms, number, expires_ms in rows:
            job = self._key_from(self._db, lane), Place(arrival_ms, seq), number
            if expires_ms is None or expires_ms > now_ms:
                joined.append(job)
            elif state == State.AVAILABLE:
                left.append(job)
        before = _turns(scheduler, [key for key, *_ in joined + left])
        for job in joined:
            scheduler.add(*job)
        for job in left:
            scheduler.remove(*job)
        scheduler.notice(now_ms)
        try:
            yield
        finally:
            with scheduler.replaying():
                for job in joined:
                    scheduler.remove(*job)
                for job in left:
                    scheduler.add(*job)
                for turn, (virtual, activation, last_ms, able, seen) in before.items():
                    scheduler.assign(
                        turn, virtual=virtual, activation=activation, last_ms=last_ms, able=bool(able), seen=seen
                    )


def _turns(scheduler: Scheduler, keys: list[LaneKey]) -> dict[Turn, tuple[int, ...]]:
    """Return the facts of the tenants of these lanes."""
    found: dict[Turn, tuple[int, ...]] = {}
    for key in keys:
        queue = scheduler.queues.get(key.queue)
        pool = None if queue is None else scheduler.pools.get(queue.rule.pool)
        turn = None if pool is None else pool.turns.get(key.tenant)
        if turn is not None:
            found[turn] = turn.facts()
    return found


class Explaining(Rules, Reading):
    """Explanations, and what lies behind inversions and waits."""

    _follower: Follower | None = None

    def follower(self, db: Db) -> Follower:
        """Return what follows the state on a connection that only reads."""
        return Follower(db)

    def explain(self, job_id: bytes, now_ms: int) -> Explanation:
        """Return why a job is waiting; see the protocol."""
        with self.snapshot("explain a job") as db:
            if self.inside():  # what our transaction has written is in the tables, and its state is nobody else's
                self._write_counts()
                return self._explained(db, self.follower(db), job_id, now_ms)
            if self._follower is None or not self._follower.is_on(db):
                self._follower = self.follower(db)
            return self._explained(db, self._follower, job_id, now_ms)

    def _explained(self, db: Db, follower: Follower, job_id: bytes, now_ms: int) -> Explanation:
        row = db.execute(JOB_BY_ID, {"id": job_id}).fetchone()
        if row is None:
            raise JobNotFound(UUID(bytes=job_id))
        record = record_of(row)
        around = self._around(db, record)
        if not record.state.waiting:
            scheduler = Scheduler(self._settings(db)[0])
            set_rule(scheduler, "queue", record.queue, self.rule("queue", record.queue))
            return explain(scheduler, record, around, now_ms)
        try:
            scheduler = follower.scheduler()
            with follower.as_claimed(scheduler, now_ms):
                return explain(scheduler, record, around, now_ms)
        except BaseException:
            follower.forget()
            raise

    def _around(self, db: Db, record: JobRecord) -> Around:
        lane, timer_ms = db.execute(EXPLAIN_JOB, {"id": record.id}).fetchone()
        values = {"lane": lane, "arrival_ms": record.arrival_ms, "seq": record.seq, "most": SHOWN_PLACE + 1}
        (before,) = db.execute(LANE_BEFORE, values).fetchone()
        waits_for = db.execute(WAITS_FOR, {"id": record.id, "most": SHOWN_PARENTS}) if record.behind else ()
        return Around(
            before=Figure(min(before, SHOWN_PLACE), before > SHOWN_PLACE),
            due_ms=record.scheduled_at_ms if record.behind else timer_ms,
            workers=self._alive(),
            busy=dict(db.execute(RUNNING_BY_WORKER).fetchall()),
            waits_for=[job_id for (job_id,) in waits_for],
        )

    def _alive(self) -> list[WorkerRecord]:
        """Return the workers on record whose process lives."""
        workers = self.workers()
        alive = self.alive({worker.id for worker in workers})
        return [worker for worker in workers if worker.id in alive]

    # ------------------------------------------------------------------ what started, what waits

    def starts(self, since_ms: int, *, limit: int) -> list[Sighting]:
        """Return the jobs that started lately; see the protocol."""
        with self.reading("read what has started") as db:
            rows = db.execute(STARTS, {"since_ms": since_ms, "most": limit}).fetchall()
        return [_sighting(row) for row in rows]

    def heads(self, *, limit: int) -> list[Sighting]:
        """Return the ends of the lanes; see the protocol."""
        with self.reading("read what waits") as db:
            rows = db.execute(LANE_ENDS, {"most": limit}).fetchall()
        return [_sighting(row) for row in rows]

    def steered(self, since_ms: int) -> Steered:
        """Return what people have changed; see the protocol."""
        with self.reading("read the audit") as db:
            rows = db.execute(AUDIT_SINCE, {"since_ms": since_ms, "most": MOST_AUDIT}).fetchall()
        return Steered(
            changes=frozenset((what, target) for what, target, _ in rows),
            configured_ms=max((at_ms for what, _, at_ms in rows if what == "configure"), default=None),
            more=len(rows) == MOST_AUDIT,
        )


def _sighting(row: tuple[Any, ...]) -> Sighting:  # Any: the database's own types
    (
        seq,
        job_id,
        queue,
        task,
        tenant,
        tier,
        arrival_ms,
        available_ms,
        again,
        express,
        started,
        finished,
        worker,
        rule,
    ) = row
    return Sighting(
        seq=seq,
        id=job_id,
        queue=queue,
        task=task,
        tenant=tenant,
        tier=tier,
        arrival_ms=arrival_ms,
        available_ms=available_ms,
        again=bool(again),
        express=bool(express),
        started_ms=started,
        finished_ms=finished,
        worker=worker,
        rule=None if rule is None else RULES[int(rule)],
    )
