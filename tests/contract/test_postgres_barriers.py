"""What two connections can do to each other on PostgreSQL, step by step: nothing here is left to chance.

One transaction is held open where it hurts while another begins, waits or commits; the waiting is seen in the server's
own list of locks.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from itertools import groupby

import psycopg
import pytest
from tests.pg import WAIT_S, Elsewhere, Server, server, until_waiting

from fairlane import Fairlane
from fairlane.domain.jobs import Claim, Settlement
from fairlane.errors import StoreError
from fairlane.store import Conflict, NeedsGate, Store
from fairlane.stores.postgres import base
from fairlane.stores.postgres.inbox import Inbox
from fairlane.stores.postgres.store import PostgresStore, open_postgres
from fairlane.testing.clock import ManualClock
from fairlane.testing.contract.bench import Bench, ask_for

pytestmark = pytest.mark.postgres


class Shared:
    """A database that several benches share."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.clock = ManualClock()
        self.open_store = lambda clock, **options: open_postgres(self.url, clock=clock, **options)
        self.benches: list[Bench] = []

    def bench(self) -> Bench:
        """Return another program's store."""
        self.benches.append(Bench(self, self.clock))  # type: ignore[arg-type]  # nobody asks for its rows
        return self.benches[-1]


@pytest.fixture(scope="module")
def running() -> Iterator[Server]:
    with server() as one:
        yield one


@pytest.fixture
def shared(running: Server) -> Iterator[Shared]:
    made = Shared(running.database())
    yield made
    for bench in made.benches:
        bench.close()
    running.drop(made.url)


@pytest.fixture
def one(shared: Shared) -> Bench:
    return shared.bench()


@pytest.fixture
def two(shared: Shared) -> Bench:
    return shared.bench()


@pytest.fixture
def three(shared: Shared) -> Bench:
    return shared.bench()


def done(claim: Claim) -> Settlement:
    return Settlement(seq=claim.seq, fence=claim.fence, kind="completed", run_us=1_000_000)


def logged(shared: Shared) -> list[tuple[str, str]]:
    """Return of each row of the log the transaction that wrote it, and what was visible to it as it says."""
    with psycopg.connect(shared.url) as db:
        return db.execute("SELECT xmin::text, snap::text FROM fairlane.log ORDER BY id").fetchall()


def _started(b: Bench) -> Claim:
    b.put()
    return b.take()


class TestInbox:
    """What light transactions and programs without the state leave behind is taken over once."""

    @pytest.mark.parametrize("state", [True, False])
    def test_a_crowded_inbox_goes_into_the_log_in_portions(
        self, shared: Shared, one: Bench, two: Bench, three: Bench, monkeypatch: pytest.MonkeyPatch, state: bool
    ) -> None:
        """B37: each in a transaction of its own; what began early and ends late is neither missed nor taken twice."""
        monkeypatch.setattr(Inbox, "portion", 3)
        late = done(_started(two))
        if not state:
            two.reopen()
        with three.store.transaction(light=True):
            three.store.heartbeat([(0, 0)], lease_ms=1, now_ms=three.now_ms)
            three.store.settle([late], three.now_ms)
            jobs = [one.put() for _ in range(8)]
            before = logged(shared)
            assert [claim.id for claim in two.claim(4)] == jobs[:4]
            assert logged(shared)[: len(before)] == before
            writers = [writer for writer, _ in logged(shared)[len(before) :]]
            assert [len(list(same)) for _, same in groupby(writers)] == [3, 3, 3]
        assert [claim.id for claim in two.claim(9)] == jobs[4:]
        assert two.store.check() == []
        assert one.store.check() == []

    def test_an_end_in_the_inbox_is_charged_once_by_who_also_has_the_log_to_catch_up_with(
        self, one: Bench, two: Bench, three: Bench
    ) -> None:
        one.fill({"a": 3})
        first, second = one.claim(2)
        two.claim(1)  # it holds the state too
        two.done(first)  # so that the log is ahead of one
        three.done(second, run_ms=9_000)
        one.claim(0)
        two.claim(0)
        for bench in (one, two):
            with bench.store.transaction():
                means = bench.store._live().scheduler.means  # type: ignore[attr-defined]
            assert [(mean.runs, mean.total_us) for mean in means.values()] == [(2, 10_000_000)]


