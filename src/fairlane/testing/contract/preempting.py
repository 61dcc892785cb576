"""Preemption: urgent jobs that only slots hold back have others give way: one each, the right one, within bounds."""

# ruff: noqa: PLR2004  # a test's figures are its subject

from __future__ import annotations

import pytest

from fairlane.domain.jobs import Claim
from fairlane.domain.policy import Policy, Rate
from fairlane.domain.states import State
from fairlane.testing.contract.base import Contract, OpenBench
from fairlane.testing.contract.bench import LEASE_MS, Bench


def busy(
    b: Bench, *tiers: int, worker: str = "w", task: str = "long", queue: str = "q", express: bool = False
) -> list[Claim]:
    """Run a preemptible job of each tier on a worker, one started after the other."""
    b.declare(task, preemptible=True)
    claims: list[Claim] = []
    for tier in tiers:
        b.put(task, queue, "bulk", tier=tier, express=express)
        claims.append(b.take(worker=worker, tasks=[task], queues={queue: 1}))
        b.clock.advance(ms=10)
    return claims


def full(b: Bench, *tiers: int, worker: str = "w") -> list[Claim]:
    """Bring up a worker all of whose slots run preemptible jobs."""
    b.worker(worker, slots=len(tiers))
    return busy(b, *tiers, worker=worker)


def asked(b: Bench, claims: list[Claim]) -> list[int]:
    """Return which of some claims are told to give way, by their place in the list."""
    return [n for n, claim in enumerate(claims) if b.beat(claim) == "preempt"]


