"""Work that another system finishes: handed over, checked, rejected, timed out; by hand processed and checked again."""

# ruff: noqa: PLR2004  # a test's figures are its subject

from __future__ import annotations

import random
from typing import Any, Final

import pytest

from fairlane.domain.checking import REJECTED, checked_again, handed_over, rejected
from fairlane.domain.jobs import Claim, ErrorRecord, Phase, Settlement
from fairlane.domain.lanes import LaneKey
from fairlane.domain.phases import TIMED_OUT, Verification
from fairlane.domain.policy import Capacities
from fairlane.domain.retries import Retry
from fairlane.domain.states import State
from fairlane.errors import ExpressFull, FairlaneError, InvalidJob
from fairlane.testing.contract.base import Contract, OpenBench
from fairlane.testing.contract.bench import Bench

TERMS: Final = Verification(every_ms=10_000, max_checks=3, queue="checks", tier=1)
TWICE: Final = Retry(max_attempts=2, base=5.0, jitter=0.0)


def end(b: Bench, settlement: Settlement) -> bool:
    """End a claim as the rules say; False means that its lease was lost."""
    return b.write(lambda store, now_ms: store.settle([settlement], now_ms))[0]


def hand(b: Bench, claim: Claim, reference: str = '"ref"', terms: Verification = TERMS) -> bool:
    """Hand work over."""
    return end(b, handed_over(claim, terms, reference))


def pend(b: Bench, claim: Claim, *, failed: str | None = None) -> bool:
    """End a check that found the work not finished, or that failed."""
    error = None
    if failed is not None:
        error = ErrorRecord(claim.attempt, b.now_ms, "failure", "ValueError", failed, check=claim.checks + 1)
    return end(b, checked_again(claim, TERMS, error=error))


def reject(b: Bench, claim: Claim, retry: Retry = TWICE) -> bool:
    """End a check that found the work failed."""
    error = ErrorRecord(claim.attempt, b.now_ms, "failure", REJECTED, "bad proof")
    return end(b, rejected(claim, retry, error, random.Random(1)))


def check(b: Bench) -> Claim:
    """Wait for the next check and start it."""
    b.clock.advance(ms=TERMS.every_ms)
    claim = b.take()
    assert claim.phase == "verify"
    return claim


def handed(b: Bench, **options: Any) -> bytes:  # Any: NewJob's fields
    """Return a job that waits for its first check."""
    job = b.put(**options)
    assert hand(b, b.take())
    return job


def timed_out(b: Bench, **options: Any) -> bytes:  # Any: NewJob's fields
    """Return a job that died because its checks were used up."""
    job = handed(b, **options)
    for _ in range(TERMS.max_checks):
        pend(b, check(b))
    assert b.state(job) is State.DEAD
    return job


def handed_back(b: Bench) -> bytes:
    """Return a job whose work was rejected, and which waits to be processed again."""
    job = handed(b)
    assert reject(b, check(b))
    return job


def process(b: Bench, job: bytes, *, expedite: bool = False) -> None:
    """Ask for a job to be processed."""
    b.write(lambda store, now_ms: store.process(job, expedite=expedite, by="ops", now_ms=now_ms))


def reverify(b: Bench, job: bytes, *, expedite: bool = False) -> None:
    """Ask for a job's work to be checked."""
    b.write(lambda store, now_ms: store.reverify(job, expedite=expedite, by="ops", now_ms=now_ms))


def fill_express(b: Bench, phase: Phase, n: int) -> None:
    """Put jobs in the express lane of a phase until it is full."""
    jobs = [b.put() for _ in range(n)]
    if phase == "verify":
        for claim in b.claim(n):
            hand(b, claim)
    for job in jobs:
        b.expedite(job)


