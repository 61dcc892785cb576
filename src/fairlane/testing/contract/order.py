"""Order: a function of stored facts and the clock, whatever happens to the jobs on their way."""

# ruff: noqa: PLR2004  # a test's figures are its subject

from __future__ import annotations

from collections.abc import Callable

import pytest

from fairlane.domain.jobs import Claim
from fairlane.domain.policy import Policy
from fairlane.testing.clock import ManualClock
from fairlane.testing.contract.base import Contract, OpenBench
from fairlane.testing.contract.bench import Bench


def _rescued(b: Bench, _: Claim) -> None:
    b.lapse()
    b.rescue()


def _retried_by_hand(b: Bench, claim: Claim) -> None:
    b.die(claim)
    b.retry(claim.id)


WAYS_BACK: dict[str, Callable[[Bench, Claim], object]] = {
    "retry at once": lambda b, claim: b.fail(claim),
    "retry later": lambda b, claim: b.fail(claim, delay_ms=5_000),
    "snooze": lambda b, claim: b.snooze(claim, delay_ms=5_000),
    "not ready": lambda b, claim: b.snooze(claim),
    "drain": lambda b, claim: b.release(claim),
    "preemption": lambda b, claim: b.release(claim, preempted=True),
    "told to wait": lambda b, claim: b.settle(claim, "released", wait_for=("other", 1_000)),
    "crash": lambda b, claim: b.crash(claim),
    "rescue": _rescued,
    "dead, then retried by hand": _retried_by_hand,
}


