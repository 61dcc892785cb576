"""PostgreSQL: workers, connections and the server die, and nothing accepted is lost; B19, T-C7.

The oracle log judges. What a caller is told must be true: stored, not stored, or not known.
"""

from __future__ import annotations

import os
import signal
import threading
import uuid
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from field import Field, seeded
from postgres_proxy import Proxy
from psycopg.conninfo import conninfo_to_dict
from tests.pg import Elsewhere, Server, server, until

import fairlane as fl
from fairlane.clock import SystemClock
from fairlane.domain.jobs import NewJob
from fairlane.domain.lanes import Ask
from fairlane.stores.postgres import base, fate
from fairlane.stores.postgres.store import open_postgres

pytestmark = [pytest.mark.postgres, pytest.mark.crash, pytest.mark.timeout(150)]

TENANTS = ["a", "b", "c"]
JUMP = 2**32


@pytest.fixture(scope="module")
def running() -> Iterator[Server]:
    with server(fsync="on", wal_writer_delay="10s") as one:
        yield one


@pytest.fixture
def url(running: Server) -> Iterator[str]:
    made = running.database()
    yield made
    running.drop(made)


@pytest.fixture
def proxy(url: str, tmp_path: Path) -> Iterator[Proxy]:
    parts = conninfo_to_dict(url)
    made = Proxy(str(parts["host"]), tmp_path, int(str(parts["port"])))
    yield made
    made.close()


@pytest.fixture
def field(tmp_path: Path, url: str) -> Iterator[Field]:
    made = Field(tmp_path, url=url)
    yield made
    made.close()


def new(tenant: str = "a") -> NewJob:
    return NewJob(id=uuid.uuid4().bytes, queue="mail", task="send", tenant=tenant, tier=2)  # type: ignore[arg-type]


def connections(one: Server, url: str) -> list[int]:
    """Return the server's processes for our connections to a database."""
    name = conninfo_to_dict(url)["dbname"]
    return [
        pid
        for (pid,) in one.run(
            f"SELECT pid FROM pg_stat_activity WHERE datname = '{name}' AND application_name = 'fairlane' ORDER BY pid"
        )
    ]


@pytest.mark.parametrize("seed", range(2))
def test_workers_are_killed_at_any_moment(field: Field, seed: int) -> None:
    rng = seeded(seed)

    def producer() -> object:
        return field.run("producer", task=rng.choice(["nap", "hold"]), count=200, args={"ms": 5}, tenants=TENANTS)

    makers = [lambda: field.worker(concurrency=4, lease=2.0)] * 3 + [producer]
    processes = [make() for make in makers]
    for _ in range(6):
        wanted = len(field.lines()) + rng.randint(1, 60)
        field.until(lambda wanted=wanted: len(field.lines()) >= wanted, "work", 30)
        victim = rng.choice([0, 1, 2, 0, 1, 2, 3])
        field.kill9(processes[victim])  # type: ignore[arg-type]
        processes[victim] = makers[victim]()
    field.kill9(processes[3])  # type: ignore[arg-type]
    field.worker(concurrency=16)
    field.until_done()
    assert set(field.accepted()) <= set(field.ends())
    field.assert_only_killed_runs_doubled(slots=4)
    field.audit()


def test_connections_are_ended_at_any_moment(field: Field, running: Server) -> None:
    """Twenty of them, whatever they are for and whatever they do just then; every process goes on by itself."""
    rng = seeded(7)
    workers = [field.worker(concurrency=4, lease=5.0) for _ in range(2)]
    producer = field.run(
        "insists", program="postgres_program.py", task="nap", count=300, args={"ms": 5}, tenants=TENANTS, pause_ms=5
    )
    for _ in range(20):
        wanted = len(field.lines()) + rng.randint(5, 40)
        field.until(lambda wanted=wanted: len(field.lines()) >= wanted or producer.poll() is not None, "work", 30)
        pids = connections(running, field.url)
        for pid in rng.sample(pids, min(2, len(pids))):
            running.run(f"SELECT pg_terminate_backend({pid})")
    assert producer.wait(60) == 0
    field.until_done()
    assert all(process.poll() is None for process in workers)
    assert len(field.accepted()) >= 300
    assert set(field.accepted()) <= set(field.ends())
    field.audit()


