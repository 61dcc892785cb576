"""Turns: tenants share by worker time and weight, whatever their backlogs, and idleness earns nothing."""

# ruff: noqa: PLR2004  # a test's figures are its subject

from __future__ import annotations

from collections import Counter

import pytest

from fairlane.domain.policy import Policy
from fairlane.testing.contract.base import Contract, OpenBench
from fairlane.testing.contract.bench import Bench

BY_COUNT = Policy.fair(charge="count", risen_every=0)


class TurnsContract(Contract):
    """T-C4, T-C5, B04, 3.1 no. 9 to 11."""

    @pytest.fixture
    def rotation(self, open_bench: OpenBench) -> Bench:
        """Return a bench where each start costs its tenant 1."""
        return open_bench(policy=BY_COUNT)

    # ------------------------------------------------------------------ T-C4

    def test_tenants_rotate(self, rotation: Bench) -> None:
        """T-C4: first round c, b, a (ties go to the most recently activated), then in that order until all is done."""
        rotation.fill({"a": 4, "b": 4, "c": 4})
        assert rotation.tenants(12) == "cba" * 4
        assert rotation.claim() == []

    def test_tenant_without_jobs_is_skipped(self, rotation: Bench) -> None:
        """T-C4: a tenant that has run out leaves the rotation to the others."""
        rotation.fill({"a": 1, "b": 3, "c": 2})
        assert rotation.tenants() == "cbacbb"

    def test_drained_tenant_joins_again(self, rotation: Bench) -> None:
        """T-C4: b, a, b; a tenant that comes back goes on where it stood, ties are its own as the latest to join."""
        rotation.fill({"a": 1, "b": 4})
        assert rotation.tenants(3) == "bab"
        rotation.fill({"a": 2})
        assert rotation.tenants() == "aabb"

    def test_one_large_and_one_small_tenant(self, rotation: Bench) -> None:
        """T-C4: the small one is served at its turn, not after the large one's backlog."""
        rotation.fill({"a": 50, "b": 2})
        assert rotation.tenants(6) == "babaaa"

    def test_tenant_that_joins_late_gets_no_credit(self, rotation: Bench) -> None:
        """B04: who was idle for a hundred starts gets its share from now on and nothing for then."""
        rotation.fill({"a": 100, "b": 100})
        rotation.run(100)
        rotation.fill({"c": 50})
        shares = Counter(rotation.tenants(30))
        assert 10 <= shares["c"] <= 11
        assert abs(shares["a"] - shares["b"]) <= 1

    def test_tenant_that_joins_late_is_not_behind(self, rotation: Bench) -> None:
        """B04: a new tenant is served within one round, however long the others have been at it."""
        rotation.fill({"a": 60, "b": 60})
        rotation.run(80)
        rotation.put(tenant="c")
        assert "c" in rotation.tenants(3)

    # ------------------------------------------------------------------ T-C5

    @pytest.mark.parametrize("flood_first", [True, False])
    def test_ninety_nine_small_tenants_and_a_flood(self, rotation: Bench, flood_first: bool) -> None:
        """T-C5: each of 99 tenants with one job is served within 100 starts of a tenant with a thousand."""
        small = [rotation.new(tenant=f"small{n}") for n in range(99)]
        flood = [rotation.new(tenant="flood") for _ in range(1_000)]
        rotation.enqueue(*(flood + small if flood_first else small + flood))
        started = Counter(claim.start.lane.tenant for claim in rotation.claim(100))
        assert started == {"flood": 1} | {job.tenant: 1 for job in small}

    def test_flood_of_one_tenant_in_all_tiers(self, rotation: Bench) -> None:
        """B04: whatever mixture of shared tiers the flood has, the others start within a round."""
        for tier in (2, 3, 4):
            rotation.fill({"flood": 50}, tier=tier)
        rotation.run(20)
        small = {rotation.put(tenant=tenant, tier=4) for tenant in "bcde"}
        assert small <= set(rotation.start(8))

    # ------------------------------------------------------------------ weights

    def test_weights_are_exact(self, rotation: Bench) -> None:
        """Weights 1 : 3 : 1 give 20 : 60 : 20 of a hundred starts."""
        rotation.rule("tenant", "b", weight_milli=3_000)
        rotation.fill({"a": 100, "b": 100, "c": 100})
        assert Counter(rotation.tenants(100)) == {"a": 20, "b": 60, "c": 20}

    def test_weight_acts_on_the_backlog_at_once(self, rotation: Bench) -> None:
        """A weight that is set later holds for jobs that wait already."""
        rotation.fill({"a": 60, "b": 60})
        assert Counter(rotation.tenants(20)) == {"a": 10, "b": 10}
        rotation.rule("tenant", "b", weight_milli=3_000)
        assert abs(Counter(rotation.tenants(40))["b"] - 30) <= 1

    def test_small_weight_is_served_all_the_same(self, rotation: Bench) -> None:
        """A weight of a thousandth starves nobody's neighbours, and is not starved itself."""
        rotation.rule("tenant", "a", weight_milli=100)
        rotation.fill({"a": 5, "b": 60})
        assert Counter(rotation.tenants(33))["a"] == 3

    def test_less_urgent_tiers_cost_more(self, rotation: Bench) -> None:
        """NORMAL is charged by 4, LOW by 2, BACKGROUND by 1: starts come 4 : 2 : 1."""
        for tenant, tier in (("a", 2), ("b", 3), ("c", 4)):
            rotation.fill({tenant: 40}, tier=tier)
        assert Counter(rotation.tenants(35)) == {"a": 20, "b": 10, "c": 5}

    # ------------------------------------------------------------------ time

    def test_tenants_share_time_not_starts(self, open_bench: OpenBench) -> None:
        """3.1 no. 11: of a tenant with runs of nine seconds and one with runs of one, both get the same time."""
        b = open_bench(policy=Policy.fair(risen_every=0))
        b.fill({"slow": 40, "fast": 200})
        used_ms = Counter[str]()
        for _ in range(200):
            claim = b.take()
            tenant = claim.start.lane.tenant
            run_ms = 9_000 if tenant == "slow" else 1_000
            used_ms[tenant] += run_ms
            b.done(claim, run_ms=run_ms)
        assert abs(used_ms["slow"] - used_ms["fast"]) <= 10_000

    def test_charge_by_reported_cost(self, open_bench: OpenBench) -> None:
        """``charge="cost"``: what the handler reports counts, not how long it took."""
        b = open_bench(policy=Policy.fair(charge="cost", risen_every=0))
        b.fill({"dear": 40, "cheap": 200})
        used = Counter[str]()
        for _ in range(110):
            claim = b.take()
            tenant = claim.start.lane.tenant
            units = 10 if tenant == "dear" else 1
            used[tenant] += units
            b.settle(claim, "completed", run_us=1_000_000 if units == 1 else 1_000, units_us=units * 1_000_000)
        assert abs(used["dear"] - used["cheap"]) <= 12

    def test_failures_and_crashes_are_charged(self, open_bench: OpenBench) -> None:
        """A run that fails has used its time like one that succeeds."""
        b = open_bench(policy=Policy.fair(risen_every=0))
        b.fill({"a": 40, "b": 40})
        shares = Counter[str]()
        for _ in range(40):
            claim = b.take()
            shares[claim.start.lane.tenant] += 1
            if claim.start.lane.tenant == "a":
                b.fail(claim, delay_ms=10**6)
            else:
                b.done(claim)
        assert shares == {"a": 20, "b": 20}

    # ------------------------------------------------------------------ who is in the rotation

    def test_idle_tenants_leave_no_trace_in_the_rotation(self, rotation: Bench) -> None:
        """3.1 no. 9: two hundred tenants that have run out take no turns from those that have work."""
        rotation.fill({f"gone{n}": 1 for n in range(200)})
        rotation.run()
        rotation.fill({"a": 3, "b": 3})
        assert rotation.tenants() == "bababa"

    def test_pause_earns_no_credit(self, rotation: Bench) -> None:
        """No credit for idleness: a tenant that was paused is served in turn after, not in a burst."""
        rotation.fill({"a": 60, "b": 60})
        rotation.pause("tenant", "b")
        assert rotation.tenants(30) == "a" * 30
        rotation.resume("tenant", "b")
        assert abs(Counter(rotation.tenants(20))["b"] - 10) <= 1

    def test_leaving_wipes_no_debt(self, rotation: Bench) -> None:
        """No debt wiped by leaving: one job at a time gets a tenant no more than its share."""
        rotation.fill({"b": 100})
        shares = Counter[str]()
        rotation.put(tenant="a")
        for _ in range(60):
            claim = rotation.take()
            shares[claim.start.lane.tenant] += 1
            rotation.done(claim)
            if claim.start.lane.tenant == "a":
                rotation.put(tenant="a")
        assert abs(shares["a"] - shares["b"]) <= 2

    def test_urgent_tenants_take_turns_too(self, rotation: Bench) -> None:
        """Rule 3: within CRITICAL and within HIGH tenants take turns, CRITICAL before HIGH."""
        for tier in (1, 0):
            rotation.fill({"a": 4, "b": 4}, tier=tier)
        claims = rotation.run(16)
        assert [claim.start.lane.tier for claim in claims] == [0] * 8 + [1] * 8
        for part in (claims[:8], claims[8:]):
            assert Counter(claim.start.lane.tenant for claim in part[:4]) == {"a": 2, "b": 2}

    def test_turns_run_over_all_queues_of_a_pool(self, rotation: Bench) -> None:
        """A tenant with five queues gets no more turns than one with one."""
        for n in range(5):
            rotation.fill({"a": 20}, queue=f"q{n}")
        rotation.fill({"b": 100})
        assert Counter(rotation.tenants(40)) == {"a": 20, "b": 20}

    def test_pools_take_turns_apart(self, rotation: Bench) -> None:
        """What a tenant uses in one pool costs it nothing in another."""
        rotation.rule("queue", "gpu", pool="gpus")
        rotation.fill({"a": 50})
        rotation.run(50)
        rotation.fill({"a": 10, "b": 10}, queue="gpu")
        assert rotation.tenants(10, pool="gpus") == "ba" * 5
