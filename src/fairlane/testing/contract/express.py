"""The express lane: a bounded number of jobs in front of all others, and no way to cheat, lose or double one."""

# ruff: noqa: PLR2004  # a test's figures are its subject

from __future__ import annotations

import pytest

from fairlane.domain.policy import Capacities
from fairlane.domain.states import State
from fairlane.errors import ExpressFull, InvalidValue
from fairlane.testing.contract.base import Contract, OpenBench
from fairlane.testing.contract.bench import Bench


def fill_lane(b: Bench, *, tenants: int = 4, of_each: int = 5) -> list[bytes]:
    """Put so many express jobs of so many tenants in the lane; by default as many as it holds."""
    return [b.put(tenant=f"x{n}", express=True) for n in range(tenants) for _ in range(of_each)]


class ExpressContract(Contract):
    """T-M1, T-M2, T-M3, F2, F4, F6, F7, F10."""

    # ------------------------------------------------------------------ in front

    def test_express_job_is_next(self, b: Bench) -> None:
        """T-M1: although hundreds wait, CRITICAL ones too, and its tenant has had more than its share."""
        b.fill({"a": 100, "b": 100})
        b.fill({"c": 50}, tier=0)
        job = b.put(tier=4, tenant="a")
        b.expedite(job)
        claim = b.take()
        assert (claim.id, claim.start.rule) == (job, "express")

    def test_oldest_expedite_goes_first(self, b: Bench) -> None:
        """Rule 2: by the order of the expedites, not by tier, tenant or arrival."""
        jobs = [b.put(tier=n % 5, tenant="abc"[n % 3]) for n in range(6)]
        order = [jobs[n] for n in (3, 0, 5, 1)]
        for job in order:
            b.expedite(job)
        assert b.start(4) == order
        assert sorted(b.drain()) == sorted((jobs[2], jobs[4]))

    def test_expedite_is_a_fact_of_the_one_job(self, b: Bench) -> None:
        """F7: no second message: the job keeps id, tier, arrival, counts, and runs once."""
        job = b.put(tier=3)
        b.fail(b.take())
        before = b.job(job)
        record = b.expedite(job)
        assert record == b.job(job)
        assert record.express is not None
        for field in ("id", "seq", "tier", "tenant", "arrival_ms", "failures", "errors", "fence", "args"):
            assert getattr(record, field) == getattr(before, field), field
        assert b.drain() == [job]
        assert len(b.all_jobs()) == 1

    def test_expedite_makes_a_scheduled_job_available(self, b: Bench) -> None:
        """Section 4: a job that waits for its time or its retry starts now."""
        due, retry = b.put(delay_ms=10**6), b.put()
        b.fail(b.take(), delay_ms=10**6)
        for job in (due, retry):
            arrival_ms = b.job(job).arrival_ms
            assert b.expedite(job).state is State.AVAILABLE
            assert b.job(job).arrival_ms == arrival_ms
        assert b.drain() == [due, retry]

    def test_expedite_again_changes_no_place(self, b: Bench) -> None:
        """An express job that is expedited again keeps its place and takes up one."""
        b2 = [b.put() for _ in range(2)]
        for job in (*b2, b2[0], b2[1], b2[0]):
            b.expedite(job)
        assert b.job(b2[0]).express is not None
        assert len([job for job in b.all_jobs() if job.express is not None]) == 2
        assert b.drain() == b2

    def test_express_jobs_obey_what_the_worker_can_run(self, b: Bench) -> None:
        """An express job starts where its queue is served and its task known, and nowhere else."""
        other, unknown, here = (
            b.put(queue="other", express=True),
            b.put("new.task", express=True),
            b.put(express=True),
        )
        assert b.start(5, queues={"q": 5}, tasks=["t"]) == [here]
        assert b.start(5) == [other, unknown]

    # ------------------------------------------------------------------ the capacity

    def test_twenty_wait(self, b: Bench) -> None:
        """T-M2, T-M3: the 21st is refused with both figures and stores nothing; one that starts makes room for one."""
        fill_lane(b)
        with b.refused(ExpressFull) as caught:
            b.put(tenant="y", express=True)
        assert (caught.value.current, caught.value.maximum) == (20, 20)
        b.take()
        b.put(tenant="y", express=True)
        with b.refused(ExpressFull):
            b.put(tenant="z", express=True)

    def test_five_of_one_tenant_wait(self, b: Bench) -> None:
        """Section 4: a named tenant has five places, whatever room there is."""
        fill_lane(b, tenants=1)
        with b.refused(ExpressFull) as caught:
            b.put(tenant="x0", express=True)
        assert (caught.value.current, caught.value.maximum) == (5, 5)
        b.put(tenant="x1", express=True)

    def test_default_tenant_is_bounded_by_the_capacity_alone(self, b: Bench) -> None:
        """Section 4: who uses no tenants has all twenty places."""
        for _ in range(20):
            b.put(tenant="default", express=True)
        with b.refused(ExpressFull) as caught:
            b.put(tenant="default", express=True)
        assert (caught.value.current, caught.value.maximum) == (20, 20)

    @pytest.mark.parametrize("delay_ms", [0, 60_000])
    def test_refused_expedite_leaves_the_job_as_it_was(self, b: Bench, delay_ms: int) -> None:
        """T-M3, F4: byte-identical, available or scheduled, and still able to run."""
        fill_lane(b)
        job = b.put(tenant="y", delay_ms=delay_ms)
        before = b.job(job)
        with b.refused(ExpressFull):
            b.expedite(job)
        assert b.job(job) == before
        b.clock.advance(seconds=60)
        assert job in b.drain()

    def test_refused_expedite_of_a_tenants_sixth(self, b: Bench) -> None:
        """The tenant's own bound refuses an expedite as it refuses an enqueue."""
        fill_lane(b, tenants=1)
        job = b.put(tenant="x0")
        with b.refused(ExpressFull):
            b.expedite(job)

    def test_scheduled_express_jobs_take_up_places(self, b: Bench) -> None:
        """Section 4: at most twenty wait, "scheduled or available"."""
        for n in range(20):
            b.put(tenant=f"x{n}", express=True, delay_ms=60_000)
        with b.refused(ExpressFull):
            b.put(tenant="y", express=True)

    def test_scheduled_express_job_starts_at_its_time(self, b: Bench) -> None:
        """``enqueue(…, delay=…, expedite=True)``: in front once it is due, and not before."""
        job = b.put(express=True, delay_ms=1_000)
        other = b.put(tier=0)
        assert b.start() == [other]
        b.clock.advance(seconds=1)
        b.put(tier=0)
        assert b.start() == [job]

    @pytest.mark.parametrize("way", ["complete", "die", "cancel", "clear", "expire"])
    def test_place_is_free_when_the_job_has_ended(self, b: Bench, way: str) -> None:
        """Section 4: whichever way an express job ends, its place is free."""
        jobs = [b.put(express=True, expires_at_ms=b.now_ms + 1_000) for _ in range(5)]
        if way == "cancel":
            b.cancel(jobs[0])
        elif way == "clear":
            b.clear(limit=1)
        elif way == "expire":
            b.clock.advance(seconds=2)
            b.claim()
        else:
            end = b.done if way == "complete" else b.die
            end(b.take())
        ended = [job for job in jobs if not b.state(job).live]
        assert ended
        for _ in ended:
            b.put(express=True)
        with b.refused(ExpressFull):
            b.put(express=True)

    @pytest.mark.parametrize("way", ["complete", "die", "cancel"])
    def test_ended_job_is_express_no_more(self, b: Bench, way: str) -> None:
        """Section 4: "express ends with the phase"."""
        job = b.put(express=True)
        if way == "cancel":
            b.cancel(job)
        else:
            end = b.done if way == "complete" else b.die
            end(b.take())
        assert b.job(job).express is None

    def test_capacities_of_the_store(self, open_bench: OpenBench) -> None:
        """The two figures are settings; none of them is 0 or less."""
        b = open_bench(capacities=Capacities(express_capacity=3, express_per_tenant=2))
        b.put(tenant="x", express=True)
        b.put(tenant="x", express=True)
        with b.refused(ExpressFull):
            b.put(tenant="x", express=True)
        b.put(tenant="y", express=True)
        with b.refused(ExpressFull):
            b.put(tenant="z", express=True)
        for odd in (0, -1, True, 1.5):
            with pytest.raises(InvalidValue):
                Capacities(express_capacity=odd)  # type: ignore[arg-type]  # that is the point
            with pytest.raises(InvalidValue):
                Capacities(express_per_tenant=odd)  # type: ignore[arg-type]  # as above

    def test_batch_counts_itself(self, b: Bench) -> None:
        """F6: the jobs of one call count against each other: five fit, the sixth refuses all."""
        b.enqueue(*(b.new(express=True) for _ in range(5)))
        with b.refused(ExpressFull):
            b.enqueue(b.new(tenant="y"), *(b.new(tenant="y", express=True) for _ in range(6)))

    # ------------------------------------------------------------------ what comes back

    @pytest.mark.parametrize("way", ["retry", "retry later", "rescue", "drain", "preemption", "snooze"])
    def test_express_job_that_comes_back_keeps_its_place(self, b: Bench, way: str) -> None:
        """Section 4: "keeps its express place even beyond the capacity"; nobody new gets in meanwhile."""
        jobs = fill_lane(b)
        claim = b.take()
        assert claim.id == jobs[0]
        late = b.put(tenant="y", express=True)
        if way == "rescue":
            b.lapse()
            assert b.rescue() == 1
        elif way.startswith("retry"):
            assert b.fail(claim, delay_ms=0 if way == "retry" else 5_000)
        elif way == "snooze":
            assert b.snooze(claim)
        else:
            assert b.release(claim, preempted=way == "preemption")
        with b.refused(ExpressFull) as caught:
            b.put(tenant="z", express=True)
        assert (caught.value.current, caught.value.maximum) == (21, 20)
        b.clock.advance(seconds=5)
        assert b.drain() == [*jobs, late]

    def test_boost_and_pause_keep_express_places(self, b: Bench) -> None:
        """Nothing but the end of the job takes it out of the lane."""
        jobs = [b.put(express=True) for _ in range(3)]
        b.boost(jobs[2], 0)
        b.pause("queue", "q")
        b.put(tier=0)
        b.resume("queue", "q")
        assert b.drain()[:3] == jobs

    # ------------------------------------------------------------------ limits

    def test_blocked_express_job_blocks_no_other(self, b: Bench) -> None:
        """F2: an express job whose task is full, or that no worker serves, lets the others through."""
        b.declare("full", "openai")
        b.rule("limit", "openai", max_running=0)
        b.pause("tenant", "p")
        blocked = [
            b.put("full", express=True),
            b.put(tenant="p", express=True),
            b.put(queue="unserved", express=True),
        ]
        free, normal = b.put(tenant="b", express=True), b.put(tenant="b")
        assert b.drain(queues={"q": 99}) == [free, normal]
        assert [b.state(job) for job in blocked] == [State.AVAILABLE] * 3

    def test_limits_hold_for_express_jobs(self, b: Bench) -> None:
        """T-M21: queue, tenant and named limits are exact for express jobs too."""
        b.declare("t", "openai")
        b.rule("limit", "openai", max_running=4)
        b.rule("queue", "q", max_running=3)
        b.rule("tenant", "x0", max_running=1)
        fill_lane(b)
        claims = b.claim(20)
        assert len(claims) == 3
        assert sum(claim.start.lane.tenant == "x0" for claim in claims) == 1

    def test_waiting_uses_nothing_up(self, b: Bench) -> None:
        """F3: an express job that cannot run for days is no failure and keeps its place."""
        b.pause("queue", "q")
        first, second = b.put(express=True), b.put(express=True)
        for _ in range(5):
            b.clock.advance(seconds=86_400)
            assert b.claim() == []
            b.rescue()
        assert (b.job(first).failures, b.job(first).crashes, b.job(first).fence) == (0, 0, b.job(second).fence)
        b.resume("queue", "q")
        assert b.start(2) == [first, second]

    def test_express_of_one_pool_is_not_seen_by_another(self, b: Bench) -> None:
        """The lane's order holds in each pool; its capacity over all of them."""
        b.rule("queue", "gpu", pool="gpus")
        gpu, cpu = b.put(queue="gpu", express=True), b.put(express=True)
        assert b.start(5) == [cpu]
        assert b.start(5, pool="gpus") == [gpu]