class TestWaits:
    """A light transaction waits for nobody while it holds what others may wait for."""

    @pytest.mark.parametrize("what", ["clock", "lane"])
    def test_an_end_and_a_new_job_together_do_not_wait_in_a_ring_with_the_gate(
        self, one: Bench, two: Bench, what: str
    ) -> None:
        """The ring would go through the light one's process, where the database cannot see it."""
        one.put()
        claim = one.take()
        one.clock.advance(seconds=2)
        tenant = "new" if what == "lane" else "a"
        begun, ended = threading.Event(), threading.Event()

        def behind_the_gate(store: Store, now_ms: int) -> None:
            store.enqueue([one.new(tenant=tenant, dedup_key="k")], now_ms)
            begun.set()
            ended.wait(WAIT_S)
            store.cancel(claim.id, reason="by hand", now_ms=now_ms)

        gate = Elsewhere(lambda: one.write(behind_the_gate))
        begun.wait(WAIT_S)

        def end_and_store(store: Store, now_ms: int) -> None:
            assert store.settle([done(claim)], now_ms) == [True]
            ended.set()
            store.enqueue([two.new(tenant=tenant)], now_ms)

        def lightly() -> None:
            with two.store.transaction(light=True):
                end_and_store(two.store, two.now_ms)

        if what == "lane":  # the light one gives way, and is done again behind the gate
            with pytest.raises(NeedsGate):
                lightly()
            gate.answer()
            two.write(end_and_store)
        else:
            lightly()
            with pytest.raises(Conflict):
                gate.answer()
        assert two.job(claim.id).state.label == "completed"
        assert two.waiting() == (2 if what == "lane" else 1)


class TestClaims:
    """B05: a claim that is not committed yet counts, and what appears late has its place."""

    def test_a_claim_waits_for_one_that_is_open_and_counts_what_it_took(self, one: Bench, two: Bench) -> None:
        one.rule("tenant", "a", max_running=1)
        one.fill({"a": 3})
        with one.store.transaction():
            assert len(one.store.claim(ask_for(1), worker="", lease_ms=60_000, now_ms=one.now_ms)) == 1
            with two.store.transaction(light=True):  # which waits for nobody
                two.store.enqueue([two.new(tenant="b")], two.now_ms)
            other = Elsewhere(lambda: two.claim(5))
            until_waiting(one.database.url, relation="gate_keeper")  # type: ignore[attr-defined]  # it is ours
        assert [claim.start.lane.tenant for claim in other.answer()] == ["b"]

    def test_an_urgent_job_that_comes_between_two_claims_breaks_no_limit(self, one: Bench, two: Bench) -> None:
        one.rule("tenant", "a", max_running=1)
        one.fill({"a": 2})
        with one.store.transaction():
            one.store.claim(ask_for(1), worker="", lease_ms=60_000, now_ms=one.now_ms)
            with two.store.transaction(light=True):  # which waits for nobody
                two.store.enqueue([two.new(tenant="a", tier=0), two.new(tenant="b", tier=4)], two.now_ms)
            other = Elsewhere(lambda: two.claim(5))
            until_waiting(one.database.url, relation="gate_keeper")  # type: ignore[attr-defined]  # it is ours
        assert [claim.start.lane.tenant for claim in other.answer()] == ["b"]

    def test_a_claim_that_is_rolled_back_takes_nothing(self, one: Bench, two: Bench) -> None:
        one.fill({"a": 1})
        context = one.store.transaction()
        context.__enter__()
        one.store.claim(ask_for(1), worker="", lease_ms=60_000, now_ms=one.now_ms)
        other = Elsewhere(lambda: two.claim(5))
        until_waiting(one.database.url, relation="gate_keeper")  # type: ignore[attr-defined]  # it is ours
        context.__exit__(ZeroDivisionError, ZeroDivisionError(), None)
        assert len(other.answer()) == 1

    def test_jobs_that_were_stored_early_and_appear_late_start_once_and_within_limits(
        self, one: Bench, two: Bench, three: Bench
    ) -> None:
        one.rule("tenant", "a", max_running=2)
        with three.store.transaction(light=True):
            three.store.heartbeat([(1, 1)], lease_ms=1, now_ms=three.now_ms)  # else the job would wait for the commit
            three.store.enqueue([three.new(tenant="a")], three.now_ms)
            one.fill({"a": 3})
            late = one.claim(1) + two.claim(1)
        assert one.claim(5) == two.claim(5) == []
        one.done(late[0])
        (next_one,) = two.claim(5)
        assert next_one.seq < min(claim.seq for claim in late), "it has its early place"
        assert one.claim(5) == []


