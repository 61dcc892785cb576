"""Dedup keys: at most one live job per key and queue, and no way out that keeps the key."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import pytest

from fairlane.domain.states import State
from fairlane.errors import DedupConflict, ExpressFull, InvalidJob, QueueFull
from fairlane.testing.contract.base import Contract
from fairlane.testing.contract.bench import Bench
from fairlane.testing.contract.endings import cancelled, cancelled_while_running, crashed_to_death, dead


def _completed(b: Bench, job: bytes) -> None:
    b.done(b.take())


def _failed_then_dead(b: Bench, job: bytes) -> None:
    b.fail(b.take())
    b.die(b.take())


def _cleared(b: Bench, job: bytes) -> None:
    b.clear(queue="q")


def _expired(b: Bench, job: bytes) -> None:
    b.clock.advance(seconds=3_601)
    b.claim()


def _pruned(b: Bench, job: bytes) -> None:
    b.done(b.take())
    b.clock.advance(seconds=1)
    assert b.prune() >= 1


def _rescued_then_completed(b: Bench, job: bytes) -> None:
    b.take()
    b.lapse()
    b.rescue()
    b.done(b.take())


EXITS: dict[str, Callable[[Bench, bytes], None]] = {
    way.__name__.strip("_"): way
    for way in (
        _completed,
        dead,
        _failed_then_dead,
        cancelled,
        cancelled_while_running,
        _cleared,
        _expired,
        _pruned,
        _rescued_then_completed,
        crashed_to_death,
    )
}


class DedupContract(Contract):
    """B13, B14, T-M24: the key is a constraint on the job's own row."""

    @pytest.mark.parametrize("way", EXITS)
    def test_key_is_free_after(self, b: Bench, way: str) -> None:
        """B13: whichever way a job ends, its key is free at once."""
        job = b.put(dedup_key="k", expires_at_ms=b.now_ms + 3_600_000)
        EXITS[way](b, job)
        again = b.new(dedup_key="k")
        assert b.enqueue(again)[0].created
        assert b.start() == [again.id]

    def test_live_job_is_returned(self, b: Bench) -> None:
        """T-M24: while a job is scheduled, available, running or waits for a retry, its key returns it."""
        first = b.put(dedup_key="k", delay_ms=1_000)

        def again() -> tuple[bytes, bool]:
            answer = b.enqueue(b.new(dedup_key="k"))[0]
            return answer.id, answer.created

        assert again() == (first, False)
        b.clock.advance(seconds=1)
        assert again() == (first, False)
        claim = b.take()
        assert again() == (first, False)
        b.fail(claim, delay_ms=1_000)
        assert again() == (first, False)
        b.clock.advance(seconds=1)
        b.release(b.take())
        assert again() == (first, False)
        assert len(b.all_jobs()) == 1

    def test_key_returned_changes_nothing(self, b: Bench) -> None:
        """A second enqueue of a held key leaves every row as it is."""
        b.put(dedup_key="k", args='{"n":1}')
        with b.unchanged():
            b.put(dedup_key="k", args='{"n":2}', tier=0, express=True)

    def test_key_twice_in_a_batch_is_one_job(self, b: Bench) -> None:
        """The second of two jobs with one key returns the first, also within a batch."""
        first, second = b.enqueue(b.new(dedup_key="k"), b.new(dedup_key="k"))
        assert (first.created, second.created, second.id) == (True, False, first.id)
        assert len(b.all_jobs()) == 1

    def test_key_twice_in_a_batch_behind_another_job(self, b: Bench) -> None:
        """The first of them holds the key although it waits for another job, and the second returns it."""
        parent = b.put()
        first, second = b.enqueue(b.new(dedup_key="k", after=(parent,)), b.new(dedup_key="k"))
        assert (first.created, second.created, second.id) == (True, False, first.id)

    def test_key_of_a_job_that_is_cancelled_at_once_is_free(self, b: Bench) -> None:
        """Within the same batch too: the next job of the key is a new one."""
        parent = b.put()
        b.die(b.take())
        first, second = b.enqueue(b.new(dedup_key="k", after=(parent,)), b.new(dedup_key="k"))
        assert (first.created, second.created) == (True, True)
        assert (b.state(first.id), b.state(second.id)) == (State.CANCELLED, State.AVAILABLE)

    def test_key_belongs_to_its_queue(self, b: Bench) -> None:
        """The same key in another queue is another key; a tenant or task of its own is not."""
        first = b.put(dedup_key="k")
        assert b.enqueue(b.new(queue="q2", dedup_key="k"))[0].created
        assert b.put(task="u", tenant="z", dedup_key="k") == first

    def test_conflict_can_be_raised(self, b: Bench) -> None:
        """``on_conflict="raise"`` names the job that holds the key."""
        first = b.put(dedup_key="k")
        with b.refused(DedupConflict) as caught:
            b.put(dedup_key="k", on_conflict="raise")
        assert caught.value.job_id in (first, b.job(first).uuid)

    def test_waiting_job_can_be_replaced(self, b: Bench) -> None:
        """``on_conflict="replace"`` leaves one waiting job with the new arguments; no old payload runs (2.1 no. 2)."""
        b.put(dedup_key="k", args='{"v":1}')
        newer = b.put(dedup_key="k", args='{"v":2}', on_conflict="replace")
        assert b.job(newer).args == '{"v":2}'
        assert b.waiting() == 1
        assert [claim.args for claim in b.run()] == ['{"v":2}']

    def test_running_job_is_not_replaced(self, b: Bench) -> None:
        """Replace only while not running: the running job keeps its arguments and its claim."""
        b.put(dedup_key="k", args='{"v":1}')
        claim = b.take()
        with b.unchanged(), suppress(DedupConflict):  # told by the answer or by an error: both are fine
            assert b.put(dedup_key="k", args='{"v":2}', on_conflict="replace") == claim.id
        assert b.done(claim)

    def test_one_successor_waits_behind_a_running_job(self, b: Bench) -> None:
        """B14: ten enqueues while the key's job runs leave one successor; the running one's end does not swallow it."""
        b.put(dedup_key="k")
        claim = b.take()
        answers = [b.enqueue(b.new(dedup_key="k", on_conflict="successor"))[0] for _ in range(10)]
        assert [answer.created for answer in answers] == [True] + [False] * 9
        assert {answer.id for answer in answers} == {answers[0].id}
        assert b.done(claim)
        assert b.drain() == [answers[0].id]

    def test_successor_does_not_run_beside_the_running_job(self, b: Bench) -> None:
        """At most one job of a key runs: the successor waits behind the running one."""
        b.put(dedup_key="k")
        claim = b.take()
        b.put(dedup_key="k", on_conflict="successor")
        assert b.claim() == []
        b.done(claim)
        assert len(b.claim()) == 1

    def test_successor_of_a_waiting_job_is_that_job(self, b: Bench) -> None:
        """While the key's job waits there is nothing to succeed."""
        first = b.put(dedup_key="k")
        answer = b.enqueue(b.new(dedup_key="k", on_conflict="successor"))[0]
        assert (answer.id, answer.created) == (first, False)

    # ------------------------------------------------------------------ replace

    def test_replacement_takes_over_everything_but_the_place(self, b: Bench) -> None:
        """Args, lane, tags, trace, expiry and schedule are the new job's; id, number and arrival stay."""
        first = b.put(dedup_key="k", args='{"v":1}', tags=("old",), trace="t1")
        old = b.job(first)
        b.clock.advance(seconds=1)
        answer = b.enqueue(
            b.new(
                task="u",
                tenant="z",
                tier=0,
                dedup_key="k",
                args='{"v":2}',
                tags=("new",),
                trace="t2",
                expires_at_ms=b.now_ms + 9_000,
                on_conflict="replace",
            )
        )[0]
        assert (answer.id, answer.created) == (first, False)
        new = b.job(first)
        assert (new.task, new.tenant, new.tier, new.args) == ("u", "z", 0, '{"v":2}')
        assert (new.tags, new.trace, new.expires_at_ms) == (("new",), "t2", b.now_ms + 9_000)
        assert (new.seq, new.arrival_ms, new.enqueued_at_ms) == (old.seq, old.arrival_ms, old.enqueued_at_ms)
        assert b.start() == [first]

    def test_replacement_puts_a_job_off(self, b: Bench) -> None:
        """Debounce: every new delay counts from its own enqueue, and the last arguments run once."""
        first = b.put(dedup_key="k", delay_ms=1_000, args='{"v":0}')
        for v in range(1, 4):
            b.clock.advance(ms=900)
            b.put(dedup_key="k", delay_ms=1_000, args=f'{{"v":{v}}}', on_conflict="replace")
            assert b.claim() == []
        b.clock.advance(ms=999)
        assert b.claim() == []
        b.clock.advance(ms=1)
        claim = b.take()
        assert (claim.id, claim.args) == (first, '{"v":3}')

    def test_replacement_puts_off_a_job_that_was_available(self, b: Bench) -> None:
        """Available becomes scheduled; its arrival is still the first one."""
        first = b.put(dedup_key="k")
        arrival = b.job(first).arrival_ms
        b.put(dedup_key="k", delay_ms=1_000, on_conflict="replace")
        assert (b.state(first), b.job(first).arrival_ms) == (State.SCHEDULED, arrival)
        assert b.claim() == []
        b.clock.advance(seconds=1)
        assert b.start() == [first]

    def test_replacement_that_is_due_sooner(self, b: Bench) -> None:
        """A job that may run now has not arrived in an hour: it stands before what comes after it."""
        first = b.put(dedup_key="k", delay_ms=3_600_000)
        b.put(dedup_key="k", on_conflict="replace")
        assert b.job(first).arrival_ms == b.now_ms
        b.clock.advance(seconds=1)
        second = b.put()
        assert b.start(2) == [first, second]

    def test_replacement_loses_no_place(self, b: Bench) -> None:
        """Replaced again and again, it still goes before what came after it."""
        first = b.put(dedup_key="k")
        later: list[bytes] = []
        for _ in range(3):
            b.clock.advance(seconds=1)
            later.append(b.put())
            b.put(dedup_key="k", on_conflict="replace")
        assert b.start(4) == [first, *later]

    def test_replacement_starts_afresh(self, b: Bench) -> None:
        """A job that waits for a retry is replaced: counts, progress and checkpoint were of the old arguments."""
        first = b.put(dedup_key="k", args='{"v":1}')
        claim = b.take()
        b.save(claim, progress="{}", checkpoint="{}")
        b.fail(claim, delay_ms=60_000)
        b.put(dedup_key="k", args='{"v":2}', on_conflict="replace")
        record = b.job(first)
        assert (record.state, record.failures, record.progress, record.checkpoint) == (State.AVAILABLE, 0, None, None)
        assert len(record.errors) == 1
        again = b.take()
        assert (again.args, again.attempt, again.fence) == ('{"v":2}', 1, claim.fence + 1)

    def test_replacement_keeps_an_express_place(self, b: Bench) -> None:
        """What somebody expedited stays express; a wish of the new job is added, with a look at the capacity."""
        first = b.put(dedup_key="k")
        number = b.expedite(first).express
        b.put(dedup_key="k", on_conflict="replace")
        assert b.job(first).express == number
        second = b.put(dedup_key="l", delay_ms=1_000)
        b.put(dedup_key="l", express=True, on_conflict="replace")
        assert b.job(second).express is not None
        assert b.start(2) == [first, second]

    def test_replacement_that_finds_the_express_lane_full(self, b: Bench) -> None:
        """It is refused, and the job in its place is exactly as before."""
        first = b.put(dedup_key="k", args='{"v":1}')
        for _ in range(5):
            b.put(express=True)
        with b.refused(ExpressFull):
            b.put(dedup_key="k", express=True, args='{"v":2}', on_conflict="replace")
        assert b.job(first).args == '{"v":1}'

    def test_replacement_that_moves_to_a_full_tenant(self, b: Bench) -> None:
        """``max_waiting`` of a tenant counts what moves to it, and nothing that stays."""
        first = b.put(dedup_key="k", tenant="a")
        b.rule("tenant", "z", max_waiting=0)
        with b.refused(QueueFull):
            b.put(dedup_key="k", tenant="z", on_conflict="replace")
        b.rule("tenant", "a", max_waiting=1)
        assert b.put(dedup_key="k", tenant="a", on_conflict="replace") == first

    def test_replacement_waits_for_no_others(self, b: Bench) -> None:
        """A job behind others is replaced by one that is not: it may run now, and waits for nothing."""
        parent = b.put()
        first = b.put(dedup_key="k", after=(parent,))
        b.put(dedup_key="k", on_conflict="replace", tier=0)
        assert (b.state(first), b.job(first).behind) == (State.AVAILABLE, 0)
        assert b.start(2) == [first, parent]

    def test_replacement_behind_others_is_refused(self, b: Bench) -> None:
        """``after`` with ``replace`` could close a circle: no job can be made that says both."""
        with pytest.raises(InvalidJob, match="replace"):
            b.new(dedup_key="k", on_conflict="replace", after=(b.put(),))

    def test_replacement_within_a_batch(self, b: Bench) -> None:
        """The last arguments of a batch count, under the first id."""
        new = [b.new(dedup_key="k", args=f'{{"v":{v}}}', on_conflict="replace") for v in range(3)]
        answers = b.enqueue(*new)
        assert [answer.created for answer in answers] == [True, False, False]
        assert {answer.id for answer in answers} == {new[0].id}
        assert b.job(new[0].id).args == '{"v":2}'
        assert [claim.args for claim in b.run()] == ['{"v":2}']

    def test_running_job_refuses_replacement_unless_its_successor_waits(self, b: Bench) -> None:
        """While the holder runs, the one that waits behind it is replaced; when none does: DedupConflict."""
        b.put(dedup_key="k", args='{"v":1}')
        claim = b.take()
        with b.refused(DedupConflict, match="begun"):
            b.put(dedup_key="k", on_conflict="replace")
        successor = b.put(dedup_key="k", args='{"v":2}', on_conflict="successor")
        assert b.put(dedup_key="k", args='{"v":3}', on_conflict="replace") == successor
        assert b.claim() == []
        b.done(claim)
        assert [done.args for done in b.run()] == ['{"v":3}']

    # ------------------------------------------------------------------ successor

    @pytest.mark.parametrize("way", [way for way in EXITS if way not in {"cancelled", "cleared", "expired"}])
    def test_successor_takes_the_key_after(self, b: Bench, way: str) -> None:
        """B13: whichever way the running job ends, its successor holds the key then, and is the next to run."""
        holder = b.put(dedup_key="k", tier=0, expires_at_ms=b.now_ms + 3_600_000)
        b.release(b.take())
        claim = b.take()
        successor = b.put(dedup_key="k", on_conflict="successor")
        b.release(claim)
        assert (b.state(successor), b.job(successor).successor) == (State.SCHEDULED, True)
        EXITS[way](b, holder)
        assert not b.job(successor).successor
        assert b.put(dedup_key="k") == successor
        assert b.start() == [successor]
        assert b.put(dedup_key="k", on_conflict="successor") != successor

    @pytest.mark.parametrize("way", EXITS)
    def test_key_is_free_after_a_successor(self, b: Bench, way: str) -> None:
        """B13: a successor that has taken the key gives it back by the same ways."""
        b.put(dedup_key="k", tier=0)
        claim = b.take()
        successor = b.put(dedup_key="k", expires_at_ms=b.now_ms + 3_600_000, on_conflict="successor")
        b.done(claim)
        EXITS[way](b, successor)
        again = b.new(dedup_key="k")
        assert b.enqueue(again)[0].created
        assert b.start() == [again.id]

    @pytest.mark.parametrize("way", ["cancelled", "cleared", "expired"])
    def test_successor_that_ends_before_its_turn(self, b: Bench, way: str) -> None:
        """The running job keeps its key, and another successor may come."""
        b.put(dedup_key="k")
        claim = b.take(lease_ms=10_000_000)
        successor = b.put(dedup_key="k", expires_at_ms=b.now_ms + 3_600_000, on_conflict="successor")
        EXITS[way](b, successor)
        assert b.state(successor) is State.CANCELLED
        other = b.enqueue(b.new(dedup_key="k", on_conflict="successor"))[0]
        assert other.created
        b.done(claim)
        assert b.start() == [other.id]

    def test_successor_stays_behind_a_job_that_comes_back(self, b: Bench) -> None:
        """Retry, snooze, release and rescue are no ends; while the holder waits again, an enqueue returns it."""
        holder = b.put(dedup_key="k")
        claim = b.take()
        successor = b.put(dedup_key="k", on_conflict="successor")
        b.fail(claim, delay_ms=1_000)
        assert b.put(dedup_key="k", on_conflict="successor") == holder
        b.clock.advance(seconds=1)
        b.snooze(b.take())
        b.release(b.take())
        b.take()
        b.lapse()
        b.rescue()
        assert b.state(successor) is State.SCHEDULED
        assert b.drain() == [holder, successor]

    def test_successor_with_a_delay_or_parents_waits_for_these_too(self, b: Bench) -> None:
        """It takes the key at the end of the running job, whatever else it waits for."""
        parent = b.put(task="u")
        b.put(dedup_key="k")
        claim = b.take(tasks=["t"])
        successor = b.put(dedup_key="k", delay_ms=1_000, after=(parent,), on_conflict="successor")
        assert b.job(successor).behind == 2  # noqa: PLR2004  the holder and the other one
        b.die(claim)
        assert (b.job(successor).successor, b.state(successor)) == (False, State.SCHEDULED)
        assert b.put(dedup_key="k") == successor
        b.done(b.take(tasks=["u"]))
        assert b.claim() == []
        b.clock.advance(seconds=1)
        assert b.start() == [successor]

    def test_successor_that_asks_for_success_is_cancelled_on_failure(self, b: Bench) -> None:
        """Who names the running job in ``after`` means it: its failure cancels the successor, and the key is free."""
        holder = b.put(dedup_key="k")
        claim = b.take()
        successor = b.put(dedup_key="k", after=(holder,), on_conflict="successor")
        b.die(claim)
        assert b.state(successor) is State.CANCELLED
        assert b.enqueue(b.new(dedup_key="k"))[0].created

    def test_retry_of_a_dead_holder_whose_successor_waits(self, b: Bench) -> None:
        """The successor has the key; the dead job cannot come back beside it."""
        holder = b.put(dedup_key="k")
        claim = b.take()
        b.put(dedup_key="k", on_conflict="successor")
        b.die(claim)
        with b.refused(DedupConflict):
            b.retry(holder)

    def test_successor_among_thousands_of_followers(self, b: Bench) -> None:
        """Until the end of the holder has been told to it, it stands for the key: no second holder comes between."""
        holder = b.put(dedup_key="k")
        claim = b.take()
        b.enqueue(*(b.new(after=(holder,)) for _ in range(1_001)))
        successor = b.put(dedup_key="k", on_conflict="successor")
        b.done(claim)
        assert b.job(successor).successor
        for mode in ("return", "successor", "replace"):
            answer = b.enqueue(b.new(dedup_key="k", on_conflict=mode))[0]
            assert (answer.id, answer.created) == (successor, False)
        b.notice()
        assert b.state(successor) is State.AVAILABLE

    # ------------------------------------------------------------------ dedup_ttl

    @pytest.mark.parametrize("way", [way for way in EXITS if way != "pruned"])
    def test_key_is_kept_for_a_time_after(self, b: Bench, way: str) -> None:
        """``dedup_ttl``: whichever way it ended, the job is returned until the time is over, from the end on."""
        job = b.put(dedup_key="k", dedup_ttl_ms=10_000, expires_at_ms=b.now_ms + 3_600_000)
        EXITS[way](b, job)
        ended_ms = b.job(job).finished_at_ms
        assert ended_ms is not None
        b.clock.advance(ms=ended_ms + 9_999 - b.now_ms)
        for mode in ("return", "replace", "successor"):
            answer = b.enqueue(b.new(dedup_key="k", on_conflict=mode))[0]
            assert (answer.id, answer.created) == (job, False)
        with b.refused(DedupConflict):
            b.put(dedup_key="k", on_conflict="raise")
        b.clock.advance(ms=1)
        assert b.enqueue(b.new(dedup_key="k"))[0].created

    def test_kept_key_belongs_to_its_queue(self, b: Bench) -> None:
        """The same key in another queue is another key."""
        b.put(dedup_key="k", dedup_ttl_ms=10_000)
        b.run()
        assert b.enqueue(b.new(queue="q2", dedup_key="k"))[0].created

    def test_kept_key_outlives_retention(self, b: Bench) -> None:
        """Retention leaves the job until its key is free: the row is the constraint."""
        b.put(dedup_key="k", dedup_ttl_ms=10_000)
        b.run()
        b.clock.advance(seconds=1)
        assert b.prune() == 0
        b.clock.advance(seconds=9)
        assert b.prune() == 1

    def test_retry_of_a_dead_job_that_keeps_its_key(self, b: Bench) -> None:
        """It holds its key again, alive; and the latest end counts."""
        job = b.put(dedup_key="k", dedup_ttl_ms=10_000)
        b.die(b.take())
        b.clock.advance(seconds=5)
        b.retry(job)
        b.run()
        b.clock.advance(seconds=9)
        assert b.put(dedup_key="k") == job

    def test_time_without_a_key_is_refused(self, b: Bench) -> None:
        """``dedup_ttl`` means nothing by itself."""
        with pytest.raises(InvalidJob, match="dedup_key"):
            b.new(dedup_ttl_ms=1)

    # ------------------------------------------------------------------ dead letters

    def test_retry_of_a_dead_job_takes_its_key_back(self, b: Bench) -> None:
        """A dead job that is retried by hand holds its key again."""
        job = b.put(dedup_key="k")
        b.die(b.take())
        b.retry(job)
        assert b.put(dedup_key="k") == job

    def test_retry_of_a_dead_job_whose_key_is_held(self, b: Bench) -> None:
        """A dead job cannot come back while another live job holds its key."""
        job = b.put(dedup_key="k")
        b.die(b.take())
        b.put(dedup_key="k")
        with b.refused(DedupConflict):
            b.retry(job)
        assert b.state(job) is State.DEAD

    def test_end_of_one_job_frees_no_other_key(self, b: Bench) -> None:
        """B14: a late ack of the key's former holder does not take the key from the new one."""
        old = b.put(dedup_key="k")
        stale = b.take()
        b.lapse()
        b.rescue()
        b.cancel(old)
        new = b.put(dedup_key="k")
        assert not b.done(stale)
        assert b.put(dedup_key="k") == new
