"""The PostgreSQL store must choose what the oracle chooses: the machine of ``test_store``, and what differs here.

Three programs on one database. Those that hold the state in memory log what they do; the one that only writes, and one
that has just forgotten its state, leave what they do in the inbox, and the next one that holds it gives it its place.
Two more programs hold light transactions open while the others go on: what they stored appears late, at its early
place, and what they ended ends late.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import NamedTuple

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule
from tests.pg import emptied, server
from tests.property.test_store import LEASE_MS, QUEUES, TASKS, TENANTS, Held, StoreEqualsOracle, Waiting, names

from fairlane.domain.jobs import NewJob, Settlement
from fairlane.domain.lanes import Ask, LaneKey, Place
from fairlane.domain.tiers import Tier
from fairlane.store import NeedsGate, Store
from fairlane.stores.postgres import at_once
from fairlane.stores.postgres.store import PostgresStore, open_postgres
from fairlane.stores.tables import ground, writing

pytestmark = [pytest.mark.postgres, pytest.mark.timeout(0)]

QUICK = 170
"""Examples where nobody asked for a number: what a core does in a minute."""
BUFFER = 4
"""Jobs of a lane in memory: few, so that most are fetched when their turn comes."""

lanes = st.builds(LaneKey, names(QUEUES), names(TASKS), names(TENANTS), st.sampled_from([0, 1, 2, 2, 3, 4]))
plain_jobs = st.tuples(lanes, st.sampled_from([0, 0, 0, 3_000, 40_000]), st.sampled_from([None] * 5 + [10_000, 90_000]))


class Undone(Exception):
    """What a transaction is rolled back for."""


class Late(NamedTuple):
    """A light transaction that is open: what it has stored, and which claims it has ended."""

    context: AbstractContextManager[None]
    stored: dict[int, tuple[bytes, Waiting]]
    ended: dict[int, tuple[Held, bytes, int]]


class PostgresEqualsOracle(StoreEqualsOracle):
    """Drives stores on one database and the oracle in step."""

    url = ""

    def __init__(self) -> None:
        super().__init__()
        emptied(self.url)
        self.forgot: set[int] = set()
        self.followed: set[int] = set()
        self.lights: dict[int, PostgresStore] = {}
        self.late: dict[int, Late] = {}

    def _open(self) -> PostgresStore:  # type: ignore[override]  # the machine needs a store, of whatever kind
        return open_postgres(self.url, clock=self.clock, policy=self.policy)

    # -- who holds the state

    def _look(self, which: int) -> None:
        if which in self.forgot:  # what it finds unseen by all others it would take in another order
            super()._look(1 - which)
            self.forgot.discard(which)
        super()._look(which)

    @precondition(lambda self: not self.forgot)
    @rule(which=st.integers(0, 2), lane=lanes)
    def undo(self, which: int, lane: LaneKey) -> None:
        """Roll back: nothing has happened, but a number was drawn and the state in memory is gone."""
        store = self.stores[which]
        context = store.transaction()
        context.__enter__()
        store.enqueue([_new(lane, 0, None)], self.now_ms)
        context.__exit__(Undone, Undone(), None)
        self.seq += 1
        if which < 2:
            self.forgot.add(which)

    @rule(
        which=st.integers(0, 1),
        count=st.sampled_from([1, 1, 1, 2, 5, 20]),
        queues=st.one_of(st.none(), st.dictionaries(names(QUEUES), st.integers(0, 3))),
        tasks=st.sampled_from([None, None, None, frozenset(TASKS[:1])]),
        rooms=st.sampled_from([None, None, None, (3, 3, 1, 1, 1), (2, 1, 0, 0, 0)]),
        pool=st.sampled_from(["default", "default", "default", "other"]),
        peek=st.booleans(),
    )
    def claim(self, which, count, queues, tasks, rooms, pool, peek) -> None:  # type: ignore[no-untyped-def]
        if which in self.forgot:
            self._look(which)
        expected = None
        if peek:
            self._look(which)
            expected = [job.seq for job in self.stores[2].peek(Ask(pool, count, queues, tasks, rooms), self.now_ms)]
        before = len(self.running)
        super().claim(which, count, queues, tasks, rooms, pool)
        if peek:
            assert list(self.running)[before:] == expected

    # -- the one that only writes does anything

    @precondition(lambda self: self.running)
    @rule(
        data=st.data(),
        kind=st.sampled_from(["completed", "completed", "retry", "snoozed", "released", "dead", "phase"]),
        delay=st.sampled_from([0, 0, 7_000]),
        run_us=st.sampled_from([0, 900_000, 30_000_000]),
    )
    def settle_without_state(self, data, kind: str, delay: int, run_us: int) -> None:  # type: ignore[no-untyped-def]
        self.settle(2, data, kind, ("mail", 1), delay, run_us, None)

    @precondition(lambda self: self.waiting)
    @rule(data=st.data(), tier=st.integers(0, 4), what=st.sampled_from(["tier", "express", "cancel"]))
    def steer_without_state(self, data, tier: int, what: str) -> None:  # type: ignore[no-untyped-def]
        self.steer(2, data, tier, what)

    @precondition(lambda self: self.running)
    @rule(which=st.integers(0, 2), data=st.data(), light=st.booleans())
    def beat(self, which: int, data, light: bool) -> None:  # type: ignore[no-untyped-def]
        seq = data.draw(st.sampled_from(sorted(self.running)))
        held = self.running[seq]
        store = self.stores[which]
        if light:
            self._drawn()
        with store.transaction(light=light):
            beats = store.heartbeat([(seq, held.fence), (seq, held.fence - 1)], lease_ms=LEASE_MS, now_ms=self.now_ms)
        assert [beat.answer for beat in beats] == ["ok", "lost"]
        self.running[seq] = held._replace(deadline_ms=self.now_ms + LEASE_MS, beat_ms=self.now_ms)

    # -- light transactions

    @rule(
        which=st.integers(0, 2),
        data=st.data(),
        jobs=st.lists(plain_jobs, max_size=4),
        ends=st.integers(0, 3),
        run_us=st.sampled_from([0, 900_000, 30_000_000]),
    )
    def light(self, which: int, data, jobs, ends: int, run_us: int) -> None:  # type: ignore[no-untyped-def]
        some = sorted(self.running)
        chosen = data.draw(st.lists(st.sampled_from(some), max_size=ends, unique=True)) if some else []
        if self.followed.isdisjoint(chosen):
            self._over(self._begun_lightly(self.stores[which], jobs, chosen, run_us, late=False), commit=True)
            return
        store = self.stores[which]
        ends_of = [_done(seq, self.running[seq], run_us) for seq in chosen]
        self._drawn()
        with pytest.raises(NeedsGate), store.transaction(light=True):
            store.settle(ends_of, self.now_ms)

    @rule(
        which=st.integers(0, 1),
        data=st.data(),
        jobs=st.lists(plain_jobs, max_size=4),
        ends=st.integers(0, 2),
        run_us=st.sampled_from([0, 900_000, 30_000_000]),
    )
    def begin_late(self, which: int, data, jobs, ends: int, run_us: int) -> None:  # type: ignore[no-untyped-def]
        if which in self.late:
            return
        if which not in self.lights:
            self.lights[which] = self._open()
        some = sorted(self.running.keys() - self.keys.keys() - self.followed)  # others would wait for its row
        chosen = data.draw(st.lists(st.sampled_from(some), max_size=ends, unique=True)) if some else []
        self.late[which] = self._begun_lightly(self.lights[which], jobs, chosen, run_us, late=True)

    @precondition(lambda self: self.late)
    @rule(data=st.data(), commit=st.sampled_from([True, True, True, False]))
    def end_late(self, data, commit: bool) -> None:  # type: ignore[no-untyped-def]
        which = data.draw(st.sampled_from(sorted(self.late)))
        self._over(self.late.pop(which), commit=commit)

    @rule(which=st.integers(0, 1))
    def reopen_light(self, which: int) -> None:
        """Close one that stores lightly, whether it is in a transaction or not."""
        late = self.late.pop(which, None)
        store = self.lights.pop(which, None)
        if late is not None:
            self._over(late, commit=False)
        if store is not None:
            store.close()

    def _begun_lightly(self, store: Store, jobs, chosen: list[int], run_us: int, *, late: bool) -> Late:  # type: ignore[no-untyped-def]
        """Begin a light transaction; ``late``: its jobs are stored now, others' may be before it ends."""
        now = self.now_ms
        context = store.transaction(light=True)
        stored: dict[int, tuple[bytes, Waiting]] = {}
        new: list[NewJob] = []
        if (late or chosen) and len(jobs) != 1:
            self._drawn()
        for lane, delay, expires in jobs:
            self.seq += 1
            expires_ms = None if expires is None else now + delay + expires
            new.append(_new(lane, delay, expires_ms))
            place = Place(now + delay, self.seq)
            stored[self.seq] = new[-1].id, Waiting(lane, place, None, now + delay if delay else None, expires_ms)
        ends = [_done(seq, self.running[seq], run_us) for seq in chosen]
        context.__enter__()
        if late:  # else jobs alone wait for the commit
            store.heartbeat([(0, 0)], lease_ms=LEASE_MS, now_ms=now)
        if new:
            assert all(answer.created for answer in store.enqueue(new, now))
        if ends:
            assert store.settle(ends, now) == [True] * len(ends)
            assert store.settle(ends, now) == [False] * len(ends)
        ended = {seq: (self.running.pop(seq), self.ids.pop(seq), run_us) for seq in chosen}
        return Late(context, stored, ended)

    def _drawn(self) -> None:
        """A light transaction draws a number when the server is told of it, for the one job that it may store."""
        self.seq += 1

    def _over(self, late: Late, *, commit: bool) -> None:
        self.ids.update({seq: job_id for seq, (_, job_id, _) in late.ended.items()})
        if not commit:
            late.context.__exit__(Undone, Undone(), None)
            self.running.update({seq: held for seq, (held, _, _) in late.ended.items()})
            return
        late.context.__exit__(None, None, None)
        order: dict[LaneKey, list[Place]] = {}
        for seq, (job_id, job) in late.stored.items():
            self.ids[seq], self.waiting[seq], self.expires[seq] = job_id, job, job.expires_ms
            if job.due_ms is None:
                order.setdefault(job.lane, []).append(job.place)
        for lane, places in order.items():
            for place in places:
                self.oracle.add(lane, place, None)
        for seq, (held, _, run_us) in late.ended.items():
            self.oracle.finish(held.start, run_us)
            self._ends(seq, True)

    def _stored(self, job_id: bytes, job, holder: int | None) -> None:  # type: ignore[no-untyped-def]
        super()._stored(job_id, job, holder)
        self.followed |= self.edges.get(self.seq, {}).keys()

    # -- time passes: a lease must not lapse whose end is in an open transaction, for others would wait for it

    @rule(ms=st.sampled_from([1, 900, 5_000, 30_000, 200_000]))
    def later(self, ms: int) -> None:
        self._no_late_ends()
        super().later(ms)

    @rule(which=st.integers(0, 1))
    def lapse(self, which: int) -> None:
        self._no_late_ends()
        super().lapse(which)

    def _no_late_ends(self) -> None:
        for which in [which for which, late in self.late.items() if late.ended]:
            self._over(self.late.pop(which), commit=True)

    def teardown(self) -> None:
        for store in self.lights.values():
            store.close()
        super().teardown()


