"""Explanations: each cause by hand, and that what is said to be next is what the next claim starts."""

# ruff: noqa: PLR2004  # a test's figures are its subject

from __future__ import annotations

import random

import msgspec
import pytest

from fairlane.domain.explaining import Explanation
from fairlane.domain.inversions import Inversions, Setting, inversions
from fairlane.domain.jobs import Claim, WorkerRecord
from fairlane.domain.lanes import Ask
from fairlane.domain.policy import Policy, Rate
from fairlane.domain.sightings import wait_rows
from fairlane.domain.states import State
from fairlane.domain.tiers import Tier
from fairlane.errors import JobNotFound
from fairlane.insight import setting_of
from fairlane.store import RuleKind
from fairlane.testing.contract.base import Contract, OpenBench
from fairlane.testing.contract.bench import Bench, job_id
from fairlane.testing.contract.limits import NAMES

HOUR_MS = 3_600_000
KINDS: tuple[RuleKind, ...] = ("queue", "task", "tenant", "limit")


def why(b: Bench, job: bytes) -> Explanation:
    """Return why a job is waiting."""
    return b.store.explain(job, b.now_ms)


def causes(told: Explanation) -> list[str]:
    """Return all causes, the main one first."""
    return [blocker.cause for blocker in told.blockers]


def looked_at(b: Bench, *, window_ms: int = HOUR_MS) -> Inversions:
    """Return the inversions of the last hour."""
    since_ms = b.now_ms - window_ms
    store = b.store
    starts, heads = store.starts(since_ms, limit=1_000), store.heads(limit=1_000)
    return inversions(starts, heads, setting_of(store, since_ms), since_ms=since_ms, now_ms=b.now_ms, more=False)


