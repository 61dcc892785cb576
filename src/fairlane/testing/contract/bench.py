"""The bench: a store, a clock of ours, and one short call for each thing that a test does to a store."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import count
from typing import Any, Final, Protocol, TypeVar

import pytest

from fairlane.domain.jobs import (
    Beat,
    Claim,
    Enqueued,
    ErrorRecord,
    JobFilter,
    JobRecord,
    Kind,
    NewJob,
    Settlement,
    WorkerRecord,
)
from fairlane.domain.lanes import Ask
from fairlane.domain.operations import Action, OperationPlan, OperationRecord, OperationState
from fairlane.domain.phases import Verification
from fairlane.domain.policy import Capacities, Pause, Policy
from fairlane.domain.states import State
from fairlane.errors import FairlaneError, StoreError
from fairlane.store import AnyRule, Boosted, NeedsGate, News, Presence, RuleKind, Store
from fairlane.testing.clock import ManualClock

T = TypeVar("T")
Rows = Mapping[str, Sequence[tuple[object, ...]]]
"""Every row of a database, by table."""

LEASE_MS: Final = 30_000
RUN_MS: Final = 1_000
"""Run time of a job unless a test says otherwise."""

_numbers = count(1)


class Database(Protocol):
    """One fresh database of the store under test: what binds the suite to a store."""

    def open_store(
        self, clock: ManualClock, *, policy: Policy | None = None, capacities: Capacities | None = None
    ) -> Store:
        """Open the database, again or for the first time."""
        ...

    def rows(self, store: Store) -> Rows:
        """Return every row of every table, in an order that does not depend on when it is asked."""
        ...


def job_id(now_ms: int) -> bytes:
    """Return a UUIDv7 of that time that no other call has returned; ids end in their number, for readable failures."""
    return (now_ms << 80 | 7 << 76 | 0b10 << 62 | next(_numbers)).to_bytes(16, "big")


def ask_for(n: int, *, pool: str = "default") -> Ask:
    """Return an ask for ``n`` jobs of any queue and task of a pool."""
    return Ask(pool, n)


class Bench:
    """A store in a test. Every call that changes something is a transaction of its own.

    Args:
        database: Where it lives.
        clock: The time of every call.
        policy: As for opening a store.
        capacities: As for opening a store.
    """

    def __init__(
        self,
        database: Database,
        clock: ManualClock,
        *,
        policy: Policy | None = None,
        capacities: Capacities | None = None,
    ) -> None:
        self.database = database
        self.clock = clock
        self.heard: set[News] = set()
        self._presences: dict[str, Presence] = {}
        self.store = database.open_store(clock, policy=policy, capacities=capacities)

    # ------------------------------------------------------------------ life

    @property
    def now_ms(self) -> int:
        """The instant."""
        return self.clock.now_ms()

    def close(self) -> None:
        """End the workers and let go of the database."""
        for presence in self._presences.values():
            presence.close()
        self.store.close()

    def reopen(self, *, policy: Policy | None = None, capacities: Capacities | None = None) -> None:
        """Let go of the database and open it again, as a restarted program does."""
        self.store.close()
        self.store = self.database.open_store(self.clock, policy=policy, capacities=capacities)

    def shared(self) -> bool:
        """Return whether other programs can open the database."""
        other = self.store.sibling()
        if other is None:
            return False
        other.close()
        return True

    def write(self, op: Callable[[Store, int], T], *, light: bool = False) -> T:
        """Carry out a call in a transaction; a refused one is raised after the commit, as the owner does.

        Args:
            op: The call.
            light: Whether a light transaction is enough; what is not light after all is done in an ordinary one.
        """
        if light and self.store.lights:
            try:
                return self._write(op, light=True)
            except NeedsGate:
                pass
        return self._write(op, light=False)

    def _write(self, op: Callable[[Store, int], T], *, light: bool) -> T:
        refusal: FairlaneError | None = None
        result: T | None = None
        with self.store.transaction(light=light):
            try:
                result = op(self.store, self.now_ms)
            except StoreError:
                raise
            except FairlaneError as error:
                refusal = error
        self.heard |= self.store.news()
        if refusal is not None:
            raise refusal
        return result  # type: ignore[return-value]  # set, as nothing was raised

    def rows(self) -> Rows:
        """Return every row of the database."""
        return self.database.rows(self.store)

    @contextmanager
    def unchanged(self) -> Generator[None]:
        """Check that what happens inside changes no row."""
        before = self.rows()
        yield
        after = self.rows()
        for table in before.keys() | after.keys():
            assert after.get(table) == before.get(table), f"rows of {table} have changed"

    @contextmanager
    def refused(self, error: type[FairlaneError], match: str | None = None) -> Generator[pytest.ExceptionInfo[Any]]:
        """Check that what happens inside is refused with ``error`` and changes no row."""
        with self.unchanged(), pytest.raises(error, match=match) as caught:  # Any above: the tests read its fields
            yield caught

    # ------------------------------------------------------------------ jobs come

    def new(
        self, task: str = "t", queue: str = "q", tenant: str = "a", **options: Any
    ) -> NewJob:  # Any: NewJob's fields
        """Return a job to store, with a fresh id."""
        return NewJob(
            id=options.pop("id", None) or job_id(self.now_ms), task=task, queue=queue, tenant=tenant, **options
        )

    def enqueue(self, *jobs: NewJob) -> list[Enqueued]:
        """Store jobs in one call."""
        return self.write(lambda store, now_ms: store.enqueue(jobs, now_ms), light=True)

    def put(
        self, task: str = "t", queue: str = "q", tenant: str = "a", **options: Any
    ) -> bytes:  # Any: NewJob's fields
        """Store a job and return its id."""
        return self.enqueue(self.new(task, queue, tenant, **options))[0].id

    def fill(self, counts: Mapping[str, int], **options: Any) -> None:  # Any: NewJob's fields
        """Store so many jobs of each tenant, tenant by tenant, in one call."""
        self.enqueue(*(self.new(tenant=tenant, **options) for tenant, n in counts.items() for _ in range(n)))

    # ------------------------------------------------------------------ jobs start

    def claim(
        self,
        n: int = 1,
        *,
        pool: str = "default",
        queues: Mapping[str, int] | None = None,
        tasks: Iterable[str] | None = None,
        rooms: tuple[int, int, int, int, int] | None = None,
        worker: str = "",
        lease_ms: int = LEASE_MS,
    ) -> list[Claim]:
        """Start up to ``n`` jobs."""
        ask = Ask(pool, n, queues, None if tasks is None else frozenset(tasks), rooms)
        return self.write(lambda store, now_ms: store.claim(ask, worker=worker, lease_ms=lease_ms, now_ms=now_ms))

    def take(self, **ask: Any) -> Claim:  # Any: the options of claim
        """Start one job, which there must be."""
        claims = self.claim(1, **ask)
        assert len(claims) == 1, "no job may start"
        return claims[0]

    def start(self, n: int = 1, **ask: Any) -> list[bytes]:  # Any: the options of claim
        """Start up to ``n`` jobs and return their ids."""
        return [claim.id for claim in self.claim(n, **ask)]

    def run(self, n: int = 10_000, *, run_ms: int = RUN_MS, **ask: Any) -> list[Claim]:  # Any: the options of claim
        """Start and complete up to ``n`` jobs, one after the other, at one instant."""
        claims: list[Claim] = []
        while len(claims) < n and (started := self.claim(1, **ask)):
            claims += started
            assert self.done(started[0], run_ms=run_ms)
        return claims

    def drain(self, **ask: Any) -> list[bytes]:  # Any: the options of claim
        """Start and complete everything that may run, one job after the other, and return the ids in that order."""
        return [claim.id for claim in self.run(**ask)]

    def tenants(self, n: int = 10_000, **options: Any) -> str:  # Any: the options of run
        """Start and complete up to ``n`` jobs and return the names of their tenants in that order."""
        return "".join(claim.start.lane.tenant for claim in self.run(n, **options))

    def peek(self, n: int = 1, **ask: Any) -> list[bytes]:  # Any: the fields of Ask
        """Return the ids of what a claim would start."""
        return [job.id for job in self.store.peek(Ask(ask.pop("pool", "default"), n, **ask), self.now_ms)]

    # ------------------------------------------------------------------ jobs end

    def settle(self, claim: Claim, kind: Kind, **options: Any) -> bool:  # Any: Settlement's fields
        """End a claim; False means that its lease was lost."""
        settlement = Settlement(seq=claim.seq, fence=claim.fence, kind=kind, **options)
        answers = self.write(lambda store, now_ms: store.settle([settlement], now_ms), light=True)
        assert len(answers) == 1
        return answers[0]

    def done(self, claim: Claim, *, run_ms: int = RUN_MS, **options: Any) -> bool:  # Any: Settlement's fields
        """End a claim with success."""
        return self.settle(claim, "completed", run_us=run_ms * 1000, **options)

    def fail(self, claim: Claim, *, delay_ms: int = 0, message: str = "boom", kind: Kind = "retry") -> bool:
        """End a claim with a failure that is tried again."""
        return self.settle(
            claim, kind, run_us=RUN_MS * 1000, delay_ms=delay_ms, error=self.error(claim, message), reason=None
        )

    def die(self, claim: Claim, *, reason: str = "no more", message: str = "boom") -> bool:
        """End a claim with a failure that is not tried again."""
        return self.settle(claim, "dead", run_us=RUN_MS * 1000, error=self.error(claim, message), reason=reason)

    def crash(self, claim: Claim) -> bool:
        """End a claim as its worker does when the process that ran it was killed."""
        error = ErrorRecord(attempt=claim.attempt, at_ms=self.now_ms, kind="crash", type="WorkerLost")
        return self.settle(claim, "crashed", run_us=RUN_MS * 1000, error=error)

    def snooze(self, claim: Claim, *, delay_ms: int = 0) -> bool:
        """Put a job back for later."""
        return self.settle(claim, "snoozed", run_us=RUN_MS * 1000, delay_ms=delay_ms)

    def release(self, claim: Claim, *, preempted: bool = False) -> bool:
        """Give a job back at once."""
        return self.settle(claim, "released", run_us=RUN_MS * 1000, preempted=preempted)

    def error(self, claim: Claim, message: str = "boom", kind: str = "ValueError") -> ErrorRecord:
        """Return what a failed run leaves behind."""
        return ErrorRecord(attempt=claim.attempt, at_ms=self.now_ms, kind="failure", type=kind, message=message)

    def beat(self, claim: Claim, *, lease_ms: int = LEASE_MS) -> str:
        """Renew a lease and return the answer."""
        beats: list[Beat] = self.write(
            lambda store, now_ms: store.heartbeat([(claim.seq, claim.fence)], lease_ms=lease_ms, now_ms=now_ms),
            light=True,
        )
        assert [(beat.seq, beat.fence) for beat in beats] == [(claim.seq, claim.fence)]
        return beats[0].answer

    def save(self, claim: Claim, *, progress: str | None = None, checkpoint: str | None = None) -> bool:
        """Store a running job's progress or checkpoint."""
        return self.write(
            lambda store, _: store.save(claim.seq, claim.fence, progress=progress, checkpoint=checkpoint), light=True
        )

    def rescue(self, *, limit: int = 1_000) -> int:
        """Take back what nobody renews; whoever looked before would have known."""
        self.write(lambda store, _: None)  # a clock that was set is noticed by a transaction, as workers have them
        expected = self.store.may_rescue(self.now_ms)
        assert self.store.look(self.now_ms).rescue == expected
        done = self.write(lambda store, now_ms: store.rescue(now_ms, limit=limit))
        assert expected or not done
        return done

    def notice(self) -> None:
        """Look at timers, and at what ends have yet to tell, as every claim does."""
        self.write(lambda store, now_ms: store.notice(now_ms))

    def preempt(self, *, after_ms: int = 1_000, max_preemptions: int = 3, limit: int = 100) -> int:
        """Ask running jobs to give way; whoever looked before would have known."""
        expected = self.store.may_preempt()
        assert self.store.look(self.now_ms).preempt == expected
        asked = self.write(
            lambda store, now_ms: store.preempt(now_ms, after_ms=after_ms, max_preemptions=max_preemptions, limit=limit)
        )
        assert expected or not asked
        return asked

    def lapse(self) -> None:
        """Let every lease given with the default length run out."""
        self.clock.advance(ms=LEASE_MS + 1)

    # ------------------------------------------------------------------ people act

    def expedite(self, job: bytes) -> JobRecord:
        """Put a job in the express lane."""
        return self.write(lambda store, now_ms: store.expedite(job, reason="urgent", by="ops", now_ms=now_ms))

    def boost(self, job: bytes, tier: int, *, lower: bool = False) -> Boosted:
        """Raise a job's tier, or set it."""
        return self.write(lambda store, now_ms: store.boost(job, tier, by="ops", now_ms=now_ms, lower=lower))

    def cancel(self, job: bytes, *, reason: str = "by hand") -> State:
        """Cancel a job."""
        return self.write(lambda store, now_ms: store.cancel(job, reason=reason, now_ms=now_ms))

    def retry(self, job: bytes) -> None:
        """Make a dead job available again."""
        self.write(lambda store, now_ms: store.retry(job, by="ops", now_ms=now_ms))

    def clear(self, *, limit: int = 1_000, **which: Any) -> int:  # Any: JobFilter's fields
        """Cancel waiting jobs, one portion of them."""
        return self.write(
            lambda store, now_ms: store.clear(JobFilter(**which), reason="cleared", limit=limit, now_ms=now_ms)
        ).count

    def prune(self, *, keep_ms: int = 0, keep_completed: int = 100_000, limit: int = 1_000) -> int:
        """Delete jobs that ended longer ago than ``keep_ms``, and completed ones beyond what a queue keeps."""
        keep: dict[State, int] = dict.fromkeys((State.COMPLETED, State.DEAD, State.CANCELLED), keep_ms)
        surplus = self.store.surplus(keep=keep_completed, limit=limit)
        return self.write(lambda store, now_ms: store.prune(now_ms, keep_ms=keep, surplus=surplus, limit=limit))

    # ------------------------------------------------------------------ operations

    def operate(
        self,
        action: Action,
        *,
        to: int | None = None,
        rate: float | None = None,
        limit: int | None = None,
        **which: Any,  # Any: JobFilter's fields
    ) -> bytes:
        """Start an operation and return its id."""
        plan = OperationPlan(action=action, which=JobFilter(**which), tier=to, rate=rate, limit=limit).checked()
        counted = self.store.count(plan.which, limit=1_000_000)
        operation = job_id(self.now_ms)
        self.write(
            lambda store, now_ms: store.start_operation(
                operation, plan, counted=counted, by="ops", reason="why", now_ms=now_ms
            )
        )
        return operation

    def advance(self, operation: bytes | None = None, *, limit: int = 200) -> OperationRecord | None:
        """Carry out one portion of an operation."""
        return self.write(lambda store, now_ms: store.advance(now_ms, limit=limit, operation=operation))

    def finish(self, operation: bytes, *, limit: int = 200) -> OperationRecord:
        """Carry an operation out as far as it goes at this instant."""
        while self.advance(operation, limit=limit) is not None:
            pass
        return self.operation(operation)

    def steer(self, operation: bytes, state: OperationState) -> OperationRecord:
        """Pause, resume or cancel an operation."""
        return self.write(lambda store, now_ms: store.steer_operation(operation, state, by="ops", now_ms=now_ms))

    def operation(self, operation: bytes) -> OperationRecord:
        """Return an operation, which there must be."""
        record = self.store.operation(operation)
        assert record is not None, "no such operation"
        return record

    # ------------------------------------------------------------------ rules

    def rule(self, kind: RuleKind, name: str, **fields: Any) -> None:  # Any: fields of the four rules
        """Change fields of a rule."""
        rule: AnyRule = replace(self.store.rule(kind, name), **fields)
        self.write(lambda store, now_ms: store.set_rule(kind, name, rule, by="ops", now_ms=now_ms))

    def pause(self, kind: RuleKind, name: str, *, until_ms: int | None = None) -> None:
        """Pause a queue, task, tenant or named limit."""
        self.rule(kind, name, pause=Pause("maintenance", "ops", until_ms))

    def resume(self, kind: RuleKind, name: str) -> None:
        """End a pause."""
        self.rule(kind, name, pause=None)

    def declare(
        self,
        task: str,
        *limits: str,
        max_attempts: int = 4,
        max_crashes: int = 3,
        preemptible: bool = False,
        verify: Verification | None = None,
    ) -> None:
        """Say what the code says about a task."""
        self.write(
            lambda store, now_ms: store.declare_task(
                task,
                limits=limits,
                max_attempts=max_attempts,
                max_crashes=max_crashes,
                now_ms=now_ms,
                preemptible=preemptible,
                verify=verify,
            )
        )

    def worker(
        self,
        name: str,
        *,
        slots: int = 8,
        queues: tuple[str, ...] | None = None,
        pool: str = "default",
        tasks: tuple[str, ...] | None = None,
        queue_slots: tuple[int, ...] | None = None,
    ) -> None:
        """Bring a worker up: its sign of life, then its record."""
        self._presences[name] = self.store.presence(name)
        record = WorkerRecord(
            id=name,
            pool=pool,
            queues=queues,
            slots=slots,
            tasks=tasks,
            started_at_ms=self.now_ms,
            seen_at_ms=self.now_ms,
            queue_slots=queue_slots,
        )
        self.write(lambda store, now_ms: store.register(record, now_ms))

    def kill(self, name: str) -> None:
        """End a worker's sign of life without a word, as ``kill -9`` does."""
        self._presences[name].close()

    # ------------------------------------------------------------------ reading

    def job(self, job: bytes) -> JobRecord:
        """Return a job, which there must be."""
        record = self.store.get(job)
        assert record is not None, "no such job"
        return record

    def state(self, job: bytes) -> State:
        """Return a job's state."""
        return self.job(job).state

    def waiting(self) -> int:
        """Return how many jobs wait."""
        counts = self.store.counts()
        return counts.get(State.SCHEDULED, 0) + counts.get(State.AVAILABLE, 0)

    def all_jobs(self, *, page: int = 500, **which: Any) -> list[JobRecord]:  # Any: JobFilter's fields
        """Return all jobs that match, newest first, page by page."""
        jobs: list[JobRecord] = []
        cursor: str | None = None
        while True:
            found = self.store.jobs(JobFilter(**which), limit=page, cursor=cursor)
            jobs += found.jobs
            if found.cursor is None:
                return jobs
            cursor = found.cursor
