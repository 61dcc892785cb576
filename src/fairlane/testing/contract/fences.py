"""Fences: only the holder of the current claim may change a running job."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from fairlane.domain.jobs import Claim
from fairlane.domain.states import State
from fairlane.testing.contract.base import Contract
from fairlane.testing.contract.bench import Bench

LATE_CALLS: dict[str, Callable[[Bench, Claim], object]] = {
    "ack": lambda b, claim: b.done(claim, result='"late"'),
    "nack": lambda b, claim: b.fail(claim, delay_ms=5),
    "dead": lambda b, claim: b.die(claim),
    "cancelled": lambda b, claim: b.settle(claim, "cancelled", reason="late"),
    "snooze": lambda b, claim: b.snooze(claim, delay_ms=5),
    "release": lambda b, claim: b.release(claim, preempted=True),
    "crash": lambda b, claim: b.crash(claim),
    "wait for a limit": lambda b, claim: b.settle(claim, "released", wait_for=("openai", 60_000)),
    "units": lambda b, claim: b.settle(claim, "completed", run_us=10**9, units_us=10**9),
    "heartbeat": lambda b, claim: b.beat(claim) == "ok",
    "save": lambda b, claim: b.save(claim, progress='"late"', checkpoint='"late"'),
}


def _completed(b: Bench, claim: Claim) -> None:
    b.done(claim)


def _dead(b: Bench, claim: Claim) -> None:
    b.die(claim)


def _given_back(b: Bench, claim: Claim) -> None:
    b.release(claim)


def _waiting_for_a_retry(b: Bench, claim: Claim) -> None:
    b.fail(claim, delay_ms=60_000)


def _rescued(b: Bench, claim: Claim) -> None:
    b.lapse()
    assert b.rescue() == 1


def _running_elsewhere(b: Bench, claim: Claim) -> None:
    b.lapse()
    b.rescue()
    assert b.take().id == claim.id


def _deleted(b: Bench, claim: Claim) -> None:
    b.done(claim)
    b.clock.advance(seconds=1)
    assert b.prune() == 1


MEANWHILE: dict[str, Callable[[Bench, Claim], None]] = {
    way.__name__.strip("_"): way
    for way in (
        _completed,
        _dead,
        _given_back,
        _waiting_for_a_retry,
        _rescued,
        _running_elsewhere,
        _deleted,
    )
}


class FencesContract(Contract):
    """B01, T-B10, promise 2: a stale holder is told and changes nothing."""

    @pytest.mark.parametrize("meanwhile", MEANWHILE)
    def test_late_call_is_lost_and_changes_nothing(self, b: Bench, meanwhile: str) -> None:
        """B01: whatever has become of the job, its former holder changes no row."""
        b.put()
        claim = b.take()
        MEANWHILE[meanwhile](b, claim)
        for name, call in LATE_CALLS.items():
            with b.unchanged():
                assert call(b, claim) is False, name

    def test_new_holder_is_not_disturbed(self, b: Bench) -> None:
        """B01: the late ack of a slow worker neither ends the new run nor frees its slot (B02)."""
        b.rule("tenant", "a", max_running=1)
        b.fill({"a": 2})
        slow = b.take()
        b.lapse()
        b.rescue()
        current = b.take()
        assert not b.done(slow)
        assert b.state(current.id) is State.RUNNING
        assert b.claim() == []
        assert b.done(current)
        assert b.state(current.id) is State.COMPLETED

    def test_first_end_wins(self, b: Bench) -> None:
        """Of two ends of one claim the first counts: a completed job does not fail later (B31)."""
        job = b.put()
        claim = b.take()
        assert b.done(claim, result='"first"')
        assert not b.fail(claim)
        assert (b.state(job), b.job(job).result, b.job(job).failures) == (State.COMPLETED, '"first"', 0)

    def test_end_of_another_fence_is_lost(self, b: Bench) -> None:
        """A made-up fence, lower or higher, ends nothing."""
        b.put()
        claim = b.take()
        for fence in (claim.fence - 1, claim.fence + 1, 0, -1, 2**62):
            with b.unchanged():
                assert not b.done(replace(claim, fence=fence))
        with b.unchanged():
            assert not b.done(replace(claim, seq=claim.seq + 10**6))
        assert b.done(claim)

    def test_fence_grows_with_every_claim(self, b: Bench) -> None:
        """Promise 2: whatever ended the run before, the next claim's fence is higher."""
        b.declare("t", max_crashes=100)
        b.put()
        fences = [b.take().fence]
        for end in (b.fail, b.release, b.snooze, b.crash):
            b.lapse()
            b.rescue()
            claim = b.take()
            fences.append(claim.fence)
            end(claim)
            claim = b.take()
            fences.append(claim.fence)
            b.release(claim)
            fences.append(b.take().fence)
        assert fences == sorted(set(fences))

    def test_fence_grows_over_a_retry_by_hand(self, b: Bench) -> None:
        """A dead job that is retried starts with its counts at zero, its fence does not."""
        job = b.put()
        stale = b.take()
        b.die(stale)
        b.retry(job)
        claim = b.take()
        assert claim.fence > stale.fence
        assert not b.done(stale)

    def test_number_and_fence_of_a_deleted_job_are_not_used_again(self, b: Bench) -> None:
        """Promise 2: after the newest row is deleted, a claim of the next job is not mistaken for one of the old."""
        b.put()
        stale = b.take()
        b.done(stale)
        b.clock.advance(seconds=1)
        assert b.prune() == 1
        job = b.put()
        claim = b.take()
        assert (claim.seq, claim.fence) != (stale.seq, stale.fence)
        assert b.job(job).seq > stale.seq
        assert not b.done(stale)
        assert b.state(job) is State.RUNNING

    def test_end_before_a_rescue_counts(self, b: Bench) -> None:
        """A lapsed lease that nobody took back is still the current claim: finished work is not thrown away."""
        job = b.put()
        claim = b.take()
        b.lapse()
        assert b.done(claim)
        assert b.rescue() == 0
        assert b.state(job) is State.COMPLETED
