"""The oracle: a store chooses the same jobs as the rules in ``domain/`` told the same calls in the same order."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

import msgspec
import pytest

from fairlane.domain.checking import REJECTED, checked_again, handed_over, rejected
from fairlane.domain.fairness import Scheduler
from fairlane.domain.jobs import Claim, JobRecord
from fairlane.domain.lanes import Ask, LaneKey, Place
from fairlane.domain.phases import Verification
from fairlane.domain.policy import LimitRule, Pause, Policy, QueueRule, Rate, TaskRule, TenantRule
from fairlane.domain.retries import Retry
from fairlane.errors import ExpressFull
from fairlane.store import RuleKind
from fairlane.testing.contract.base import Contract, OpenBench
from fairlane.testing.contract.bench import Bench

QUEUES: Final = ("q0", "q1", "q2")
TASKS: Final = ("k0", "k1")
TENANTS: Final = ("a", "b", "c", "d")
LONG_MS: Final = 10**10
"""A lease that outlasts the test: what lapses is tested elsewhere."""
SOMETIMES: Final = 0.3
OFTEN: Final = 0.7

Waiting = tuple[LaneKey, Place, int | None]


def as_waiting(job: JobRecord) -> Waiting:
    """Return what the rules know of a waiting job."""
    return job.lane, Place(job.arrival_ms, job.seq), job.express


class Pair:
    """A store and the rules, told the same; every claim's answers are compared."""

    def __init__(self, b: Bench, policy: Policy, seed: int) -> None:
        self.b = b
        self.rules = Scheduler(policy)
        self.draw = random.Random(seed)
        self.waiting: list[bytes] = []
        self.away: list[tuple[int, int, bytes]] = []
        self.running: list[Claim] = []
        self.started = 0
        for task, limits in (("k0", ("api", "smtp:{tenant}")), ("k1", ("api",)), ("k0:verify", ("api",))):
            b.declare(task, *limits)
            self.rules.set_task(task, TaskRule(None, limits))
        self.acts: list[Callable[[], None]] = [
            *(self.put,) * 5,
            *(self.claim,) * 8,
            *(self.end,) * 6,
            *(self.wait,) * 2,
            self.boost,
            self.expedite,
            self.cancel,
            self.set_rule,
            self.set_rule,
        ]

    def step(self) -> None:
        """Carry out one random call on both."""
        self.draw.choice(self.acts)()

    def put(self) -> None:
        """Store a job, at times one that is due later, at times an express one."""
        draw = self.draw
        later = draw.random() < SOMETIMES
        try:
            job = self.b.put(
                draw.choice(TASKS),
                draw.choice(QUEUES),
                TENANTS[min(draw.randrange(len(TENANTS)), draw.randrange(len(TENANTS)))],
                tier=draw.choice((0, 1, 2, 2, 3, 4)),
                delay_ms=draw.randrange(1, 9_000) if later else 0,
                express=draw.randrange(12) == 0,
            )
        except ExpressFull:
            return
        if later:
            self._put_away(job, self.b.job(job).arrival_ms)
        else:
            self._join(job)

    def claim(self) -> None:
        """Start jobs and compare the decisions: lane, place, rule, charge."""
        draw, b = self.draw, self.b
        ask = Ask(
            draw.choice(("default", "default", "batch")),
            draw.choice((1, 1, 1, 2, 4)),
            queues=draw.choice([None, None, dict.fromkeys(QUEUES, 3), {"q0": 1, "q2": 2}]),
            tasks=draw.choice([None, None, None, frozenset({"k0"})]),
            rooms=draw.choice([None, None, None, (3, 2, 2, 1, 0), (1, 1, 0, 0, 0)]),
        )
        looked = None if self._notice() else b.store.peek(ask, b.now_ms)
        expected = self.rules.claim(ask, b.now_ms)
        claims = b.write(lambda store, now_ms: store.claim(ask, worker="", lease_ms=LONG_MS, now_ms=now_ms))
        assert [claim.start for claim in claims] == expected
        assert looked is None or [job.id for job in looked] == [claim.id for claim in claims], "peek differs from claim"
        self.running += claims
        self.started += len(claims)
        started = {claim.id for claim in claims}
        self.waiting = [job for job in self.waiting if job not in started]

    def end(self) -> None:
        """End a run: success, failure at once or later, given back, told to wait, handed over, checked, rejected."""
        if not self.running:
            return
        draw, b = self.draw, self.b
        claim = self.running.pop(draw.randrange(len(self.running)))
        if draw.random() < SOMETIMES:
            self._change_phase(claim)
            return
        run_us = draw.choice([0, 200_000, 1_000_000, 30_000_000])
        kind = draw.choice(["completed", "completed", "completed", "retry", "later", "released", "told to wait"])
        units_us = draw.choice([None, 5_000_000])
        self.rules.finish(claim.start, run_us, in_mean=kind not in {"released", "told to wait"}, units_us=units_us)
        options: dict[str, Any] = {"run_us": run_us, "units_us": units_us}  # Any: Settlement's fields
        if kind == "completed":
            assert b.settle(claim, "completed", **options)
        elif kind == "later":
            assert b.settle(claim, "retry", delay_ms=2_000, error=b.error(claim), **options)
            self._put_away(claim.id, b.now_ms + 2_000)
        elif kind == "retry":
            assert b.settle(claim, "retry", error=b.error(claim), **options)
            self._join(claim.id)
        elif kind == "released":
            assert b.settle(claim, "released", **options)
            self._join(claim.id)
        else:
            assert b.settle(claim, "released", wait_for=("api", 700), **options)
            self.rules.close_limit("api", b.now_ms + 700)
            self._join(claim.id)

    def _change_phase(self, claim: Claim) -> None:
        """Hand work over, or reject it; some of what is checked is not finished."""
        draw, b = self.draw, self.b
        terms = Verification(every_ms=700, queue=draw.choice([None, "q2"]), tier=draw.choice([None, 1]))
        if claim.phase == "process":
            settlement = handed_over(claim, terms, '"ref"')
        elif draw.random() < SOMETIMES:
            settlement = checked_again(claim, terms)
        else:
            retry = Retry(max_attempts=1_000, base=draw.choice([0.0, 0.9]), jitter=0.0)
            settlement = rejected(claim, retry, b.error(claim, kind=REJECTED), draw)
        self.rules.finish(claim.start, 400_000)
        settlement = msgspec.structs.replace(settlement, run_us=400_000)
        assert b.write(lambda store, now_ms: store.settle([settlement], now_ms)) == [True]
        if settlement.delay_ms:
            self._put_away(claim.id, b.now_ms + settlement.delay_ms)
        else:
            self._join(claim.id)

    def wait(self) -> None:
        """Let time pass."""
        self.b.clock.advance(ms=self.draw.choice([1, 300, 2_000, 30_000]))

    def boost(self) -> None:
        """Change the tier of a waiting job."""
        if self.waiting:
            self._move(lambda job: self.b.boost(job, self.draw.randrange(5), lower=True))

    def expedite(self) -> None:
        """Expedite a waiting job."""
        if self.waiting:
            self._move(self.b.expedite)

    def cancel(self) -> None:
        """Cancel a waiting job."""
        if self.waiting:
            job = self.waiting.pop(self.draw.randrange(len(self.waiting)))
            was = as_waiting(self.b.job(job))
            self.b.cancel(job)
            self.rules.remove(*was)

    def set_rule(self) -> None:
        """Change one field of one rule."""
        draw, b = self.draw, self.b
        pause = draw.choice([None, None, Pause("by hand"), Pause(until_ms=b.now_ms + 3_000)])
        most = draw.choice([None, None, 0, 1, 2, 5])
        rate = draw.choice([None, None, Rate(2, 1_000, 1), Rate(3, 5_000, 2)])
        kind: RuleKind = draw.choice(["queue", "tenant", "limit", "task"])
        name = draw.choice(
            {"queue": QUEUES, "tenant": TENANTS, "limit": ("api", "smtp:{tenant}", "smtp:a"), "task": TASKS}[kind]
        )
        if kind == "queue":
            queue_rule = QueueRule(draw.choice(("default", "default", "batch")), pause, most, draw.choice([None, 1, 3]))
            b.rule(
                kind,
                name,
                pool=queue_rule.pool,
                pause=pause,
                max_running=most,
                tenant_max_running=queue_rule.tenant_max_running,
            )
            self.rules.set_queue(name, queue_rule)
        elif kind == "tenant":
            weight = draw.choice([1_000, 1_000, 3_000, 500])
            b.rule(kind, name, weight_milli=weight, pause=pause, max_running=most, rate=rate)
            self.rules.set_tenant(name, TenantRule(weight, pause, most, None, rate))
        elif kind == "limit":
            b.rule(kind, name, pause=pause, max_running=most, rate=rate)
            self.rules.set_limit(name, LimitRule(pause, most, rate))
        else:
            rule = b.store.rule("task", name)
            assert isinstance(rule, TaskRule)
            b.rule(kind, name, pause=pause)
            self.rules.set_task(name, replace(rule, pause=pause))

    # ------------------------------------------------------------------ both sides

    def _join(self, job: bytes) -> None:
        self.waiting.append(job)
        self.rules.add(*as_waiting(self.b.job(job)))

    def _put_away(self, job: bytes, due_ms: int) -> None:
        self.away.append((due_ms, self.b.job(job).seq, job))

    def _notice(self) -> int:
        """Let what is due join, in order of time, as a store does before it decides; return how many jobs."""
        due = sorted(item for item in self.away if item[0] <= self.b.now_ms)
        self.away = [item for item in self.away if item[0] > self.b.now_ms]
        for _, _, job in due:
            record = self.b.job(job)
            self.waiting.append(job)
            self.rules.add(*as_waiting(record))
        return len(due)

    def _move(self, act: Callable[[bytes], object]) -> None:
        """Change a waiting job's lane or make it express: it joins there, then leaves here."""
        job = self.draw.choice(self.waiting)
        was = as_waiting(self.b.job(job))
        try:
            act(job)
        except ExpressFull:
            return
        now = as_waiting(self.b.job(job))
        if now != was:
            self.rules.add(*now)
            self.rules.remove(*was)


class OracleContract(Contract):
    """SPEC section 2: "each store's claim must choose the same job on the same state"."""

    @pytest.mark.parametrize("seed", [1, 2])
    @pytest.mark.parametrize(
        "policy",
        [
            Policy.fair(ageing_step=5),
            Policy.fair(ageing_step=2, charge="count", risen_every=3, max_lag=1),
            Policy.fair(charge="cost"),
            Policy.strict(ageing_step=5),
            Policy.fifo(),
        ],
        ids=["fair", "fair by count", "fair by cost", "strict", "fifo"],
    )
    def test_store_and_rules_choose_alike(self, open_bench: OpenBench, policy: Policy, seed: int) -> None:
        """T-O2: random calls on both; every decision and every charge is the same."""
        b = open_bench(policy=policy)
        pair = Pair(b, policy, seed)
        for n in range(250):
            try:
                pair.step()
                if n % 10 == 0:
                    assert b.store.check() == []
            except AssertionError as error:
                error.add_note(f"step {n}")
                raise
        assert pair.started