class TestBegin:
    """A transaction that cannot begin is no reason why others should not."""

    @pytest.mark.parametrize("begin", ["_begin", "_begin_light"])
    def test_a_first_statement_that_fails_spoils_nothing(
        self, one: Bench, monkeypatch: pytest.MonkeyPatch, begin: str
    ) -> None:
        """It was cancelled by hand, say, just when psycopg was about to prepare what comes behind it."""
        store = one.store
        assert isinstance(store, PostgresStore)

        def beat() -> None:
            with store.transaction(light=begin == "_begin_light"):
                store.heartbeat([(0, 0)], lease_ms=1, now_ms=one.now_ms)

        store._raw.close()  # a connection whose statements are to be counted
        for _ in range(2):
            beat()
        with monkeypatch.context() as patch:
            patch.setattr(store, begin, (b"SELECT 1 / 0", *getattr(store, begin)))
            with pytest.raises(StoreError):
                beat()
        beat()


class TestRescue:
    """B20: who looks for workers that are gone has a snapshot, and may stand still with it."""

    def test_a_worker_that_gave_a_sign_after_the_transaction_began_is_alive(
        self, shared: Shared, one: Bench, two: Bench, three: Bench, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """However long it took since, to wait for the gate or for a row: here everything takes too long."""
        monkeypatch.setattr(base, "LOST_S", 1e-6)
        three.worker("w")
        three.put()
        claim = three.take(worker="w")
        with one.store.transaction():
            rescue = Elsewhere(lambda: two.write(lambda store, now_ms: store.rescue(now_ms, limit=10)))
            until_waiting(shared.url, relation="gate_keeper")
            with psycopg.connect(shared.url) as db:
                db.execute("UPDATE fairlane.life SET seen_at = clock_timestamp()")
        assert rescue.answer() == 0
        assert two.job(claim.id).state.label == "running"


class TestReplication:
    def test_a_publication_of_all_tables_forbids_nothing(self, shared: Shared, one: Bench) -> None:
        """Programs that follow the changes of a database make one, and PostgreSQL then asks what tells rows apart."""
        with psycopg.connect(shared.url) as db:
            db.execute("CREATE PUBLICATION everything FOR ALL TABLES")
            without = """
                SELECT relname FROM pg_class
                WHERE relnamespace = 'fairlane'::regnamespace AND relkind = 'r' AND relreplident = 'd'
                    AND NOT EXISTS (SELECT FROM pg_index WHERE indrelid = pg_class.oid AND indisprimary)
            """
            assert db.execute(without).fetchall() == []
        one.put()
        one.done(one.take())
        for _ in range(2):
            with one.store.transaction():
                one.store.write_state()  # type: ignore[attr-defined]  # it is ours
        with psycopg.connect(shared.url) as db:
            assert db.execute("SELECT count(*) FROM fairlane.inbox").fetchone() == (0,)


class TestBells:
    """B40: what is told at a commit is short, once a transaction, whatever was stored."""

    def test_a_bell_is_short(self, shared: Shared) -> None:
        with Fairlane(shared.url) as app, psycopg.connect(shared.url, autocommit=True) as db:
            db.execute("LISTEN fairlane_fairlane")

            @app.task
            def work(what: str) -> None: ...

            app.enqueue_many(work.new("x" * 1_000) for _ in range(2_000))
            work.using(queue="q" * 100).enqueue("x" * 200_000)
            app.owner.call(lambda store, now_ms: None)
            notes = list(db.notifies(timeout=0.5))
        assert 1 <= len(notes) <= 4
        assert max(len(note.payload) for note in notes) < 100


class TestText:
    """B15: what no database column takes is refused, or put right, before it spoils a transaction."""

    @pytest.mark.parametrize("text", ["x\0y", "\ud800", "\u2028", "\u202e", "é", "e\u0301", "\U0001f600" * 3])
    def test_an_error_s_text_is_stored_whatever_it_is(self, one: Bench, text: str) -> None:
        one.put()
        claim = one.take()
        one.fail(claim, message=text)
        one.die(one.take(), reason=text, message=text)
        job = one.job(claim.id)
        assert job.state.label == "dead"
        assert len(job.errors) == 2