class ExplainingContract(Contract):
    """T-O8, T-O9, section 6: why a job waits, how long jobs waited, what overtook what."""

    # ------------------------------------------------------------------ what closes the way

    def test_why_next(self, b: Bench) -> None:
        """The first job, a free slot: nothing holds it back, and the next claim starts it."""
        b.worker("w")
        job = b.put()
        told = why(b, job)
        assert (told.cause, told.next, told.blockers, told.rule) == ("next", True, (), "shared")
        assert told.place is not None
        assert str(told.place) == "0"
        assert b.take().id == job

    @pytest.mark.parametrize("kind", KINDS)
    def test_why_pause(self, b: Bench, kind: RuleKind) -> None:
        """A pause is told with its reason, who set it and until when; without an end nobody knows when it starts."""
        b.worker("w")
        b.declare("t", "openai")
        job = b.put()
        b.pause(kind, NAMES[kind], until_ms=b.now_ms + 60_000)
        told = why(b, job)
        assert told.cause == "pause"
        blocker = told.blockers[0]
        assert (blocker.kind, blocker.name, blocker.reason, blocker.by) == (kind, NAMES[kind], "maintenance", "ops")
        assert blocker.until_ms == b.now_ms + 60_000
        b.pause(kind, NAMES[kind])
        told = why(b, job)
        assert (told.cause, told.blockers[0].until_ms, told.starts_in) == ("pause", None, None)
        assert "pause" in told.starts_unknown
        b.resume(kind, NAMES[kind])
        assert why(b, job).cause == "next"

    def test_why_pause_that_has_ended(self, b: Bench) -> None:
        """Time ends a pause without anybody's claim."""
        b.worker("w")
        job = b.put()
        b.pause("queue", "q", until_ms=b.now_ms + 1_000)
        assert why(b, job).cause == "pause"
        b.clock.advance(ms=1_000)
        assert why(b, job).cause == "next"

    @pytest.mark.parametrize(("kind", "cause"), [("queue", "queue full"), ("tenant", "tenant cap"), ("limit", "limit")])
    def test_why_max_running(self, b: Bench, kind: RuleKind, cause: str) -> None:
        """What is full is told with how many run and how many may."""
        b.worker("w")
        b.declare("t", "openai")
        b.rule(kind, NAMES[kind], max_running=2)
        b.fill({"a": 2})
        job = b.put()
        held = b.claim(2)
        told = why(b, job)
        assert told.cause == cause
        assert (told.blockers[0].kind, told.blockers[0].current, told.blockers[0].maximum) == (kind, 2, 2)
        assert "2 of at most 2" in told.summary
        b.done(held[0])
        assert why(b, job).cause == "next"

    def test_why_cap_of_a_tenant_in_a_queue(self, b: Bench) -> None:
        """The cap of a (queue, tenant) is told as the tenant's, naming the queue."""
        b.worker("w")
        b.rule("queue", "q", tenant_max_running=1)
        b.put()
        job = b.put()
        b.take()
        told = why(b, job)
        assert (told.cause, told.blockers[0].current, told.blockers[0].maximum) == ("tenant cap", 1, 1)
        assert "queue 'q'" in told.summary

    @pytest.mark.parametrize("kind", ["tenant", "limit"])
    def test_why_rate(self, b: Bench, kind: RuleKind) -> None:
        """A rate is told with the instant at which it opens, and that is when it does."""
        b.worker("w")
        b.declare("t", "openai")
        b.rule(kind, NAMES[kind], rate=Rate.of(1, per=10))
        b.put()
        job = b.put()
        b.take()
        told = why(b, job)
        assert (told.cause, told.blockers[0].until_ms) == ("rate", b.now_ms + 10_000)
        b.clock.advance(ms=9_999)
        assert b.claim() == []
        b.clock.advance(ms=1)
        assert why(b, job).cause == "next"
        assert b.take().id == job

    def test_why_told_to_wait(self, b: Bench) -> None:
        """A limit that a handler was told to wait for is closed until then."""
        b.worker("w")
        b.declare("t", "openai")
        job = b.put()
        b.put(tenant="b")
        b.settle(b.take(), "snoozed", delay_ms=1, wait_for=("openai", 20_000))
        told = why(b, job)
        assert (told.cause, told.blockers[0].kind, told.blockers[0].until_ms) == ("limit", "limit", b.now_ms + 20_000)

    def test_why_limit_of_each_tenant(self, b: Bench) -> None:
        """``smtp:{tenant}`` is told with the tenant filled in, and holds back no other tenant."""
        b.worker("w")
        b.declare("t", "smtp:{tenant}")
        b.rule("limit", "smtp:{tenant}", max_running=1)
        b.put()
        job = b.put()
        b.take()
        other = b.put(tenant="b")
        assert (why(b, job).cause, why(b, job).blockers[0].name) == ("limit", "smtp:a")
        assert why(b, other).cause == "next"

    def test_why_schedule(self, b: Bench) -> None:
        """A scheduled job, and a retry, is told with its instant; one that is due is as good as available."""
        b.worker("w")
        job = b.put(delay_ms=5_000)
        told = why(b, job)
        assert (told.cause, told.blockers[0].until_ms) == ("schedule", b.now_ms + 5_000)
        b.clock.advance(ms=5_000)
        assert b.state(job) is State.SCHEDULED
        assert why(b, job).cause == "next"
        b.fail(b.take(), delay_ms=7_000)
        told = why(b, job)
        assert (told.cause, told.blockers[0].until_ms) == ("schedule", b.now_ms + 7_000)
        assert "attempt 2" in told.summary

    def test_why_no_worker(self, b: Bench) -> None:
        """No live worker for the queue, or none that knows the task; one that was killed does not count."""
        job = b.put()
        assert why(b, job).cause == "no worker"
        b.worker("other", queues=("elsewhere",))
        assert why(b, job).cause == "no worker"
        record = WorkerRecord(id="knows", pool="default", queues=None, slots=1, tasks=("u",))
        b.write(lambda store, now_ms: store.register(record, now_ms))
        presence = b.store.presence("knows")
        told = why(b, job)
        assert (told.cause, told.blockers[0].kind, told.blockers[0].name) == ("no worker", "task", "t")
        presence.close()
        b.worker("w")
        assert why(b, job).cause == "next"
        assert told.starts_in is None

    def test_why_pulled_by_a_program(self, b: Bench) -> None:
        """A program that claims by itself counts as somebody who serves the queue, for a minute."""
        b.claim()
        job = b.put()
        told = why(b, job)
        assert (told.cause, told.next, told.starts_in) == ("next", True, None)
        b.clock.advance(ms=60_001)
        assert why(b, job).cause == "no worker"

    def test_why_all_blockers_are_told(self, b: Bench) -> None:
        """Everything that holds it back is told at once, the main cause first."""
        b.declare("t", "openai")
        b.rule("limit", "openai", max_running=0)
        b.rule("queue", "q", max_running=0)
        b.pause("tenant", "a")
        told = why(b, b.put(delay_ms=5_000))
        assert causes(told)[:5] == ["schedule", "pause", "queue full", "limit", "no worker"]

    # ------------------------------------------------------------------ what goes first

    def test_why_slots_busy(self, b: Bench) -> None:
        """The first job waits for a slot."""
        b.worker("w", slots=1)
        b.put()
        job = b.put()
        b.take(worker="w")
        told = why(b, job)
        assert (told.cause, told.next, told.blockers[0].current, told.blockers[0].maximum) == ("slots busy", True, 1, 1)

    def test_why_own_jobs_ahead(self, b: Bench) -> None:
        """Jobs of the same lane go first, and are counted."""
        b.worker("w")
        b.fill({"a": 3})
        job = b.put()
        told = why(b, job)
        assert (told.cause, str(told.place), told.blockers[0].current) == ("own jobs ahead", "3", 3)

    def test_why_turns_ahead(self, b: Bench) -> None:
        """Tenants that have used less go first; after them it is next."""
        b.worker("w")
        b.fill({"a": 2})
        b.run(1, run_ms=50_000)
        job = b.all_jobs(states=(State.AVAILABLE,))[0].id
        b.put(tenant="b")
        b.put(tenant="c")
        told = why(b, job)
        assert (told.cause, str(told.tenants_ahead)) == ("turns ahead", "2")
        b.run(2)
        assert why(b, job).cause == "next"

    def test_why_many_tenants_ahead_are_cut(self, b: Bench) -> None:
        """A figure cut short says so."""
        b.worker("w")
        b.fill({"a": 2})
        b.run(1, run_ms=50_000)
        job = b.all_jobs(states=(State.AVAILABLE,))[0].id
        b.fill({f"t{number}": 1 for number in range(101)})
        assert str(why(b, job).tenants_ahead) == "100+"

    def test_why_urgent_ahead(self, b: Bench) -> None:
        """Urgent work goes before a shared job, whoever's turn it is."""
        b.worker("w")
        job = b.put()
        b.put(tenant="b", tier=Tier.CRITICAL)
        told = why(b, job)
        assert (told.cause, str(told.tenants_urgent)) == ("urgent ahead", "1")

    def test_why_express_ahead(self, b: Bench) -> None:
        """An express job that may run goes first; one that may not holds nobody back."""
        b.worker("w")
        job = b.put()
        fast = b.put(tenant="b", express=True)
        told = why(b, job)
        assert (told.cause, str(told.express_ahead), why(b, fast).cause) == ("express ahead", "1", "next")
        second = b.put(tenant="b", express=True)
        assert (why(b, second).cause, str(why(b, second).place)) == ("express ahead", "1")
        b.pause("tenant", "b")
        assert why(b, job).cause == "next"

    def test_why_guarantee_due(self, b: Bench) -> None:
        """When the eighth start belongs to risen jobs, the job that would else be next says so."""
        b.worker("w")
        old = b.put(tenant="old", tier=Tier.BACKGROUND)
        b.clock.advance(ms=200_000)
        b.fill({"a": 8}, tier=Tier.CRITICAL)
        while b.store.explain(old, b.now_ms).cause == "urgent ahead":
            b.run(1)
        assert (why(b, old).cause, why(b, old).rule) == ("next", "risen")
        critical = b.all_jobs(states=(State.AVAILABLE,), tenant="a")[-1].id
        assert why(b, critical).cause == "guarantee due"
        assert b.take().id == old

    def test_why_worker_of_other_queues_does_not_count_them(self, b: Bench) -> None:
        """What a worker that serves only the job's queue would not start does not stand before it."""
        b.worker("w", queues=("q",))
        b.put("t", "elsewhere", "b", tier=Tier.CRITICAL)
        assert why(b, b.put()).cause == "next"

    # ------------------------------------------------------------------ about when

    def test_why_estimate(self, b: Bench) -> None:
        """Nobody knows before anything has run; then a range that holds what the figures say."""
        b.worker("w", slots=1)
        b.fill({"a": 11})
        job = b.all_jobs()[0].id
        assert why(b, job).starts_in is None
        b.run(1, run_ms=2_000)
        told = why(b, job)
        assert told.starts_in is not None
        assert told.starts_in[0] <= 9 * 2.0 <= told.starts_in[1]
        for _ in range(9):
            b.run(1, run_ms=2_000)
        told = why(b, job)
        assert told.starts_in is not None
        assert told.starts_in[0] == 0

    # ------------------------------------------------------------------ other states

    def test_why_running_and_ended(self, b: Bench) -> None:
        """A job that does not wait is told with its state, without a place."""
        job = b.put()
        claim = b.take()
        told = why(b, job)
        assert (told.state, told.cause, told.place) == (State.RUNNING, "not waiting", None)
        b.done(claim)
        assert (why(b, job).state, why(b, job).cause) == (State.COMPLETED, "not waiting")

    def test_why_in_another_pool(self, b: Bench) -> None:
        """Workers and tenants of another pool do not count, whether it waits or runs."""
        b.rule("queue", "gpu", pool="gpus")
        b.worker("w")
        b.put(tenant="b", tier=Tier.CRITICAL)
        job = b.put(queue="gpu")
        assert (why(b, job).cause, why(b, job).pool) == ("no worker", "gpus")
        b.worker("g", pool="gpus")
        assert why(b, job).cause == "next"
        assert b.take(pool="gpus").id == job
        assert (why(b, job).cause, why(b, job).pool) == ("not waiting", "gpus")

    def test_why_expired(self, b: Bench) -> None:
        """A job that has expired waits for nothing, before and after a claim has noticed."""
        job = b.put(expires_at_ms=b.now_ms + 1_000)
        b.clock.advance(ms=1_000)
        assert (why(b, job).cause, "expired" in why(b, job).summary) == ("not waiting", True)
        b.claim()
        assert (why(b, job).state, "expired" in why(b, job).summary) == (State.CANCELLED, True)

    def test_why_unknown_job(self, b: Bench) -> None:
        """An id that is nobody's."""
        with pytest.raises(JobNotFound):
            b.store.explain(job_id(b.now_ms), b.now_ms)

    def test_why_changes_nothing(self, b: Bench) -> None:
        """It is a question: no row changes, also not for jobs that are due."""
        b.worker("w")
        b.fill({"a": 3, "b": 2})
        job = b.put(delay_ms=10)
        b.clock.advance(ms=20)
        with b.unchanged():
            why(b, job)

    def test_why_follows_a_change_of_policy(self, b: Bench) -> None:
        """What the policy decides is told by the policy of now."""
        b.worker("w")
        b.put(tenant="b")
        b.clock.advance(ms=1)
        job = b.put(tier=Tier.CRITICAL)
        assert why(b, job).rule == "urgent"
        policy, capacities = Policy.fifo(), b.store.settings()[1]
        b.write(lambda store, now_ms: store.configure(policy, capacities, by="ops", now_ms=now_ms))
        told = why(b, job)
        assert (told.cause, told.rule) == ("turns ahead", "fifo")

    @pytest.mark.parametrize("kind", ["fair", "strict", "fifo"])
    @pytest.mark.parametrize("seed", range(4))
    def test_why_agrees_with_the_next_claim(self, open_bench: OpenBench, kind: str, seed: int) -> None:
        """What is said to be next is what the next claim starts, and nothing else is; no inversion is unexplained."""
        b = open_bench(policy=Policy.named(kind, ageing_step=5))
        _Walk(b, random.Random(seed), gates=seed % 2 == 0).run(60)

    # ------------------------------------------------------------------ waits and inversions

    def test_waits(self, b: Bench) -> None:
        """Waits of what has started, by any fields, a job that came back from when it came back."""
        first = b.put()
        b.clock.advance(ms=1_000)
        b.fail(b.take(), delay_ms=5_000)
        b.put(tenant="b", tier=Tier.HIGH)
        b.clock.advance(ms=5_000)
        b.done(b.take())
        b.clock.advance(ms=500)
        again = b.take()
        assert again.id == first
        rows = wait_rows(b.store.starts(0, limit=10), ("tenant",))
        assert {(row.tenant, row.jobs, row.max) for row in rows} == {("a", 1, 0.5), ("b", 1, 5.0)}
        assert b.store.starts(b.now_ms + 1, limit=10) == []
        assert len(b.store.starts(0, limit=1)) == 1

    def test_inversion_of_a_turn(self, b: Bench) -> None:
        """A LOW job started in its tenant's turn while another tenant's NORMAL job waited."""
        b.worker("w", slots=1)
        b.fill({"b": 2})
        b.run(1, run_ms=60_000, worker="w")
        b.put(tier=Tier.LOW)
        b.clock.advance(ms=10)
        b.done(b.take(worker="w"))
        told = looked_at(b)
        assert {name: n for name, n in told.counts.items() if n} == {"turn": 1}
        assert told.unexplained == ()

    def test_inversion_of_a_limit_and_a_worker(self, b: Bench) -> None:
        """A paused queue and a worker that does not serve a queue explain what they explain."""
        b.put("t", "paused", tier=Tier.CRITICAL)
        b.pause("queue", "paused")
        b.clock.advance(ms=10)
        b.put()
        b.clock.advance(ms=10)
        b.take(queues={"q": 1})
        assert {name for name, n in looked_at(b).counts.items() if n} <= {"limit", "worker's queues"}
        assert sum(looked_at(b).counts.values()) == 1

    def test_unexplained_inversion_is_found(self, b: Bench) -> None:
        """A start that no rule allows is listed: here the row is told to lie."""
        urgent = b.put(tier=Tier.CRITICAL)
        low = b.put(tenant="b", tier=Tier.LOW)
        b.clock.advance(ms=10)
        b.claim(2)
        b.clock.advance(ms=10)
        starts = b.store.starts(0, limit=10)
        lying = [msgspec.structs.replace(one, started_ms=b.now_ms) if one.id == urgent else one for one in starts]
        setting = Setting(policy=Policy.fair())
        told = inversions(lying, [], setting, since_ms=0, now_ms=b.now_ms, more=False)
        assert [(one.started, one.waiting) for one in told.unexplained] == [(low, urgent)]

    def test_starts_of_another_policy_are_not_judged(self, b: Bench) -> None:
        """After a change of the policy only what it chose counts; a job whose tier was changed is no witness."""
        b.worker("w")
        b.put(tier=Tier.CRITICAL)
        b.put(tenant="b", tier=Tier.LOW)
        b.put(tenant="c", tier=Tier.LOW)
        b.clock.advance(ms=10)
        policy, capacities = Policy.fifo(), b.store.settings()[1]
        b.claim(2, worker="w")
        (waits,) = [job.id for job in b.all_jobs(states=(State.AVAILABLE,))]
        b.boost(waits, Tier.CRITICAL)
        assert sum(looked_at(b).counts.values()) == 0
        assert looked_at(b).starts == 2
        b.clock.advance(ms=10)
        b.write(lambda store, now_ms: store.configure(policy, capacities, by="ops", now_ms=now_ms))
        assert looked_at(b).starts == 0

    def test_age_heuristic(self, b: Bench) -> None:
        """T-O9: a lane whose first job has waited over 10 s longer than a more urgent job; within a tier never."""
        old = b.put(tenant="old", tier=Tier.BACKGROUND)
        b.clock.advance(ms=10_000)
        b.put(tenant="close", tier=Tier.HIGH)
        assert looked_at(b).aged == ()
        b.clock.advance(ms=1)
        urgent = b.put(tenant="new", tier=Tier.HIGH)
        told = looked_at(b)
        assert [(pair.less_urgent, pair.more_urgent, pair.longer_ms) for pair in told.aged] == [(old, urgent, 10_001)]


