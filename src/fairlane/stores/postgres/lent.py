"""Jobs in callers' own transactions: what is said on their connection, and what is asked on ours before that.

Everything that no transaction is needed for comes first, on a connection of the store's own: whether a bound on waiting
jobs is set, the instant that arrivals count from, numbers, lanes (made at once and for all, else two callers would wait
for each other's new lanes as long as their transactions last), who holds a dedup key. Then one statement with one
parameter stores the jobs and leaves in the inbox what has come in. It takes no lock that anybody else waits for, so a
caller's transaction may last as long as it likes, at any level of isolation; only who wants the same dedup key waits.

A single job without a key, in a lane that is known, needs the statement alone.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from uuid import UUID

import msgspec
import psycopg

from fairlane.clock import Clock
from fairlane.domain.intake import Parent, take_in
from fairlane.domain.jobs import ON_FAILURE, Enqueued, NewJob
from fairlane.domain.lanes import LaneKey
from fairlane.errors import DedupConflict, InvalidJob, InvalidValue, StoreBusy, StoreError
from fairlane.store.lending import Ask, Database, Declares, Loan, Say, Script, StoredWith
from fairlane.stores._mirror import encode
from fairlane.stores._queries import query
from fairlane.stores.postgres.connection import Address, ended, in_schema, read_only, translated
from fairlane.stores.postgres.keys import Keyed, lock_of
from fairlane.stores.postgres.lighter import CLOCK_LAG_MS
from fairlane.stores.postgres.loans import Loans, PostgresLoan
from fairlane.stores.tables.ground import LANE_BUFFER, LANE_BY_KEY
from fairlane.stores.tables.writing import RULES_GUARDED, dedup_value, tags_of

if TYPE_CHECKING:
    from fairlane.stores.postgres.store import PostgresStore

LENT_LOOK: Final = query("postgres", "lent_look")
LENT_KEYS: Final = query("postgres", "lent_keys")
LENT_HOLDERS: Final = query("postgres", "lent_holders")
LENT_ENQUEUE: Final = query("postgres", "lent_enqueue")
LENT_ENQUEUE_ONE: Final = query("postgres", "lent_enqueue_one")

LENT: Final = (LENT_KEYS, LENT_HOLDERS, LENT_ENQUEUE, LENT_ENQUEUE_ONE)

MOST_KEYS: Final = 1_000
"""Jobs with a dedup key in one call: each takes a lock until the caller's commit, and the server has room for few."""
STATEMENT_BYTES: Final = 8 * 2**20
"""Arguments in one statement, about: a parameter must fit in memory several times."""
RINGS: Final = 20
"""Bells that a process hangs on callers' commits at once, and how many it may hang more in each second. Commits that
ring wait for each other, so under load only some do: workers look by themselves once a second."""
BELL: Final = "a caller's commit:we"
"""What they tell: work, and it may be an end too."""


_numbers = msgspec.json.Decoder(list[int]).decode


class Look(NamedTuple):
    """What is known before jobs are stored in a caller's transaction.

    Attributes:
        database: What tells our database from others.
        bounded: Whether a bound on waiting jobs is set.
        clock_ms: The instant that arrivals count from.
        numbers: Numbers for the jobs, in no order.
    """

    database: str
    bounded: bool
    clock_ms: int
    numbers: Sequence[int]


