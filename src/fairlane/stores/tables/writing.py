"""Jobs come in: enqueue, with what dedup keys and other jobs make of it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

from fairlane.domain.intake import Held, Holders, Parent, Taken, Tie, take_in
from fairlane.domain.jobs import ON_FAILURE, Enqueued, NewJob
from fairlane.domain.policy import DEFAULT_TENANT, QueueRule, TenantRule
from fairlane.domain.states import State
from fairlane.errors import ExpressFull, QueueFull, StoreError
from fairlane.store import RuleKind
from fairlane.stores._mirror import add_event, encode
from fairlane.stores._queries import named
from fairlane.stores.tables.following import AVAILABLE, CANCELLED, SCHEDULED, Following
from fairlane.stores.tables.ground import LANE_BUFFER

JOB_INSERT: Final = named("job_insert")
RULES_GUARDED: Final = named("rules_guarded")
JOB_BY_DEDUP: Final = named("job_by_dedup")
JOB_KEPT: Final = named("job_kept")
REPLACE_ROW: Final = named("replace_row")
REPLACE: Final = named("replace")
PARENT: Final = named("parent")
FOLLOW: Final = named("follow")
EDGE_INSERT: Final = named("edge_insert")
EDGES_LEAVE: Final = named("edges_leave")
EDGES_ANYWAY: Final = named("edges_anyway")
EXPRESS_COUNT: Final = named("express_count")
EXPRESS_COUNT_TENANT: Final = named("express_count_tenant")
WAITING_QUEUE: Final = named("waiting_queue")
WAITING_TENANT: Final = named("waiting_tenant")
COUNTER_NEXT: Final = named("counter_next")
CLOCK_MOVE: Final = named("clock_move")
NO_TIE: Final = Tie()

_Values = tuple[Any, ...]  # Any: the database's own types
Bare = tuple[int, bytes, int, int, int, int, int, str]
"""The row of a bare job: seq, id, lane, arrival_ms, enqueued_at_ms, scheduled_at_ms, available_at_ms, args."""


def dedup_value(queue: str, key: str | None) -> str | None:
    """Return what the constraint on dedup keys compares: queue and key, unmistakably joined."""
    return None if key is None else f"{len(queue)}:{queue}:{key}"


class _Stood(NamedTuple):
    """Where a job stood that another takes the place of."""

    lane: int
    state: int
    arrival_ms: int
    number: int | None
    behind: int
    available_at_ms: int | None


def tags_of(job: NewJob) -> str | None:
    """Return a job's tags as they are stored."""
    return encode(list(job.tags)).decode() if job.tags else None


def _row(job: NewJob, place: tuple[int, int, int, int, int | None], tie: Tie, now_ms: int) -> _Values:
    """Return the row of a new job; ``place`` is its number, lane, arrival, due instant and express number."""
    seq, lane, arrival_ms, due_ms, number = place
    state, timer_ms, finished_ms = AVAILABLE, job.expires_at_ms, None
    if tie is not NO_TIE and tie.doomed is not None:
        state, timer_ms, finished_ms = CANCELLED, None, now_ms
    elif tie is not NO_TIE and tie.parents:
        state = SCHEDULED  # until those have ended; nothing but its expiry is a matter of time
    elif due_ms > now_ms:
        state, timer_ms = SCHEDULED, due_ms
    return (
        seq,
        job.id,
        lane,
        state,
        arrival_ms,
        number,
        timer_ms,
        now_ms,
        due_ms,
        now_ms if state == AVAILABLE else None,
        finished_ms,
        job.expires_at_ms,
        None if job.dedup_key is None else dedup_value(job.queue, job.dedup_key),
        job.dedup_ttl_ms,
        int(tie.successor),
        len(tie.parents),
        0 if job.on_failure == "cancel" else ON_FAILURE.index(job.on_failure),
        job.bundle,
        tie.doomed,
        tags_of(job) if job.tags else None,
        job.trace,
        job.args,
        0 if job.scheduled_at_ms is None else 1,
    )


def _full(row: Bare) -> _Values:
    """Return the whole row of a bare job."""
    *place, arrival_ms, enqueued_ms, scheduled_ms, available_ms, args = row
    head = (*place, AVAILABLE, arrival_ms, None, None, enqueued_ms, scheduled_ms, available_ms)
    return (*head, None, None, None, None, 0, 0, 0, None, None, None, None, args, 0)