def test_a_transaction_whose_connection_is_ended_has_changed_nothing(url: str, running: Server) -> None:
    store = open_postgres(url, clock=SystemClock())

    def torn(light: bool) -> None:
        with store.transaction(light=light):
            store.heartbeat([(1, 1)], lease_ms=1, now_ms=SystemClock().now_ms())  # new jobs alone begin none
            store.enqueue([new()], SystemClock().now_ms())
            running.run(f"SELECT pg_terminate_backend({store._raw.info.backend_pid})")
            store.enqueue([new()], SystemClock().now_ms())

    for light in (False, True):
        with pytest.raises(fl.StoreError):
            torn(light)
        with store.transaction(light=light):  # it connects again by itself
            store.enqueue([new()], SystemClock().now_ms())
    with store.transaction():
        claims = store.claim(Ask("default", 9), worker="", lease_ms=60_000, now_ms=SystemClock().now_ms())
    assert len(claims) == 2
    assert store.check() == []
    store.close()


def test_new_jobs_alone_are_stored_once_though_the_connection_ends_before_the_commit(url: str, running: Server) -> None:
    store = open_postgres(url, clock=SystemClock())
    for count in (1, 2):
        with store.transaction(light=True):
            store.enqueue([new() for _ in range(count)], SystemClock().now_ms())
            running.run(f"SELECT pg_terminate_backend({store._raw.info.backend_pid})")
    assert sum(store.counts().values()) == 3
    assert store.check() == []
    store.close()


@pytest.mark.parametrize("seen", [True, False], ids=["before", "at its beginning"])
def test_a_connection_that_ended_between_two_transactions_costs_nobody_an_error(
    url: str, running: Server, monkeypatch: pytest.MonkeyPatch, seen: bool
) -> None:
    """``seen``: its end can be read on it; else it comes just after the look, with the first statement."""
    if not seen:
        monkeypatch.setattr(base, "ended", lambda raw: raw.closed)
    store = open_postgres(url, clock=SystemClock())
    for light in (False, True):
        with store.transaction(light=light):
            store.enqueue([new()], SystemClock().now_ms())
        for pid in connections(running, url):
            running.run(f"SELECT pg_terminate_backend({pid})")
        until(lambda: not connections(running, url), "the ends")
        with store.transaction(light=light):
            store.enqueue([new()], SystemClock().now_ms())
        if seen:
            assert sum(store.counts().values()) == 2 + 2 * light
    store.close()
    with pytest.raises(fl.StoreError, match="closed"), store.transaction():
        pass


def test_a_server_that_is_away_costs_an_error_at_once(url: str, proxy: Proxy, tmp_path: Path) -> None:
    name = conninfo_to_dict(url)["dbname"]
    store = open_postgres(f"postgresql://postgres@/{name}?host={tmp_path}&port=5432", clock=SystemClock())
    proxy.accepts = False
    proxy.close()
    for light in (False, True):
        with pytest.raises(fl.StoreError, match="connect"), store.transaction(light=light):
            pass
    store.close()


def test_the_server_restarts_under_a_running_application(field: Field, running: Server) -> None:
    worker = field.worker(concurrency=4, lease=5.0)
    field.enqueue("nap", 5, ms=5)
    field.until_started(5)
    for mode in ("fast", "immediate"):
        running.restart(mode)
        refused = 0
        while True:  # calls fail with our error, then go on
            try:
                field.enqueue("nap", 5, ms=5)
                field.app.owner.read(lambda store, _: store.counts())  # that goes by a connection of its own
                break
            except fl.StoreError:
                refused += 1
                assert refused < 50
        field.until_done()
    assert worker.poll() is None
    assert set(field.accepted()) <= set(field.ends())
    assert field.app.owner.read(lambda store, _: store.check()) == []
    field.audit()


def test_fences_jump_after_a_crash_of_the_server(url: str, running: Server) -> None:
    """Claims are committed without waiting for the disk: what a crash took back must not be given again."""
    stores = [open_postgres(url, clock=SystemClock()) for _ in range(2)]
    with stores[0].transaction():
        stores[0].enqueue([new() for _ in range(6)], SystemClock().now_ms())
    for crash in range(3):
        store = stores[crash % 2]
        for which in stores:
            with which.transaction():
                (claim,) = which.claim(Ask("default", 1), worker="", lease_ms=1, now_ms=SystemClock().now_ms())
            assert (crash + 1) * JUMP <= claim.fence < (crash + 2) * JUMP
        os.kill(store._raw.info.backend_pid, signal.SIGKILL)
        running.back()
    with stores[0].transaction():
        (claim,) = stores[0].claim(Ask("default", 1), worker="", lease_ms=1, now_ms=SystemClock().now_ms())
    assert claim.fence >= 4 * JUMP
    running.restart()  # which is no crash
    with stores[1].transaction():
        (claim,) = stores[1].claim(Ask("default", 1), worker="", lease_ms=1, now_ms=SystemClock().now_ms())
    assert 4 * JUMP <= claim.fence < 5 * JUMP
    for store in stores:
        store.close()


