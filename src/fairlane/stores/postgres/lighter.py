"""What light transactions may do: store plain jobs, end claims with success, renew leases, save progress.

They do not take the gate, so they wait for nobody and nobody waits for them: what they did is in the inbox.

New jobs are put off to the commit. One that has nothing else to do is then a single statement that commits itself: one
round trip, whatever stands in line together. All jobs of it are stored, or none.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Final

import psycopg

from fairlane.clock import Clock
from fairlane.domain.intake import plain
from fairlane.domain.jobs import Claim, Enqueued, NewJob, Settlement, WorkerRecord
from fairlane.domain.lanes import Ask, LaneKey
from fairlane.errors import ConfigError, StoreBusy
from fairlane.store import NeedsGate, RuleKind
from fairlane.stores.postgres.at_once import MOST_CHARACTERS, MOST_JOBS, statement
from fairlane.stores.postgres.base import Base
from fairlane.stores.postgres.connection import Address, Statements, lost, raise_translated
from fairlane.stores.postgres.fate import ask
from fairlane.stores.tables.ground import LANE_BY_KEY
from fairlane.stores.tables.running import COMPLETED, Running
from fairlane.stores.tables.writing import RULES_GUARDED

COMPLETE_ALL: Final = "complete_all"
CLOCK_LAG_MS: Final = 1_000
LANE_MS: Final = 100
"""How long a light transaction waits for a lane that another one makes."""


class Lighter(Running, Base):
    """The calls that a light transaction allows, and how they differ in it."""

    def __init__(self, url: str, address: Address, clock: Clock) -> None:
        super().__init__(url, address, clock)
        self._records: dict[str, WorkerRecord] = {}
        self._put_off: list[NewJob] = []  # in this light transaction
        self._put_off_lanes: list[int] = []
        self._put_off_ms: int = 0
        self._put_off_size = 0  # in characters

    # ------------------------------------------------------------------ new jobs

    def enqueue(self, jobs: Sequence[NewJob], now_ms: int) -> list[Enqueued]:
        """Store jobs; see the protocol."""
        if not self._light:
            return super().enqueue(jobs, now_ms)
        if not plain(jobs):
            raise NeedsGate("jobs with a dedup key, express jobs and jobs behind others need the gate")
        if not self._wait_for_commit(jobs, now_ms):
            if self._silent:
                self.say_begin()
            return super().enqueue(jobs, now_ms)
        return [Enqueued(job.id, True) for job in jobs]

    def _wait_for_commit(self, jobs: Sequence[NewJob], now_ms: int) -> bool:
        """Put jobs off to the commit, where one statement can store them with those that wait already."""
        size = self._put_off_size + sum(len(job.args) for job in jobs)
        if not self._silent or len(self._put_off) + len(jobs) > MOST_JOBS or size > MOST_CHARACTERS:
            return False
        if self._put_off and now_ms != self._put_off_ms:
            return False
        known = self._lane_ids
        self._put_off_lanes += [known.get(key := job.lane) or self._lane_alone(key) for job in jobs]
        self._put_off += jobs
        self._put_off_ms, self._put_off_size = now_ms, size
        return True

    def _lane_alone(self, key: LaneKey) -> int:
        """Return the number of a lane before the server is told of a light transaction.

        Raises:
            NeedsGate: It would be made for jobs that a bound on waiting jobs may refuse.
        """
        row = self._own.execute(LANE_BY_KEY, key).fetchone()
        if row is None:
            if self._own.execute(RULES_GUARDED).fetchone() is not None:
                raise NeedsGate("a bound on waiting jobs is kept behind the gate")
            self._make_lane(key)
            row = self._own.execute(LANE_BY_KEY, key).fetchone()
            assert row is not None, "it was made just now"
        self._lane_ids[key], self._lane_keys[row[0]] = row[0], key
        return int(row[0])

    def say_begin(self) -> Statements:
        """Tell the server that a light transaction has begun; what was put off is stored first."""
        told = super().say_begin()
        if self._put_off:
            super().enqueue(self._put_off, self._put_off_ms)
            self._forget_put_off()
        return told

    def _forget_put_off(self) -> None:
        self._put_off, self._put_off_lanes, self._put_off_size = [], [], 0

    def _light_over(self) -> None:
        """Have the state in memory again after a light transaction."""
        super()._light_over()
        self._forget_put_off()

    def commit(self) -> None:
        """Commit; what was put off goes out in one statement, and where nothing was done, nothing is said."""
        if not self._silent:
            super().commit()
            return
        try:
            if self._put_off:
                self._store_at_once()
        except BaseException as error:  # noqa: BLE001 - raised again
            self.go_back(error)
            raise_translated(error, "commit")
        self._done()

    def _store_at_once(self) -> None:
        """Store what was put off.

        Raises:
            NeedsGate: A bound on waiting jobs is set, or another server has taken over behind a pooler.
            FateUnknown: The connection ended with it, and nobody can be asked what became of it.
        """
        jobs, now_ms = self._put_off, self._put_off_ms
        if any(job.arrival_ms(now_ms) <= now_ms for job in jobs):
            self._fresh.add("work")
        try:
            row = self._say_at_once(self._line if self.address.pooled else None)
        except psycopg.Error as error:
            if not lost(error):
                raise
            self._raw.close()  # psycopg may not know it yet
            if not ask(self._said_again, "commit", error):
                raise
            return
        if row is None:
            self._bounded = True
            raise NeedsGate("a bound on waiting jobs is kept behind the gate")
        if now_ms - row[0] >= CLOCK_LAG_MS:
            with contextlib.suppress(psycopg.Error):  # the jobs are stored: the next ones move it
                self._own.execute("clock_ahead", {"now_ms": now_ms})

    def _say_at_once(self, line: str | None = None) -> tuple[int] | None:
        """Say the statement that stores what was put off; return its answer."""
        said = statement(self._put_off, self._put_off_lanes, self._put_off_ms, line)
        return self._own.execute(*said).fetchone()

    def _said_again(self) -> bool | None:
        """Say it once more on a new connection: jobs that are there already are not stored twice.

        Whoever stores the same just now is waited for. Returns whether they are stored; None when that is not known.
        """
        self._connect_again()
        for key in {job.lane for job in self._put_off}:
            if self._x(LANE_BY_KEY, key).fetchone() is None:
                self._x("lane_make", key)
        self._put_off_lanes = [self.lane_id(job.lane) for job in self._put_off]
        refused = False
        try:
            if self._say_at_once() is not None:
                return True
        except psycopg.errors.UniqueViolation:
            refused = True
        ids = [job.id for job in self._put_off]
        if self._x("jobs_there", (ids,)).fetchone() == (len(ids),):
            return True
        return False if refused else None

    # ------------------------------------------------------------------ the rest

    def register(self, worker: WorkerRecord, now_ms: int) -> None:
        """Record a worker; see the protocol."""
        super().register(worker, now_ms)
        self._records[worker.id] = worker

    def claim(self, ask: Ask, *, worker: str, lease_ms: int, now_ms: int) -> list[Claim]:
        """Start jobs; see the protocol.

        A worker that was cut off is put on record again before: others took it for dead, or may until it gives its next
        sign of life, and would take back what it claims.
        """
        if self._lives.doubtful(worker):
            self._x("life_put", {"worker": worker})
            record = self._records.get(worker)
            if record is not None:
                with contextlib.suppress(ConfigError):  # a queue of its has gone to another pool meanwhile
                    self.register(record, now_ms)
            self._back.append(worker)
        return super().claim(ask, worker=worker, lease_ms=lease_ms, now_ms=now_ms)

    def _bounds(self) -> list[tuple[RuleKind, str]]:
        """Return the rules that bound how many jobs wait, and remember whether there are any."""
        if not self._light:
            bounds = super()._bounds()
            self._bounded = bool(bounds)
            return bounds
        if self._bounded:
            raise NeedsGate("a bound on waiting jobs is kept behind the gate")
        return []

    def _arrival_clock(self, now_ms: int) -> int:
        """Return the instant that arrivals count from.

        Were every transaction to move it, each would wait for the one before. A light one moves it beside, and only
        when it lags: so arrivals go back by that much at most, where a caller's clock differs from the database's.
        Behind a pooler it moves it itself: were all connections held by some that want a second one, none would go on.
        """
        if not self._light:
            return super()._arrival_clock(now_ms)
        if now_ms - self._clock_ms >= CLOCK_LAG_MS:
            with (self.reading if self.address.pooled else self.beside)("move the clock of arrivals") as db:
                row = db.execute("clock_ahead", {"now_ms": now_ms}).fetchone()
            self._clock_ms = self._clock_ms if row is None else row[0]
        return max(self._clock_ms, now_ms)

    def lane_id(self, key: LaneKey) -> int:
        """Return the number of a lane, made when it is new.

        A light transaction makes it beside, at once and for all: two that wait for each other's new lanes would do so
        as long as their callers' own transactions last.
        """
        if self._light and key not in self._lane_ids and self._x(LANE_BY_KEY, key).fetchone() is None:
            self._make_lane(key)
        return super().lane_id(key)

    def _make_lane(self, key: LaneKey) -> None:
        """Make a lane beside; whoever makes the same just now may wait for a claim that this transaction has ended."""
        if self.address.pooled:
            raise NeedsGate("a pooler may have no second connection, and behind the gate none is needed")
        try:
            with self.beside("make a lane") as db, db.raw.transaction():
                db.raw.execute(b"SET LOCAL lock_timeout = %d" % LANE_MS)
                db.execute("lane_make", key)
        except StoreBusy as error:
            raise NeedsGate("another transaction makes the same lane just now") from error

    def _tell_followers(self, now_ms: int) -> None:
        """Tell jobs behind those that have ended; behind the gate."""
        if self._light:
            raise NeedsGate("jobs wait for the end of one that has ended")
        super()._tell_followers(now_ms)

    def _check_waiting(self, what: str, sql: str, name: str, adding: int, most: int) -> None:
        """Refuse what a bound on waiting jobs has no room for, counting what stands in the inbox."""
        self._copy()
        super()._check_waiting(what, sql, name, adding, most)

    def settle(self, settlements: Sequence[Settlement], now_ms: int) -> list[bool]:
        """End claims, those that succeeded together; see the protocol."""
        answers: list[bool] = []
        done: list[Settlement] = []
        for item in settlements:
            if item.kind == "completed":
                done.append(item)
                continue
            if self._light:
                raise NeedsGate("only completed claims end without the gate")
            answers += self._complete_all(done, now_ms)
            done.clear()
            answers.append(self._end(item, now_ms))
        return answers + self._complete_all(done, now_ms)

    def _complete_all(self, items: Sequence[Settlement], now_ms: int) -> list[bool]:
        """End claims with success; of several for one claim, the first wins."""
        if len(items) < 2:  # noqa: PLR2004 - one is cheaper alone
            return [self._complete(item, now_ms) for item in items]
        first = {item.seq: place for place, item in reversed(list(enumerate(items)))}
        chosen = [items[place] for _, place in sorted(first.items())]  # rows are locked in the order of their numbers
        values = (
            now_ms,
            [item.seq for item in chosen],
            [item.fence for item in chosen],
            [item.result for item in chosen],
        )
        ended = {seq: row for seq, *row in self._x(COMPLETE_ALL, values).fetchall()}
        answers: list[bool] = []
        for place, item in enumerate(items):
            row = ended.get(item.seq) if first[item.seq] == place else None
            answers.append(row is not None)
            if row is None:
                continue
            lane, arrival_ms, number, rule, expected_us, divided_by, followed = row
            start = (lane, arrival_ms, item.seq, number, rule, expected_us, divided_by)
            self._finished(start, item.run_us, in_mean=True, units_us=item.units_us)
            self._ended(item.seq, COMPLETED, followed, now_ms)
        return answers
