"""Jobs come in: whole or not at all, at their time, and never after they have expired."""

# ruff: noqa: PLR2004  # a test's figures are its subject

from __future__ import annotations

import pytest
from msgspec import structs

from fairlane.domain.jobs import NewJob
from fairlane.domain.states import State
from fairlane.domain.tiers import Tier
from fairlane.errors import DedupConflict, ExpressFull, FairlaneError, QueueFull
from fairlane.store import Store
from fairlane.testing.contract.base import Contract, OpenBench
from fairlane.testing.contract.bench import Bench, ask_for, job_id


class JobsContract(Contract):
    """Enqueue, due times, expiry, bounds on what waits, retention."""

    # ------------------------------------------------------------------ whole or not at all

    def test_batch_is_stored_whole(self, b: Bench) -> None:
        """Every job of a batch is stored, and the answers come in the order of the jobs."""
        jobs = [b.new(tenant=tenant) for tenant in "abc"]
        answers = b.enqueue(*jobs)
        assert [(answer.id, answer.created) for answer in answers] == [(job.id, True) for job in jobs]
        assert [b.state(job.id) for job in jobs] == [State.AVAILABLE] * 3

    def test_what_is_said_of_a_job_changes_nothing_else_of_its_row(self, b: Bench) -> None:
        """Stores may write jobs of which nothing is said in their own way; a row and its place are as any other's."""
        jobs = [b.new(tags=("x",) if n % 5 == 0 else (), args=f'{{"n":{n}}}') for n in range(150)]
        b.enqueue(*jobs)
        records = {record.id: record for record in b.all_jobs()}
        assert [records[job.id].args for job in jobs] == [job.args for job in jobs]
        assert [records[job.id].tags for job in jobs] == [job.tags for job in jobs]
        seqs = [records[job.id].seq for job in jobs]
        assert seqs == sorted(set(seqs))
        said, unsaid = (structs.replace(records[job.id], seq=0, id=b"", args="", tags=()) for job in jobs[10:12])
        assert said == unsaid
        assert b.drain() == [job.id for job in jobs]

    def test_empty_batch_is_fine(self, b: Bench) -> None:
        """A batch of nothing stores nothing and is no error."""
        assert b.enqueue() == []
        assert b.all_jobs() == []

    def test_batch_with_a_held_key_is_refused_whole(self, b: Bench) -> None:
        """One refused job refuses its batch, also when it is the last: promise 9."""
        b.put(dedup_key="k")
        with b.refused(DedupConflict):
            b.enqueue(b.new(), b.new(delay_ms=5), b.new(dedup_key="k", on_conflict="raise"))

    def test_batch_beyond_the_express_capacity_is_refused_whole(self, b: Bench) -> None:
        """T-M3: of six express jobs of one tenant none is stored."""
        with b.refused(ExpressFull):
            b.enqueue(*(b.new(express=True) for _ in range(6)))

    def test_batch_beyond_max_waiting_is_refused_whole(self, b: Bench) -> None:
        """Of three jobs for two places none is stored."""
        b.rule("queue", "q", max_waiting=2)
        with b.refused(QueueFull) as caught:
            b.enqueue(b.new(), b.new(), b.new())
        assert caught.value.maximum == 2

    def test_refused_call_spoils_nothing_for_its_neighbours(self, b: Bench) -> None:
        """Calls that share a transaction with a refused one are carried out as if it had not been there."""
        before, after = b.new(), b.new()

        def three_calls(store: Store, now_ms: int) -> None:
            store.enqueue([before], now_ms)
            with pytest.raises(ExpressFull):
                store.enqueue([b.new(express=True) for _ in range(6)], now_ms)
            store.enqueue([after], now_ms)

        b.write(three_calls)
        assert b.drain() == [before.id, after.id]
        assert len(b.all_jobs()) == 2

    def test_rolled_back_transaction_leaves_nothing(self, b: Bench) -> None:
        """F5: a transaction that its caller gives up has changed no row and no later choice."""
        b.fill({"a": 3, "b": 3})
        expected = b.peek(6)

        def all_sorts(store: Store, now_ms: int) -> None:
            store.enqueue([b.new(tenant="c", tier=0)], now_ms)
            claim = b.store.claim(ask_for(4), worker="", lease_ms=1_000, now_ms=now_ms)[0]
            store.save(claim.seq, claim.fence, progress="{}", checkpoint=None)
            store.cancel(expected[5], reason="", now_ms=now_ms)
            raise ZeroDivisionError

        with b.unchanged(), pytest.raises(ZeroDivisionError):
            b.write(all_sorts)
        assert b.peek(6) == expected
        assert b.drain() == expected

    def test_one_id_is_one_job(self, b: Bench) -> None:
        """T-O3: a second job with the id of a first one is refused; it neither replaces the first nor vanishes."""
        job = b.put(args='{"n":1}')
        with pytest.raises(FairlaneError):
            b.put(id=job, args='{"n":2}')
        assert [(record.id, record.args) for record in b.all_jobs()] == [(job, '{"n":1}')]

    # ------------------------------------------------------------------ what is kept

    def test_job_keeps_what_it_was_given(self, b: Bench) -> None:
        """T-C3: every field of a new job can be read back, and the claim hands it to the worker."""
        given = NewJob(
            id=job_id(b.now_ms),
            task="mail.send",
            queue="mail",
            tenant="acme",
            tier=Tier.LOW,
            args='{"to":"a@b.c","n":1}',
            expires_at_ms=b.now_ms + 60_000,
            dedup_key="mail:42",
            tags=("spring", "tête-à-tête"),
            trace="00-abc-def-01",
        )
        b.enqueue(given)
        job = b.job(given.id)
        for field in ("id", "task", "queue", "tenant", "tier", "args", "expires_at_ms", "dedup_key", "tags", "trace"):
            assert getattr(job, field) == getattr(given, field), field
        assert (job.state, job.phase, job.enqueued_at_ms, job.arrival_ms) == (
            State.AVAILABLE,
            "process",
            b.now_ms,
            b.now_ms,
        )
        claim = b.take()
        assert (claim.id, claim.args, claim.trace, claim.task) == (given.id, given.args, given.trace, given.task)

    def test_defaults_are_the_specs(self, b: Bench) -> None:
        """T-B1: who says nothing gets tier NORMAL, queue and tenant ``default``, and overtakes nobody."""
        quiet = NewJob(id=job_id(b.now_ms), task="t")
        urgent = b.new(tier=Tier.CRITICAL, queue="default", tenant="default")
        b.enqueue(quiet, urgent)
        job = b.job(quiet.id)
        assert (job.tier, job.queue, job.tenant) == (Tier.NORMAL, "default", "default")
        assert b.drain() == [urgent.id, quiet.id]

    def test_new_job_has_used_nothing_up(self, b: Bench) -> None:
        """F3: a job that has only waited, for ten days and past many claims, has all its attempts."""
        job = b.put()
        b.pause("queue", "q")
        for _ in range(10):
            b.clock.advance(seconds=86_400)
            assert b.claim() == []
            b.rescue()
        record = b.job(job)
        assert (record.failures, record.crashes, record.checks, record.errors) == (0, 0, 0, ())
        b.resume("queue", "q")
        assert b.take().attempt == 1

    def test_times_of_a_life_are_kept(self, b: Bench) -> None:
        """Enqueued, available, started, finished: each at the instant at which it happened."""
        t0 = b.now_ms
        job = b.put(delay_ms=1_000)
        b.clock.advance(seconds=2)
        claim = b.take()
        b.clock.advance(seconds=3)
        b.done(claim, result='"ok"')
        record = b.job(job)
        assert (record.enqueued_at_ms, record.scheduled_at_ms) == (t0, t0 + 1_000)
        assert record.available_at_ms in (t0 + 1_000, t0 + 2_000)
        assert (record.started_at_ms, record.finished_at_ms) == (t0 + 2_000, t0 + 5_000)
        assert record.result == '"ok"'

    # ------------------------------------------------------------------ due times

    def test_job_is_due_at_its_instant(self, b: Bench) -> None:
        """A scheduled job starts at its instant and not a millisecond before; waiting holds no lease (B07)."""
        job = b.put(scheduled_at_ms=b.now_ms + 3_600_000)
        assert b.state(job) is State.SCHEDULED
        b.clock.advance(ms=3_599_999)
        assert b.claim() == []
        assert b.rescue() == 0
        b.clock.advance(ms=1)
        assert b.start() == [job]

    def test_arrival_is_the_later_of_enqueue_and_schedule(self, b: Bench) -> None:
        """A job that was scheduled long ago for now stands behind what arrived before now."""
        early = b.put(delay_ms=10_000)
        b.clock.advance(seconds=5)
        middle = b.put()
        b.clock.advance(seconds=5)
        late = b.put()
        past = b.put(scheduled_at_ms=1_000)
        assert b.job(past).arrival_ms == b.now_ms
        assert b.drain() == [middle, early, late, past]

    def test_many_due_at_once_start_in_order_of_time(self, b: Bench) -> None:
        """Hundreds of timers that go off together are noticed in order, whatever the portions."""
        jobs = [b.new(delay_ms=2_000 - n) for n in range(700)]
        b.enqueue(*jobs)
        b.clock.advance(seconds=10)
        started: list[bytes] = []
        while claims := b.start(100):
            started += claims
        assert started == [job.id for job in reversed(jobs)]

    def test_due_job_finds_its_place_by_tier(self, b: Bench) -> None:
        """B10: a due CRITICAL job is next, a due LOW one is not."""
        low, critical = b.put(tier=3, delay_ms=10), b.put(tier=0, delay_ms=10)
        b.clock.advance(seconds=1)
        normal = b.put()
        assert b.drain() == [critical, normal, low]

    # ------------------------------------------------------------------ expiry

    def test_expired_job_never_runs(self, b: Bench) -> None:
        """A job past its time is cancelled with reason ``expired``, and those behind it run."""
        job, other = b.put(expires_at_ms=b.now_ms + 1_000), b.put()
        b.clock.advance(ms=1_001)
        assert b.drain() == [other]
        assert (b.state(job), b.job(job).reason) == (State.CANCELLED, "expired")

    def test_job_runs_until_it_expires(self, b: Bench) -> None:
        """A job starts before its time, and one that runs then is left alone."""
        job = b.put(expires_at_ms=b.now_ms + 1_000)
        b.clock.advance(ms=999)
        claim = b.take()
        b.clock.advance(seconds=10)
        assert b.claim() == []
        assert b.state(job) is State.RUNNING
        assert b.done(claim)

    def test_waiting_retry_expires(self, b: Bench) -> None:
        """A job that failed and waits for its retry expires like any other."""
        job = b.put(expires_at_ms=b.now_ms + 1_000)
        b.fail(b.take(), delay_ms=5_000)
        b.clock.advance(seconds=6)
        assert b.drain() == []
        assert (b.state(job), b.job(job).reason, len(b.job(job).errors)) == (State.CANCELLED, "expired", 1)

    def test_many_expired_jobs_hold_nobody_up(self, b: Bench) -> None:
        """Hundreds of expired jobs at the head do not keep a claim from the job behind them."""
        b.enqueue(*(b.new(expires_at_ms=b.now_ms + 1_000) for _ in range(700)))
        b.clock.advance(seconds=2)
        job = b.put()
        assert b.start() == [job]

    def test_expired_express_job_frees_its_place(self, b: Bench) -> None:
        """An express job that expires gives its place in the lane back."""
        b.enqueue(*(b.new(express=True, expires_at_ms=b.now_ms + 1_000) for _ in range(5)))
        b.clock.advance(seconds=2)
        assert b.claim() == []
        job = b.put(express=True)
        assert b.start() == [job]

    # ------------------------------------------------------------------ bounds on what waits

    @pytest.mark.parametrize("kind", ["queue", "tenant"])
    def test_max_waiting_bounds_what_waits(self, b: Bench, kind: str) -> None:
        """T-M25: what is beyond it is refused with both figures; scheduled jobs wait too, running ones do not."""
        b.rule("queue" if kind == "queue" else "tenant", "q" if kind == "queue" else "a", max_waiting=2)
        b.put()
        b.put(delay_ms=1_000)
        with b.refused(QueueFull) as caught:
            b.put()
        assert (caught.value.current, caught.value.maximum) == (2, 2)
        b.put(queue="q2", tenant="b")
        b.take(queues={"q": 1})
        b.put()

    def test_max_waiting_never_loses_a_job(self, b: Bench) -> None:
        """A job that comes back finds its place although the queue is full."""
        b.rule("queue", "q", max_waiting=1)
        first = b.put()
        claim = b.take()
        second = b.put()
        assert b.fail(claim)
        assert b.drain() == [first, second]

    def test_max_waiting_lets_a_held_key_return_its_job(self, b: Bench) -> None:
        """Nothing is stored when the key is held, so a full queue is no obstacle."""
        b.rule("queue", "q", max_waiting=1)
        job = b.put(dedup_key="k")
        assert b.put(dedup_key="k") == job

    # ------------------------------------------------------------------ retention

    def test_prune_deletes_what_ended_long_ago(self, b: Bench) -> None:
        """Only jobs that ended longer ago than asked go; those that live never do."""
        old = [b.put() for _ in range(3)]
        b.done(b.take())
        b.die(b.take())
        b.cancel(old[2])
        b.clock.advance(seconds=100)
        young = b.put()
        b.done(b.take())
        running, waiting, due = b.put(), b.put(), b.put(delay_ms=10**6)
        b.take()
        assert b.prune(keep_ms=50_000) == 3
        assert [b.store.get(job) for job in old] == [None] * 3
        assert {job.id for job in b.all_jobs()} == {young, running, waiting, due}

    def test_prune_is_bounded_and_repeatable(self, b: Bench) -> None:
        """A pass deletes no more than asked; passes go on until one finds nothing."""
        b.fill({"a": 5})
        b.run()
        b.clock.advance(seconds=1)
        assert [b.prune(limit=2) for _ in range(4)] == [2, 2, 1, 0]

    def test_prune_keeps_a_number_of_completed_jobs(self, b: Bench) -> None:
        """Of completed jobs the newest so many of each queue stay, however young the others are."""
        b.fill({"a": 5})
        other = b.put(queue="q2")
        ended: list[bytes] = []
        while claims := b.run(1, queues={"q": 1}):
            ended.append(claims[0].id)
            b.clock.advance(ms=10)
        newest = ended[-2:]
        b.run()
        b.prune(keep_ms=10**9, keep_completed=2)
        assert {job.id for job in b.all_jobs()} == {*newest, other}

    def test_news_says_what_a_commit_did(self, open_bench: OpenBench) -> None:
        """A commit tells that there is work, that a job ended, that one is asked to stop; and tells it once."""
        b = open_bench()
        b.heard.clear()
        b.put()
        job = b.put()
        assert "work" in b.heard
        b.heard.clear()
        b.done(b.take())
        assert "end" in b.heard
        b.heard.clear()
        b.take()
        b.cancel(job)
        assert "ask" in b.heard
        assert b.store.news() == frozenset()