class _Walk:
    """Random steps; before every claim all waiting jobs are explained.

    With ``gates`` rules come and go and programs claim by themselves; without, a worker on record claims that serves
    everything, so that little is left to explain an inversion.
    """

    def __init__(self, b: Bench, draw: random.Random, *, gates: bool) -> None:
        self.b = b
        self.draw = draw
        self.gates = gates
        self.running: list[Claim] = []

    def run(self, steps: int) -> None:
        b, draw = self.b, self.draw
        acts = [self.put, self.put, self.claim, self.claim, self.end]
        if self.gates:
            b.declare("k0", "api")
            acts += [self.pause, self.cap]
        else:
            b.worker("w", slots=4)
        for _ in range(steps):
            draw.choice(acts)()
            b.clock.advance(ms=draw.choice((0, 1, 700, 4_000)))
        told = looked_at(b)
        assert told.unexplained == ()

    def put(self) -> None:
        draw = self.draw
        self.b.put(
            draw.choice(("k0", "k1")),
            draw.choice(("q0", "q1")),
            draw.choice("abc"),
            tier=draw.randrange(5),
            delay_ms=draw.choice((0, 0, 0, 900)),
            express=draw.random() < 0.05 and self.b.waiting() < 10,
        )

    def claim(self) -> None:
        b = self.b
        waiting = [job for job in b.all_jobs() if job.state.waiting]
        told = {job.id: why(b, job.id) for job in waiting}
        expected = [job for job, one in told.items() if one.next]
        for one in told.values():
            if one.next:
                assert one.cause in {"next", "slots busy", "no worker"}
            else:
                assert one.cause not in {"next", "slots busy"}
        peeked = b.store.peek(Ask("default", 1), b.now_ms)
        claims = b.claim(lease_ms=10**10, worker="" if self.gates else "w")
        assert [claim.id for claim in claims] == expected
        assert [job.id for job in peeked] == [claim.id for claim in claims]
        for claim in claims:
            assert told[claim.id].rule == claim.start.rule
        self.running += claims

    def end(self) -> None:
        if self.running:
            claim = self.running.pop(self.draw.randrange(len(self.running)))
            if self.draw.random() < 0.7:
                self.b.done(claim, run_ms=self.draw.choice((1, 900, 30_000)))
            else:
                self.b.fail(claim, delay_ms=self.draw.choice((0, 1_500)))

    def pause(self) -> None:
        pausable: tuple[tuple[RuleKind, str], ...] = (("queue", "q0"), ("task", "k1"), ("tenant", "a"))
        kind, name = self.draw.choice(pausable)
        if self.draw.random() < 0.5:
            self.b.pause(kind, name, until_ms=self.b.now_ms + 1_000)
        else:
            self.b.resume(kind, name)

    def cap(self) -> None:
        capped: tuple[tuple[RuleKind, str], ...] = (("queue", "q1"), ("tenant", "b"), ("limit", "api"))
        kind, name = self.draw.choice(capped)
        self.b.rule(kind, name, max_running=self.draw.choice((None, 1, 2)))