class TestLostAnswers:
    """The server commits, and the connection ends before it can say so."""

    @pytest.fixture
    def app(self, url: str, proxy: Proxy, tmp_path: Path) -> Iterator[fl.Fairlane]:
        name = conninfo_to_dict(url)["dbname"]
        made = fl.Fairlane(f"postgresql://postgres@/{name}?host={tmp_path}&port=5432")

        @made.task
        def send(what: str = "") -> None: ...

        for n in range(6):  # so that statements are prepared
            send.enqueue(str(n))
        yield made
        made.close()

    @staticmethod
    def stored(url: str) -> list[str]:
        with psycopg.connect(url) as db:
            return [str(job_id) for (job_id,) in db.execute("SELECT encode(id, 'hex')::uuid FROM fairlane.job")]

    @pytest.mark.parametrize("keyed", [False, True])
    def test_an_enqueue_is_stored_once_and_told(self, app: fl.Fairlane, proxy: Proxy, url: str, keyed: bool) -> None:
        """``keyed``: behind the gate."""
        before = set(self.stored(url))
        proxy.cut_next_commit()
        job = app.enqueue("send", {"what": "new"}, dedup_key="k" if keyed else None)
        assert proxy.cut == 1
        assert set(self.stored(url)) - before == {str(job.id)}
        assert not keyed or not app.enqueue("send", {"what": "next"}, dedup_key="k").created
        assert app.enqueue("send", {"what": "next"}).created

    def test_while_nobody_can_be_asked_it_says_so(
        self, app: fl.Fairlane, proxy: Proxy, url: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(fate, "FATE_S", 0.3)
        before = len(self.stored(url))
        proxy.cut_next_commit()
        proxy.accepts = False
        with pytest.raises(fl.StoreError, match="not known"):
            app.enqueue("send", {"what": "new"})
        assert len(self.stored(url)) == before + 1
        proxy.accepts = True
        app.enqueue("send", {"what": "next"})

    def test_calls_that_share_a_transaction_are_not_carried_out_again(
        self, app: fl.Fairlane, proxy: Proxy, url: str
    ) -> None:
        before = set(self.stored(url))
        held, go = threading.Event(), threading.Event()

        def hold(store: object, now_ms: int) -> None:
            held.set()
            go.wait(30)

        first = Elsewhere(lambda: app.owner.call(hold))
        held.wait(30)
        calls = [Elsewhere(lambda: app.enqueue("send", {"what": "new"})) for _ in range(5)]
        until(lambda: app.owner._line.qsize() == len(calls), "the line")
        proxy.cut_next_commit(2)  # the held one, then those in line
        go.set()
        first.answer()
        assert {str(call.answer().id) for call in calls} == set(self.stored(url)) - before
        assert proxy.cut == 2

    def test_of_jobs_that_were_refused_together_none_is_stored(self, app: fl.Fairlane, proxy: Proxy, url: str) -> None:
        """One of them has the id of another job; the answer that said so was lost, and it is asked for again."""
        before = set(self.stored(url))
        twin = new()
        app.owner.call(lambda store, now_ms: store.enqueue([twin], now_ms), light=True)
        proxy.cut_next_commit()
        with pytest.raises(fl.StoreError, match="could not commit"):
            app.owner.call(lambda store, now_ms: store.enqueue([new(), twin], now_ms), light=True)
        assert proxy.cut == 1
        assert set(self.stored(url)) - before == {str(uuid.UUID(bytes=twin.id))}

    def test_an_end_is_an_end(self, app: fl.Fairlane, proxy: Proxy) -> None:
        claim = app.claim()
        assert claim is not None
        proxy.cut_next_commit()
        claim.ack()
        assert proxy.cut == 1
        assert app.get(claim.job.id).state == "completed"

    def test_a_claim_is_had(self, app: fl.Fairlane, proxy: Proxy, url: str) -> None:
        proxy.cut_next_commit()
        claim = app.claim()
        assert claim is not None
        assert proxy.cut == 1
        with psycopg.connect(url) as db:
            assert db.execute("SELECT count(*), max(fence) FROM fairlane.job WHERE state = 2").fetchone() == (
                1,
                claim.fence,
            )
        others = {app.claim().job.id for _ in range(5)}  # type: ignore[union-attr]  # there are five more
        assert len(others | {claim.job.id}) == 6
        claim.ack()
        assert app.claim() is None
        assert app.owner.read(lambda store, _: store.check()) == []