class Writing(Following):
    """Enqueue."""

    def enqueue(self, jobs: Sequence[NewJob], now_ms: int) -> list[Enqueued]:
        """Store jobs; see the protocol."""
        taken = take_in(jobs, partial(self._holders, now_ms), self._parent)
        if not taken.new and not taken.replaced:
            return taken.answers
        replaced = [(held, job, self._stood(held)) for held, job in taken.replaced.values()]
        self._check_room(taken, replaced)
        clock_ms = self._arrival_clock(now_ms)
        for held, job, stood in replaced:
            self._replace(held, job, stood, now_ms, clock_ms)
        if taken.new:
            self._insert(taken.new, taken.ties, now_ms, clock_ms)
        return taken.answers

    def _insert(self, new: Sequence[NewJob], ties: dict[bytes, Tie], now_ms: int, clock_ms: int) -> None:
        """Write new jobs."""
        numbers = self.numbers(len(new))
        rows: list[_Values] = []
        bare: list[Bare] = []
        joined: dict[int, list[tuple[int, int]]] = {}
        for job, seq in zip(new, numbers, strict=True):
            tie = ties.get(job.id, NO_TIE) if ties else NO_TIE
            lane = self.lane_id(job.lane)
            if tie is NO_TIE and job.bare:
                bare.append((seq, job.id, lane, clock_ms, now_ms, now_ms, now_ms, job.args))
                joined.setdefault(lane, []).append((clock_ms, seq))
                continue
            due_ms = job.arrival_ms(now_ms)
            arrival_ms = max(due_ms, clock_ms)
            number = None
            if job.express and tie.doomed is None:
                number = self._x(COUNTER_NEXT, {"name": "express"}).fetchone()[0]
            rows.append(_row(job, (seq, lane, arrival_ms, due_ms, number), tie, now_ms))
            if tie.doomed is not None:
                self._fresh.add("end")
            elif tie.parents or due_ms > now_ms:
                self._count(lane, scheduled=1)
            elif number is not None:
                self._emit(("x", lane, arrival_ms, seq, number), "work")
            else:
                joined.setdefault(lane, []).append((arrival_ms, seq))
        self._write_new(bare, rows)
        if ties:
            self._tie({job.id: seq for job, seq in zip(new, numbers, strict=True)}, ties)
        for lane, added in joined.items():
            self._count(lane, available=len(added))
            self._emit(add_event(lane, added, LANE_BUFFER), "work")

    def _write_new(self, bare: Sequence[Bare], rows: Sequence[_Values]) -> None:
        if bare:
            self._put_bare(bare)
        if rows:
            self._put_jobs(rows)

    def _put_bare(self, rows: Sequence[Bare]) -> None:
        """Write the rows of new jobs that are available and bare."""
        self._put_jobs([_full(row) for row in rows])

    def _put_jobs(self, rows: Sequence[_Values]) -> None:
        """Write the rows of new jobs."""
        self._db.executemany(JOB_INSERT, rows)

    def _tie(self, numbers: Mapping[bytes, int], ties: dict[bytes, Tie]) -> None:
        """Write for which others new jobs wait; ``numbers`` are those of the new jobs, by id."""
        edges: list[tuple[int, int, int]] = []
        for child, tie in ties.items():
            for parent, marks in tie.parents:
                edges.append((parent if isinstance(parent, int) else numbers[parent], numbers[child], marks))
        self._db.executemany(EDGE_INSERT, edges)
        self._db.executemany(FOLLOW, [(parent,) for parent in {edge[0]: None for edge in edges}])

    # ------------------------------------------------------------------ what is asked about others

    def _take_keys(self, keys: Collection[str]) -> None:
        """See that no other open transaction is about to take one of these dedup keys; with one writer, none is.

        Raises:
            KeyHeld: One is.
        """

    def _holders(self, now_ms: int, queue: str, key: str) -> Holders:
        """Return who has to do with a dedup key."""
        dedup = dedup_value(queue, key)
        rows = self._x(JOB_BY_DEDUP, {"dedup": dedup}).fetchall()
        if rows:
            return Holders(
                [
                    Held(job_id, seq, state == State.RUNNING or phase > 0, bool(successor))
                    for job_id, seq, state, phase, successor in rows
                ]
            )
        row = self._x(JOB_KEPT, {"dedup": dedup, "now_ms": now_ms}).fetchone()
        return Holders(kept=None if row is None else row[0])

    def _parent(self, job_id: bytes) -> Parent | None:
        row = self._x(PARENT, {"id": job_id}).fetchone()
        return None if row is None else Parent(row[0], State(row[1]))

    # ------------------------------------------------------------------ one job in the place of another

    def _stood(self, held: Held) -> _Stood:
        row = self._x(REPLACE_ROW, {"seq": held.seq}).fetchone()
        if row is None:
            raise StoreError(f"job number {held.seq} was to be replaced but does not wait")
        return _Stood(*row)

    def _replace(self, held: Held, job: NewJob, stood: _Stood, now_ms: int, clock_ms: int) -> None:
        """Put a job in the place of a waiting one.

        It keeps that one's id, number and express place. Its arrival is the earlier of that one's and its own: who is
        replaced again and again loses no time by it, and who is to run sooner has not arrived later than that.
        """
        behind = self._wait_for_key_alone(held, stood)
        due_ms = job.arrival_ms(now_ms)
        number = stood.number
        if number is None and job.express:
            number = self._x(COUNTER_NEXT, {"name": "express"}).fetchone()[0]
        state, timer_ms = AVAILABLE, job.expires_at_ms
        if behind:
            state = SCHEDULED
        elif due_ms > now_ms:
            state, timer_ms = SCHEDULED, due_ms
        available_ms = stood.available_at_ms if stood.state == AVAILABLE else now_ms
        lane, arrival_ms = self.lane_id(job.lane), min(stood.arrival_ms, max(due_ms, clock_ms))
        self._x(
            REPLACE,
            {
                "seq": held.seq,
                "lane": lane,
                "state": state,
                "arrival_ms": arrival_ms,
                "express": number,
                "timer_ms": timer_ms,
                "scheduled_at_ms": due_ms,
                "available_at_ms": available_ms if state == AVAILABLE else None,
                "expires_at_ms": job.expires_at_ms,
                "dedup_ttl_ms": job.dedup_ttl_ms,
                "behind": behind,
                "on_failure": ON_FAILURE.index(job.on_failure),
                "tags": tags_of(job),
                "trace": job.trace,
                "args": job.args,
                "by_wall": int(job.scheduled_at_ms is not None),
            },
        )
        self._moved(held.seq, stood, _Stood(lane, state, arrival_ms, number, behind, available_ms))

    def _wait_for_key_alone(self, held: Held, stood: _Stood) -> int:
        """Let a job wait for no other but the one whose key it is to take; return how many that are."""
        if not stood.behind:
            return 0
        self._x(EDGES_LEAVE, {"child": held.seq, "marks": 2})
        return self._x(EDGES_ANYWAY, {"child": held.seq}).rowcount

    def _moved(self, seq: int, old: _Stood, new: _Stood) -> None:
        """Note that a waiting job stands elsewhere: it joins there before it leaves, as for a change of tier."""
        stays = (old.lane, old.state, old.arrival_ms, old.number) == (new.lane, new.state, new.arrival_ms, new.number)
        if stays and old.state == AVAILABLE:
            return
        if new.state == AVAILABLE:
            self._joined(new.lane, new.arrival_ms, seq, new.number)
        else:
            self._count(new.lane, scheduled=1)
            self._fresh.add("work")  # its timer may be the first now
        self._left(old.lane, old.arrival_ms, seq, old.number, state=old.state)

    # ------------------------------------------------------------------ room

    def _check_room(self, taken: Taken, replaced: Sequence[tuple[Held, NewJob, _Stood]]) -> None:
        """Refuse what does not fit, before anything is written."""
        doomed = {job_id for job_id, tie in taken.ties.items() if tie.doomed is not None}
        coming = [job for job in taken.new if job.id not in doomed] if doomed else taken.new
        moving = [(job, self.lane_key(stood.lane), stood.number) for _, job, stood in replaced]
        express = [(job.tenant, 0) for job in coming if job.express]
        express += [(job.tenant, 0) for job, _, number in moving if job.express and number is None]
        if express:
            self._check_express(express)
        for kind, name in self._bounds():
            of_queue = kind == "queue"
            adding = sum((job.queue if of_queue else job.tenant) == name for job in coming)
            if not of_queue:
                adding += sum(job.tenant == name != old.tenant for job, old, _ in moving)
            rule = self.rule(kind, name)
            if adding and isinstance(rule, QueueRule | TenantRule) and rule.max_waiting is not None:
                sql = WAITING_QUEUE if of_queue else WAITING_TENANT
                self._check_waiting(f"{kind} {name!r}", sql, name, adding, rule.max_waiting)

    def _bounds(self) -> list[tuple[RuleKind, str]]:
        """Return the rules that bound how many jobs wait; read once a transaction."""
        if self._guarded is None:
            self._guarded = self._x(RULES_GUARDED).fetchall()
        return self._guarded

    def _check_waiting(self, what: str, sql: str, name: str, adding: int, most: int) -> None:
        self._write_counts()
        current = self._x(sql, {"name": name}).fetchone()[0]
        if current + adding > most:
            raise QueueFull(what, current, most)

    def _check_express(self, adding: Iterable[tuple[str, int]]) -> None:
        """Refuse when the express lane has no room for these (tenant, phase) pairs."""
        _, capacities = self.settings()
        used: dict[int, int] = {}
        by_tenant: dict[tuple[str, int], int] = {}
        for tenant, phase in adding:
            used[phase] = used.get(phase, 0) + 1
            current = self._x(EXPRESS_COUNT, {"phase": phase}).fetchone()[0]
            if current + used[phase] > capacities.express_capacity:
                raise ExpressFull("the express lane", current, capacities.express_capacity)
            if tenant == DEFAULT_TENANT:
                continue
            key = (tenant, phase)
            by_tenant[key] = by_tenant.get(key, 0) + 1
            current = self._x(EXPRESS_COUNT_TENANT, {"phase": phase, "tenant": tenant}).fetchone()[0]
            if current + by_tenant[key] > capacities.express_per_tenant:
                raise ExpressFull(f"the express lane for tenant {tenant!r}", current, capacities.express_per_tenant)

    def _arrival_clock(self, now_ms: int) -> int:
        """Return the instant that arrivals count from: it never goes back, whatever a producer's clock says."""
        if now_ms > self._clock_ms:
            self._clock_ms = self._x(CLOCK_MOVE, {"now_ms": now_ms}).fetchone()[0]
        return max(self._clock_ms, now_ms)