class Lent(Keyed):
    """The calls that use connections of callers, or lend ours to handlers."""

    database: Database = "postgresql"

    def __init__(self, url: str, address: Address, clock: Clock) -> None:
        super().__init__(url, address, clock)
        self._loans = Loans(address)
        self._lent_look = in_schema(LENT_LOOK, address.schema)
        self._lent_sql = {sql: in_schema(sql, address.schema).decode() for sql in LENT}
        self._lending = threading.RLock()  # held by who uses the connection beside, or counts bells
        self._beside: PostgresStore | None = None
        self._here: str | None = None  # what tells our database from others, as it was last seen
        self._bells_left: float = RINGS
        self._bells_at = clock.monotonic()

    def sibling(self) -> PostgresStore:
        """Return another connection to the same database for another thread."""
        raise NotImplementedError

    # ------------------------------------------------------------------ settle

    def lend(self) -> Loan:
        """Return a connection for a handler's transaction; see the protocol."""
        return PostgresLoan(self._loans)

    # ------------------------------------------------------------------ enqueue

    def enqueue_with(
        self, jobs: Sequence[NewJob], now_ms: int, *, declare: Callable[[Declares], None] | None, ring: bool
    ) -> Script[StoredWith]:
        """Store jobs in a caller's transaction; see the protocol."""
        keys = _checked(jobs)
        if len(jobs) == 1 and not keys and declare is None and (yield from self._at_once(jobs[0], now_ms, ring=ring)):
            return StoredWith([Enqueued(jobs[0].id, created=True)], declared=True)
        if keys:
            locks = sorted(lock_of(self.address.schema, dedup) for dedup in keys)
            yield self._say(LENT_KEYS, encode(locks).decode())
        with self._lending, self._doubted(), translated("prepare jobs for a caller's transaction"):
            beside = self._store_beside()
            if declare is not None:
                with beside.transaction():
                    declare(beside)
            taken = take_in(jobs, partial(beside._holders, now_ms), _no_parent)
            look, rows = beside._rows_of(taken.new, now_ms)
            self._here = look.database
        if not rows:
            return StoredWith(taken.answers, declared=True)
        missed = yield from self._stored(rows, look, now_ms, ring=ring, strict=taken.new)
        return StoredWith(_put_right(taken.answers, missed), declared=True)

    def _at_once(self, job: NewJob, now_ms: int, *, ring: bool) -> Generator[Ask, Any, bool]:
        """Store a job without a look beside, where all is known; return whether it was stored."""
        lane = None if self._beside is None else self._beside._lane_ids.get(job.lane)
        if lane is None or self._here is None:
            return False
        ((here, free, clock_ms, stored, *_),) = yield self._one(
            _row(job, 0, lane, now_ms, now_ms), self._about(self._here, now_ms, ring=ring), looked=False
        )
        if not here or not free:  # another database, or the server has started anew; a bound to look into
            return False
        if not stored:
            raise _there_is_one(job.id)
        if now_ms - clock_ms >= CLOCK_LAG_MS:
            with self._lending, contextlib.suppress(psycopg.Error, StoreError):  # the job is stored: the next moves it
                self._store_beside()._move_clock(now_ms)
        return True

    def _stored(
        self, rows: list[_Row], look: Look, now_ms: int, *, ring: bool, strict: Sequence[NewJob]
    ) -> Generator[Ask, Any, dict[bytes, bytes]]:
        """Store rows, and return of jobs whose keys were held all the same the ids, and those of the holders."""
        parts = list(_parts(rows))
        raises = {job.id for job in strict if job.dedup_key is not None and job.on_conflict == "raise"}
        guarded = len(parts) > 1 or (bool(raises) and len(rows) > 1)  # else what is refused has stored nothing
        if guarded:
            yield Say("SAVEPOINT fairlane")
        try:
            missed = yield from self._put(parts, look, now_ms, ring=ring)
            for job in strict:
                if job.id in missed and job.id in raises:
                    assert job.dedup_key is not None
                    raise DedupConflict(job.dedup_key, job.queue, UUID(bytes=missed[job.id]))
        except (DedupConflict, StoreError, InvalidValue):
            if guarded:
                yield Say("ROLLBACK TO SAVEPOINT fairlane")
                yield Say("RELEASE SAVEPOINT fairlane")
            raise
        if guarded:
            yield Say("RELEASE SAVEPOINT fairlane")
        return missed

    def _put(
        self, parts: Sequence[Sequence[_Row]], look: Look, now_ms: int, *, ring: bool
    ) -> Generator[Ask, Any, dict[bytes, bytes]]:
        missed: list[_Row] = []
        about = self._about(look.database, now_ms, ring=ring)
        stored: set[int] = set()
        for part in parts:
            if len(parts) > 1 or len(part) > 1:
                body = encode({**about, "most": LANE_BUFFER, "jobs": part}).decode()
                ((here, numbers, *_),) = yield self._say(LENT_ENQUEUE, body)
                stored = set(_numbers(numbers))
            else:
                ((here, _, _, was, *_),) = yield self._one(part[0], about, looked=True)
                stored = {part[0].seq} if was else stored
            if not here:
                self._leave_beside()  # its address may lead to the caller's server by now
                raise InvalidValue(
                    f"conn is a connection to another database than the store's: {self._raw.info.dbname!r} on "
                    f"{self._raw.info.host or 'this machine'}"
                )
            missed += [row for row in part if row.seq not in stored]
        return (yield from self._held(missed)) if missed else {}

    def _about(self, database: str, now_ms: int, *, ring: bool) -> dict[str, Any]:  # Any: numbers, texts, None
        """Return what statements are told beside the jobs."""
        channel = self._bells.channel if ring and self._may_ring() else None
        return {"database": database, "now_ms": now_ms, "channel": channel, "bell": BELL}

    def _one(self, row: _Row, about: Mapping[str, Any], *, looked: bool) -> Say:  # Any: likewise
        """Return the statement that stores one job, which draws its number itself."""
        return self._say(LENT_ENQUEUE_ONE, encode({**about, "looked": looked, **msgspec.structs.asdict(row)}).decode())

    def _held(self, missed: Sequence[_Row]) -> Generator[Ask, Any, dict[bytes, bytes]]:
        """Return who holds the keys of rows that were left out: jobs of the same transaction, as a rule."""
        keys = [row.dedup for row in missed if row.dedup is not None]
        found: dict[str, bytes] = {}
        if keys:
            told = yield self._say(LENT_HOLDERS, encode(keys).decode())
            found = {dedup: bytes.fromhex(holder) for dedup, holder in told}
        holders: dict[bytes, bytes] = {}
        for row in missed:
            job_id = bytes.fromhex(row.id[2:])
            if row.dedup is None:
                raise _there_is_one(job_id)
            if row.dedup not in found:  # it came after the snapshot that a stricter isolation keeps to
                raise StoreBusy("the dedup key was taken after this transaction began: try the transaction again")
            holders[job_id] = found[row.dedup]
        return holders

    # ------------------------------------------------------------------ beside

    def _store_beside(self) -> PostgresStore:
        """Return our own connection for what needs no caller's transaction."""
        if self._closed:
            raise StoreError("the store is closed")
        if self._beside is None:
            self._beside = self.sibling()
        elif ended(self._beside._raw):  # another server may answer now, which lacks the last lanes
            self._beside._forget_lanes()
        self._beside._open()
        return self._beside

    @contextlib.contextmanager
    def _doubted(self) -> Generator[None]:
        """Begin on another connection the next time when the server of this one takes no changes."""
        try:
            yield
        except StoreError as error:
            if read_only(error):
                self._leave_beside()
            raise

    def _leave_beside(self) -> None:
        """Have the next call connect anew."""
        with self._lending:
            if self._beside is not None:
                self._beside._raw.close()

    def _rows_of(self, jobs: Sequence[NewJob], now_ms: int) -> tuple[Look, list[_Row]]:
        """Return the rows of new jobs, on a connection of our own.

        Raises:
            InvalidJob: A bound on waiting jobs is set for a queue or a tenant of theirs.
        """
        several = len(jobs) > 1  # the statement for one draws its number itself
        row = self._raw.execute(self._lent_look, (len(jobs) if several else 0,)).fetchone()
        assert row is not None, "the first migration made it"
        look = Look(*row)
        if look.database != self._here:  # a pooler may lead to another server without an end of the connection
            self._here = look.database
            self._forget_lanes()
        clock_ms = look.clock_ms
        if look.bounded:
            self._refuse_bounded(jobs)
        if now_ms - clock_ms >= CLOCK_LAG_MS:
            clock_ms = self._move_clock(now_ms)
        clock_ms = max(clock_ms, now_ms)
        return look, [
            _row(job, seq, self._lane_beside(job.lane), now_ms, clock_ms)
            for job, seq in zip(jobs, sorted(look.numbers) if several else [0] * len(jobs), strict=True)
        ]

    def _move_clock(self, now_ms: int) -> int:
        """Move the instant that arrivals count from, and return it; who moves it just now is not waited for."""
        row = self._x("clock_ahead", {"now_ms": now_ms}).fetchone()
        return now_ms if row is None else int(row[0])

    def _refuse_bounded(self, jobs: Sequence[NewJob]) -> None:
        bounds = set(self._x(RULES_GUARDED).fetchall())
        for job in jobs:
            for kind, name in (("queue", job.queue), ("tenant", job.tenant)):
                if (kind, name) in bounds:
                    raise InvalidJob(
                        f"{kind} {name!r} bounds how many jobs may wait (max_waiting), which an open transaction "
                        "cannot keep: enqueue this job without conn"
                    )

    def _lane_beside(self, key: LaneKey) -> int:
        """Return the number of a lane, made when it is new."""
        if key not in self._lane_ids and self._x(LANE_BY_KEY, key).fetchone() is None:
            self._x("lane_make", key)
        return self.lane_id(key)

    def _say(self, sql: str, text: str) -> Say:
        return Say(self._lent_sql[sql], text)

    def _may_ring(self) -> bool:
        """Return whether a caller's commit is to ring, and count it."""
        if self.address.pooled:  # nobody listens through a pooler
            return False
        now = self._clock.monotonic()
        with self._lending:
            self._bells_left = min(RINGS, self._bells_left + (now - self._bells_at) * RINGS)
            self._bells_at = now
            if self._bells_left < 1:
                return False
            self._bells_left -= 1
        return True

    def close(self) -> None:
        """Close everything; safe to call twice."""
        self._loans.close()
        with self._lending:
            if self._beside is not None:
                self._beside.close()
        super().close()


