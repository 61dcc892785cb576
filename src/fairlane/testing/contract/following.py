"""Order between jobs: nobody starts before those that it waits for, and every one goes on when they have ended."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from uuid import UUID

import pytest

from fairlane.domain.jobs import Settlement
from fairlane.domain.policy import QueueRule
from fairlane.domain.states import State
from fairlane.errors import ExpressFull, InvalidJob, JobNotFound, QueueFull
from fairlane.testing.contract.base import Contract, OpenBench, faults
from fairlane.testing.contract.bench import Bench, job_id
from fairlane.testing.contract.endings import cancelled, cancelled_while_running, crashed_to_death, dead

PORTION = 1_000
"""Followers that the protocol lets one transaction tell at most."""


def _cleared(b: Bench, job: bytes) -> None:
    b.clear(queue="q", states=(State.AVAILABLE,))


def _expired(b: Bench, job: bytes) -> None:
    b.clock.advance(seconds=3_601)
    b.notice()


FAILURES: dict[str, Callable[[Bench, bytes], None]] = {
    way.__name__.strip("_"): way
    for way in (dead, cancelled, cancelled_while_running, _cleared, _expired, crashed_to_death)
}


def _retried(b: Bench) -> None:
    b.fail(b.take(), delay_ms=1_000)
    b.clock.advance(seconds=1)


def _snoozed(b: Bench) -> None:
    b.snooze(b.take())


def _rescued(b: Bench) -> None:
    b.take()
    b.lapse()
    b.rescue()


def _released(b: Bench) -> None:
    b.release(b.take())


WAYS_BACK: dict[str, Callable[[Bench], None]] = {
    way.__name__.strip("_"): way for way in (_retried, _snoozed, _rescued, _released)
}


class FollowingContract(Contract):
    """``after=`` and ``on_failure=``."""

    # ------------------------------------------------------------------ waiting

    def test_job_starts_after_the_one_that_it_waits_for(self, b: Bench) -> None:
        """It is scheduled, without a time, until that one is completed; then it is available at once."""
        first = b.put()
        second = b.put(after=(first,), tier=0)
        assert (b.job(second).state, b.job(second).behind) == (State.SCHEDULED, 1)
        claim = b.take()
        assert claim.id == first
        assert b.claim() == []
        assert b.done(claim)
        assert (b.job(second).state, b.job(second).behind) == (State.AVAILABLE, 0)
        assert b.start() == [second]

    def test_arrival_is_that_of_the_enqueue(self, b: Bench) -> None:
        """Neither the wait nor the end of the others moves a job's place: it goes before what came after it."""
        first = b.put()
        second = b.put(after=(first,))
        arrival = b.job(second).arrival_ms
        claim = b.take()
        b.clock.advance(seconds=5)
        third = b.put()
        b.done(claim)
        assert b.job(second).arrival_ms == arrival
        assert b.drain() == [second, third]

    @pytest.mark.parametrize("way", WAYS_BACK)
    def test_job_that_comes_back_still_holds_the_others(self, b: Bench, way: str) -> None:
        """A run that is not the end frees nobody."""
        first = b.put()
        second = b.put(after=(first,))
        WAYS_BACK[way](b)
        assert b.state(second) is State.SCHEDULED
        assert b.drain() == [first, second]

    def test_completed_parents_do_not_count(self, b: Bench) -> None:
        """What has succeeded already is not waited for."""
        first = b.put()
        b.run()
        second = b.put(after=(first,))
        assert b.job(second).behind == 0
        assert b.start() == [second]

    def test_same_parent_twice_counts_once(self, b: Bench) -> None:
        """A repeated id changes nothing."""
        first = b.put()
        second = b.put(after=(first, first))
        assert b.job(second).behind == 1
        assert b.drain() == [first, second]

    def test_chain_runs_in_order(self, b: Bench) -> None:
        """A chain whose arrivals lie the other way round: its links run in the order of the chain."""
        ids = [job_id(b.now_ms) for _ in range(6)]
        links = [b.new(id=own, after=(before,)) for before, own in pairwise(ids)]
        b.enqueue(*reversed(links), b.new(id=ids[0]))
        assert b.drain() == ids

    def test_diamond_joins_again(self, b: Bench) -> None:
        """The last of a diamond waits for both sides."""
        top = b.put()
        left, right = b.put(after=(top,)), b.put(after=(top,))
        bottom = b.put(after=(left, right))
        b.done(b.take())
        one, other = b.claim(2)
        assert {one.id, other.id} == {left, right}
        b.done(one)
        assert (b.state(bottom), b.job(bottom).behind) == (State.SCHEDULED, 1)
        b.done(other)
        assert b.start() == [bottom]

    def test_delay_and_order_must_both_be_over(self, b: Bench) -> None:
        """``delay`` together with ``after``: whichever takes longer, from the enqueue on."""
        first, quick = b.put(), b.put(task="u")
        slow = b.put(after=(first,), delay_ms=10_000)
        late = b.put(after=(quick,), delay_ms=1_000)
        b.done(b.take(tasks=["t"]))
        assert (b.state(slow), b.job(slow).behind) == (State.SCHEDULED, 0)
        b.clock.advance(seconds=5)
        assert b.claim(tasks=["t"]) == []
        assert b.state(late) is State.SCHEDULED
        assert b.start(tasks=["u"]) == [quick]
        b.clock.advance(seconds=5)
        assert b.start() == [slow]

    def test_expiry_ends_the_wait(self, b: Bench) -> None:
        """A job that expires while it waits for others is cancelled, and whoever waits for it with it."""
        first = b.put()
        second = b.put(after=(first,), expires_at_ms=b.now_ms + 1_000)
        third = b.put(after=(second,))
        claim = b.take()
        assert b.store.next_due_ms() == b.now_ms + 1_000
        b.clock.advance(seconds=1)
        b.notice()
        assert (b.job(second).state, b.job(second).reason) == (State.CANCELLED, "expired")
        assert b.state(third) is State.CANCELLED
        assert b.done(claim)

    def test_expired_follower_does_not_run(self, b: Bench) -> None:
        """Its time was over before the job in front ended, and nobody had noticed."""
        first = b.put()
        second = b.put(after=(first,), expires_at_ms=b.now_ms + 1_000)
        claim = b.take(lease_ms=60_000)
        b.clock.advance(seconds=2)
        b.done(claim)
        assert b.claim() == []
        assert b.job(second).reason == "expired"

    def test_boost_keeps_the_wait(self, b: Bench) -> None:
        """A job behind others may change its tier, and waits on."""
        first = b.put(tier=3)
        second = b.put(tier=4, after=(first,))
        assert b.boost(second, 0).outcome == "boosted"
        assert b.drain() == [first, second]

    def test_expedited_job_waits_for_the_others_and_then_goes_first(self, b: Bench) -> None:
        """Express is a place in line, not a way round the order; its delay is over, its parents are not."""
        first, other = b.put(), b.put(tier=0)
        second = b.put(after=(first,), delay_ms=60_000)
        record = b.expedite(second)
        assert (record.state, record.behind) == (State.SCHEDULED, 1)
        assert record.express is not None
        assert b.start() == [other]
        b.done(b.take())
        assert b.state(second) is State.AVAILABLE
        b.put(tier=0)
        assert b.start() == [second]

    def test_express_wish_of_a_job_behind_others_counts(self, open_bench: OpenBench) -> None:
        """An express job that waits for others takes room in the express lane, as a delayed one does."""
        b = open_bench()
        capacity = b.store.settings()[1].express_capacity
        first = b.put()
        for _ in range(capacity):
            b.put(tenant="default", after=(first,), express=True)
        with b.refused(ExpressFull):
            b.put(tenant="default", express=True)
        b.done(b.take())
        assert len({claim.id for claim in b.claim(100)}) == capacity

    def test_waiting_jobs_behind_others_fill_a_queue(self, b: Bench) -> None:
        """``max_waiting`` counts them."""
        b.write(lambda store, now_ms: store.set_rule("queue", "q", QueueRule(max_waiting=2), by="ops", now_ms=now_ms))
        first = b.put()
        b.put(after=(first,))
        with b.refused(QueueFull):
            b.put(after=(first,))

    # ------------------------------------------------------------------ failures

    @pytest.mark.parametrize("way", FAILURES)
    def test_failure_cancels_those_behind(self, b: Bench, way: str) -> None:
        """By whatever way the first one fails, those behind are cancelled; the reason names the one in front."""
        first = b.put(expires_at_ms=b.now_ms + 3_600_000)
        second = b.put(after=(first,))
        third = b.put(after=(second,))
        FAILURES[way](b, first)
        assert [b.state(job) for job in (second, third)] == [State.CANCELLED] * 2
        assert str(b.job(first).uuid) in (b.job(second).reason or "")
        assert str(b.job(second).uuid) in (b.job(third).reason or "")
        assert b.claim() == []

    @pytest.mark.parametrize("way", FAILURES)
    def test_failure_lets_others_run(self, b: Bench, way: str) -> None:
        """``on_failure="run"``: it runs however the job in front ends."""
        first = b.put(expires_at_ms=b.now_ms + 3_600_000)
        second = b.put(after=(first,), on_failure="run")
        FAILURES[way](b, first)
        assert b.start() == [second]

    @pytest.mark.parametrize("way", ["cleared", "expired"])
    @pytest.mark.parametrize("on_failure", ["cancel", "run"])
    def test_jobs_that_end_together_with_those_behind_them(self, b: Bench, way: str, on_failure: str) -> None:
        """One call ends a whole chain: each job once, in its own right."""
        until_ms = b.now_ms + 1_000
        jobs = [b.put(expires_at_ms=until_ms)]
        for _ in range(4):
            jobs.append(b.put(after=(jobs[-1],), expires_at_ms=until_ms, on_failure=on_failure))
        if way == "cleared":
            assert b.clear(queue="q") == 5  # noqa: PLR2004  all of them
        else:
            b.clock.advance(seconds=1)
            b.notice()
        assert {b.job(job).reason for job in jobs} == {way}
        assert b.waiting() == 0

    def test_failure_of_one_of_several(self, b: Bench) -> None:
        """One failure is enough; the jobs that are still waited for hold nothing any more."""
        parents = [b.put() for _ in range(3)]
        child = b.put(after=tuple(parents))
        b.done(b.take())
        b.die(b.take())
        assert b.state(child) is State.CANCELLED
        assert b.job(child).behind == 0
        assert b.drain() == [parents[2]]

    def test_failure_halfway_through_a_diamond(self, b: Bench) -> None:
        """One side fails: the bottom is cancelled once, the other side goes on."""
        top = b.put()
        left, right = b.put(after=(top,)), b.put(after=(top,), on_failure="run")
        bottom = b.put(after=(left, right))
        b.done(b.take())
        b.die(b.take())
        assert [b.state(job) for job in (left, right, bottom)] == [State.DEAD, State.AVAILABLE, State.CANCELLED]
        assert b.drain() == [right]

    def test_parent_that_had_failed_already(self, b: Bench) -> None:
        """The job is stored and cancelled at once, and tells why; with ``run`` it just runs."""
        first = b.put()
        b.die(b.take())
        b.heard.clear()
        answer = b.enqueue(b.new(after=(first,)))[0]
        assert answer.created
        record = b.job(answer.id)
        assert (record.state, record.behind, record.finished_at_ms) == (State.CANCELLED, 0, b.now_ms)
        assert str(b.job(first).uuid) in (record.reason or "")
        assert "end" in b.heard
        last = b.put(after=(first,), on_failure="run")
        assert b.drain() == [last]

    def test_batch_behind_a_parent_that_had_failed(self, b: Bench) -> None:
        """What waits within the batch for a job that is cancelled at once is cancelled too, whatever the order."""
        first = b.put()
        b.die(b.take())
        ids = [job_id(b.now_ms) for _ in range(3)]
        b.enqueue(
            b.new(id=ids[2], after=(ids[1],)), b.new(id=ids[1], after=(ids[0],)), b.new(id=ids[0], after=(first,))
        )
        assert [b.state(job) for job in ids] == [State.CANCELLED] * 3
        assert b.waiting() == 0

    def test_cancelled_at_once_takes_no_room(self, b: Bench) -> None:
        """A job that is cancelled at once is refused by no bound on waiting or express jobs, and holds no key."""
        first = b.put()
        b.die(b.take())
        b.write(lambda store, now_ms: store.set_rule("queue", "q", QueueRule(max_waiting=0), by="ops", now_ms=now_ms))
        doomed = b.put(after=(first,), express=True, dedup_key="k")
        assert b.state(doomed) is State.CANCELLED
        b.write(lambda store, now_ms: store.set_rule("queue", "q", QueueRule(), by="ops", now_ms=now_ms))
        assert b.put(dedup_key="k") != doomed

    def test_retry_of_a_dead_parent_revives_nobody(self, b: Bench) -> None:
        """Those that were cancelled with it stay cancelled; new ones may wait for it."""
        first = b.put()
        second = b.put(after=(first,))
        b.die(b.take())
        b.retry(first)
        third = b.put(after=(first,))
        assert b.state(second) is State.CANCELLED
        assert b.drain() == [first, third]

    def test_cancel_of_a_job_behind_others(self, b: Bench) -> None:
        """It ends, those behind it too, and the one in front is untouched."""
        first = b.put()
        second = b.put(after=(first,))
        third = b.put(after=(second,))
        assert b.cancel(second) is State.CANCELLED
        assert [b.state(job) for job in (first, second, third)] == [
            State.AVAILABLE,
            State.CANCELLED,
            State.CANCELLED,
        ]
        assert b.drain() == [first]

    def test_pruned_parent(self, b: Bench) -> None:
        """Retention takes jobs that ended; whoever waited for them has long been told."""
        first = b.put()
        second = b.put(after=(first,))
        b.done(b.take())
        b.clock.advance(seconds=1)
        assert b.prune() == 1
        assert b.start() == [second]
        with b.refused(JobNotFound):
            b.put(after=(first,))

    # ------------------------------------------------------------------ refusals

    def test_unknown_parent_is_refused(self, b: Bench) -> None:
        """Nothing of the batch is stored."""
        with b.refused(JobNotFound):
            b.enqueue(b.new(), b.new(after=(job_id(b.now_ms),)))

    def test_circles_are_refused(self, b: Bench) -> None:
        """Jobs that wait for each other, or for themselves, could never run; the error names them."""
        first, second, third = (job_id(b.now_ms) for _ in range(3))
        circle = [b.new(id=first, after=(third,)), b.new(id=second, after=(first,)), b.new(id=third, after=(second,))]
        with b.refused(InvalidJob, match="circle") as caught:
            b.enqueue(b.new(), *circle)
        assert all(str(UUID(bytes=job.id)) in str(caught.value) for job in circle)
        with b.refused(InvalidJob, match="circle"):
            b.enqueue(b.new(id=first, after=(first,)))

    def test_parent_that_was_a_duplicate(self, b: Bench) -> None:
        """A job of the batch whose dedup key was held: the job that holds it is waited for in its place."""
        held = b.put(dedup_key="k")
        twin = b.new(dedup_key="k")
        answers = b.enqueue(b.new(after=(twin.id,)), twin)
        assert answers[1].id == held
        assert b.drain() == [held, answers[0].id]

    # ------------------------------------------------------------------ many

    @pytest.mark.parametrize("children", [PORTION - 1, PORTION, PORTION + 1, 2 * PORTION + 500])
    def test_children_are_freed_in_portions(self, b: Bench, children: int) -> None:
        """The end frees a bounded number at once; claims, and looks at the timers, free the rest, and time says so."""
        first = b.put()
        b.enqueue(*(b.new(after=(first,)) for _ in range(children)))
        b.done(b.take())
        left = max(0, children - PORTION)
        assert b.store.counts()[State.SCHEDULED] == left
        if left:
            due_ms = b.store.next_due_ms()
            assert due_ms is not None
            assert due_ms <= b.now_ms
        assert faults(b) == []
        b.notice()
        assert b.store.counts()[State.SCHEDULED] == max(0, left - PORTION)
        b.claim()
        b.claim()
        assert b.store.counts()[State.SCHEDULED] == 0
        assert b.store.next_due_ms() is None
        assert len(b.drain()) == children - 2

    def test_cancelling_goes_in_portions_too(self, b: Bench) -> None:
        """A chain of jobs ends in portions when its first one fails, and nobody in it runs meanwhile."""
        ids = [job_id(b.now_ms) for _ in range(2 * PORTION + 500)]
        b.enqueue(*(b.new(id=own, after=(before,)) for before, own in pairwise(ids)), b.new(id=ids[0]))
        b.die(b.take())
        assert b.store.counts()[State.CANCELLED] == PORTION
        assert faults(b) == []
        assert b.claim() == []
        assert b.claim() == []
        assert b.store.counts()[State.CANCELLED] == len(ids) - 1
        assert b.store.next_due_ms() is None

    def test_one_child_behind_thousands(self, b: Bench) -> None:
        """It counts them down, and starts after the last."""
        parents = [b.new(tier=0) for _ in range(3 * PORTION)]
        b.enqueue(*parents)
        child = b.put(after=tuple(job.id for job in parents), tier=0)
        claims = b.claim(3 * PORTION)
        assert len(claims) == 3 * PORTION
        for start in range(0, len(claims), 500):
            assert b.job(child).behind == len(claims) - start
            for claim in claims[start : start + 500]:
                b.done(claim)
        assert b.start() == [child]

    def test_portions_of_one_end_do_not_mix_with_the_next(self, b: Bench) -> None:
        """A dead job is retried while some of its followers have yet to be told.

        Those are cancelled, as it had died; a job that was put behind its next run waits for that.
        """
        first = b.put()
        b.enqueue(*(b.new(after=(first,)) for _ in range(PORTION + 5)))
        b.die(b.take())
        b.retry(first)
        last = b.put(after=(first,), tier=0)
        claim = b.take()
        assert (claim.id, b.state(last)) == (first, State.SCHEDULED)
        assert b.store.counts()[State.CANCELLED] == PORTION + 5
        b.done(claim)
        assert b.start() == [last]

    def test_many_ends_in_one_transaction_share_the_portion(self, b: Bench) -> None:
        """The bound holds for a transaction, not for each end in it."""
        parents = [b.put() for _ in range(4)]
        for parent in parents:
            b.enqueue(*(b.new(after=(parent,)) for _ in range(PORTION // 2)))
        claims = b.claim(4)

        ends = [Settlement(seq=claim.seq, fence=claim.fence, kind="completed") for claim in claims]
        assert b.write(lambda store, now_ms: store.settle(ends, now_ms)) == [True] * 4
        assert b.store.counts()[State.SCHEDULED] == PORTION
        b.notice()
        assert b.store.counts()[State.SCHEDULED] == 0

    # ------------------------------------------------------------------ looking

    def test_explain_names_what_a_job_waits_for(self, b: Bench) -> None:
        """The main cause is the order; the first few jobs are named, and how many more there are."""
        b.worker("w")
        parents = [b.put() for _ in range(5)]
        child = b.put(after=tuple(parents), delay_ms=5_000)
        told = b.store.explain(child, b.now_ms)
        assert told.cause == "order"
        assert str(b.job(parents[0]).uuid) in told.summary
        assert "2 more" in told.summary
        assert told.blockers[0].current == 5  # noqa: PLR2004  as many as it is behind
        assert [blocker.cause for blocker in told.blockers[:2]] == ["order", "schedule"]
        assert told.starts_in is None
        assert "waits for" in told.starts_unknown

    def test_a_job_behind_others_is_not_seen_waiting(self, b: Bench) -> None:
        """Depth shows it as scheduled; it has no wait that an objective could look at."""
        first = b.put(tier=0)
        b.put(tier=0, after=(first,), queue="q2")
        b.clock.advance(seconds=600)
        rows = {row.queue: row for row in b.store.depth(b.now_ms)}
        assert (rows["q2"].scheduled, rows["q2"].available) == (1, 0)
        objectives = b.store.objectives()
        assert [lane.lane.queue for lane in b.store.waiting(objectives, now_ms=b.now_ms)] == ["q"]

    def test_peek_leaves_out_jobs_behind_others(self, b: Bench) -> None:
        """A look ahead sees what may start now."""
        first = b.put()
        b.put(after=(first,), expires_at_ms=b.now_ms + 1_000)
        assert b.peek(5) == [first]
