"""B19: a worker that loses a connection, or its server, goes on by itself, and says so meanwhile.

Each connection of a worker (for claims and ends, heartbeats, signs of life, the bell, reading) is ended by the server
at a point that the test chooses: the server's process stands there, at a lock that the test holds.
"""

from __future__ import annotations

import os
import shlex
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict
from tests.pg import WAIT_S, Elsewhere, Server, pg_ctl, server, until

import fairlane as fl
from fairlane.stores.postgres import connection, life
from fairlane.stores.postgres.store import PostgresStore
from fairlane.worker import loop

pytestmark = [pytest.mark.postgres, pytest.mark.timeout(120)]

POINTS = """
CREATE FUNCTION public.stand() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN PERFORM pg_advisory_xact_lock_shared(19); RETURN NEW; END $$;
CREATE TRIGGER row BEFORE UPDATE ON fairlane.job FOR EACH ROW EXECUTE FUNCTION public.stand();
CREATE CONSTRAINT TRIGGER commit AFTER UPDATE ON fairlane.job DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION public.stand();
ALTER TABLE fairlane.job DISABLE TRIGGER USER;
"""
"""Where a transaction that changes a job stands while somebody holds lock 19; each is switched on by a test."""
STANDING = """
SELECT pid FROM pg_locks
WHERE NOT granted AND pid IN (SELECT pid FROM pg_stat_activity WHERE datname = current_database())
"""
LISTENING = """
SELECT pid FROM pg_stat_activity
WHERE datname = current_database() AND query LIKE 'LISTEN %' AND state = 'idle'
"""