class _Row(msgspec.Struct, frozen=True, omit_defaults=True):
    """A new job as ``lent_enqueue`` takes it."""

    seq: int
    id: str
    lane: int
    state: int
    arrival_ms: int
    due_ms: int
    on_failure: int
    by_wall: int
    args: str
    timer_ms: int | None = None
    expires_at_ms: int | None = None
    dedup: str | None = None
    dedup_ttl_ms: int | None = None
    bundle: str | None = None
    tags: str | None = None
    trace: str | None = None


def _row(job: NewJob, seq: int, lane: int, now_ms: int, clock_ms: int) -> _Row:
    due_ms = job.arrival_ms(now_ms)
    later = due_ms > now_ms
    return _Row(
        seq=seq,
        id=f"\\x{job.id.hex()}",
        lane=lane,
        state=int(not later),
        arrival_ms=max(due_ms, clock_ms),
        due_ms=due_ms,
        on_failure=ON_FAILURE.index(job.on_failure),
        by_wall=int(job.scheduled_at_ms is not None),
        args=job.args,
        timer_ms=due_ms if later else job.expires_at_ms,
        expires_at_ms=job.expires_at_ms,
        dedup=dedup_value(job.queue, job.dedup_key),
        dedup_ttl_ms=job.dedup_ttl_ms,
        bundle=None if job.bundle is None else f"\\x{job.bundle.hex()}",
        tags=tags_of(job),
        trace=job.trace,
    )


