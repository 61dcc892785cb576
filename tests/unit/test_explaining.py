"""Explanations on schedulers made by hand, on a store whose log moves on, and what they cost."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from fairlane.domain.explaining import Around, Explanation, Figure, explain
from fairlane.domain.fairness import Scheduler
from fairlane.domain.inversions import MOST_STEPS, Setting, aged_pairs, inversions
from fairlane.domain.jobs import JobRecord, NewJob, Settlement, WorkerRecord
from fairlane.domain.lanes import Ask, LaneKey, Place
from fairlane.domain.policy import LimitRule, Pause, Policy, QueueRule, Rate, TaskRule, TenantRule
from fairlane.domain.sightings import Sighting
from fairlane.domain.states import State
from fairlane.stores._mirror import STATED
from fairlane.stores.sqlite.store import SqliteStore, open_sqlite
from fairlane.stores.tables import ground
from fairlane.testing.clock import ManualClock

NOW = 1_000_000
WORKER = WorkerRecord(id="w", pool="default", queues=None, slots=2)


def record(seq: int, *, tenant: str = "a", tier: int = 2, arrival_ms: int = NOW, **more) -> JobRecord:
    fields = dict.fromkeys(JobRecord.__struct_fields__)
    fields |= {
        "seq": seq, "id": seq.to_bytes(16, "big"), "task": "t", "queue": "q", "tenant": tenant, "tier": tier,
        "state": State.AVAILABLE, "arrival_ms": arrival_ms, "failures": 0, "crashes": 0, "checks": 0,
    }  # fmt: skip
    return JobRecord(**{**fields, **more})


class Hand:
    """A scheduler and its waiting jobs."""

    def __init__(self, policy: Policy | None = None) -> None:
        self.scheduler = Scheduler(policy or Policy.fair())
        self.scheduler.set_workers("default", 2, None)
        self.seq = 0
        self.lanes: dict[LaneKey, list[Place]] = {}

    def add(self, **fields) -> JobRecord:
        self.seq += 1
        job = record(self.seq, **fields)
        key = LaneKey(job.queue, job.task, job.tenant, job.tier)
        self.scheduler.add(key, Place(job.arrival_ms, job.seq), job.express)
        self.lanes.setdefault(key, []).append(Place(job.arrival_ms, job.seq))
        return job

    def start(self, count: int = 1, now_ms: int = NOW):
        starts = self.scheduler.claim(Ask("default", count), now_ms)
        for start in starts:
            self.lanes[start.lane].remove(start.place)
        return starts

    def why(self, job: JobRecord, *, now_ms: int = NOW, workers=(WORKER,), **around) -> Explanation:
        key = LaneKey(job.queue, job.task, job.tenant, job.tier)
        before = sum(place < (job.arrival_ms, job.seq) for place in self.lanes.get(key, ()))
        self.scheduler.notice(now_ms)
        return explain(self.scheduler, job, Around(before=Figure(before), workers=workers, **around), now_ms)


# ---------------------------------------------------------------- each cause


def test_gates():
    hand = Hand()
    scheduler = hand.scheduler
    scheduler.set_task("t", TaskRule(None, ("api", "mail:{tenant}")))
    job = hand.add()
    assert hand.why(job).cause == "next"
    for sets, name, rule, cause, kind in (
        (scheduler.set_queue, "q", QueueRule(pause=Pause("why", "ops", NOW + 5_000)), "pause", "queue"),
        (scheduler.set_queue, "q", QueueRule(max_running=0), "queue full", "queue"),
        (scheduler.set_queue, "q", QueueRule(tenant_max_running=0), "tenant cap", "tenant"),
        (scheduler.set_task, "t", TaskRule(Pause(), ("api", "mail:{tenant}")), "pause", "task"),
        (scheduler.set_tenant, "a", TenantRule(max_running=0), "tenant cap", "tenant"),
        (scheduler.set_tenant, "a", TenantRule(pause=Pause()), "pause", "tenant"),
        (scheduler.set_limit, "api", LimitRule(max_running=0), "limit", "limit"),
        (scheduler.set_limit, "mail:{tenant}", LimitRule(pause=Pause()), "pause", "limit"),
    ):
        sets(name, rule)
        told = hand.why(job)
        assert (told.cause, told.blockers[0].kind, told.next) == (cause, kind, False), (name, rule)
        assert told.starts_in is None
        sets(name, TaskRule(None, ("api", "mail:{tenant}")) if isinstance(rule, TaskRule) else type(rule)())
        assert hand.why(job).cause == "next", (name, rule)


def test_rate_and_wait():
    hand = Hand()
    scheduler = hand.scheduler
    scheduler.set_task("t", TaskRule(None, ("api",)))
    scheduler.set_limit("api", LimitRule(rate=Rate(2, 10_000, 1)))
    hand.add()
    job = hand.add()
    hand.start()
    told = hand.why(job)
    assert (told.cause, told.blockers[0].until_ms, told.blockers[0].maximum) == ("rate", NOW + 5_000, 2)
    scheduler.close_limit("api", NOW + 60_000)
    assert [(one.cause, one.until_ms) for one in hand.why(job).blockers] == [
        ("limit", NOW + 60_000),
        ("rate", NOW + 5_000),
    ]
    assert [one.cause for one in hand.why(job, now_ms=NOW + 5_000).blockers] == ["limit"]
    assert hand.why(job, now_ms=NOW + 60_000).cause == "next"


def test_workers():
    hand = Hand()
    job = hand.add()
    assert hand.why(job, workers=()).cause == "no worker"
    elsewhere = WorkerRecord(id="e", pool="default", queues=("other",), slots=2)
    gpus = WorkerRecord(id="g", pool="gpus", queues=None, slots=2)
    unknowing = WorkerRecord(id="u", pool="default", queues=("q",), slots=2, tasks=("else",))
    told = hand.why(job, workers=(elsewhere, gpus, unknowing))
    assert (told.cause, told.blockers[0].kind) == ("no worker", "task")
    assert told.next  # a program that claims by itself would get it
    assert hand.why(job, busy={"w": 1}).cause == "next"
    told = hand.why(job, busy={"w": 2, "g": 9})
    assert (told.cause, told.blockers[0].current, told.next) == ("slots busy", 2, True)


def test_schedule():
    hand = Hand()
    hand.add()
    job = record(99, state=State.SCHEDULED, scheduled_at_ms=NOW + 9_000)
    told = hand.why(job, due_ms=NOW + 9_000)
    assert (told.cause, told.blockers[0].until_ms, told.next) == ("schedule", NOW + 9_000, False)
    assert hand.why(record(99, state=State.SCHEDULED, tenant="new"), due_ms=NOW + 9_000).cause == "schedule"


def test_turns_and_own_jobs():
    hand = Hand()
    first, second = hand.add(), hand.add()
    assert (hand.why(first).cause, hand.why(second).cause) == ("next", "own jobs ahead")
    others = [hand.add(tenant=tenant) for tenant in "bcd"]
    assert hand.why(others[2]).cause == "next"  # ties go to the latest
    assert (hand.why(first).cause, hand.why(first).tenants_ahead) == ("turns ahead", Figure(3))
    told = hand.why(second)
    assert told.cause == "turns ahead"
    assert "1 job of its own tenant goes first, and 3 other tenants have their turn first" in told.summary


@pytest.mark.parametrize(("policy", "cause"), [("fair", "urgent ahead"), ("strict", "urgent ahead"), ("fifo", "next")])
def test_urgent(policy, cause):
    hand = Hand(Policy.named(policy))
    job = hand.add(arrival_ms=NOW - 5)
    hand.add(tenant="b", tier=0)
    assert hand.why(job).cause == cause


def test_a_tenant_beyond_its_urgent_share_takes_turns():
    hand = Hand()
    for _ in range(3):
        hand.add(tenant="b", tier=0)
    hand.start()
    assert hand.why(hand.add()).tenants_urgent == Figure(0)


def test_express_counts_only_what_may_run():
    hand = Hand()
    job = hand.add()
    hand.add(tenant="b", express=1)
    last = hand.add(tenant="c", express=2)
    assert (hand.why(job).cause, hand.why(job).express_ahead) == ("express ahead", Figure(2))
    assert (hand.why(last).cause, hand.why(last).place) == ("express ahead", Figure(1))
    hand.scheduler.set_tenant("b", TenantRule(pause=Pause()))
    assert (hand.why(last).cause, hand.why(job).express_ahead) == ("next", Figure(1))


def test_express_in_front_of_a_long_line_is_not_the_main_cause():
    hand = Hand()
    for _ in range(50):
        job = hand.add()
    hand.add(tenant="b", express=1)
    told = hand.why(job)
    assert [one.cause for one in told.blockers] == ["own jobs ahead", "express ahead"]


def test_guarantee():
    hand = Hand(Policy.fair(risen_every=2))
    old = hand.add(tier=4, arrival_ms=NOW - 500_000)
    new = [hand.add(tenant="b", tier=0) for _ in range(3)]
    assert (hand.why(old).cause, hand.why(old).rule) == ("urgent ahead", "risen")
    hand.start()
    assert (hand.why(old).cause, hand.why(old).rule) == ("next", "risen")
    told = hand.why(new[1])
    assert "guarantee due" in [one.cause for one in told.blockers]


def test_estimate_needs_figures():
    hand = Hand()
    jobs = [hand.add() for _ in range(10)]
    told = hand.why(jobs[-1])
    assert (told.starts_in, "nothing has run" in told.starts_unknown) == (None, True)
    (start,) = hand.start()
    hand.scheduler.finish(start, 4_000_000)
    low, high = hand.why(jobs[-1]).starts_in or (0, 0)
    assert low <= 8 * 4 / 2 <= high
    assert hand.why(jobs[1]).starts_in is not None
    hand.scheduler.set_tenant("a", TenantRule(max_running=1))
    low, high = hand.why(jobs[-1]).starts_in or (0, 0)
    assert low >= 8 * 4  # one at a time, whatever the slots


def test_estimate_under_urgent_load_is_the_bound_of_the_guarantee():
    hand = Hand()
    (start,) = [hand.add(tenant="x"), *hand.start()][1:]
    hand.scheduler.finish(start, 2_000_000)
    job = hand.add(tier=4)
    hand.add(tenant="b", tier=0)
    _, high = hand.why(job).starts_in or (0, 0)
    assert high >= 180 + 8 * 2 * 2 / 2
    strict = Hand(Policy.strict())
    strict.add(tenant="x")
    strict.scheduler.finish(strict.start()[0], 2_000_000)
    job = strict.add(tier=4)
    strict.add(tenant="b", tier=0)
    assert strict.why(job).starts_in is None


# ---------------------------------------------------------------- inversions


def sighting(seq: int, tier: int, *, at: int, started: int | None = None, rule=None, tenant="a", **more) -> Sighting:
    fields = {"queue": "q", "task": "t", "again": False, "express": False, **more}
    return Sighting(
        seq=seq, id=seq.to_bytes(16, "big"), tenant=tenant, tier=tier, arrival_ms=at, available_ms=at,
        started_ms=started, rule=rule, **fields,
    )  # fmt: skip


def judged(*starts: Sighting, heads=(), policy: Policy | None = None, **setting) -> dict[str, int]:
    told = inversions(
        starts, heads, Setting(policy=policy or Policy.fair(), **setting), since_ms=0, now_ms=NOW, more=False
    )
    return {why: count for why, count in told.counts.items() if count}


def test_inversions_by_rule():
    waits = sighting(1, 0, at=10)
    slots = (WORKER,)
    assert judged(sighting(2, 3, at=20, started=30, rule="shared"), heads=[waits]) == {"unexplained": 1}
    assert judged(sighting(2, 3, at=20, started=30, rule="shared"), heads=[waits], workers=slots) == {"urgent share": 1}
    assert judged(sighting(2, 3, at=20, started=30, rule="risen"), heads=[waits]) == {"guarantee": 1}
    assert judged(sighting(2, 3, at=20, started=30, rule="express"), heads=[waits]) == {"express": 1}
    gated = {"tenants": {"a": TenantRule(max_running=1)}}
    assert judged(sighting(2, 3, at=20, started=30, rule="shared"), heads=[waits], **gated) == {"limit": 1}
    other = sighting(2, 3, at=20, started=30, rule="shared", queue="other")
    assert judged(other, heads=[waits]) == {"worker's queues": 1}
    low = sighting(1, 2, at=10, tenant="b")
    assert judged(sighting(2, 3, at=20, started=30, rule="shared"), heads=[low]) == {"turn": 1}
    assert judged(sighting(2, 3, at=20, started=30, rule="tier"), heads=[low], policy=Policy.strict()) == {
        "unexplained": 1
    }


def test_what_is_no_inversion():
    start = sighting(2, 3, at=20, started=30, rule="shared")
    assert judged(start, heads=[sighting(1, 0, at=30)]) == {}  # came at the instant of the start
    assert judged(start, sighting(1, 0, at=10, started=30, rule="urgent")) == {}  # started in the same call
    assert judged(start, sighting(1, 0, at=10, started=25, rule="urgent")) == {}  # started before
    assert judged(start, heads=[sighting(1, 3, at=10)]) == {}  # not more urgent
    aged = sighting(2, 4, at=20, started=200_000, rule="shared")
    assert judged(aged, heads=[sighting(1, 1, at=199_000)]) == {}  # by effective tier it is not
    assert judged(start, sighting(1, 0, at=10, started=31, rule="urgent")) == {"unexplained": 1}


def test_work_is_bounded():
    starts = [sighting(seq, 3, at=0, started=seq, rule="shared") for seq in range(1, 3_000)]
    heads = [sighting(10_000 + n, 3, at=0, queue=f"q{n}") for n in range(100)]
    told = inversions(starts, heads, Setting(policy=Policy.fair()), since_ms=0, now_ms=NOW, more=False)
    assert told.more  # too many groups
    assert told.starts <= MOST_STEPS


def test_aged_pairs_name_the_widest_gap_first():
    waiting = [sighting(n, n % 5, at=n * 7_000, tenant=str(n)) for n in range(1, 20)]
    pairs = aged_pairs(waiting)
    widest = [pair.longer_ms for pair in pairs]
    assert widest == sorted(widest, reverse=True)
    expected = {
        low.id
        for low in waiting
        for high in waiting
        if high.tier < low.tier and high.arrival_ms - low.arrival_ms > 10_000
    }
    assert {pair.less_urgent for pair in pairs} == expected


# ---------------------------------------------------------------- following the log


@pytest.fixture
def stores(tmp_path: Path, clock: ManualClock) -> Iterator[tuple[SqliteStore, SqliteStore]]:
    url = f"sqlite:///{tmp_path}/jobs.db"
    one = open_sqlite(url, clock=clock, durability="normal")
    two = open_sqlite(url, clock=clock, durability="normal")
    yield one, two
    one.close()
    two.close()


def put(store: SqliteStore, clock: ManualClock, count: int = 1, **fields) -> list[bytes]:
    jobs = [NewJob(id=uuid.uuid4().bytes, **{"task": "t", "queue": "q", "tenant": "a", **fields}) for _ in range(count)]
    with store.transaction():
        store.enqueue(jobs, clock.now_ms())
    return [job.id for job in jobs]


def cycle(store: SqliteStore, clock: ManualClock) -> bytes:
    with store.transaction():
        (claim,) = store.claim(Ask("default", 1), worker="", lease_ms=30_000, now_ms=clock.now_ms())
    with store.transaction():
        store.settle([Settlement(seq=claim.seq, fence=claim.fence, kind="completed", run_us=1000)], clock.now_ms())
    return claim.id


def test_another_process_is_followed(stores, clock):
    one, two = stores
    jobs = put(one, clock, 5) + put(one, clock, 5, tenant="b")
    for _ in range(9):
        told = {job: two.explain(job, clock.now_ms()) for job in jobs}
        (following,) = [job for job, why in told.items() if why.next]
        assert cycle(one, clock) == following
        clock.advance(ms=10)
    assert two.explain(jobs[0], clock.now_ms()).cause in {"not waiting", "next"}


def test_a_log_that_was_pruned_is_loaded_anew(stores, clock, monkeypatch):
    monkeypatch.setattr(ground, "STORE_EVERY", 4)
    monkeypatch.setattr(ground, "LOG_ROWS", 2)
    one, two = stores
    jobs = put(one, clock, 30)
    two.explain(jobs[0], clock.now_ms())
    for _ in range(20):
        cycle(one, clock)
    assert two.explain(jobs[20], clock.now_ms()).next
    assert two._follower is not None
    assert two._follower._mirror is not None


def test_a_failed_look_starts_anew(stores, clock, monkeypatch):
    one, two = stores
    (job,) = put(one, clock)
    two.explain(job, clock.now_ms())
    monkeypatch.setattr("fairlane.stores._mirror.Mirror.replay", lambda *_: 1 / 0)
    put(one, clock)
    with pytest.raises(ZeroDivisionError):
        two.explain(job, clock.now_ms())
    monkeypatch.undo()
    assert two.explain(job, clock.now_ms()).next


def test_inside_a_transaction(stores, clock):
    one, _ = stores
    (job,) = put(one, clock)
    with one.transaction():
        assert one.explain(job, clock.now_ms()).next
    assert cycle(one, clock) == job


def test_state_is_the_same_after_a_look(stores, clock):
    """Jobs that are due are as good as available for a moment; then the state is that of the log again."""
    one, two = stores
    jobs = put(one, clock, 2, tenant="b") + put(one, clock, 2, delay_ms=10)
    cycle(one, clock)
    clock.advance(ms=10)
    before = two.explain(jobs[2], clock.now_ms())
    assert two.explain(jobs[2], clock.now_ms()) == before
    with one.transaction():
        one.cancel(jobs[2], reason="", now_ms=clock.now_ms())
        one.cancel(jobs[3], reason="", now_ms=clock.now_ms())
    assert two.explain(jobs[1], clock.now_ms()).next == (one.peek(Ask("default", 1), clock.now_ms())[0].id == jobs[1])
    rows = one._raw.execute("SELECT kind FROM log ORDER BY id DESC LIMIT 1").fetchall()
    assert rows == [(STATED,)]


# ---------------------------------------------------------------- what it costs


def cost(store: SqliteStore, job: bytes, clock: ManualClock) -> tuple[int, int]:
    """Return statements and hundreds of steps of SQLite's machine that an explanation takes once it is warm."""
    store.explain(job, clock.now_ms())
    assert store._reader is not None
    statements: list[str] = []
    steps = [0]

    def step() -> int:
        steps[0] += 1
        return 0

    store._reader.raw.set_trace_callback(statements.append)
    store._reader.raw.set_progress_handler(step, 100)
    store.explain(job, clock.now_ms())
    store._reader.raw.set_trace_callback(None)
    store._reader.raw.set_progress_handler(None, 0)
    return len(statements), steps[0]


def test_cost_does_not_grow_with_what_waits(stores, clock):
    """The jobs behind it, and the other tenants', cost nothing: the same statements, the same steps."""
    one, two = stores
    job = put(one, clock, 20)[-1]
    statements, steps = cost(two, job, clock)
    assert statements <= 12
    put(one, clock, 5_000)
    put(one, clock, 2_000, tenant="b")
    more = cost(two, job, clock)
    assert more[0] == statements
    assert more[1] <= steps + 2


def test_place_is_counted_up_to_a_bound(stores, clock, monkeypatch):
    monkeypatch.setattr("fairlane.stores.tables.explaining.SHOWN_PLACE", 100)
    one, two = stores
    jobs = put(one, clock, 1_000)
    assert [str(two.explain(jobs[at], clock.now_ms()).place) for at in (99, 100, 101, 999)] == [
        "99",
        "100",
        "100+",
        "100+",
    ]
    statements, steps = cost(two, jobs[200], clock)
    assert cost(two, jobs[900], clock) == (statements, pytest.approx(steps, abs=5))
