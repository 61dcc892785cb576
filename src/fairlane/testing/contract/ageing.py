"""Ageing, the guarantee for jobs that have risen, and the bound on what one tenant's urgent jobs may take."""

# ruff: noqa: PLR2004  # a test's figures are its subject

from __future__ import annotations

from collections import Counter

import pytest

from fairlane.domain.lanes import Ask
from fairlane.domain.policy import Policy
from fairlane.store import Store
from fairlane.testing.contract.base import Contract, OpenBench
from fairlane.testing.contract.bench import Bench

AGES: tuple[int, ...] = (0, 59, 60, 119, 120, 179, 180, 239, 240, 100_000)
STRICT: dict[int, int] = dict(zip(AGES, (4, 4, 3, 3, 2, 2, 1, 1, 0, 0), strict=True))
FAIR: dict[int, int] = dict(zip(AGES, (4, 4, 3, 3, 2, 2, 2, 2, 2, 2), strict=True))
"""How many fresh jobs, one of each tier, start before a BACKGROUND job of that age in seconds.

Under ``fair`` a job that has aged to HIGH still stands behind those that are HIGH by their own tier.
"""


class AgeingContract(Contract):
    """T-O6, T-O7, B25, 2.1 no. 1, F3."""

    @staticmethod
    def fresh_before(b: Bench, tier: int, age: int) -> int:
        """Return how many fresh jobs, one of each tier, start before a job of that tier and age."""
        old = b.put(tier=tier)
        b.clock.advance(seconds=age)
        for fresh in (4, 3, 2, 1, 0):
            b.put(tier=fresh)
        return b.drain().index(old)

    @pytest.mark.parametrize("age", AGES)
    def test_background_job_ages_under_strict(self, open_bench: OpenBench, age: int) -> None:
        """T-O6: BACKGROUND at 59 s counts as 4, at 60 s as 3, at 120 s as 2, at 180 s as 1, at 240 s as 0."""
        assert self.fresh_before(open_bench(policy=Policy.strict()), 4, age) == STRICT[age]

    @pytest.mark.parametrize("age", AGES)
    def test_background_job_ages_under_fair(self, open_bench: OpenBench, age: int) -> None:
        """T-O6: the same table, but never above HIGH, and within HIGH behind those of that base tier."""
        assert self.fresh_before(open_bench(policy=Policy.fair(risen_every=0)), 4, age) == FAIR[age]

    @pytest.mark.parametrize("tier", [0, 1])
    def test_ceiling_lowers_nothing(self, b: Bench, tier: int) -> None:
        """A job at or above the ceiling keeps its own tier."""
        assert self.fresh_before(b, tier, 10_000) == tier

    @pytest.mark.parametrize("policy", [Policy.strict(), Policy.fair()], ids=["strict", "fair"])
    def test_ageing_does_not_depend_on_how_often_it_is_looked_at(self, open_bench: OpenBench, policy: Policy) -> None:
        """2.1 no. 1, B25: after a thousand claims at one instant a job of 61 s has risen by one tier, no more."""
        b = open_bench(policy=policy)
        old = b.put(tier=4)
        b.clock.advance(seconds=61)
        nothing = Ask("default", 1, tasks=frozenset({"unknown"}))

        def thousand_claims(store: Store, now_ms: int) -> None:
            for _ in range(1_000):
                assert store.claim(nothing, worker="", lease_ms=1_000, now_ms=now_ms) == []

        b.write(thousand_claims)
        assert b.job(old).tier == 4
        low, normal = b.put(tier=3), b.put(tier=2)
        assert b.drain() == [normal, old, low]

    # ------------------------------------------------------------------ the guarantee

    def test_every_eighth_start_belongs_to_risen_jobs(self, b: Bench) -> None:
        """T-O7, rule 1: under endless CRITICAL work a BACKGROUND job starts eighth, 180 s after its arrival."""
        old = b.put(tenant="a", tier=4)
        b.clock.advance(ms=179_999)
        b.fill({"z": 40}, tier=0)
        assert b.tenants(16) == "z" * 16
        b.clock.advance(ms=1)
        claim = b.run(1)[0]
        assert (claim.id, claim.start.rule) == (old, "risen")

    @pytest.mark.parametrize(("tier", "rise_s"), [(1, 60), (2, 60), (3, 120), (4, 180)])
    def test_when_a_job_is_risen(self, b: Bench, tier: int, rise_s: int) -> None:
        """Rule 1: lower tiers when they have aged to HIGH, HIGH after one step."""
        b.put(tenant="a", tier=tier)
        b.fill({"z": 100}, tier=0)
        assert b.tenants(10) == "z" * 10
        b.clock.advance(ms=rise_s * 1_000 - 1)
        assert b.tenants(10) == "z" * 10
        b.clock.advance(ms=1)
        assert b.tenants(1) == "a"

    def test_guarantee_stays_due_once_and_is_not_saved_up(self, b: Bench) -> None:
        """Rule 1: after thirty starts without a risen job one is due, not three."""
        b.fill({"z": 60}, tier=0)
        b.fill({"a": 4}, tier=4)
        b.run(30)
        b.clock.advance(seconds=180)
        assert b.tenants(17) == "a" + "z" * 7 + "a" + "z" * 7 + "a"

    def test_guarantee_counts_express_starts(self, b: Bench) -> None:
        """Rule 1: "every start counts, express ones too", so a refilled lane holds nobody back for ever."""
        old = b.put(tenant="a", tier=4)
        b.clock.advance(seconds=180)
        started: list[bytes] = []
        for _ in range(8):
            b.put(tenant="z", express=True)
            started += b.start()
        assert started[7] == old

    def test_guarantee_goes_round_the_tenants(self, b: Bench) -> None:
        """Rule 1: the tenant whose last such start, or earliest rise, lies furthest back."""
        for tenant in "abc":
            b.fill({tenant: 3}, tier=4)
            b.clock.advance(seconds=1)
        b.clock.advance(seconds=300)
        b.fill({"z": 100}, tier=0)
        guaranteed = ""
        for _ in range(7 * 8):
            claim = b.run(1)[0]
            b.clock.advance(ms=10)
            if claim.start.rule == "risen":
                guaranteed += claim.start.lane.tenant
        assert guaranteed == "abcabca"

    def test_guarantee_passes_over_what_cannot_run(self, b: Bench) -> None:
        """Rule 1: it goes to a risen job "that the asking worker can run", and stays due while there is none."""
        blocked = b.put(tenant="a", tier=4, queue="elsewhere")
        paused = b.put(tenant="p", tier=4)
        b.pause("tenant", "p")
        b.clock.advance(seconds=500)
        b.fill({"z": 40}, tier=0)
        assert b.tenants(20, queues={"q": 99}) == "z" * 20
        assert b.drain(queues={"elsewhere": 1}) == [blocked]
        b.resume("tenant", "p")
        assert paused in b.start(8, queues={"q": 99})

    def test_bound_under_endless_urgent_load(self, b: Bench) -> None:
        """Promise 8: the p-th risen job of each of K tenants starts within p rounds of 8 x (K+1) starts."""
        tenants = "abcde"
        for tenant in tenants:
            b.fill({tenant: 3}, tier=4)
        b.clock.advance(seconds=180)
        b.fill({"y": 200, "z": 200}, tier=0)
        seen = Counter[str]()
        within = 8 * (len(tenants) + 1)
        for n in range(1, 3 * within + 1):
            seen[b.run(1)[0].start.lane.tenant] += 1
            b.clock.advance(ms=5)
            if n % within == 0:
                assert min(seen[tenant] for tenant in tenants) >= n // within

    def test_old_jobs_gain_their_tenant_no_share(self, open_bench: OpenBench) -> None:
        """B25: a tenant with hundreds of aged jobs gets at most one start in eight more than one with fresh jobs."""
        b = open_bench(policy=Policy.fair(charge="count"))
        b.fill({"old": 150})
        b.clock.advance(seconds=10_000)
        b.fill({"new": 150})
        shares = Counter(claim.start.lane.tenant for claim in b.run(80))
        assert 40 <= shares["old"] <= 50

    def test_guarantee_can_be_turned_off(self, open_bench: OpenBench) -> None:
        """``risen_every=0``: urgent work is strict."""
        b = open_bench(policy=Policy.fair(risen_every=0))
        b.put(tenant="a", tier=4)
        b.clock.advance(seconds=1_000)
        b.fill({"z": 30}, tier=0)
        assert b.tenants(30) == "z" * 30

    # ------------------------------------------------------------------ the urgent share

    def test_urgent_jobs_of_one_tenant_fill_a_quarter_of_the_slots(self, b: Bench) -> None:
        """Rule 3: of eight slots two, whatever the flood; beyond them they take turns among the shared."""
        b.worker("w1", slots=8)
        b.fill({"flood": 20}, tier=0)
        b.fill({"b": 20})
        claims = b.claim(8, worker="w1")
        assert [claim.start.rule for claim in claims] == ["urgent"] * 2 + ["shared"] * 6
        assert claims[2].start.lane.tenant == "b"
        assert Counter(claim.start.lane.tenant for claim in claims)["b"] >= 2

    def test_urgent_job_of_another_tenant_goes_before_a_flood(self, b: Bench) -> None:
        """Rule 3: beyond its share, a tenant's CRITICAL jobs stand behind another's HIGH one."""
        b.worker("w1", slots=8)
        b.fill({"flood": 20}, tier=0)
        b.claim(4, worker="w1")
        high = b.put(tenant="b", tier=1)
        assert b.start(1, worker="w1") == [high]

    def test_urgent_share_comes_back_with_the_slots(self, b: Bench) -> None:
        """Rule 3: when an urgent job ends, the next one of its tenant goes first again."""
        b.worker("w1", slots=8)
        b.fill({"flood": 20}, tier=1)
        b.fill({"b": 20})
        first = b.claim(4, worker="w1")[0]
        b.done(first)
        claim = b.take(worker="w1")
        assert (claim.start.rule, claim.start.lane.tenant) == ("urgent", "flood")

    def test_urgent_share_counts_all_workers_of_the_pool(self, b: Bench) -> None:
        """Rule 3: a quarter of what the pool's live workers have declared together, those of other pools not."""
        b.worker("w1", slots=8)
        b.worker("w2", slots=8)
        b.worker("w3", slots=100, pool="other")
        b.fill({"flood": 20}, tier=0)
        b.fill({"b": 20})
        rules = [claim.start.rule for claim in b.claim(8, worker="w1")]
        assert rules == ["urgent"] * 4 + ["shared"] * 4

    def test_no_declared_slots_no_bound(self, b: Bench) -> None:
        """Rule 3: pull-style claims without any worker know no urgent share."""
        b.fill({"flood": 10}, tier=0)
        b.fill({"b": 10})
        assert {claim.start.rule for claim in b.claim(10)} == {"urgent"}

    def test_slots_of_a_worker_that_is_gone_do_not_count(self, b: Bench) -> None:
        """Rule 3: only live workers' slots make the share."""
        b.worker("w1", slots=40)
        b.worker("w2", slots=8)
        b.write(lambda store, now_ms: store.unregister("w1", now_ms))
        b.fill({"flood": 20}, tier=0)
        b.fill({"b": 20})
        assert [claim.start.rule for claim in b.claim(4, worker="w2")].count("urgent") == 2

    def test_reserved_slots_are_not_for_a_tenant_beyond_its_share(self, b: Bench) -> None:
        """Section 3: ``reserve`` keeps slots for CRITICAL, "not a tenant beyond its urgent share"."""
        b.worker("w1", slots=8)
        b.fill({"flood": 20}, tier=0)
        b.claim(2, worker="w1")
        assert b.claim(1, rooms=(1, 0, 0, 0, 0), worker="w1") == []
        other = b.put(tenant="b", tier=0)
        assert b.start(1, rooms=(1, 0, 0, 0, 0), worker="w1") == [other]