def _checked(jobs: Sequence[NewJob]) -> set[str]:
    """Return the dedup keys of jobs, as the constraint compares them.

    Raises:
        InvalidJob: A job needs what only a transaction of the store's own can do.
    """
    for job in jobs:
        what = _needs_gate(job)
        if what is not None:
            raise InvalidJob(
                f"task {job.task!r}: {what} takes a look at other jobs that must not change until the commit, which "
                "would hold up everybody: leave it out, or enqueue this job without conn"
            )
    keys = {dedup for job in jobs if (dedup := dedup_value(job.queue, job.dedup_key)) is not None}
    if len(keys) > MOST_KEYS:
        raise InvalidJob(f"{len(keys):,} jobs with dedup keys in one call with conn; the maximum is {MOST_KEYS:,}")
    return keys


def _needs_gate(job: NewJob) -> str | None:
    """Return what a job asks for that cannot be had in a caller's transaction, or None."""
    if job.express:
        return "expedite"
    if job.after:
        return "after"
    if job.dedup_key is not None and job.on_conflict in {"replace", "successor"}:
        return f'on_conflict="{job.on_conflict}"'
    return None


def _there_is_one(job_id: bytes) -> StoreError:
    return StoreError(f"there is a job with the id {UUID(bytes=job_id)} already")


def _no_parent(job_id: bytes) -> Parent | None:
    raise AssertionError(f"{job_id!r} was refused")


def _parts(rows: Iterable[_Row]) -> Iterable[list[_Row]]:
    """Return rows in portions that one statement can take."""
    part: list[_Row] = []
    size = 0
    for row in rows:
        if part and size + len(row.args) > STATEMENT_BYTES:
            yield part
            part, size = [], 0
        part.append(row)
        size += len(row.args)
    yield part


def _put_right(answers: list[Enqueued], missed: dict[bytes, bytes]) -> list[Enqueued]:
    """Return answers in which who holds a key stands for the jobs that did not get it."""
    if not missed:
        return answers
    return [Enqueued(missed[answer.id], created=False) if answer.id in missed else answer for answer in answers]
