"""Limits: how many may run, how many may start in a period, over all queues, pools and ways of starting."""

# ruff: noqa: PLR2004  # a test's figures are its subject

from __future__ import annotations

from collections import Counter

import pytest

from fairlane.domain.policy import Pause, Rate
from fairlane.store import RuleKind
from fairlane.testing.contract.base import Contract
from fairlane.testing.contract.bench import Bench

NAMES: dict[RuleKind, str] = {"queue": "q", "task": "t", "tenant": "a", "limit": "openai"}


class LimitsContract(Contract):
    """T-B11, T-B12, T-M21, B02, B05, F18, promise 5; pauses of all kinds."""

    # ------------------------------------------------------------------ how many may run

    @pytest.mark.parametrize("kind", ["queue", "tenant", "limit"])
    def test_max_running(self, b: Bench, kind: RuleKind) -> None:
        """T-B12: never more than so many run, and each end makes room for one."""
        b.declare("t", "openai")
        b.rule(kind, NAMES[kind], max_running=2)
        b.fill({"a": 6})
        claims = b.claim(6)
        assert len(claims) == 2
        assert b.claim() == []
        for end in (b.done, b.fail, b.release):
            end(claims.pop(0))
            claims += b.claim(6)
            assert len(claims) == 2
        b.cancel(claims[0].id)
        assert b.claim() == []

    def test_max_running_of_a_tenant_in_a_queue(self, b: Bench) -> None:
        """``tenant_max_running``: each tenant so many in this queue, others and other queues beside."""
        b.rule("queue", "q", tenant_max_running=1)
        b.fill({"a": 3, "b": 3})
        b.fill({"a": 2}, queue="free")
        started = Counter((claim.start.lane.queue, claim.start.lane.tenant) for claim in b.claim(8))
        assert started == {("q", "a"): 1, ("q", "b"): 1, ("free", "a"): 2}

    def test_tenants_limit_holds_over_two_pools(self, b: Bench) -> None:
        """F18: a tenant with room for two gets two, wherever it starts them."""
        b.rule("queue", "gpu", pool="gpus")
        b.rule("tenant", "a", max_running=2)
        b.fill({"a": 3})
        b.fill({"a": 3, "b": 1}, queue="gpu")
        first = b.take()
        assert len(b.claim(5, pool="gpus")) == 2
        assert b.claim(5) == []
        b.done(first)
        assert len(b.claim(5, pool="gpus")) == 1
        assert b.claim(5) == []

    def test_named_limit_holds_over_tasks_queues_and_pools(self, b: Bench) -> None:
        """A named limit is shared by all tasks that count against it."""
        b.rule("queue", "gpu", pool="gpus")
        b.declare("t", "openai")
        b.declare("u", "openai", "other")
        b.rule("limit", "openai", max_running=2)
        b.put("t")
        b.put("u", "gpu")
        third, free = b.put("t", "q2"), b.put("v")
        b.claim(1, queues={"q": 1}, tasks=["t"])
        held = b.take(pool="gpus")
        assert b.start(5) == [free]
        b.done(held)
        assert b.start(5) == [third]

    def test_limit_of_each_tenant(self, b: Bench) -> None:
        """``"smtp:{tenant}"``: a limit for each, set for all at once, with a rule of its own for one."""
        b.declare("t", "smtp:{tenant}")
        b.rule("limit", "smtp:{tenant}", max_running=1)
        b.rule("limit", "smtp:b", max_running=2)
        b.fill({"a": 4, "b": 4, "c": 4})
        assert Counter(claim.start.lane.tenant for claim in b.claim(9)) == {"a": 1, "b": 2, "c": 1}

    def test_limit_declared_later_acts_on_the_backlog(self, b: Bench) -> None:
        """Caps "act on the existing backlog at once": set, lowered, raised, lifted."""
        b.fill({"a": 10})
        b.rule("queue", "q", max_running=3)
        claims = b.claim(10)
        assert len(claims) == 3
        b.rule("queue", "q", max_running=1)
        b.done(claims.pop())
        b.done(claims.pop())
        assert b.claim() == []
        b.done(claims.pop())
        assert len(b.claim(10)) == 1
        b.rule("queue", "q", max_running=4)
        assert len(b.claim(10)) == 3
        b.rule("queue", "q", max_running=None)
        assert len(b.claim(10)) == 3

    def test_limit_of_none_lets_none_run(self, b: Bench) -> None:
        """A maximum of 0 is a maximum."""
        b.rule("tenant", "a", max_running=0)
        b.fill({"a": 3, "b": 1})
        assert b.tenants() == "b"

    def test_jobs_keep_the_limits_they_started_under(self, b: Bench) -> None:
        """A task that no longer counts against a limit frees what its running jobs held, once."""
        b.declare("t", "openai")
        b.rule("limit", "openai", max_running=1)
        b.fill({"a": 2})
        claim = b.take()
        b.declare("t")
        assert len(b.claim(5)) == 1
        b.done(claim)
        b.declare("t", "openai")
        b.fill({"a": 3})
        assert len(b.claim(5)) == 1

    def test_limits_are_exact_for_one_large_claim(self, b: Bench) -> None:
        """B05: one claim of fifty obeys every limit at every decision within it."""
        b.rule("queue", "q", max_running=10, tenant_max_running=4)
        b.rule("tenant", "b", max_running=3)
        b.fill({"a": 20, "b": 20, "c": 20})
        started = Counter(claim.start.lane.tenant for claim in b.claim(50))
        assert (started.total(), started["b"], max(started.values())) == (10, 3, 4)

    def test_limits_hold_for_every_rule(self, b: Bench) -> None:
        """T-M21: risen, urgent and express jobs obey them like any other."""
        b.rule("queue", "q", max_running=2)
        b.put(tier=4)
        b.clock.advance(seconds=1_000)
        b.fill({"z": 20}, tier=0)
        b.put(express=True)
        for _ in range(12):
            claims = b.claim(5)
            assert len(claims) == 2
            assert b.claim(5) == []
            for claim in claims:
                b.done(claim)
            if b.waiting() < 2:
                break

    # ------------------------------------------------------------------ how many may start in a period

    @pytest.mark.parametrize("kind", ["tenant", "limit"])
    def test_rate(self, b: Bench, kind: RuleKind) -> None:
        """T-B11: a burst of two, then one a second; the bucket fills up to the burst and no further."""
        b.declare("t", "openai")
        b.rule(kind, NAMES[kind], rate=Rate(60, 60_000, 2))
        b.fill({"a": 20})
        assert [len(b.run(5)), len(b.run(5))] == [2, 0]
        b.clock.advance(ms=999)
        assert len(b.run(5)) == 0
        b.clock.advance(ms=1)
        assert len(b.run(5)) == 1
        b.clock.advance(seconds=2)
        assert len(b.run(5)) == 2
        b.clock.advance(seconds=3_600)
        assert len(b.run(5)) == 2

    def test_rate_over_a_long_time_is_exact(self, b: Bench) -> None:
        """Seven starts in ten seconds, with a burst of two: 71 in 99.5 seconds, whenever they are asked for."""
        b.rule("tenant", "a", rate=Rate(7, 10_000, 2))
        b.fill({"a": 100})
        started = len(b.run(5))
        for _ in range(199):
            b.clock.advance(ms=500)
            started += len(b.run(5))
        assert started == 71

    def test_store_knows_when_a_rate_lets_the_next_start(self, b: Bench) -> None:
        """T-C11: nobody has to poll: ``next_due_ms`` names an instant no later than the next start."""
        b.rule("tenant", "a", rate=Rate(1, 10_000, 1))
        b.fill({"a": 2})
        b.run()
        due_ms = b.store.next_due_ms()
        assert due_ms is not None
        assert b.now_ms < due_ms <= b.now_ms + 10_000

    def test_handler_that_is_told_to_wait_closes_the_limit_for_all(self, b: Bench) -> None:
        """``RateLimited("openai", retry_after=20)``: everyone waits that long, and the run counts for nothing."""
        b.declare("t", "openai")
        b.declare("u", "openai")
        job, other, free = b.put("t"), b.put("u", tenant="b"), b.put("v")
        claim = b.take(tasks=["t"])
        assert b.settle(claim, "released", wait_for=("openai", 20_000))
        assert b.drain() == [free]
        b.clock.advance(ms=19_999)
        assert b.claim() == []
        assert (b.job(job).failures, b.job(job).crashes, b.job(job).errors) == (0, 0, ())
        b.clock.advance(ms=1)
        assert sorted(b.start(5)) == sorted([job, other])

    # ------------------------------------------------------------------ pauses

    @pytest.mark.parametrize("kind", NAMES)
    def test_pause_stops_starts_and_nothing_else(self, b: Bench, kind: RuleKind) -> None:
        """Section 3: what runs runs on; what waits waits; what comes is accepted."""
        b.declare("t", "openai")
        b.fill({"a": 2})
        claim = b.take()
        b.pause(kind, NAMES[kind])
        b.put()
        assert b.claim(5) == []
        assert b.beat(claim) == "ok"
        assert b.done(claim)
        b.resume(kind, NAMES[kind])
        assert len(b.claim(5)) == 2

    @pytest.mark.parametrize("kind", NAMES)
    def test_pause_ends_by_itself(self, b: Bench, kind: RuleKind) -> None:
        """An end that was given is kept to the millisecond, and the store knows of it beforehand."""
        b.declare("t", "openai")
        job = b.put()
        b.pause(kind, NAMES[kind], until_ms=b.now_ms + 5_000)
        due_ms = b.store.next_due_ms()
        assert due_ms is not None
        assert due_ms <= b.now_ms + 5_000
        b.clock.advance(ms=4_999)
        assert b.claim() == []
        b.clock.advance(ms=1)
        assert b.start() == [job]

    @pytest.mark.parametrize("kind", NAMES)
    def test_pause_holds_for_retries_due_rescued_and_express_jobs(self, b: Bench, kind: RuleKind) -> None:
        """Section 3: "retries, rescued and delayed jobs obey it too", and express ones."""
        b.declare("t", "openai")
        b.fill({"a": 3})
        failing, lost, snoozed = b.claim(3)
        b.put(delay_ms=1_000)
        b.pause(kind, NAMES[kind])
        b.fail(failing, delay_ms=500)
        b.snooze(snoozed)
        b.put(express=True)
        b.expedite(failing.id)
        b.lapse()
        assert b.rescue() == 1
        assert b.claim(9) == []
        assert b.state(lost.id).waiting
        b.resume(kind, NAMES[kind])
        assert len(b.claim(9)) == 5

    def test_two_pauses_must_both_end(self, b: Bench) -> None:
        """A job held by two things waits for both."""
        job = b.put()
        b.pause("queue", "q")
        b.pause("tenant", "a")
        b.resume("queue", "q")
        assert b.claim() == []
        b.resume("tenant", "a")
        assert b.start() == [job]

    def test_pause_keeps_the_other_fields_of_a_rule(self, b: Bench) -> None:
        """A pause says why, who and until when, beside the limits that are set."""
        b.rule("queue", "q", max_running=3)
        b.pause("queue", "q", until_ms=b.now_ms + 5)
        rule = b.store.rule("queue", "q")
        assert (rule.pause, rule.max_running) == (Pause("maintenance", "ops", b.now_ms + 5), 3)  # type: ignore[union-attr]  # a QueueRule

    def test_declaring_a_task_leaves_its_pause(self, b: Bench) -> None:
        """A worker that comes up with the code does not undo what a person set."""
        b.declare("t", "openai")
        b.pause("task", "t")
        b.declare("t", "openai", "other")
        b.put()
        assert b.claim() == []