class Scene:
    """A worker in this process, a producer with connections of its own, and who stands between them and the server.

    Args:
        running: The server.
    """

    def __init__(self, running: Server) -> None:
        self.server = running
        self.url = running.database()
        with psycopg.connect(self.url, autocommit=True) as db:
            db.execute(POINTS)
        self.app = fl.Fairlane(self.url)
        self.other = fl.Fairlane(self.url)
        self.held = threading.Event()
        self.go = threading.Event()
        self.runs: list[str] = []
        self.heard = threading.Event()

        @self.app.task
        def work(what: str) -> str:
            self.runs.append(what)
            if what == "long":
                self.held.set()
                assert self.go.wait(WAIT_S)
            return what

        self.worker = self.app.worker(concurrency=4, lease=60.0)
        self.worker.start()
        self.app.owner.listen(self._hear)

    def _hear(self, news: frozenset[str]) -> None:
        if "work" in news:
            self.heard.set()

    def close(self) -> None:
        self.go.set()
        self.worker.stop(grace=0.0)
        self.app.close()
        self.other.close()
        self.server.drop(self.url)

    # ------------------------------------------------------------------ what is where

    @property
    def store(self) -> PostgresStore:
        store = self.app.owner.store
        assert isinstance(store, PostgresStore)
        return store

    @property
    def start(self) -> Any:
        """The worker's present life."""
        return self.worker._start

    def pids(self, sql: str) -> list[int]:
        with psycopg.connect(self.url, autocommit=True) as db:
            return [pid for (pid,) in db.execute(sql.encode()).fetchall()]

    def until_one(self, sql: str, what: str) -> int:
        """Wait until one of the server's processes does something, and return which."""
        found: list[int] = []

        def looked() -> bool:
            found[:] = self.pids(sql)
            return len(found) == 1

        until(looked, what)
        return found[0]

    def end(self, *pids: int) -> None:
        """End connections, as an administrator does, and wait until they are gone."""
        named = ",".join(map(str, pids))
        self.server.run(f"SELECT pg_terminate_backend(pid) FROM unnest(ARRAY[{named}]) AS pid")
        until(lambda: not self.server.run(f"SELECT FROM pg_stat_activity WHERE pid IN ({named})"), "the ends")

    def end_all(self) -> None:
        base = conninfo_to_dict(self.url)["dbname"]
        self.server.run(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{base}'")

    @contextmanager
    def standing(self, point: str) -> Iterator[Callable[[], int]]:
        """Let whoever comes to a point stand there until the end; give a way to wait for one, which tells who it is."""
        with psycopg.connect(self.url, autocommit=True) as db, psycopg.connect(self.url) as lock:
            if point == "gate":
                lock.execute("LOCK TABLE fairlane.gate_keeper IN EXCLUSIVE MODE")
            else:
                db.execute(f"ALTER TABLE fairlane.job ENABLE TRIGGER {point}".encode())
                lock.execute("SELECT pg_advisory_xact_lock(19)")
            yield lambda: self.until_one(STANDING, f"somebody who stands at {point}")
            lock.rollback()

    def long_run(self) -> fl.Job:
        """Let the worker run a job that lasts until it may go on."""
        job = self.other.enqueue("work", {"what": "long"})
        assert self.held.wait(WAIT_S)
        return job

    def all_well(self, *jobs: fl.Job) -> None:
        """See that the worker works as if nothing had happened: these ended, each after one run; the bell rings."""
        until(lambda: self.worker.healthy, "good health")
        for job in (*jobs, self.other.enqueue("work", {"what": "new"})):
            until(lambda job=job: self.state(job) == "completed", "the end of a job")  # type: ignore[misc]
            job.refresh()
            assert (job.record.crashes, job.record.failures) == (0, 0)
        assert sorted(self.runs) == sorted({"long", "new", "first"} & set(self.runs)), "once each"
        self.until_one(LISTENING, "somebody who listens")
        self.heard.clear()
        self.other.enqueue("of another worker")  # so that no commit of ours tells of it
        assert self.heard.wait(WAIT_S), "no bell"
        assert self.app.owner.read(lambda store, _: store.check()) == []

    def state(self, job: fl.Job) -> str:
        """Return a job's state; empty while nobody can tell."""
        try:
            return self.other.get(job.id).state
        except fl.StoreError:
            return ""


@pytest.fixture(scope="module")
def running() -> Iterator[Server]:
    with server() as one:
        yield one


@pytest.fixture
def scene(running: Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[Scene]:
    monkeypatch.setattr(loop, "RETRY_S", (0.001, 0.02))
    made = Scene(running)
    yield made
    made.close()


# ---------------------------------------------------------------- one connection ends


@pytest.mark.parametrize("point", ["gate", "row", "commit"])
def test_the_connection_of_a_claim_ends(scene: Scene, point: str) -> None:
    with scene.standing(point) as somebody:
        job = scene.other.enqueue("work", {"what": "first"})
        pid = somebody()
        assert pid == scene.store._raw.info.backend_pid
        scene.end(pid)
        assert scene.runs == []
    scene.all_well(job)


@pytest.mark.parametrize("point", ["gate", "row", "commit"])
def test_the_connection_of_an_end_ends(scene: Scene, point: str) -> None:
    job = scene.long_run()
    with scene.standing(point) as somebody:
        scene.go.set()
        pid = somebody()
        assert pid == scene.store._raw.info.backend_pid
        scene.end(pid)
        assert scene.state(job) == "running"
    scene.all_well(job)


@pytest.mark.parametrize("point", ["row", "commit"])
def test_the_connection_of_a_heartbeat_ends(scene: Scene, point: str) -> None:
    job = scene.long_run()
    (attempt,) = scene.start.hands.attempts()
    with scene.standing(point) as somebody:
        attempt.renewed_at -= 40  # as if a lease of 60 s were that old
        due = attempt.renewed_at
        scene.start._heartbeat.at_once()
        pid = somebody()
        assert pid == scene.start._heartbeat._store._raw.info.backend_pid
        scene.end(pid)
        assert attempt.renewed_at == due
    until(lambda: attempt.renewed_at > due, "a heartbeat")
    assert scene.worker.healthy
    scene.go.set()
    scene.all_well(job)


def test_the_connection_of_the_bell_ends(scene: Scene) -> None:
    pid = scene.until_one(LISTENING, "the bell")
    scene.end(pid)
    job = scene.other.enqueue("work", {"what": "first"})  # whether or not anybody listens again by now
    scene.all_well(job)
    assert scene.until_one(LISTENING, "the bell") != pid


def test_the_connection_for_reading_ends(scene: Scene) -> None:
    job = scene.long_run()
    with psycopg.connect(scene.url) as lock:
        lock.execute("LOCK TABLE fairlane.lane IN ACCESS EXCLUSIVE MODE")
        reads = Elsewhere(lambda: scene.app.owner.read(lambda store, now_ms: store.depth(now_ms)))
        pid = scene.until_one(STANDING, "a reader")
        assert scene.store._reader is not None
        assert pid == scene.store._reader.raw.info.backend_pid
        scene.end(pid)
        with pytest.raises(fl.StoreError):
            reads.answer()
    assert [row.running for row in scene.app.owner.read(lambda store, now_ms: store.depth(now_ms))] == [1]
    scene.go.set()
    scene.all_well(job)


def test_the_connection_for_signs_of_life_ends(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(life, "RENEW_S", 0.01)
    scene.worker.stop()
    scene.worker.start()
    job = scene.long_run()
    with psycopg.connect(scene.url) as lock:
        lock.execute("SELECT FROM fairlane.life FOR UPDATE")
        pid = scene.until_one(STANDING, "a sign of life")
        assert scene.store._lives._db is not None
        assert pid == scene.store._lives._db.raw.info.backend_pid
        scene.end(pid)
        seen = "SELECT max(extract(epoch FROM seen_at) * 1e6)::bigint FROM fairlane.life"
        (before,) = scene.pids(seen)
    until(lambda: scene.pids(seen)[0] > before, "a sign of life")
    scene.go.set()
    scene.all_well(job)


def test_all_connections_end_at_once(scene: Scene) -> None:
    job = scene.long_run()
    scene.end_all()
    scene.go.set()
    scene.all_well(job)


# ---------------------------------------------------------------- the server is away


def test_the_server_is_away_and_comes_back(scene: Scene) -> None:
    job = scene.long_run()
    ((data,),) = scene.server.run("SHOW data_directory")
    options = shlex.join(shlex.split(Path(data, "postmaster.opts").read_text())[1:])
    pg_ctl(Path(data), "-m", "fast", "stop")
    scene.go.set()
    until(lambda: not scene.worker.healthy, "bad health")
    pg_ctl(Path(data), "-o", options, "-l", f"{data}/log", "start")
    scene.server._admin.close()
    scene.server._admin = psycopg.connect(scene.server.url, autocommit=True)
    scene.all_well(job)


def test_the_server_takes_no_writes_for_a_while(scene: Scene) -> None:
    """As on a host that has become a standby. Nobody ends the connections that were made meanwhile."""
    job = scene.long_run()
    base = conninfo_to_dict(scene.url)["dbname"]
    scene.server.run(f"ALTER DATABASE {base} SET default_transaction_read_only = on")
    scene.end_all()
    scene.go.set()
    until(lambda: not scene.worker.healthy, "bad health")
    assert scene.state(job) == "running"
    for app in (scene.other, scene.app):
        with pytest.raises(fl.StoreError, match="read-only"):
            app.enqueue("work", {"what": "new"})
    scene.server.run(f"ALTER DATABASE {base} RESET default_transaction_read_only")
    scene.all_well(job)


def test_who_only_looked_meanwhile_is_told_once_at_most(scene: Scene) -> None:
    """What it reads by was opened then, and light enqueues move the clock of arrivals on it."""
    base = conninfo_to_dict(scene.url)["dbname"]
    scene.worker.stop()
    scene.server.run(f"ALTER DATABASE {base} SET default_transaction_read_only = on")
    scene.end_all()
    assert scene.other.owner.read(lambda store, now_ms: store.depth(now_ms)) == []
    scene.server.run(f"ALTER DATABASE {base} RESET default_transaction_read_only")
    with pytest.raises(fl.StoreError, match="read-only"):
        scene.other.enqueue("work", {"what": "first"})
    assert scene.other.enqueue("work", {"what": "first"}).created


# ---------------------------------------------------------------- the server does not answer


def test_a_server_that_says_nothing_is_no_good_health(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its process is stopped: the connection stands, and a claim waits for an answer."""
    monkeypatch.setattr(loop, "HUNG_S", 0.05)
    pid = scene.store._raw.info.backend_pid
    os.kill(pid, signal.SIGSTOP)
    try:
        job = scene.other.enqueue("work", {"what": "first"})
        until(lambda: not scene.worker.healthy, "bad health")
        assert scene.state(job) == "available"
    finally:
        os.kill(pid, signal.SIGCONT)
    monkeypatch.setattr(loop, "HUNG_S", WAIT_S)
    scene.all_well(job)


def test_a_server_that_says_nothing_to_who_holds_the_gate(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """All others wait for the gate; each says so in its time, and works when it is free."""
    monkeypatch.setattr(connection, "BUSY_MS", 50)
    scene.end_all()  # the next ones have that bound
    scene.until_one(LISTENING, "somebody who listens")
    with psycopg.connect(scene.url, autocommit=True) as db:
        db.execute("BEGIN")
        db.execute("LOCK TABLE fairlane.gate_keeper IN EXCLUSIVE MODE")
        os.kill(db.info.backend_pid, signal.SIGSTOP)
        try:
            job = scene.other.enqueue("work", {"what": "first"})  # which waits for nobody
            until(lambda: not scene.worker.healthy, "bad health")
        finally:
            os.kill(db.info.backend_pid, signal.SIGCONT)
        db.execute("ROLLBACK")
    scene.all_well(job)
