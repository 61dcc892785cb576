"""The SQLite store must choose what the oracle chooses, start by start, whatever happens to it.

Random operations go to three stores open on one file (two that claim, one that only writes) and to a scheduler in
memory that is told the same. Every claim is compared: which jobs, by which rule, at which charge. The claiming ones are
closed and opened anew now and then, so the loading of the state is compared too. They look at the store right before
and after: what a process that starts finds unseen by all others it takes in the order of first appearance, which is not
always the order of events.
"""

from __future__ import annotations

import shutil
import tempfile
import uuid
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from fairlane.domain.fairness import Scheduler
from fairlane.domain.jobs import Enqueued, NewJob, Settlement
from fairlane.domain.lanes import Ask, LaneKey, Place, Start
from fairlane.domain.phases import VERIFY
from fairlane.domain.policy import LimitRule, Pause, Policy, QueueRule, Rate, TaskRule, TenantRule
from fairlane.domain.tiers import Tier
from fairlane.errors import DedupConflict
from fairlane.stores.sqlite.store import SqliteStore, open_sqlite
from fairlane.stores.tables import ground
from fairlane.testing.clock import ManualClock

QUEUES = ("mail", "embed", "setup")
TASKS = ("send", "index")
PHASES = (*TASKS, *(task + VERIFY for task in TASKS))
TENANTS = ("a", "b", "c", "d", "e")
START_MS = 1_700_000_000_000
LEASE_MS = 600_000
MAX_CRASHES = 3

names = st.sampled_from
caps = st.sampled_from([None, 0, 1, 2, 3])


class Held(NamedTuple):
    """A claim that the test holds."""

    start: Start
    fence: int
    deadline_ms: int
    started_ms: int
    beat_ms: int


class Waiting(NamedTuple):
    """What the test knows of a job that waits; ``due_ms`` is when it may run, as far as that lies ahead."""

    lane: LaneKey
    place: Place
    express: int | None
    due_ms: int | None
    expires_ms: int | None


class Tied(NamedTuple):
    """A job with a dedup key or behind others, before it is stored."""

    lane: LaneKey
    delay_ms: int
    express: bool
    expires_ms: int | None
    key: str | None
    mode: str
    after: tuple[int, ...]
    on_failure: str