class VerifyContract(Contract):
    """T-M12, T-M14 to T-M19, T-M24, T-M28, F4, F5, F16."""

    # ------------------------------------------------------------------ handing over

    def test_handed_over_work_waits_for_its_check(self, b: Bench) -> None:
        """T-M12: one row that goes on in a lane of its own, at its old place, with the reference stored."""
        job = b.put(tier=3, queue="gpu", tenant="acme", args='{"n":1}', tags=("x",))
        before = b.job(job)
        b.clock.advance(seconds=5)
        claim = b.take()
        assert (claim.phase, claim.reference) == ("process", None)
        assert hand(b, claim, '{"proof":7}')
        record = b.job(job)
        assert (record.state, record.phase, record.reference) == (State.SCHEDULED, "verify", '{"proof":7}')
        assert (record.task, record.queue, record.tier, record.tenant) == ("t", "checks", 1, "acme")
        assert record.lane == LaneKey("checks", "t:verify", "acme", 1)
        for field in ("seq", "arrival_ms", "args", "tags", "enqueued_at_ms", "scheduled_at_ms", "failures", "crashes"):
            assert getattr(record, field) == getattr(before, field), field
        b.clock.advance(ms=TERMS.every_ms - 1)
        assert b.claim() == []
        b.clock.advance(ms=1)
        claim = b.take()
        assert (claim.id, claim.task, claim.phase) == (job, "t", "verify")
        assert (claim.reference, claim.args, claim.attempt, claim.checks) == ('{"proof":7}', '{"n":1}', 1, 0)
        assert claim.start.lane.task == "t:verify"

    def test_terms_default_to_queue_and_tier_of_the_process_phase(self, b: Bench) -> None:
        """Section 5: without a queue and tier of its own a check waits where the job was processed."""
        job = b.put(tier=3, queue="gpu")
        hand(b, b.take(), terms=Verification(every_ms=1))
        assert b.job(job).lane == LaneKey("gpu", "t:verify", "a", 3)

    def test_a_stale_holder_hands_nothing_over(self, b: Bench) -> None:
        """Promise 2: the reference of a run that lost its lease is not stored, nor is it handed over twice."""
        b.put()
        stale = b.take()
        b.lapse()
        b.rescue()
        fresh = b.take()
        with b.unchanged():
            assert not hand(b, stale, '"old"')
        assert hand(b, fresh, '"new"')
        with b.unchanged():
            assert not hand(b, fresh, '"again"')

    def test_reserved_names(self, b: Bench) -> None:
        """A task's name may not be that of another task's verify phase."""
        with b.refused(InvalidJob, match="verify"):
            b.put("t:verify")

    def test_the_key_is_taken_until_the_end(self, b: Bench) -> None:
        """T-M24: a job that waits for checks, in another queue, is live: its key gives it back."""
        job = handed(b, dedup_key="block-7")
        again = b.enqueue(b.new(dedup_key="block-7"))[0]
        assert (again.id, again.created) == (job, False)
        b.done(check(b))
        assert b.enqueue(b.new(dedup_key="block-7"))[0].created

    def test_declared_terms_are_read_back(self, b: Bench) -> None:
        """Claims by hand learn from the store how a task's work is checked; a change by the code counts."""
        for verify in (None, TERMS, Verification(), None):
            b.declare("t", verify=verify)
            assert b.store.verification("t") == verify
        assert b.store.verification("unknown") is None

    # ------------------------------------------------------------------ the four outcomes

    def test_verified(self, b: Bench) -> None:
        """T-M14: the job is completed with the check's result; the check counts."""
        job = handed(b)
        assert b.done(check(b), result='"paid"')
        record = b.job(job)
        assert (record.state, record.result, record.checks, record.reference) == (
            State.COMPLETED,
            '"paid"',
            1,
            '"ref"',
        )

    def test_pending_until_checks_are_used_up(self, b: Bench) -> None:
        """T-M14: checked every so often, no attempt used; the last check that finds nothing ends it, once."""
        job = handed(b)
        for checks in (1, 2):
            assert pend(b, check(b))
            record = b.job(job)
            assert (record.state, record.phase, record.checks) == (State.SCHEDULED, "verify", checks)
            assert (record.failures, record.crashes, record.errors) == (0, 0, ())
            assert b.claim() == []
        last = check(b)
        assert (last.attempt, last.checks) == (1, 2)
        assert pend(b, last)
        record = b.job(job)
        assert (record.state, record.reason, record.checks) == (State.DEAD, TIMED_OUT, 3)
        assert (record.phase, record.reference, record.failures) == ("verify", '"ref"', 0)

    def test_rejected_work_is_processed_again(self, b: Bench) -> None:
        """T-M14: while attempts remain, after the task's delay, where it was processed before, checks from zero."""
        job = b.put(tier=3, queue="gpu")
        b.save(claim := b.take(), checkpoint='{"at":1}')
        hand(b, claim, '"one"')
        pend(b, check(b))
        assert reject(b, check(b))
        record = b.job(job)
        assert (record.state, record.phase, record.lane) == (State.SCHEDULED, "process", LaneKey("gpu", "t", "a", 3))
        assert (record.failures, record.checks, record.checkpoint) == (1, 2, None)
        assert [(error.type, error.attempt, error.check) for error in record.errors] == [(REJECTED, 1, 0)]
        b.clock.advance(ms=4_999)
        assert b.claim() == []
        b.clock.advance(ms=1)
        claim = b.take()
        assert (claim.phase, claim.attempt, claim.checkpoint) == ("process", 2, None)
        hand(b, claim, '"two"')
        assert (b.job(job).checks, b.job(job).reference) == (0, '"two"')
        claim = check(b)
        assert (claim.attempt, claim.reference) == (2, '"two"')
        reject(b, claim)
        record = b.job(job)
        assert (record.state, record.failures) == (State.DEAD, 2)
        assert record.reason == "rejected; failed 2 times; max_attempts is 2"

    def test_a_check_that_fails_is_on_record_and_tried_again(self, b: Bench) -> None:
        """F16: an exception in a check leaves history, uses no attempt, and counts towards max_checks."""
        job = handed(b)
        pend(b, check(b), failed="no route")
        record = b.job(job)
        assert (record.state, record.phase, record.failures, record.checks) == (State.SCHEDULED, "verify", 0, 1)
        pend(b, check(b))
        pend(b, check(b), failed="bad gateway")
        record = b.job(job)
        assert (record.state, record.reason, record.failures) == (State.DEAD, TIMED_OUT, 0)
        assert [(error.check, error.message) for error in record.errors] == [(1, "no route"), (3, "bad gateway")]

    def test_a_check_whose_process_was_killed_is_repeated(self, b: Bench) -> None:
        """F16: a crash in a check is a crash, at most so many; the work and its reference are kept."""
        b.declare("t:verify", max_crashes=1)
        job = handed(b)
        check(b)
        b.lapse()
        assert b.rescue() == 1
        record = b.job(job)
        assert (record.state, record.phase, record.crashes, record.checks) == (State.AVAILABLE, "verify", 1, 0)
        assert [(error.kind, error.attempt, error.check) for error in record.errors] == [("crash", 1, 1)]
        claim = b.take()
        assert (claim.attempt, claim.reference) == (1, '"ref"')
        b.lapse()
        b.rescue()
        record = b.job(job)
        assert (record.state, record.reason) == (State.DEAD, "crashed 2 times; the maximum is 1")
        assert [(error.attempt, error.check) for error in record.errors] == [(1, 1), (1, 1)]
        assert record.attempt == 1

    @pytest.mark.parametrize("way", ["snooze", "release"])
    def test_a_check_that_says_not_now_counts_for_nothing(self, b: Bench, way: str) -> None:
        """Promise 3: a snooze and a drain use no check up."""
        job = handed(b)
        claim = check(b)
        (b.snooze if way == "snooze" else b.release)(claim)
        record = b.job(job)
        assert (record.state, record.phase, record.checks, record.failures) == (State.AVAILABLE, "verify", 0, 0)
        assert b.take().reference == '"ref"'

    def test_history_is_in_order_over_all_phases(self, b: Bench) -> None:
        """T-M16: every failed run, crash, rejection and failed check, oldest first, and kept by a retry."""
        job = b.put()
        b.fail(b.take(), message="one")
        hand(b, b.take())
        pend(b, check(b), failed="two")
        reject(b, check(b), Retry(max_attempts=9, base=0, jitter=0))
        b.crash(b.take())
        b.die(b.take(), message="three")
        b.retry(job)
        told = [(error.attempt, error.check, error.message) for error in b.job(job).errors]
        assert told == [(1, 0, "one"), (2, 1, "two"), (2, 0, "bad proof"), (3, 0, ""), (4, 0, "three")]

    # ------------------------------------------------------------------ cancel, expiry

    def test_cancel_while_it_waits_for_a_check(self, b: Bench) -> None:
        """It is cancelled at once and never checked."""
        job = handed(b)
        assert b.cancel(job) is State.CANCELLED
        b.clock.advance(seconds=100)
        assert b.claim() == []

    def test_cancelled_run_that_hands_over_keeps_its_reference(self, b: Bench) -> None:
        """B22: the job is cancelled, and what the other system began can still be found."""
        job = b.put()
        claim = b.take()
        b.cancel(job)
        assert hand(b, claim)
        record = b.job(job)
        assert (record.state, record.reference, record.phase) == (State.CANCELLED, '"ref"', "process")

    def test_cancel_while_it_is_checked(self, b: Bench) -> None:
        """B22: work that is done is done; else the job is cancelled."""
        first = handed(b)
        claim = check(b)
        b.cancel(first)
        assert b.beat(claim) == "cancel"
        pend(b, claim)
        assert b.state(first) is State.CANCELLED
        second = handed(b)
        claim = check(b)
        b.cancel(second)
        b.done(claim)
        assert b.state(second) is State.COMPLETED
        third = handed(b)
        claim = check(b)
        b.cancel(third)
        reject(b, claim)
        assert b.state(third) is State.CANCELLED

    def test_expiry_bounds_the_start_of_processing_alone(self, b: Bench) -> None:
        """Work that was begun in time is checked whenever it is finished; rejected too late it does not begin again."""
        expires_at_ms = b.now_ms + 15_000
        one = handed(b, expires_at_ms=expires_at_ms)
        two = handed(b, expires_at_ms=expires_at_ms)
        b.clock.advance(seconds=20)
        first, second = b.claim(2)
        assert {first.id, second.id} == {one, two}
        b.done(first)
        reject(b, second)
        assert (b.state(first.id), b.state(second.id)) == (State.COMPLETED, State.CANCELLED)
        assert b.job(second.id).reason == "expired"

    def test_work_that_outlasts_the_expiry_is_handed_over(self, b: Bench) -> None:
        """It was begun in time: neither the handing over nor a check that is given back ends it."""
        job = b.put(expires_at_ms=b.now_ms + 5_000)
        claim = b.take()
        b.clock.advance(seconds=6)
        hand(b, claim)
        b.release(check(b))
        b.write(lambda store, now_ms: store.notice(now_ms))
        assert b.start() == [job]

    def test_a_check_that_waits_does_not_expire(self, b: Bench) -> None:
        """Work that was begun in time waits for its check as long as it takes."""
        job = handed(b, expires_at_ms=b.now_ms + 15_000)
        for _ in range(2):
            b.clock.advance(seconds=10)
            b.write(lambda store, now_ms: store.notice(now_ms))
            assert b.state(job) is State.AVAILABLE
        assert b.start() == [job]

    # ------------------------------------------------------------------ express, tiers

    def test_express_ends_with_the_phase(self, b: Bench) -> None:
        """Section 4: neither the check nor the next attempt has the place that the first attempt had."""
        job = b.put(express=True)
        hand(b, b.take())
        assert b.job(job).express is None
        b.expedite(job)
        claim = b.take()
        assert (claim.phase, claim.start.rule) == ("verify", "express")
        reject(b, claim, Retry(base=0, jitter=0))
        assert (b.job(job).express, b.take().start.rule) == (None, "shared")

    def test_a_check_can_jump_the_line(self, b: Bench) -> None:
        """T-M1: an expedited check runs at once, before its time and a thousand others."""
        b.fill({"a": 50}, tier=0)
        job = b.put(tier=0, express=True)
        hand(b, b.take())
        b.expedite(job)
        assert b.start() == [job]

    def test_phases_are_counted_apart(self, open_bench: OpenBench) -> None:
        """T-M2: a lane that is full of jobs to process takes checks, and the other way round."""
        b = open_bench(capacities=Capacities(express_capacity=2, express_per_tenant=2))
        job = handed(b)
        fill_express(b, "process", 2)
        with b.refused(ExpressFull):
            b.put(express=True)
        reverify(b, job, expedite=True)
        assert b.job(job).express is not None

    def test_boost_of_a_check_lasts(self, b: Bench) -> None:
        """Section 4: a job that is made more or less urgent is so in the phase that it goes back to."""
        job = b.put(tier=3, queue="gpu")
        hand(b, b.take())
        b.boost(job, 0)
        assert b.job(job).lane == LaneKey("checks", "t:verify", "a", 0)
        reject(b, check(b))
        assert b.job(job).lane == LaneKey("gpu", "t", "a", 0)

    # ------------------------------------------------------------------ pauses, limits, workers, filters

    def test_phases_are_paused_apart(self, b: Bench) -> None:
        """A paused task is still checked; its checks have a name of their own to pause."""
        checked = handed(b)
        waiting = b.put()
        b.clock.advance(ms=TERMS.every_ms)
        b.pause("task", "t")
        assert b.start(9) == [checked]
        b.pause("task", "t:verify")
        other = handed(b, task="u")
        b.clock.advance(ms=TERMS.every_ms)
        assert b.start(9) == [other]
        b.resume("task", "t")
        assert b.start(9) == [waiting]

    def test_limits_of_checks_are_their_own(self, b: Bench) -> None:
        """Promise 5: checks count against the limits that are declared for them."""
        b.declare("t", "prover")
        b.declare("t:verify", "chain")
        b.rule("limit", "prover", max_running=3)
        b.rule("limit", "chain", max_running=1)
        b.fill({"a": 3})
        for claim in b.claim(9):
            hand(b, claim)
        b.clock.advance(ms=TERMS.every_ms)
        claims = b.claim(9)
        assert len(claims) == 1
        pend(b, claims[0])
        assert len(b.claim(9)) == 1

    def test_a_worker_gets_the_phases_that_it_knows(self, b: Bench) -> None:
        """A process without the check leaves jobs to others that have it."""
        job = handed(b)
        b.clock.advance(ms=TERMS.every_ms)
        assert b.claim(9, tasks=("t",)) == []
        assert b.start(9, tasks=("t", "t:verify")) == [job]

    def test_filters_by_task_mean_both_phases(self, b: Bench) -> None:
        """A task's jobs are found, and cleared, in whichever phase they are."""
        checked, waiting = handed(b), b.put()
        b.put("other")
        assert {job.id for job in b.all_jobs(task="t")} == {checked, waiting}
        assert [job.id for job in b.all_jobs(task="t:verify")] == [checked]
        assert b.clear(task="t") == 2

    # ------------------------------------------------------------------ who is told of deaths

    def test_each_death_is_told_once(self, b: Bench) -> None:
        """T-M19, T-M28: by whichever end a job dies, once, as it is then; a settle that came too late tells nothing."""
        killed = b.put()
        claim = b.take()
        assert b.die(claim, reason="no more")
        assert not b.die(claim)
        out = timed_out(b)
        b.cancel(b.put())
        b.put()
        b.settle(b.take(), "cancelled", reason="no need")
        b.declare("c", max_crashes=0)
        crashed = b.put("c")
        b.take()
        b.lapse()
        b.rescue()
        assert "end" in b.heard
        told = b.store.deaths()
        assert [(job.id, job.state, job.reason) for job in told] == [
            (killed, State.DEAD, "no more"),
            (out, State.DEAD, TIMED_OUT),
            (crashed, State.DEAD, "crashed 1 times; the maximum is 0"),
        ]
        assert [error.message for error in told[0].errors] == ["boom"]
        assert b.store.deaths() == []

    def test_a_death_that_was_rolled_back_is_not_told(self, b: Bench) -> None:
        """T-M28: only what is stored is told."""
        b.put()
        claim = b.take()
        settlement = Settlement(seq=claim.seq, fence=claim.fence, kind="dead", reason="no more")

        def spoilt() -> None:
            with b.store.transaction():
                b.store.settle([settlement], b.now_ms)
                raise FairlaneError("spoilt")

        with pytest.raises(FairlaneError, match="spoilt"):
            spoilt()
        b.put()
        assert b.store.deaths() == []

    # ------------------------------------------------------------------ why it waits

    def test_explain_names_the_check(self, b: Bench) -> None:
        """Section 6: a job that waits for its next check says which one, and when."""
        job = handed(b)
        pend(b, check(b))
        told = b.store.explain(job, b.now_ms)
        assert told.cause == "schedule"
        assert "check 2" in told.summary


class SharedVerifyContract(Contract):
    """Phases among programs: T-M12, F5, F10."""

    def test_one_program_hands_over_and_others_check(self, open_bench: OpenBench) -> None:
        """T-M12: the reference is there for whoever checks: a program that looked before, and one that starts later."""
        first, second = open_bench(), open_bench()
        assert second.claim(tasks=("none",)) == []  # it holds the state in memory from now on
        jobs = [first.put(tier=tier) for tier in (3, 2)]
        for claim in first.claim(2):
            hand(first, claim, f'"{claim.seq}"')
        pend(second, check(second))
        first.reopen()
        claims = [check(first), second.take()]
        assert sorted(claim.reference or "" for claim in claims) == [f'"{first.job(job).seq}"' for job in jobs]
        reject(first, claims[0], Retry(base=0, jitter=0))
        assert (back := second.take()).phase == "process"
        assert back.id == claims[0].id
