"""Faults that other queues have had, where they are the store's: orders of events, herds, what is left behind."""

# ruff: noqa: PLR2004  # a test's figures are its subject

from __future__ import annotations

from itertools import permutations

import pytest

from fairlane.domain.states import State
from fairlane.errors import IllegalMove
from fairlane.testing.contract.base import Contract
from fairlane.testing.contract.bench import Bench

ORDERS = list(permutations(("claim", "cancel", "ack", "kill")))


class FaultsContract(Contract):
    """B02, B20, B22, B28, B31, B32."""

    @pytest.mark.parametrize("order", ORDERS, ids=" ".join)
    def test_claim_cancel_ack_and_kill_in_every_order(self, b: Bench, order: tuple[str, ...]) -> None:
        """B22: cancelled, unless the ack came first; whatever the order, its slot and its key are free after."""
        b.rule("queue", "q", max_running=1)
        job = b.put(dedup_key="k")
        claim = None
        completed = False
        for event in order:
            if event == "claim":
                claim = next(iter(b.claim(1)), None)
            elif event == "cancel" and b.state(job) is State.COMPLETED:
                with b.refused(IllegalMove):
                    b.cancel(job)
            elif event == "cancel":
                b.cancel(job)
            elif event == "ack" and claim is not None:
                completed = b.done(claim)
            elif event == "kill":
                b.lapse()
                b.rescue()
        if b.state(job) is State.RUNNING:  # the holder was killed before it held anything
            b.lapse()
            b.rescue()
        assert b.state(job) is (State.COMPLETED if completed else State.CANCELLED)
        again = b.put(dedup_key="k")
        assert again != job
        assert b.start() == [again]

    def test_a_success_stays_one_whatever_sweeps_over_it(self, b: Bench) -> None:
        """B31: no rescue, late end or late heartbeat turns it into anything else."""
        job = b.put()
        claim = b.take()
        assert b.done(claim, result="1")
        record = b.job(job)
        for _ in range(3):
            b.lapse()
            assert b.rescue() == 0
            assert not b.fail(claim)
            assert b.beat(claim) == "lost"
            assert b.claim(5) == []
        assert b.job(job) == record

    def test_ends_belong_to_their_claims_not_to_their_places(self, b: Bench) -> None:
        """B28: several are held, and told about in another order, some twice."""
        jobs = [b.put() for _ in range(4)]
        claims = b.claim(4)
        assert [b.done(claims[n], result=str(n)) for n in (2, 0, 2, 3)] == [True, True, False, True]
        assert [b.job(job).result for job in jobs] == ["0", None, "2", "3"]
        assert b.state(jobs[1]) is State.RUNNING

    def test_slots_are_free_after_their_jobs_are_deleted(self, b: Bench) -> None:
        """B02: retention that deletes at once, jobs lost in between; every tenant ends with all of its slots."""
        b.rule("queue", "q", max_running=3)
        for tenant in "ab":
            b.rule("tenant", tenant, max_running=2)
        b.fill({"a": 30, "b": 30})
        for n in range(30):
            claims = b.claim(5)
            assert len(claims) <= 3
            for claim in claims[: n % 3]:
                b.done(claim)
            b.clock.advance(ms=1)
            b.prune(keep_completed=0)
            if n % 4 == 3:
                b.lapse()
                b.rescue()
                b.prune()
        b.clear()
        b.lapse()
        b.rescue()
        b.clear()
        b.clock.advance(ms=1)
        b.prune()
        b.fill({"a": 5})
        assert len(b.claim(5)) == 2
        b.fill({"b": 5})
        assert len(b.claim(5)) == 1

    def test_a_thousand_leases_that_end_together(self, b: Bench) -> None:
        """B32: taken back in portions, and started again no more at a time than limits allow."""
        b.fill({f"tenant {n}": 50 for n in range(20)})
        assert len(b.claim(1_000)) == 1_000
        for n in range(20):
            b.rule("tenant", f"tenant {n}", max_running=2)
        b.lapse()
        portions = [b.rescue(limit=100) for _ in range(11)]
        assert portions == [100] * 10 + [0]
        assert len(b.claim(1_000)) == 40

    def test_runs_of_the_living_hide_no_lost_one(self, b: Bench) -> None:
        """B20: hundreds of runs that are not to be rescued come before the one that is."""
        b.fill({"a": 300})
        assert len(b.claim(300, lease_ms=10**9)) == 300
        lost = b.put()
        b.take()
        b.lapse()
        assert b.rescue(limit=10) == 1
        assert b.state(lost) is State.AVAILABLE