class StoreEqualsOracle(RuleBasedStateMachine):
    """Drives two stores and the oracle in step."""

    @initialize(
        step=st.sampled_from([5_000, 20_000, 60_000]),
        every=st.sampled_from([0, 2, 3, 8]),
        charge=st.sampled_from(["time", "time", "count", "cost"]),
        kind=st.sampled_from(["fair", "fair", "fair", "strict", "fifo"]),
        max_lag=st.sampled_from([0, 5_000_000, 600_000_000]),
    )
    def open(self, step: int, every: int, charge: str, kind: str, max_lag: int) -> None:
        self._store_every, ground.STORE_EVERY = ground.STORE_EVERY, 7  # so that the tables are used, not the log alone
        self.folder = Path(tempfile.mkdtemp(prefix="fairlane-property-"))
        self.clock = ManualClock(START_MS)
        self.policy = Policy(
            kind=kind,  # type: ignore[arg-type]
            charge=charge,  # type: ignore[arg-type]
            ageing_step_ms=step,
            risen_every=every,
            max_lag_us=max_lag,
            ageing_ceiling=Tier.CRITICAL if kind == "strict" else Tier.HIGH,
        )
        self.stores = [self._open(), self._open(), self._open()]
        self.oracle = Scheduler(self.policy)
        self.waiting: dict[int, Waiting] = {}
        self.running: dict[int, Held] = {}
        self.ids: dict[int, bytes] = {}
        self.crashes: dict[int, int] = {}
        self.expires: dict[int, int | None] = {}
        self.homes: dict[int, LaneKey] = {}  # the process lanes of jobs that are checked
        self.rules: dict[tuple[str, str], object] = {}
        self.edges: dict[int, dict[int, int]] = {}  # of each job behind others: whom it waits for, with marks
        self.keys: dict[int, tuple[str, str]] = {}
        self.successors: set[int] = set()
        self.fates: dict[int, bool] = {}  # of jobs that have ended: whether they were completed
        self.express = 0
        self.seq = 0
        for task in PHASES:
            self.oracle.set_task(task, TaskRule())
        self._look(0)
        self._look(1)

    def _open(self) -> SqliteStore:
        return open_sqlite(
            f"sqlite:///{self.folder}/jobs.db", clock=self.clock, policy=self.policy, durability="normal"
        )

    def _look(self, which: int) -> None:
        store = self.stores[which]
        with store.transaction():
            assert not store.claim(Ask("nobody", 1), worker="", lease_ms=1, now_ms=self.now_ms)
        self._noticed()
        self.oracle.claim(Ask("nobody", 1), self.now_ms)

    @property
    def now_ms(self) -> int:
        return self.clock.now_ms()

    # -- jobs come

    @rule(
        which=st.integers(0, 2),
        jobs=st.lists(
            st.tuples(
                names(QUEUES),
                names(TASKS),
                names(TENANTS),
                st.sampled_from([0, 1, 1, 2, 2, 2, 3, 4]),
                st.sampled_from([0, 0, 0, 0, 3_000, 40_000]),
                st.sampled_from([False] * 9 + [True]),
                st.sampled_from([None] * 7 + [10_000, 90_000]),
            ),
            min_size=1,
            max_size=5,
        ),
    )
    def enqueue(self, which: int, jobs: list[tuple[str, str, str, int, int, bool, int | None]]) -> None:
        now = self.now_ms
        new = []
        for queue, task, tenant, tier, delay, express, expires in jobs:
            lane = LaneKey(queue, task, tenant, tier)
            place = Place(now + delay, self.seq + len(new) + 1)
            number = self.express + 1 if express and self._express_room(tenant) else None
            self.express += number is not None
            expires_ms = None if expires is None else now + delay + expires
            new.append(
                NewJob(
                    id=uuid.uuid4().bytes,
                    queue=queue,
                    task=task,
                    tenant=tenant,
                    tier=tier,
                    delay_ms=delay,
                    express=number is not None,
                    expires_at_ms=expires_ms,
                )
            )
            self.waiting[place.seq] = Waiting(lane, place, number, now + delay if delay else None, expires_ms)
            self.ids[place.seq] = new[-1].id
            self.expires[place.seq] = expires_ms
        store = self.stores[which]
        with store.transaction():
            assert all(answer.created for answer in store.enqueue(new, now))
        first = self.seq + 1
        self.seq += len(new)
        # jobs of one lane join together, at the place of the first of them; express jobs at once
        order: dict[LaneKey, list[Waiting]] = {}
        for seq in range(first, self.seq + 1):
            job = self.waiting[seq]
            if job.due_ms is None and job.express is not None:
                self.oracle.add(job.lane, job.place, job.express)
            elif job.due_ms is None:
                order.setdefault(job.lane, []).append(job)
        for lane, joined in order.items():
            for job in joined:
                self.oracle.add(lane, job.place, None)

    # -- jobs that have to do with others

    @rule(
        which=st.integers(0, 2),
        data=st.data(),
        lane=st.builds(LaneKey, names(QUEUES[:1]), names(TASKS), names(TENANTS), st.sampled_from([0, 1, 2, 2, 3])),
        delay=st.sampled_from([0, 0, 0, 3_000]),
        express=st.sampled_from([False] * 5 + [True]),
        expires=st.sampled_from([None, None, None, 10_000, 90_000]),
        key=st.sampled_from([None, "k", "k", "l"]),
        mode=st.sampled_from(["return", "raise", "replace", "replace", "successor", "successor"]),
        on_failure=st.sampled_from(["cancel", "cancel", "run"]),
    )
    def enqueue_tied(self, which: int, data, lane, delay, express, expires, key, mode, on_failure) -> None:  # type: ignore[no-untyped-def]
        after: tuple[int, ...] = ()
        if self.ids and not (key and mode == "replace"):
            lately = sorted(self.ids)[-12:]
            after = tuple(data.draw(st.lists(st.sampled_from(lately), max_size=3, unique=True)))
        expires_ms = None if expires is None else self.now_ms + delay + expires
        job = Tied(lane, delay, express and self._express_room(lane.tenant), expires_ms, key, mode, after, on_failure)
        what, held = self._verdict(job)
        new = NewJob(
            id=uuid.uuid4().bytes,
            queue=lane.queue,
            task=lane.task,
            tenant=lane.tenant,
            tier=lane.tier,
            delay_ms=delay,
            express=job.express,
            expires_at_ms=expires_ms,
            dedup_key=key,
            on_conflict=mode,  # type: ignore[arg-type]
            after=tuple(self.ids[seq] for seq in after),
            on_failure=on_failure,  # type: ignore[arg-type]
        )
        store = self.stores[which]
        with store.transaction():
            try:
                answers = store.enqueue([new], self.now_ms)
            except DedupConflict:
                assert what == "conflict"
                return
        assert what != "conflict"
        assert answers == [Enqueued(new.id if what == "new" else self.ids[held or 0], what == "new")]
        if what == "new":
            self._stored(new.id, job, held)
        elif what == "replace" and held is not None:
            self._replaced(held, job)

    def _verdict(self, job: Tied) -> tuple[str, int | None]:
        """Return what becomes of a job: new (behind the holder of its key, or not), returned, replacing, refused."""
        mine = (job.lane.queue, job.key)
        live = [seq for seq, key in self.keys.items() if key == mine and (seq in self.waiting or seq in self.running)]
        live.sort(key=lambda seq: seq in self.successors)
        if not live:
            return "new", None
        if job.mode == "return":
            return "return", live[0]
        if job.mode == "replace":
            waits = [seq for seq in live if not self._begun(seq)]
            return ("replace", waits[0]) if waits else ("conflict", None)
        if job.mode == "successor":
            if not self._begun(live[0]):
                return "return", live[0]
            return ("return", live[1]) if len(live) > 1 else ("new", live[0])
        return "conflict", None

    def _begun(self, seq: int) -> bool:
        """Whether a live job runs, or was handed over."""
        return seq in self.running or self.waiting[seq].lane.task.endswith(VERIFY)

    def _stored(self, job_id: bytes, job: Tied, holder: int | None) -> None:
        self.seq += 1
        seq = self.seq
        self.ids[seq], self.expires[seq] = job_id, job.expires_ms
        if job.key is not None:
            self.keys[seq] = (job.lane.queue, job.key)
        anyway = int(job.on_failure == "run")
        if not anyway and not all(self.fates.get(parent, True) for parent in job.after):
            self.fates[seq] = False  # cancelled at once
            return
        edges = {parent: anyway for parent in job.after if parent not in self.fates}
        if holder is not None:
            edges[holder] = edges.get(holder, 1) | 2
            self.successors.add(seq)
        if edges:
            self.edges[seq] = edges
        self.express += job.express
        place = Place(self.now_ms + job.delay_ms, seq)
        due_ms = place.arrival_ms if job.delay_ms else None
        self.waiting[seq] = Waiting(job.lane, place, self.express if job.express else None, due_ms, job.expires_ms)
        self._add(seq)

    def _replaced(self, seq: int, job: Tied) -> None:
        old, joined = self.waiting[seq], self._joined(seq)
        left = {parent: 3 for parent, marks in self.edges.pop(seq, {}).items() if marks & 2}
        if left:
            self.edges[seq] = left
        number = old.express
        if number is None and job.express:
            self.express += 1
            number = self.express
        at_ms = self.now_ms + job.delay_ms
        place = Place(min(old.place.arrival_ms, at_ms), seq)
        new = Waiting(job.lane, place, number, at_ms if job.delay_ms else None, job.expires_ms)
        self.waiting[seq], self.expires[seq] = new, job.expires_ms
        self.crashes.pop(seq, None)
        if joined and self._joined(seq) and new[:3] == old[:3]:
            return
        self._add(seq)
        if joined:
            self.oracle.remove(old.lane, old.place, old.express)

    def _joined(self, seq: int) -> bool:
        """Return whether a waiting job is available."""
        return self.waiting[seq].due_ms is None and seq not in self.edges

    def _add(self, seq: int) -> None:
        if self._joined(seq):
            job = self.waiting[seq]
            self.oracle.add(job.lane, job.place, job.express)

    def _ended(self, seq: int, completed: bool) -> None:
        """Note that a job has ended, and tell those behind it: of several that have ended, the first by number."""
        self._ends(seq, completed)
        self._tell({seq})

    def _ends(self, seq: int, completed: bool) -> None:
        self.fates[seq] = completed
        self.edges.pop(seq, None)
        self.successors.discard(seq)

    def _tell(self, ended: set[int]) -> None:
        while ended:
            parent = min(ended)
            ended.remove(parent)
            order: dict[LaneKey, list[int]] = {}
            for child in sorted(child for child, edges in self.edges.items() if parent in edges):
                marks = self.edges[child].pop(parent)
                if not (self.fates[parent] or marks & 1):
                    del self.waiting[child]
                    self._ends(child, False)
                    ended.add(child)
                    continue
                if marks & 2:
                    self.successors.discard(child)
                if not self.edges[child]:
                    self._goes_on(child, order)
            for children in order.values():
                for child in children:
                    self._add(child)

    def _goes_on(self, child: int, order: dict[LaneKey, list[int]]) -> None:
        del self.edges[child]
        job = self.waiting[child]
        if job.due_ms is not None and job.due_ms <= self.now_ms:
            job = self.waiting[child] = job._replace(due_ms=None)
        if job.express is not None:
            self._add(child)
        elif job.due_ms is None:
            order.setdefault(job.lane, []).append(child)

    def _express_room(self, tenant: str) -> bool:
        waiting = [job for job in self.waiting.values() if job.express is not None]
        return len(waiting) < 20 and sum(job.lane.tenant == tenant for job in waiting) < 5

    # -- jobs go

    def _noticed(self) -> None:
        """What a claim notices first: lapsed leases, then timers in order of time."""
        now = self.now_ms
        lapsed = sorted((held.deadline_ms, seq) for seq, held in self.running.items() if held.deadline_ms <= now)
        for _, seq in lapsed[:20]:
            self._crashed(seq)
        due = []
        for seq, job in self.waiting.items():
            at = job.due_ms if job.due_ms is not None and seq not in self.edges else job.expires_ms
            if at is not None and at <= now:
                due.append((at, seq))
        expired: set[int] = set()
        for _, seq in sorted(due):
            job = self.waiting[seq]
            if job.expires_ms is not None and job.expires_ms <= now:
                if self._joined(seq):
                    self.oracle.remove(job.lane, job.place, job.express)
                del self.waiting[seq]
                self._ends(seq, False)
                expired.add(seq)
            else:
                self.waiting[seq] = job._replace(due_ms=None)
                self.oracle.add(job.lane, job.place, job.express)
        self._tell(expired)

    def _crashed(self, seq: int) -> None:
        held = self.running.pop(seq)
        self.oracle.finish(held.start, (held.beat_ms - held.started_ms) * 1000)
        self.crashes[seq] = self.crashes.get(seq, 0) + 1
        if self.crashes[seq] > MAX_CRASHES or not self._back(held.start, 0):
            self._ended(seq, False)

    def _back(self, start: Start, delay_ms: int, lane: LaneKey | None = None) -> bool:
        """Let a job wait again, in another lane if its phase changes; return whether it does, or has expired."""
        seq = start.place.seq
        expires_ms = None if (lane or start.lane).task.endswith(VERIFY) else self.expires[seq]
        if expires_ms is not None and expires_ms <= self.now_ms:
            return False
        due_ms = self.now_ms + delay_ms if delay_ms else None
        express = start.express if lane is None else None
        self.waiting[seq] = Waiting(lane or start.lane, start.place, express, due_ms, expires_ms)
        if due_ms is None:
            self.oracle.add(lane or start.lane, start.place, express)
        return True

    @rule(
        which=st.integers(0, 1),
        count=st.sampled_from([1, 1, 1, 2, 5, 20]),
        queues=st.one_of(st.none(), st.dictionaries(names(QUEUES), st.integers(0, 3))),
        tasks=st.sampled_from([None, None, frozenset(PHASES), frozenset(TASKS[:1])]),
        rooms=st.sampled_from([None, None, None, (3, 3, 1, 1, 1), (2, 1, 0, 0, 0)]),
        pool=st.sampled_from(["default", "default", "default", "other"]),
    )
    def claim(self, which: int, count: int, queues: dict[str, int] | None, tasks, rooms, pool: str) -> None:  # type: ignore[no-untyped-def]
        store = self.stores[which]
        ask = Ask(pool, count, queues, tasks, rooms)
        with store.transaction():
            claims = store.claim(ask, worker="", lease_ms=LEASE_MS, now_ms=self.now_ms)
        self._noticed()
        expected = self.oracle.claim(ask, self.now_ms)
        starts = [claim.start for claim in claims]
        assert starts == expected, f"store {starts}, oracle {expected}"
        for claim in claims:
            seq = claim.seq
            del self.waiting[seq]
            self.running[seq] = Held(claim.start, claim.fence, claim.deadline_ms, self.now_ms, self.now_ms)

    @precondition(lambda self: self.running)
    @rule(
        which=st.integers(0, 1),
        data=st.data(),
        kind=st.sampled_from(["completed", "completed", "retry", "snoozed", "released", "dead", "phase", "phase"]),
        checks=st.sampled_from([("mail", 1), ("setup", 3), None]),
        delay=st.sampled_from([0, 0, 7_000]),
        run_us=st.sampled_from([0, 900_000, 1_000_000, 30_000_000]),
        units=st.sampled_from([None, 5_000_000]),
    )
    def settle(  # type: ignore[no-untyped-def]
        self, which: int, data, kind: str, checks: tuple[str, int] | None, delay: int, run_us: int, units: int | None
    ) -> None:
        seq = data.draw(st.sampled_from(sorted(self.running)))
        held = self.running.pop(seq)
        delay = 0 if kind == "released" else delay
        kind, to = (kind, None) if kind != "phase" else self._next_phase(held.start, checks)
        settlement = Settlement(
            seq=seq,
            fence=held.fence,
            kind=kind,  # type: ignore[arg-type]
            run_us=run_us,
            delay_ms=delay,
            units_us=units,
            to=to,
        )
        store = self.stores[which]
        with store.transaction():
            assert store.settle([settlement], self.now_ms) == [True]
            assert store.settle([settlement], self.now_ms) == [False]
        self.oracle.finish(held.start, run_us, in_mean=kind != "released", units_us=units)
        lane = None if to is None else to[1] or self.homes[seq]
        if kind == "handed":
            self.homes[seq] = held.start.lane
        if kind in {"completed", "dead"} or not self._back(held.start, delay, lane):
            self._ended(seq, kind == "completed")

    def _next_phase(self, start: Start, checks: tuple[str, int] | None):  # type: ignore[no-untyped-def]
        """Return how a run ends that hands work over, checks it (``checks`` is None) or rejects it."""
        lane = start.lane
        if lane.task.endswith(VERIFY):
            return ("pending", None) if checks is None else ("retry", ("process", None))
        queue, tier = checks or (lane.queue, lane.tier)
        return "handed", ("verify", LaneKey(queue, lane.task + VERIFY, lane.tenant, tier))

    # -- people steer

    @precondition(lambda self: self.waiting)
    @rule(
        which=st.integers(0, 1),
        data=st.data(),
        tier=st.integers(0, 4),
        what=st.sampled_from(["tier", "express", "cancel"]),
    )
    def steer(self, which: int, data, tier: int, what: str) -> None:  # type: ignore[no-untyped-def]
        seq = data.draw(st.sampled_from(sorted(self.waiting)))
        job = self.waiting[seq]
        store = self.stores[which]
        if what == "express" and job.express is None and not self._express_room(job.lane.tenant):
            return
        with store.transaction():
            if what == "tier":
                store.boost(self.ids[seq], tier, by="test", now_ms=self.now_ms, lower=True)
            elif what == "express":
                store.expedite(self.ids[seq], reason="test", by="test", now_ms=self.now_ms)
            else:
                store.cancel(self.ids[seq], reason="test", now_ms=self.now_ms)
        if what == "tier" and seq in self.homes:
            self.homes[seq] = self.homes[seq]._replace(tier=tier)
        after, joined = self._steered(job, tier, what), self._joined(seq)
        if after is None:
            del self.waiting[seq]
            if joined:
                self.oracle.remove(job.lane, job.place, job.express)
            self._ended(seq, False)
        elif after != job:
            self.waiting[seq] = after
            self._add(seq)
            if joined:
                self.oracle.remove(job.lane, job.place, job.express)

    def _steered(self, job: Waiting, tier: int, what: str) -> Waiting | None:
        if what == "tier":
            return job._replace(lane=job.lane._replace(tier=tier))
        if what == "express":
            self.express += job.express is None
            return job._replace(express=job.express or self.express, due_ms=None)
        return None

    # -- rules change

    def _set(self, which: int, kind: str, name: str, new: object) -> None:
        store = self.stores[which]
        self.rules[kind, name] = new
        with store.transaction():
            store.set_rule(kind, name, new, by="test", now_ms=self.now_ms)  # type: ignore[arg-type]
        getattr(self.oracle, f"set_{kind}")(name, new)

    def _pause(self, pause: int | None) -> Pause | None:
        return None if pause is None else Pause(until_ms=None if pause == 0 else self.now_ms + pause)

    @rule(
        which=st.integers(0, 2), name=names(QUEUES), most=caps, own=caps,
        pause=st.sampled_from([None, None, 0, 30_000]), pool=st.sampled_from(["default", "default", "other"]),
    )  # fmt: skip
    def queue_rule(
        self, which: int, name: str, most: int | None, own: int | None, pause: int | None, pool: str
    ) -> None:
        self._set(which, "queue", name, QueueRule(pool, self._pause(pause), most, own))

    @rule(
        which=st.integers(0, 2), name=names(TENANTS), most=caps, weight=st.sampled_from([1, 500, 1000, 3000]),
        pause=st.sampled_from([None, None, 0, 30_000]), rate=st.sampled_from([None, None, Rate(2, 10_000, 1)]),
    )  # fmt: skip
    def tenant_rule(
        self, which: int, name: str, most: int | None, weight: int, pause: int | None, rate: Rate | None
    ) -> None:
        self._set(which, "tenant", name, TenantRule(weight, self._pause(pause), most, None, rate))

    @rule(which=st.integers(0, 2), name=names(PHASES), limits=st.sampled_from([(), ("api",), ("smtp:{tenant}", "api")]))
    def task_limits(self, which: int, name: str, limits: tuple[str, ...]) -> None:
        store = self.stores[which]
        with store.transaction():
            store.declare_task(name, limits=limits, max_attempts=4, max_crashes=MAX_CRASHES, now_ms=self.now_ms)
        pause = self.rules.get(("task", name), TaskRule()).pause  # type: ignore[attr-defined]
        self.rules["task", name] = TaskRule(pause, limits)
        self.oracle.set_task(name, TaskRule(pause, limits))

    @rule(which=st.integers(0, 2), name=names(PHASES), pause=st.sampled_from([None, None, 0, 30_000]))
    def task_pause(self, which: int, name: str, pause: int | None) -> None:
        limits = self.rules.get(("task", name), TaskRule()).limits  # type: ignore[attr-defined]
        self._set(which, "task", name, TaskRule(self._pause(pause), limits))

    @rule(
        which=st.integers(0, 2), key=st.sampled_from(["api", "smtp:{tenant}", "smtp:a"]), most=caps,
        rate=st.sampled_from([None, Rate(3, 20_000, 2), Rate(1, 5_000, 1)]),
    )  # fmt: skip
    def limit_rule(self, which: int, key: str, most: int | None, rate: Rate | None) -> None:
        self._set(which, "limit", key, LimitRule(None, most, rate))

    # -- time passes, processes come and go

    @rule(ms=st.sampled_from([1, 900, 5_000, 30_000, 200_000]))
    def later(self, ms: int) -> None:
        self.clock.advance(ms=ms)

    @rule(which=st.integers(0, 1))
    def lapse(self, which: int) -> None:
        self.clock.advance(ms=LEASE_MS)
        lapsed = sorted(
            (held.deadline_ms, seq) for seq, held in self.running.items() if held.deadline_ms <= self.now_ms
        )
        store = self.stores[which]
        with store.transaction():
            assert store.rescue(self.now_ms, limit=1000) == len(lapsed)
        for _, seq in lapsed:
            self._crashed(seq)

    @rule(which=st.integers(0, 1))
    def reopen(self, which: int) -> None:
        self._look(1 - which)
        self.stores[which].close()
        self.stores[which] = self._open()
        self._look(which)

    @invariant()
    def books_are_right(self) -> None:
        if getattr(self, "stores", None):
            wrong = self.stores[0].check()
            assert not wrong, wrong

    def teardown(self) -> None:
        for store in getattr(self, "stores", ()):
            store.close()
        if hasattr(self, "_store_every"):
            ground.STORE_EVERY = self._store_every
        if hasattr(self, "folder"):
            shutil.rmtree(self.folder)


TestStoreEqualsOracle = pytest.mark.timeout(900)(StoreEqualsOracle.TestCase)
