"""Nobody is delayed by what is paused, saturated or broken elsewhere, whatever its backlog."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from fairlane.domain.policy import Rate, TenantRule
from fairlane.store import Store
from fairlane.testing.contract.base import Contract
from fairlane.testing.contract.bench import Bench


def _saturated_queue(b: Bench) -> None:
    b.rule("queue", "q", max_running=1)
    b.take(queues={"q": 1})


def _saturated_tenant(b: Bench) -> None:
    b.rule("tenant", "a", max_running=1)
    b.take(queues={"q": 1})


def _saturated_tenant_in_queue(b: Bench) -> None:
    b.rule("queue", "q", tenant_max_running=1)
    b.take(queues={"q": 1})


def _saturated_limit(b: Bench) -> None:
    b.declare("t", "openai")
    b.rule("limit", "openai", max_running=1)
    b.take(queues={"q": 1})


def _saturated_limit_of_the_tenant(b: Bench) -> None:
    b.declare("t", "smtp:{tenant}")
    b.rule("limit", "smtp:{tenant}", max_running=1)
    b.take(queues={"q": 1})


def _tenant_out_of_tokens(b: Bench) -> None:
    b.rule("tenant", "a", rate=Rate(1, 10**6, 1))
    b.take(queues={"q": 1})


def _limit_out_of_tokens(b: Bench) -> None:
    b.declare("t", "openai")
    b.rule("limit", "openai", rate=Rate(1, 10**6, 1))
    b.take(queues={"q": 1})


def _limit_told_to_wait(b: Bench) -> None:
    b.declare("t", "openai")
    b.settle(b.take(queues={"q": 1}), "released", wait_for=("openai", 10**6))


BLOCKERS: dict[str, Callable[[Bench], None]] = {
    "paused queue": lambda b: b.pause("queue", "q"),
    "paused task": lambda b: b.pause("task", "t"),
    "paused tenant": lambda b: b.pause("tenant", "a"),
    "saturated queue": _saturated_queue,
    "saturated tenant": _saturated_tenant,
    "saturated tenant in a queue": _saturated_tenant_in_queue,
    "saturated limit": _saturated_limit,
    "saturated limit of the tenant": _saturated_limit_of_the_tenant,
    "tenant out of tokens": _tenant_out_of_tokens,
    "limit out of tokens": _limit_out_of_tokens,
    "limit told to wait": _limit_told_to_wait,
}


class IsolationContract(Contract):
    """B03, promise 6, F2."""

    @pytest.mark.parametrize("blocker", BLOCKERS)
    def test_blocked_backlog_delays_nobody(self, b: Bench, blocker: str) -> None:
        """B03: a hundred older jobs that may not run, CRITICAL ones too, cost a newer job of somebody else nothing."""
        for tier in (0, 2):
            b.fill({"a": 50}, tier=tier)
        BLOCKERS[blocker](b)
        b.clock.advance(seconds=1)
        job = b.put("u", "free", "b", tier=4)
        assert b.start(5) == [job]

    def test_blocked_backlog_delays_nobody_in_its_own_queue(self, b: Bench) -> None:
        """A paused or saturated tenant leaves its queue to the others."""
        b.fill({"a": 50, "b": 50}, tier=1)
        b.pause("tenant", "a")
        b.rule("tenant", "b", max_running=0)
        jobs = [b.put(tenant="c", tier=4) for _ in range(3)]
        assert b.drain() == jobs

    def test_tenants_other_work_goes_on(self, b: Bench) -> None:
        """A tenant whose task is paused runs its other tasks, at its turn."""
        b.fill({"a": 50}, tier=0)
        b.pause("task", "t")
        jobs = [b.put("u", tier=3), b.put("u", "q2", tier=3)]
        assert b.drain() == jobs

    def test_hundreds_of_blocked_tenants_delay_nobody(self, b: Bench) -> None:
        """B03: three hundred saturated tenants ahead of one that is not: no window of candidates runs out."""
        names = [f"t{n}" for n in range(300)]
        b.fill(dict.fromkeys(names, 2), tier=0)

        def close_all(store: Store, now_ms: int) -> None:
            for name in names:
                store.set_rule("tenant", name, TenantRule(max_running=0), by="ops", now_ms=now_ms)

        b.write(close_all)
        job = b.put(tenant="free", tier=4)
        assert b.start(5) == [job]

    def test_hundreds_of_due_jobs_of_one_tenant_delay_nobody(self, b: Bench) -> None:
        """Timers that go off together are noticed in portions; what is available already does not wait for them."""
        b.enqueue(*(b.new(delay_ms=1_000) for _ in range(2_000)))
        job = b.put(tenant="b")
        b.clock.advance(seconds=2)
        assert job in b.start(2)

    def test_hundreds_of_lapsed_leases_delay_nobody(self, b: Bench) -> None:
        """B32: a fleet that died leaves its jobs to be taken back in portions; a new job starts at once."""
        b.fill({"a": 400})
        b.claim(400)
        b.lapse()
        job = b.put(tenant="b", tier=0)
        assert b.start() == [job]

    def test_opened_again_it_takes_its_turn(self, b: Bench) -> None:
        """What was blocked starts as soon as it may, without another event."""
        b.fill({"a": 5, "b": 5})
        b.pause("tenant", "a")
        assert b.tenants(2) == "bb"
        b.resume("tenant", "a")
        assert "a" in b.tenants(2)
