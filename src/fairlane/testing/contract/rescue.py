"""Rescue: jobs whose holder is gone come back, soon, to their place, and not for ever."""

# ruff: noqa: PLR2004  # a test's figures are its subject

from __future__ import annotations

import pytest

from fairlane.domain.states import State
from fairlane.testing.contract.base import Contract
from fairlane.testing.contract.bench import LEASE_MS, Bench


class RescueContract(Contract):
    """B06, B11, B20, T-B8, T-B9, T-C7, T-M20."""

    def test_job_comes_back_when_its_lease_lapses(self, b: Bench) -> None:
        """B06: not before, and with a crash on record."""
        job = b.put()
        b.take()
        b.clock.advance(ms=LEASE_MS - 1)
        assert b.rescue() == 0
        b.clock.advance(ms=2)
        assert b.rescue() == 1
        record = b.job(job)
        assert (record.state, record.crashes, record.failures) == (State.AVAILABLE, 1, 0)
        assert [error.kind for error in record.errors] == ["crash"]

    def test_second_rescue_finds_nothing(self, b: Bench) -> None:
        """T-M20, B20: a second pass changes no row."""
        b.fill({"a": 3})
        b.claim(3)
        b.lapse()
        assert b.rescue() == 3
        with b.unchanged():
            assert b.rescue() == 0

    def test_rescue_is_bounded(self, b: Bench) -> None:
        """A pass takes back no more than asked, and passes go on until none is left (B32)."""
        b.fill({"a": 10})
        b.claim(10)
        b.lapse()
        assert [b.rescue(limit=4) for _ in range(4)] == [4, 4, 2, 0]

    def test_every_claim_rescues_too(self, b: Bench) -> None:
        """Section 5: without any sweep, a claim takes lapsed jobs back and may start them."""
        job = b.put()
        b.take()
        b.lapse()
        claim = b.take()
        assert (claim.id, claim.crashes) == (job, 1)

    def test_rescued_job_keeps_its_place(self, b: Bench) -> None:
        """T-B9, T-C7: it is next of its tenant and tier again, and before no more urgent one."""
        first, second = b.put(), b.put()
        assert b.start() == [first]
        b.lapse()
        b.rescue()
        urgent = b.put(tier=1)
        record = b.job(first)
        assert (record.tier, record.tenant) == (2, "a")
        assert b.drain() == [urgent, first, second]

    def test_stalled_background_job_does_not_jump_tiers(self, b: Bench) -> None:
        """T-B9: a stalled BACKGROUND job comes back behind waiting CRITICAL ones."""
        stalled = b.put(tier=4)
        b.take()
        criticals = [b.put(tier=0, tenant="b") for _ in range(3)]
        b.lapse()
        b.rescue()
        assert b.drain() == [*criticals, stalled]

    def test_job_that_kills_its_workers_dies(self, b: Bench) -> None:
        """B11: beyond ``max_crashes`` (3) a job is dead, which says so, with every crash on record."""
        job = b.put()
        for _ in range(3):
            b.take()
            b.lapse()
            assert b.rescue() == 1
            assert b.state(job) is State.AVAILABLE
        b.take()
        b.lapse()
        assert b.rescue() == 1
        record = b.job(job)
        assert (record.state, record.crashes, record.failures) == (State.DEAD, 4, 0)
        assert record.reason
        assert "crash" in record.reason
        assert [(error.attempt, error.kind) for error in record.errors] == [(n, "crash") for n in range(1, 5)]

    @pytest.mark.parametrize("most", [0, 1, 5])
    def test_crash_budget_is_the_tasks(self, b: Bench, most: int) -> None:
        """A task says how many crashes its jobs survive, told by a worker or found by a rescue."""
        b.declare("t", max_crashes=most)
        job = b.put()
        for n in range(most):
            claim = b.take()
            if n % 2:
                b.lapse()
                b.rescue()
            else:
                b.crash(claim)
            assert b.state(job) is State.AVAILABLE
        b.crash(b.take())
        assert b.state(job) is State.DEAD

    def test_innocent_jobs_survive_their_neighbours(self, b: Bench) -> None:
        """B11: a poison job dies alone; jobs that were taken along once run on."""
        poison = b.put(tier=0)
        innocent = [b.put() for _ in range(8)]
        for n in range(4):
            assert poison in b.start(1)
            assert len(b.start(2)) == 2
            b.lapse()
            assert b.rescue() == 3, f"round {n}"
            for claim in b.claim(3)[1:]:
                b.done(claim)
            b.lapse()
            b.rescue()
            if b.state(poison) is State.DEAD:
                break
        assert b.state(poison) is State.DEAD
        b.run()
        assert {b.state(job) for job in innocent} == {State.COMPLETED}

    def test_slots_of_lost_jobs_are_free_again(self, b: Bench) -> None:
        """B02: a job whose limits have room for one, and whose runner is lost, is not locked out by itself."""
        b.declare("t", "one")
        b.rule("limit", "one", max_running=1)
        b.rule("queue", "q", max_running=1)
        b.rule("tenant", "a", max_running=1)
        job = b.put()
        b.take()
        b.lapse()
        assert b.start(5) == [job]
        assert b.claim() == []

    def test_room_never_leaks_over_many_rescues(self, b: Bench) -> None:
        """B02: after twenty rounds of lost workers a limit of two lets exactly two run."""
        b.rule("tenant", "a", max_running=2)
        b.declare("t", max_crashes=1_000)
        b.fill({"a": 5})
        for n in range(20):
            assert len(b.claim(5)) == 2
            b.lapse()
            assert b.rescue(limit=1 + n % 2) == 1 + n % 2
        b.rescue()
        assert len(b.claim(5)) == 2

    def test_long_job_with_a_live_worker_is_left_alone(self, b: Bench) -> None:
        """B07: an hour of heartbeats, and no other claim gets it."""
        b.worker("w1")
        b.put()
        claim = b.take(worker="w1")
        for _ in range(360):
            b.clock.advance(seconds=10)
            assert b.beat(claim) == "ok"
        assert b.rescue() == 0
        assert b.claim() == []
        assert b.done(claim)

    def test_worker_record_that_is_gone_hides_no_job(self, b: Bench) -> None:
        """B06: a running job whose worker is no longer on record comes back when its lease lapses."""
        b.worker("w1")
        job = b.put()
        b.take(worker="w1")
        b.write(lambda store, now_ms: store.unregister("w1", now_ms))
        b.kill("w1")
        b.lapse()
        assert b.rescue() == 1
        assert b.state(job) is State.AVAILABLE

    def test_lost_job_that_was_cancelled_does_not_run_again(self, b: Bench) -> None:
        """B22: cancel, then the worker dies: the rescue ends the job as cancelled."""
        job = b.put(dedup_key="k")
        b.take()
        assert b.cancel(job) is State.RUNNING
        b.lapse()
        assert b.rescue() == 1
        assert b.state(job) is State.CANCELLED
        assert b.drain() == []
        assert b.put(dedup_key="k") != job

    def test_lost_job_that_has_expired_does_not_run_again(self, b: Bench) -> None:
        """A job that comes back after its time is cancelled, not started."""
        job = b.put(expires_at_ms=b.now_ms + 1_000)
        b.take()
        b.lapse()
        b.rescue()
        assert b.drain() == []
        assert (b.state(job), b.job(job).reason) == (State.CANCELLED, "expired")

    def test_waiting_is_never_rescued(self, b: Bench) -> None:
        """F3: jobs that wait, however long, are none of a rescue's business."""
        b.put()
        b.put(delay_ms=5_000)
        b.put(express=True)
        b.clock.advance(seconds=10**6)
        before = [(job.failures, job.crashes, job.fence) for job in b.all_jobs()]
        assert b.rescue() == 0
        assert [(job.failures, job.crashes, job.fence) for job in b.all_jobs()] == before

    def test_wall_clock_that_steps_back_stalls_nothing(self, b: Bench) -> None:
        """B36: after the clock stepped back an hour, jobs still start, end and come back within their lease."""
        b.fill({"a": 3})
        held = b.take()
        b.clock.step(seconds=-3_600)
        assert b.done(b.take())
        assert b.done(b.take())
        new = b.put()
        assert b.start() == [new]
        b.clock.advance(seconds=3_600 + 60)
        assert b.rescue() == 2
        assert b.state(held.id) is State.AVAILABLE