def _done(seq: int, held: Held, run_us: int) -> Settlement:
    return Settlement(seq=seq, fence=held.fence, kind="completed", run_us=run_us)


def _new(lane: LaneKey, delay: int, expires_ms: int | None) -> NewJob:
    return NewJob(
        id=uuid.uuid4().bytes,
        queue=lane.queue,
        task=lane.task,
        tenant=lane.tenant,
        tier=Tier(lane.tier),
        delay_ms=delay,
        expires_at_ms=expires_ms,
    )


@pytest.fixture(scope="module", autouse=True)
def running() -> Iterator[None]:
    with server() as one, pytest.MonkeyPatch.context() as patched:
        patched.setattr(ground, "LANE_BUFFER", BUFFER)
        patched.setattr(writing, "LANE_BUFFER", BUFFER)
        patched.setattr(at_once, "LANE_BUFFER", BUFFER)
        patched.setattr(ground, "FIRST_HEADS", BUFFER // 2)
        PostgresEqualsOracle.url = one.database()
        yield


TestPostgresEqualsOracle = PostgresEqualsOracle.TestCase
asked_for = settings.default.max_examples if settings.default else QUICK
TestPostgresEqualsOracle.settings = settings(max_examples=asked_for if asked_for > 1_000 else min(asked_for, QUICK))
