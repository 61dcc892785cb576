"""The scheduler chooses what the SPEC says: sentences of section 2 by hand on the plain model, then model and scheduler
in lock-step through random operations.

``FAIRLANE_RUNS`` sets how many seeds are compared (300; 10,000 at night).
"""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # "importlib" mode finds no neighbours by itself

from operations import Difference, Lockstep, Make, replay, run, shrink
from plain_model import PlainModel, Room, Waiting

from fairlane.domain.fairness import Scheduler
from fairlane.domain.lanes import Ask, LaneKey, Place, Start
from fairlane.domain.policy import LimitRule, Pause, Policy, QueueRule, Rate, TaskRule, TenantRule
from fairlane.domain.tiers import Tier

RUNS = int(os.environ.get("FAIRLANE_RUNS", "300"))
CHUNKS = max(10, RUNS // 30)  # 30 seeds stay far below the limit of 20 s a test

SECOND_US = 1_000_000
STEP_MS = 60_000


def run_seeds(seeds: Iterable[int], makers: Sequence[Make]) -> Counter[str]:
    return sum((run(seed, makers) for seed in seeds), Counter())


class Bench:
    """A plain model and the scheduler side by side, with short words for what the examples need."""

    def __init__(self, policy: Policy | None = None) -> None:
        self.both = Lockstep(policy or Policy.fair(), [PlainModel, Scheduler])
        self.seq = 0

    def add(
        self,
        tenant: str,
        tier: int = Tier.NORMAL,
        *,
        times: int = 1,
        at_ms: int = 0,
        express: int | None = None,
        **lane,
    ) -> None:
        for _ in range(times):
            self.seq += 1
            key = LaneKey(lane.get("queue", "q"), lane.get("task", "k"), tenant, tier)
            self.both.do("add", key, Place(at_ms, self.seq), express)

    def claim(self, count: int = 1, at_ms: int = 0, **ask) -> list[Start]:
        before = len(self.both.running)
        self.both.do("claim", Ask("default", count, **ask), at_ms)
        return self.both.running[before:]

    def served(self, count: int = 1, at_ms: int = 0, **ask) -> str:
        return "".join(start.lane.tenant for start in self.claim(count, at_ms, **ask))

    def finish(self, start: Start, seconds: float, **options) -> None:
        self.both.do("finish", start, round(seconds * SECOND_US), **options)

    def set(self, what: str, name: str, rule) -> None:
        self.both.do(f"set_{what}", name, rule)


# -------------------------------------------------------------------- section 2 by hand


def test_count_goes_round_the_tenants_with_the_latest_first():
    """T-C4: `charge="count"`, tenants a, b, c: the first round goes c, b, a, and so do all that follow."""
    bench = Bench(Policy.fair(charge="count"))
    for tenant in "abc":
        bench.add(tenant, times=4)
    assert bench.served(12) == "cba" * 4
    assert bench.served() == ""
    bench.add("a", times=2)
    bench.add("b", times=1)
    assert bench.served(3) == "baa", "a tenant that ran dry comes in again at the pool's time, last come first"


def test_every_eighth_start_belongs_to_risen_jobs():
    """Rule 1: "every eighth belongs to risen jobs, if there is one that the asking worker can run"."""
    bench = Bench()
    bench.add("x", Tier.BACKGROUND, times=3)
    bench.add("u", Tier.CRITICAL, times=40, at_ms=3 * STEP_MS)
    assert bench.served(24, 3 * STEP_MS) == "uuuuuuux" * 3, "BACKGROUND has risen to HIGH after three steps"


def test_a_due_guarantee_stays_due_once():
    """Rule 1: "else it stays due, once, and is not saved up"; "every start counts, express ones too"."""
    bench = Bench()
    bench.add("u", Tier.CRITICAL, times=18)
    bench.add("u", Tier.CRITICAL, express=1)
    bench.add("u", Tier.CRITICAL, express=2)
    assert bench.served(20) == "u" * 20
    bench.add("x", Tier.HIGH, times=2)
    bench.add("u", Tier.CRITICAL, times=20)
    assert bench.served(1, STEP_MS - 1) == "u", "HIGH rises after one step, not before"
    assert bench.served(10, STEP_MS) == "xuuuuuuuxu"


def test_the_guarantee_goes_to_whom_it_has_passed_over_longest():
    """Rule 1: "the later of its last such start and the earliest rise among its risen jobs lies furthest back"."""
    bench = Bench(Policy.fair(risen_every=1))
    bench.add("a", Tier.LOW, at_ms=0)  # rises at 2 steps, arrived first
    bench.add("a", Tier.NORMAL, at_ms=20)  # rises at 1 step + 20 ms
    bench.add("b", Tier.NORMAL, at_ms=10, times=2)  # rise at 1 step + 10 ms
    bench.add("c", Tier.NORMAL, at_ms=10)
    order = [(s.lane.tenant, s.lane.tier) for s in bench.claim(5, 5 * STEP_MS)]
    assert order == [("b", 2), ("c", 2), ("a", 3), ("a", 2), ("b", 2)], "ties: first seen; within: first arrived"


def test_weights_share_the_starts():
    """ "A tenant's turn comes when it has used the fewest worker-seconds for its weight": 1 : 3 : 1."""
    bench = Bench(Policy.fair(charge="count"))
    bench.set("tenant", "b", TenantRule(weight_milli=3000))
    for tenant in "abc":
        bench.add(tenant, times=100)
    assert Counter(bench.served(50)) == {"a": 10, "b": 30, "c": 10}
    bench.set("tenant", "b", TenantRule())
    assert set(Counter(bench.served(30)).values()) == {10}, "weights act on the existing backlog at once"


def test_express_goes_first_and_blocks_nobody():
    """Rule 2: "oldest expedite first"; section 4: "one that cannot run yet blocks no other"."""
    bench = Bench()
    bench.add("u", Tier.CRITICAL)
    bench.add("late", Tier.BACKGROUND, express=2)
    bench.add("early", Tier.BACKGROUND, express=1)
    bench.add("paused", Tier.CRITICAL, express=0)
    bench.set("tenant", "paused", TenantRule(pause=Pause(until_ms=10)))
    assert [s.lane.tenant for s in bench.claim(9, rooms=(1, 0, 0, 0, 0))] == ["early", "late", "u"], "and needs no room"
    assert bench.served(9, 10) == "paused"


def test_urgent_share_bounds_what_one_tenant_has_first():
    """Rule 3: a quarter of the declared slots, "beyond that they take turns among the shared, first within"."""
    bench = Bench()
    bench.both.do("set_workers", "default", 11, None)
    bench.add("s", times=5)
    bench.add("u", Tier.HIGH, times=5)
    bench.add("u", Tier.NORMAL)
    bench.add("c", Tier.CRITICAL)
    rules = [(s.lane.tenant, s.rule) for s in bench.claim(5)]
    assert rules[:3] == [("c", "urgent"), ("u", "urgent"), ("u", "urgent")], "11 // 4 = 2"
    assert rules[3:] == [("s", "shared"), ("u", "shared")], "turns: u has used a quarter of a second, s a quarter"
    assert bench.served(1, rooms=(9, 9, 0, 0, 0)) == "", "reserved slots are not for a tenant beyond its share"
    bench.add("d", Tier.HIGH)
    assert bench.served(1, rooms=(9, 9, 0, 0, 0)) == "d"


def test_settling_charges_the_difference():
    """Turns: "settling charges the difference to the real run time, up or down"; a crash or put-back likewise."""
    bench = Bench(replace(Policy.fair(), unknown_run_us=SECOND_US))
    bench.add("a", times=9)
    bench.add("b", times=9)
    b, a = bench.claim(2)
    assert (b.lane.tenant, a.lane.tenant) == ("b", "a")
    assert b.expected_us == SECOND_US
    bench.finish(b, 0.1)
    bench.finish(a, 4.1, in_mean=False)
    (next_b,) = bench.claim()
    assert next_b.expected_us == 100_000, "the mean of its queue, task and tenant"
    assert bench.served(40) == "b" * 7 + "a" * 8, "b has used 0.2 s, a 4.1 s"


def test_idleness_earns_no_credit_and_lag_is_bounded():
    """Turns: activated at the pool's time; "any start first raises its tenant to the pool's time minus `max_lag`"."""
    bench = Bench(Policy.fair(charge="count", max_lag=4))
    bench.add("a", times=90)
    bench.add("b", times=90, queue="shut")
    bench.set("queue", "shut", QueueRule(pause=Pause()))
    assert bench.served(40) == "a" * 40
    bench.add("c", times=90)
    assert bench.served(6) == "ccacac", "c starts where the pool is, one start behind a: not 40"
    bench.set("queue", "shut", QueueRule())
    served = bench.served(40)
    assert served[:17].count("b") == 17, "b was held by no doing of its own: it keeps its debt, up to 4 s at share 4"
    assert "bb" not in served[18:]


@pytest.mark.parametrize(("at_ms", "served"), [(60_000, "ccc"), (60_001, "cca")])
def test_who_holds_the_pool_time(at_ms: int, served: str):
    """Turns: among those that could start, if "a live worker serves the queue or a claim asked for it within 60 s"."""
    bench = Bench(Policy.fair(charge="count", risen_every=0))
    bench.add("b", queue="r")
    bench.add("a", times=20)
    assert bench.served(queues={"r": 1}, tasks=frozenset()) == "", (
        "asked for, though this worker does not know its task"
    )
    assert bench.served(4, queues={"q": 9, "r": 0}) == "aaaa"
    assert bench.served(1, at_ms, queues={"q": 9}) == "a"
    bench.add("c", times=4)
    assert bench.served(3, at_ms, queues={"q": 9}) == served, "while b holds the pool's time, c starts as far back"


def test_limits_for_each_tenant_and_for_all():
    """Section 3: a key with {tenant} counts for each; "the limit closes for everyone that long"."""
    bench = Bench()
    bench.set("task", "k", TaskRule(limits=("api", "smtp:{tenant}")))
    bench.set("limit", "smtp:{tenant}", LimitRule(max_running=1))
    bench.set("limit", "smtp:a", LimitRule(max_running=2))
    bench.set("limit", "api", LimitRule(rate=Rate.of(2, per=1, burst=3)))
    bench.add("a", times=9)
    bench.add("b", times=9)
    assert Counter(bench.served(9)) == {"a": 2, "b": 1}
    bench.finish(bench.both.running[0], 1)
    assert bench.served(9, 499) == "", "the bucket is empty; a token comes every 500 ms"
    assert len(bench.served(9, 500)) == 1
    bench.both.do("close_limit", "api", 9_000)
    bench.both.do("close_limit", "api", 5_000)
    for start in list(bench.both.running):
        bench.finish(start, 1)
    assert bench.served(9, 8_999) == ""
    assert Counter(bench.served(9, 9_000)) == {"a": 2, "b": 1}


def test_strict_and_fifo():
    """Policies: strict by effective tier up to CRITICAL, in turns; fifo by arrival; express first in both."""
    for policy, expected in (
        (Policy.strict(), [("x", "express"), ("old", "tier"), ("b", "tier"), ("a", "tier"), ("a", "tier")]),
        (Policy.fifo(), [("x", "express"), ("old", "fifo"), ("a", "fifo"), ("a", "fifo"), ("b", "fifo")]),
    ):
        bench = Bench(policy)
        bench.add("old", Tier.BACKGROUND, at_ms=0)
        bench.add("a", Tier.HIGH, times=2, at_ms=4 * STEP_MS)
        bench.add("b", Tier.HIGH, at_ms=4 * STEP_MS)
        bench.add("x", Tier.LOW, express=1, at_ms=4 * STEP_MS)
        assert [(s.lane.tenant, s.rule) for s in bench.claim(9, 4 * STEP_MS)] == expected


# -------------------------------------------------------------------- model and scheduler in lock-step


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_scheduler_equals_the_plain_model(chunk: int):
    run_seeds(range(chunk, RUNS, CHUNKS), [PlainModel, Scheduler])


def test_operations_reach_every_rule():
    rules = run_seeds(range(30), [PlainModel])
    assert min(rules[rule] for rule in ("risen", "express", "urgent", "shared", "tier", "fifo")) > 50


class OldestFirst(PlainModel):
    """Breaks a tie of turns the wrong way."""

    def _turn(self, jobs: list[Waiting], room: Room) -> list[Waiting]:
        accounts = self._pool(room.ask.pool).accounts
        tenant = min({job.lane.tenant for job in jobs}, key=lambda name: (accounts[name].v, accounts[name].act))
        return [job for job in jobs if job.lane.tenant == tenant]


class NoRefund(PlainModel):
    """Settles nothing."""

    def finish(self, start: Start, run_us: int, *, in_mean: bool = True, units_us: int | None = None) -> None:
        super().finish(start, start.expected_us, in_mean=in_mean, units_us=units_us and start.expected_us)


class LargerShare(PlainModel):
    """Lets a tenant have one urgent job too many."""

    def set_workers(self, pool: str, slots: int, queues: frozenset[str] | None) -> None:
        super().set_workers(pool, slots and slots + 4, queues)


class AskedForgotten(PlainModel):
    """Never forgets who asked for a queue."""

    def _somebody_serves(self, pool: str, queue: str) -> bool:
        return True


class NeverNoticed(PlainModel):
    """Lifts nobody whose own block ends by time."""

    def claim(self, ask: Ask, now_ms: int) -> list[Start]:
        accounts = [account for pool in self._pools.values() for account in pool.accounts.values()]
        stood = [(account.v, account.act) for account in accounts]
        self._now_ms = now_ms
        self._activate()
        for account, (v, act) in zip(accounts, stood, strict=True):
            account.v, account.act = v, act
        return super().claim(ask, now_ms)


@pytest.mark.parametrize("fault", [OldestFirst, NoRefund, LargerShare, AskedForgotten, NeverNoticed])
def test_a_fault_is_found(fault: type[PlainModel]):
    """The comparison can fail, and a log it leaves shrinks to a few operations that still show the difference."""
    with pytest.raises(Difference) as found:
        run_seeds(range(300), [PlainModel, fault])
    difference = found.value
    least = shrink(difference.policy, difference.log, [PlainModel, fault])
    assert len(least) < len(difference.log)
    with pytest.raises(Difference):
        replay(difference.policy, least, [PlainModel, fault])
