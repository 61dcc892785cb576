"""Jobs start: what a claim asks for, what it hands out, and what each way of ending it leaves behind."""

# ruff: noqa: PLR2004  # a test's figures are its subject

from __future__ import annotations

import pytest

from fairlane.domain.jobs import Kind, Settlement
from fairlane.domain.states import State
from fairlane.testing.contract.base import Contract
from fairlane.testing.contract.bench import LEASE_MS, Bench

OUTCOMES: dict[Kind, tuple[State, int, int, int]] = {
    # kind: (state after it, failures, crashes, runs on record)
    "completed": (State.COMPLETED, 0, 0, 0),
    "retry": (State.AVAILABLE, 1, 0, 1),
    "dead": (State.DEAD, 1, 0, 1),
    "cancelled": (State.CANCELLED, 0, 0, 0),
    "snoozed": (State.AVAILABLE, 0, 0, 0),
    "released": (State.AVAILABLE, 0, 0, 0),
    "crashed": (State.AVAILABLE, 0, 1, 1),
}


class ClaimsContract(Contract):
    """Claims, settlements, progress, checkpoints, workers on record."""

    # ------------------------------------------------------------------ what is asked for

    def test_nothing_waits_nothing_starts(self, b: Bench) -> None:
        """T-C1: a claim on an empty store answers with nothing."""
        assert b.claim(5) == []
        b.put()
        b.run()
        assert b.claim(5) == []

    def test_claim_starts_no_more_than_asked(self, b: Bench) -> None:
        """Promise 7: a claim takes what it can start now; the rest is there for others."""
        jobs = [b.put() for _ in range(5)]
        assert b.start(2) == jobs[:2]
        assert b.start(10) == jobs[2:]
        assert b.claim() == []

    def test_claim_for_nothing_starts_nothing(self, b: Bench) -> None:
        """An ask without room, without queues or without tasks gets nothing."""
        b.put()
        assert b.claim(0) == []
        assert b.claim(5, queues={}) == []
        assert b.claim(5, queues={"q": 0}) == []
        assert b.claim(5, tasks=()) == []

    def test_claim_takes_only_its_queues(self, b: Bench) -> None:
        """A job of a queue that the worker does not serve is left to others."""
        left, taken = b.put(queue="other", tier=0), b.put()
        assert b.start(5, queues={"q": 5}) == [taken]
        assert b.state(left) is State.AVAILABLE

    def test_claim_keeps_to_the_slots_of_each_queue(self, b: Bench) -> None:
        """``queues={"mail": 2, "setup": 1}``: no more of each, whatever the order."""
        b.enqueue(*(b.new(queue=queue) for queue in ["mail"] * 4 + ["setup"] * 4))
        queues = [claim.start.lane.queue for claim in b.claim(8, queues={"mail": 2, "setup": 1})]
        assert sorted(queues) == ["mail", "mail", "setup"]

    def test_claim_takes_only_tasks_it_knows(self, b: Bench) -> None:
        """B18: a job of an unknown task is left to others and holds nobody up."""
        unknown, known = b.put("new.task"), b.put("t")
        assert b.start(5, tasks=["t", "never.seen"]) == [known]
        assert b.start(5) == [unknown]

    def test_queue_of_another_pool_is_not_served(self, b: Bench) -> None:
        """A worker serves one pool."""
        b.rule("queue", "gpu", pool="gpus")
        gpu, cpu = b.put(queue="gpu"), b.put()
        assert b.start(5) == [cpu]
        assert b.start(5, pool="gpus") == [gpu]

    def test_queue_moved_to_another_pool_takes_its_jobs_along(self, b: Bench) -> None:
        """Waiting jobs, express ones too, and jobs that come back start where their queue is now."""
        first, second, third = b.put(), b.put(), b.put(express=True)
        claim = b.take()
        assert claim.id == third
        b.expedite(second)
        b.rule("queue", "q", pool="other")
        assert b.claim(5) == []
        b.fail(claim)
        assert b.drain(pool="other") == [third, second, first]

    def test_reserved_slots_are_for_their_tier(self, b: Bench) -> None:
        """``reserve={"critical": 1}`` on two free slots: one job of any tier, and one CRITICAL."""
        first = b.put()
        b.put()
        assert b.start(2, rooms=(2, 1, 1, 1, 1)) == [first]
        critical = b.put(tier=0)
        assert b.start(1, rooms=(1, 0, 0, 0, 0)) == [critical]

    def test_reserved_slots_are_for_express_too(self, b: Bench) -> None:
        """An express job may use a slot that is kept for CRITICAL, whatever its tier."""
        b.put()
        job = b.put(tier=4, express=True)
        assert b.start(2, rooms=(0, 0, 0, 0, 0)) == [job]

    # ------------------------------------------------------------------ what is handed out

    def test_claim_says_what_the_job_is(self, b: Bench) -> None:
        """The claim carries all that a worker needs: number, fence, lease, place, decision."""
        job = b.put(delay_ms=5)
        b.clock.advance(seconds=1)
        claim = b.take(lease_ms=7_000)
        record = b.job(job)
        assert (claim.id, claim.seq, claim.fence, claim.attempt) == (job, record.seq, record.fence, 1)
        assert (claim.failures, claim.crashes, claim.checks, claim.phase) == (0, 0, 0, "process")
        assert (claim.started_at_ms, claim.deadline_ms) == (b.now_ms, b.now_ms + 7_000)
        assert (claim.arrival_ms, claim.start.place) == (record.arrival_ms, (record.arrival_ms, record.seq))
        assert (claim.start.lane, claim.start.express, claim.start.rule) == (("q", "t", "a", 2), None, "shared")

    def test_start_is_on_record_before_the_job_runs(self, b: Bench) -> None:
        """B11, B28, promise 3: when the claim is committed the job is running, by whom, until when, by which rule."""
        b.worker("w1")
        job = b.put()
        b.take(worker="w1")
        record = b.job(job)
        assert (record.state, record.worker, record.rule) == (State.RUNNING, "w1", "shared")
        assert (record.started_at_ms, record.lease_expires_at_ms) == (b.now_ms, b.now_ms + LEASE_MS)

    def test_no_job_is_handed_out_twice(self, b: Bench) -> None:
        """T-M10: claims of many sizes share the jobs out, each exactly once."""
        b.fill({"a": 30, "b": 30})
        started = [job for n in (1, 7, 2, 20, 30, 5) for job in b.start(n)]
        assert len(started) == len(set(started)) == 60

    # ------------------------------------------------------------------ how it ends

    @pytest.mark.parametrize("kind", OUTCOMES)
    def test_outcome(self, b: Bench, kind: Kind) -> None:
        """What each kind of end leaves: the state, and what is counted."""
        job = b.put()
        claim = b.take()
        failed = kind in ("retry", "dead", "crashed")
        assert b.settle(claim, kind, run_us=5, error=b.error(claim) if failed else None, reason="why")
        record = b.job(job)
        assert (record.state, record.failures, record.crashes, len(record.errors)) == OUTCOMES[kind]
        assert (record.lease_expires_at_ms, record.args, record.arrival_ms) == (None, "{}", claim.arrival_ms)

    @pytest.mark.parametrize("kind", ["retry", "snoozed"])
    def test_delay_is_kept_to(self, b: Bench, kind: Kind) -> None:
        """T-C10: a job that is put back for later is scheduled until exactly then, and keeps its arrival."""
        job = b.put()
        claim = b.take()
        b.settle(claim, kind, delay_ms=5_000, error=b.error(claim) if kind == "retry" else None)
        record = b.job(job)
        assert (record.state, record.arrival_ms) == (State.SCHEDULED, claim.arrival_ms)
        b.clock.advance(ms=4_999)
        assert b.claim() == []
        b.clock.advance(ms=1)
        assert b.start() == [job]

    @pytest.mark.parametrize("kind", ["snoozed", "released"])
    def test_giving_back_counts_for_nothing(self, b: Bench, kind: Kind) -> None:
        """F3, promise 3: a hundred snoozes, drains or "not ready" use up no attempt and leave no error."""
        job = b.put()
        for _ in range(100):
            b.settle(b.take(), kind)
        record = b.job(job)
        assert (record.state, record.failures, record.crashes, record.errors) == (State.AVAILABLE, 0, 0, ())

    def test_preemption_is_counted_apart(self, b: Bench) -> None:
        """A preempted run counts as one preemption and as nothing else."""
        job = b.put()
        b.release(b.take(), preempted=True)
        b.release(b.take())
        record = b.job(job)
        assert (record.preemptions, record.failures, record.crashes) == (1, 0, 0)

    def test_runs_are_numbered(self, b: Bench) -> None:
        """Failures and crashes number the runs from 1, and history keeps the numbers, oldest first (T-M16)."""
        job = b.put()
        b.fail(b.take(), message="first")
        b.crash(b.take())
        claim = b.take()
        assert (claim.attempt, claim.failures, claim.crashes) == (3, 1, 1)
        b.die(claim, message="third")
        assert [(error.attempt, error.kind, error.message) for error in b.job(job).errors] == [
            (1, "failure", "first"),
            (2, "crash", ""),
            (3, "failure", "third"),
        ]

    def test_nack_can_be_final(self, b: Bench) -> None:
        """T-C9, T-M13: a job whose handler gives up is dead at once, with the reason and the error."""
        job = b.put()
        b.die(b.take(), reason="bad address", message="550")
        record = b.job(job)
        assert (record.state, record.reason, record.errors[0].message) == (State.DEAD, "bad address", "550")
        assert b.claim() == []

    def test_result_is_kept(self, b: Bench) -> None:
        """The result can be read when the job has ended."""
        job = b.put()
        b.done(b.take(), result='{"ok":true}')
        assert b.job(job).result == '{"ok":true}'

    def test_many_ends_in_one_call(self, b: Bench) -> None:
        """Each settlement of a call stands for itself; the answers come in their order."""
        b.fill({"a": 3})
        first, second, third = b.claim(3)
        b.done(second)
        ends = [Settlement(seq=claim.seq, fence=claim.fence, kind="completed") for claim in (first, second, third)]
        assert b.write(lambda store, now_ms: store.settle(ends, now_ms)) == [True, False, True]

    # ------------------------------------------------------------------ while it runs

    def test_progress_and_checkpoint_are_kept(self, b: Bench) -> None:
        """What a handler saved is there for people at once and for the next run, however this one ends."""
        job = b.put()
        claim = b.take()
        assert b.save(claim, progress='{"done":0.5}', checkpoint='{"next":3}')
        assert b.save(claim, progress='{"done":0.6}')
        assert (b.job(job).progress, b.job(job).checkpoint) == ('{"done":0.6}', '{"next":3}')
        b.fail(claim)
        claim = b.take()
        assert claim.checkpoint == '{"next":3}'
        b.lapse()
        b.rescue()
        assert b.take().checkpoint == '{"next":3}'

    def test_heartbeat_moves_the_lease(self, b: Bench) -> None:
        """B07: a lease that is renewed holds as long as it is renewed."""
        job = b.put()
        claim = b.take(lease_ms=1_000)
        for _ in range(20):
            b.clock.advance(ms=900)
            assert b.beat(claim, lease_ms=1_000) == "ok"
            assert b.rescue() == 0
            assert b.claim() == []
        assert b.job(job).lease_expires_at_ms == b.now_ms + 1_000
        assert b.done(claim)

    def test_heartbeats_of_many_claims(self, b: Bench) -> None:
        """One call renews many leases, and each gets its own answer in order."""
        b.fill({"a": 3})
        first, second, third = b.claim(3)
        b.done(second)
        b.cancel(third.id)
        pairs = [(claim.seq, claim.fence) for claim in (first, second, third)]
        beats = b.write(lambda store, now_ms: store.heartbeat(pairs, lease_ms=5_000, now_ms=now_ms))
        assert [(beat.seq, beat.fence, beat.answer) for beat in beats] == [
            (*pairs[0], "ok"),
            (*pairs[1], "lost"),
            (*pairs[2], "cancel"),
        ]

    def test_worker_learns_what_it_is_asked(self, b: Bench) -> None:
        """A worker finds the running jobs that somebody asked to stop; nobody else's, and none that ended."""
        b.worker("w1")
        b.worker("w2")
        b.fill({"a": 3})
        first, second = b.claim(2, worker="w1")
        other = b.take(worker="w2")
        for claim in (first, second, other):
            b.cancel(claim.id)
        b.done(second)
        assert [(beat.seq, beat.fence, beat.answer) for beat in b.store.asked("w1")] == [
            (first.seq, first.fence, "cancel")
        ]

    # ------------------------------------------------------------------ workers

    def test_workers_are_on_record_while_they_live(self, b: Bench) -> None:
        """A worker is listed with what it declared until it goes."""
        b.worker("w1", slots=4, queues=("q", "r"))
        b.worker("w2")
        listed = {worker.id: (worker.pool, worker.slots, worker.queues) for worker in b.store.workers()}
        assert listed == {"w1": ("default", 4, ("q", "r")), "w2": ("default", 8, None)}
        b.write(lambda store, now_ms: store.unregister("w1", now_ms))
        assert [worker.id for worker in b.store.workers()] == ["w2"]

    def test_unregistering_twice_is_fine(self, b: Bench) -> None:
        """Start and stop are safe to repeat."""
        b.worker("w1")
        for _ in range(2):
            b.write(lambda store, now_ms: store.unregister("w1", now_ms))
        assert b.store.workers() == []