class PreemptingContract(Contract):
    """Section 3, last point; T-O11."""

    def test_urgent_job_has_one_give_way(self, b: Bench) -> None:
        """The latest started of the least urgent, after a second, once; it goes back to its place and counts so."""
        claims = full(b, 4, 4, 4)
        first = b.put("long", tenant="bulk", tier=4)
        urgent = b.put(tier=0)
        b.clock.advance(ms=999)
        assert b.preempt() == 0
        b.clock.advance(ms=1)
        b.heard.clear()
        assert b.preempt() == 1
        assert "ask" in b.heard
        assert b.preempt() == 0
        assert asked(b, claims) == [2]
        assert [(beat.seq, beat.answer) for beat in b.store.asked("w")] == [(claims[2].seq, "preempt")]
        assert b.save(claims[2], checkpoint='{"at": 7}')
        assert b.release(claims[2], preempted=True)
        record = b.job(claims[2].id)
        assert (record.state, record.preemptions, record.failures, record.crashes) == (State.AVAILABLE, 1, 0, 0)
        assert (record.arrival_ms, record.tier) == (claims[2].arrival_ms, 4)
        assert b.start(worker="w") == [urgent]
        assert b.preempt() == 0
        again = b.take(worker="w")
        assert (again.id, again.attempt, again.checkpoint) == (claims[2].id, claims[2].attempt, '{"at": 7}')
        assert b.start() == [first]

    def test_least_urgent_then_latest_started(self, b: Bench) -> None:
        """Of base tiers 2, 4, 3, 4, 1 the last of the 4, then the other, then 3, 2, 1."""
        claims = full(b, 2, 4, 3, 4, 1)
        order: list[int] = []
        for n in range(6):
            b.put(tenant=f"u{n}", tier=0)
            b.clock.advance(seconds=2)
            b.preempt()
            order += [n for n in asked(b, claims) if n not in order]
        assert order == [3, 1, 2, 0, 4]

    def test_one_is_asked_for_each_that_waits(self, b: Bench) -> None:
        """Two wait: two are asked; a third comes: one more; one that never yields is not replaced."""
        claims = full(b, 4, 4, 4, 4)
        jobs = [b.put(tenant=f"u{n}", tier=0) for n in range(2)]
        b.clock.advance(seconds=1)
        assert b.preempt() == 2
        b.put(tenant="u2", tier=0)
        b.clock.advance(seconds=1)
        assert b.preempt() == 1
        for _ in range(3):
            b.clock.advance(seconds=10)
            assert b.preempt() == 0
            assert asked(b, claims) == [1, 2, 3]
        b.cancel(jobs[0])
        b.put(tenant="u3", tier=0)
        b.clock.advance(seconds=1)
        assert b.preempt() == 1
        assert asked(b, claims) == [0, 1, 2, 3]

    def test_asked_job_may_end_instead(self, b: Bench) -> None:
        """It completes before it looks: its slot is free all the same, and nobody else is asked."""
        claims = full(b, 4, 4)
        urgent = b.put(tier=0)
        b.clock.advance(seconds=1)
        assert b.preempt() == 1
        assert b.done(claims[1])
        assert b.job(claims[1].id).preemptions == 0
        assert b.start(worker="w") == [urgent]
        assert b.preempt() == 0
        assert asked(b, claims[:1]) == []

    def test_wish_ends_with_the_run(self, b: Bench) -> None:
        """A job that was asked and runs again is not asked any more."""
        (claim,) = full(b, 4)
        urgent = b.put(tier=0)
        b.clock.advance(seconds=1)
        assert b.preempt() == 1
        b.release(claim, preempted=True)
        assert b.done(b.take(worker="w"))
        assert b.state(urgent) is State.COMPLETED
        again = b.take(worker="w")
        assert (again.id, b.beat(again)) == (claim.id, "ok")

    def test_no_job_gives_way_more_than_three_times(self, b: Bench) -> None:
        """Then it stays, and who waits waits; another limit may be given."""
        (claim,) = full(b, 4)
        for _ in range(3):
            b.put(tier=0)
            b.clock.advance(seconds=1)
            assert b.preempt() == 1
            b.release(claim, preempted=True)
            assert b.done(b.take(worker="w"))
            claim = b.take(worker="w")
        b.put(tier=0)
        b.clock.advance(seconds=60)
        b.beat(claim)
        assert b.preempt() == 0
        assert b.job(claim.id).preemptions == 3
        assert b.preempt(max_preemptions=4) == 1

    @pytest.mark.parametrize("tier", [1, 2])
    def test_less_urgent_work_preempts_nobody(self, b: Bench, tier: int) -> None:
        """HIGH and below wait for a slot, however long."""
        full(b, 4, 4)
        b.put(tier=tier)
        b.clock.advance(seconds=600)
        assert b.preempt() == 0

    def test_only_marked_tasks_give_way(self, b: Bench) -> None:
        """A task that does not say so is never asked; one that says so no more is not asked from then on."""
        b.worker("w", slots=2)
        b.put("long", tier=4)
        plain = b.take(worker="w")
        (claim,) = busy(b, 4, task="other")
        b.put(tier=0)
        b.clock.advance(seconds=1)
        b.declare("other", preemptible=False)
        assert b.preempt() == 0
        b.declare("other", preemptible=True)
        assert b.preempt() == 1
        assert asked(b, [plain, claim]) == [1]

    def test_equal_tier_and_express_jobs_stay(self, b: Bench) -> None:
        """CRITICAL jobs and express ones are never asked."""
        b.worker("w", slots=2)
        busy(b, 0)
        busy(b, 4, express=True)
        b.put(tier=0)
        b.put(tier=0, express=True)
        b.clock.advance(seconds=60)
        assert b.preempt() == 0

    @pytest.mark.parametrize(("tier", "gives_way"), [(0, [1]), (2, [1]), (3, [1]), (4, [])])
    def test_express_job_has_less_urgent_ones_asked(self, b: Bench, tier: int, gives_way: list[int]) -> None:
        """An express job counts by its base tier: one of BACKGROUND preempts nobody."""
        claims = full(b, 3, 4)
        job = b.put(tier=tier)
        b.expedite(job)
        b.clock.advance(seconds=1)
        assert b.preempt() == len(gives_way)
        assert asked(b, claims) == gives_way

    def test_free_slot_is_waited_for(self, b: Bench) -> None:
        """A slot that is free is not waited for for ever: its worker may drain or hang."""
        b.worker("hangs", slots=1)
        claims = full(b, 4)
        b.put(tier=0)
        b.clock.advance(ms=1_999)
        assert b.preempt() == 0
        b.clock.advance(ms=1)
        assert b.preempt() == 1
        assert asked(b, claims) == [0]

    def test_one_free_slot_serves_one(self, b: Bench) -> None:
        """Of two that wait one can have the free slot."""
        b.worker("other", slots=1)
        full(b, 4, 4)
        for n in range(2):
            b.put(tenant=f"u{n}", tier=0)
        b.clock.advance(seconds=1)
        assert b.preempt() == 1

    @pytest.mark.parametrize("what", ["queue", "task", "tenant", "limit", "wait"])
    def test_paused_work_preempts_nobody(self, b: Bench, what: str) -> None:
        """Only slots may hold it back; once it is resumed, it does."""
        b.declare("t", "openai")
        full(b, 4)
        b.put("t", "urgent", "a", tier=0)
        names = {"queue": "urgent", "task": "t", "tenant": "a", "limit": "openai"}
        if what == "wait":
            b.put("t", "urgent", "z", tier=0)
            claim = b.take(tasks=["t"])
            b.settle(claim, "snoozed", delay_ms=10**6, wait_for=("openai", 5_000))
        else:
            b.pause(what, names[what])  # type: ignore[arg-type]  # a RuleKind by construction
        b.clock.advance(seconds=3)
        assert b.preempt() == 0
        if what == "wait":
            b.clock.advance(seconds=3)
            assert b.claim(worker="w", queues={"other": 1}) == []
        else:
            b.resume(what, names[what])  # type: ignore[arg-type]
        assert b.preempt() == 1

    @pytest.mark.parametrize("what", ["queue", "tenant", "tenant in queue", "limit", "rate"])
    def test_no_more_than_caps_let_start(self, b: Bench, what: str) -> None:
        """Four wait and the cap has room for one more: one is asked; a full cap: none."""
        b.declare("t", "openai")
        if what == "queue":
            b.rule("queue", "urgent", max_running=2)
        elif what == "tenant":
            b.rule("tenant", "a", max_running=2)
        elif what == "tenant in queue":
            b.rule("queue", "urgent", tenant_max_running=2)
        elif what == "limit":
            b.rule("limit", "openai", max_running=2)
        else:
            b.rule("limit", "openai", rate=Rate(2, 10_000_000, 2))
        full(b, 4, 4, 4, 4)
        b.put("t", "urgent", "a", tier=2)
        b.take(queues={"urgent": 1})
        for _ in range(4):
            b.put("t", "urgent", "a", tier=0)
        b.clock.advance(seconds=1)
        assert b.preempt() == 1
        b.clock.advance(seconds=1)
        assert b.preempt() == 0
        assert b.claim(queues={"urgent": 1}) != []
        assert b.preempt() == 0

    def test_tenant_beyond_its_urgent_share(self, b: Bench) -> None:
        """Eight slots, a share of two: with two that run or were asked for, the rest is shared work."""
        full(b, *[4] * 8)
        for _ in range(5):
            b.put(tier=0, tenant="greedy")
        b.clock.advance(seconds=1)
        assert b.preempt() == 2
        assert b.preempt() == 0
        b.put(tier=0, tenant="other")
        b.clock.advance(seconds=1)
        assert b.preempt() == 1

    def test_share_binds_no_express_job(self, b: Bench) -> None:
        """Rule 2 goes before rule 3."""
        full(b, *[4] * 4)
        for _ in range(3):
            b.put(tier=0, tenant="greedy", express=True)
        b.clock.advance(seconds=1)
        assert b.preempt() == 3

    def test_only_where_it_could_run(self, b: Bench) -> None:
        """On a worker that serves the queue, of its pool, that knows the task; not where nobody knows."""
        b.worker("elsewhere", slots=1, queues=("other",))
        b.worker("pool", slots=1, pool="gpu")
        b.worker("unknowing", slots=1, tasks=("long",))
        b.worker("right", slots=1, queues=("other", "q"), tasks=("long", "t"))
        claims = [
            *busy(b, 4, worker="right"),
            *busy(b, 4, worker="elsewhere", queue="other"),
            *busy(b, 4, worker="unknowing"),
            *busy(b, 4, worker=""),
        ]
        b.put(tier=0, tenant="a")
        b.put(tier=0, tenant="b")
        b.clock.advance(seconds=1)
        assert b.preempt() == 1
        assert asked(b, claims) == [0]

    def test_slots_of_a_queue(self, b: Bench) -> None:
        """A worker whose slots of the queue are used up must be freed of a job of that queue."""
        b.worker("w", slots=4, queues=("mail", "setup"), queue_slots=(2, 2))
        claims = [*busy(b, 4, 4, queue="setup"), *busy(b, 4, 4, queue="mail")]
        b.put(queue="setup", tier=0)
        b.clock.advance(seconds=1)
        assert b.preempt() == 1
        assert asked(b, claims) == [1]

    def test_slots_of_a_queue_beside_free_ones(self, b: Bench) -> None:
        """Free slots of another queue do not help, nor does it help to free more of them."""
        b.worker("w", slots=4, queues=("mail", "setup"), queue_slots=(3, 1))
        b.put(queue="setup", tier=2)
        b.take(worker="w")
        busy(b, 4, queue="mail")
        b.put(queue="setup", tier=0)
        b.clock.advance(seconds=60)
        assert b.preempt() == 0

    def test_pass_is_bounded_and_changes_nothing_without_need(self, b: Bench) -> None:
        """At most ``limit`` are asked at once; a pass that asks nobody changes no row."""
        full(b, *[4] * 8)
        for tenant in "abcdefgh":
            b.put(tier=0, tenant=tenant)
        with b.unchanged():
            assert b.preempt() == 0
        b.clock.advance(seconds=1)
        assert [b.preempt(limit=3) for _ in range(4)] == [3, 3, 2, 0]
        with b.unchanged():
            assert b.preempt() == 0

    def test_scheduled_and_returning_jobs_count_from_when_they_are_available(self, b: Bench) -> None:
        """The delay of a retry is no wait."""
        full(b, 4)
        b.put(tier=0)
        b.fail(b.take(tasks=["t"]), delay_ms=10_000)
        b.clock.advance(seconds=10)
        assert b.preempt() == 0
        b.claim(queues={"other": 1})
        b.clock.advance(ms=999)
        assert b.preempt() == 0
        b.clock.advance(ms=1)
        assert b.preempt() == 1

    def test_cancelled_run_is_not_asked_again(self, b: Bench) -> None:
        """A cancel is the stronger wish, and stays one."""
        claims = full(b, 4, 4)
        b.cancel(claims[1].id)
        b.put(tier=0)
        b.clock.advance(seconds=1)
        assert b.preempt() == 1
        assert asked(b, claims) == [0]
        assert b.beat(claims[1]) == "cancel"

    def test_rescued_job_is_no_preemption(self, b: Bench) -> None:
        """A worker that dies with a job that was asked: a crash, and nothing else."""
        claims = full(b, 4)
        b.put(tier=0)
        b.clock.advance(seconds=1)
        assert b.preempt() == 1
        b.clock.advance(ms=LEASE_MS)
        b.rescue()
        record = b.job(claims[0].id)
        assert (record.crashes, record.preemptions) == (1, 0)

    def test_policies(self, open_bench: OpenBench) -> None:
        """By arrival alone a CRITICAL job would not get the slot, so nobody is asked for it; an express job would."""
        b = open_bench(policy=Policy.fifo())
        full(b, 4, 4)
        b.put(tier=0)
        b.clock.advance(seconds=1)
        assert b.preempt() == 0
        b.put(tier=0, express=True)
        b.clock.advance(seconds=1)
        assert b.preempt() == 1