class OrderContract(Contract):
    """T-C6, T-O2, T-B3, T-B4, T-B7, B10, promise 4."""

    def test_first_come_first_served(self, b: Bench) -> None:
        """Within a tenant and tier: by arrival, then by number, also within one instant and one batch."""
        jobs = [job.id for job in b.enqueue(*(b.new(task=f"t{n % 3}", queue=f"q{n % 2}") for n in range(20)))]
        b.clock.advance(ms=1)
        jobs += [b.put() for _ in range(5)]
        assert b.drain() == jobs

    def test_ids_made_by_another_clock_change_nothing(self, b: Bench) -> None:
        """T-C6: producers whose clocks differ by an hour make ids an hour apart; order is by arrival."""
        jobs: list[bytes] = []
        for n in range(10):
            skewed_ms = b.now_ms + (3_600_000 if n % 2 else -3_600_000)
            jobs.append(b.put(id=(skewed_ms << 80 | 7 << 76 | 0b10 << 62 | n).to_bytes(16, "big")))
        assert b.drain() == jobs

    def test_two_producers_whose_clocks_differ_by_an_hour(self, b: Bench) -> None:
        """T-C6: jobs start in the order in which they came in, not by their producers' clocks."""
        jobs: list[bytes] = []
        for n in range(10):
            b.clock.step(seconds=3_600 if n % 2 else -3_600)
            jobs.append(b.put())
        assert b.drain() == jobs

    def test_delay_after_the_clock_stepped_back(self, b: Bench) -> None:
        """B36: a delay of five seconds takes five seconds, also just after the wall clock stepped back an hour."""
        b.put()
        b.run()
        b.clock.step(seconds=-3_600)
        job = b.put(delay_ms=5_000)
        assert b.claim() == []
        b.clock.advance(seconds=5)
        assert b.start() == [job]

    def test_more_urgent_tiers_start_first(self, b: Bench) -> None:
        """T-O2: CRITICAL to BACKGROUND, first come first served in each."""
        jobs = [(tier, b.put(tier=tier)) for tier in (4, 2, 0, 3, 1, 1, 3, 0, 2, 4)]
        assert b.drain() == [job for _, job in sorted(jobs, key=lambda pair: pair[0])]

    def test_tier_counts_over_all_queues_and_tenants(self, b: Bench) -> None:
        """4.1: an urgent job of any queue, task and tenant is next, not only within its own queue."""
        b.fill({"a": 3}, queue="q1")
        high = b.put("x", "q2", "b", tier=1)
        critical = b.put("y", "q3", "c", tier=0)
        assert b.start(2) == [critical, high]

    @pytest.mark.parametrize("way", WAYS_BACK)
    def test_job_that_comes_back_keeps_its_place(self, b: Bench, way: str) -> None:
        """T-B4, T-B7, B10: retry, snooze, drain, preemption, rescue: tier, tenant and arrival stay."""
        first, second, third = b.put(), b.put(), b.put()
        claim = b.take()
        before = b.job(first)
        WAYS_BACK[way](b, claim)
        b.clock.advance(seconds=10)
        after = b.job(first)
        assert (after.tier, after.tenant, after.arrival_ms, after.seq) == (
            before.tier,
            before.tenant,
            before.arrival_ms,
            before.seq,
        )
        assert b.drain() == [first, second, third]

    def test_jobs_that_come_back_in_another_order(self, b: Bench) -> None:
        """T-B4: several jobs put back, last first, start in the order of their arrival."""
        jobs = [b.put() for _ in range(4)]
        for claim in reversed(b.claim(3)):
            b.release(claim)
        assert b.drain() == jobs

    def test_failing_job_without_delay_leaves_others_their_turns(self, b: Bench) -> None:
        """3.1 no. 6, B25: a job that fails again and again at once takes one tenant's turns, nobody else's."""
        bad, good = b.put(tenant="a"), [b.put(tenant="b") for _ in range(10)]
        started: list[bytes] = []
        for _ in range(20):
            claim = b.take()
            started.append(claim.id)
            if claim.id == bad:
                b.fail(claim)
            else:
                b.done(claim)
        assert started.count(bad) == 10
        assert [job for job in started if job != bad] == good

    def test_boost_and_back(self, b: Bench) -> None:
        """A tier that was changed and set back leaves the order as it was."""
        first, second, third = b.put(), b.put(), b.put()
        b.boost(second, 0)
        b.boost(second, 2, lower=True)
        assert b.drain() == [first, second, third]

    def test_expedited_job_comes_back_to_the_front(self, b: Bench) -> None:
        """Order after an expedite, a failure of the express job, and its retry."""
        first, second, third = b.put(), b.put(), b.put()
        b.expedite(third)
        b.fail(b.take())
        assert b.drain() == [third, first, second]

    @pytest.mark.parametrize("kind", ["queue", "task", "tenant"])
    def test_pause_and_resume(self, b: Bench, kind: str) -> None:
        """B10: a pause keeps the order, also of what comes in and comes back while it holds."""
        first, second = b.put(tier=2), b.put(tier=3)
        claim = b.take()
        name = {"queue": "q", "task": "t", "tenant": "a"}[kind]
        b.pause(kind, name)  # type: ignore[arg-type]  # one of the kinds of rules
        third, fourth = b.put(tier=2), b.put(tier=1)
        b.fail(claim)
        assert b.claim(5) == []
        b.resume(kind, name)  # type: ignore[arg-type]  # as above
        assert b.drain() == [fourth, first, third, second]

    def test_strict_lets_tiers_decide_over_all_tenants(self, open_bench: OpenBench) -> None:
        """``Policy.strict()``: effective tier first, turns within a tier."""
        b = open_bench(policy=Policy.strict())
        low = [b.put(tier=3, tenant=tenant) for tenant in "ab"]
        normal = [b.put(tenant=tenant) for tenant in "aab"]
        urgent = [b.put(tier=1, tenant="a") for _ in range(3)]
        started = b.drain()
        assert started[:3] == urgent
        assert sorted(started[3:6]) == sorted(normal)
        assert sorted(started[6:]) == sorted(low)

    def test_fifo_knows_neither_tiers_nor_tenants(self, open_bench: OpenBench) -> None:
        """``Policy.fifo()``: by arrival; express first all the same."""
        b = open_bench(policy=Policy.fifo())
        jobs = [b.put(tier=tier, tenant=tenant) for tier, tenant in zip((4, 0, 2, 1), "abca", strict=True)]
        express = b.put(express=True)
        assert b.drain() == [express, *jobs]

    @pytest.mark.parametrize("kind", ["fair", "strict", "fifo"])
    def test_order_is_the_same_again(self, open_bench: OpenBench, clock: ManualClock, kind: str) -> None:
        """Promise 4: what is started does not depend on how many claims ask for it, nor on looking first."""
        b = open_bench(policy=Policy.named(kind))
        for n in range(30):
            b.put(f"t{n % 2}", f"q{n % 3}", "abcd"[n * n % 4], tier=n * 7 % 5)
            clock.advance(seconds=7)
        expected = b.peek(30)
        started = [job for n in (1, 3, 1, 5, 20) for job in b.start(n)]
        assert started == expected
