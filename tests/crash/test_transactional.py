"""Processes are killed around commits that are for a program's own writes and for jobs: always both, or neither."""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from postgres_proxy import Proxy
from psycopg.conninfo import conninfo_to_dict
from tests.pg import Server, server

import fairlane as fl
from fairlane.clock import SystemClock
from fairlane.testing.invariants import book_faults

pytestmark = [pytest.mark.crash, pytest.mark.timeout(120)]

PROGRAM = Path(__file__).with_name("transactional_program.py")
LONG_S = 60.0


@pytest.fixture(scope="module")
def running() -> Iterator[Server]:
    with server() as one:
        yield one


class Place:
    """A store, the table that programs write to, and their processes."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.sqlite = url.startswith("sqlite")
        self.app = fl.Fairlane(url, **({"durability": "normal"} if self.sqlite else {}))
        assert self.app.owner
        self.conn: Any = (
            sqlite3.connect(url.removeprefix("sqlite:///"), isolation_level=None)
            if self.sqlite
            else psycopg.connect(url, autocommit=True)
        )
        self.conn.execute("CREATE TABLE mine (what text, n integer)")
        self.processes: list[subprocess.Popen[str]] = []

    def run(self, role: str, first: int = 0, last: int = 0, fail: str = "") -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, str(PROGRAM), role, str(first), str(last)],
            env={**os.environ, "URL": self.url, "FAIRLANE_FAILPOINT": fail},
            stdout=subprocess.PIPE,
            text=True,
        )
        self.processes.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n" or fail
        return process

    def rows(self, what: str) -> Counter[int]:
        return Counter(n for found, n in self.conn.execute("SELECT what, n FROM mine").fetchall() if found == what)

    def until(self, holds: Callable[[], object], what: str) -> None:
        pause, until = threading.Event(), SystemClock().monotonic() + LONG_S
        while not holds():
            assert SystemClock().monotonic() < until, f"{what} did not come"
            pause.wait(0.01)

    def waiting(self) -> int:
        counts = self.app.owner.read(lambda store, now_ms: store.depth(now_ms))
        return sum(row.available + row.scheduled + row.running for row in counts if row.queue == "default")

    def judge(self) -> None:
        """Every job that was asked for was paid once, with one receipt; the books balance."""
        asked, paid = self.rows("asked"), self.rows("paid")
        assert set(paid.values()) <= {1}
        assert paid == asked
        receipts = [job.args["n"] for job in self.pages(queue="receipts")]
        assert Counter(receipts) == paid
        done = list(self.pages(queue="default"))
        assert Counter(job.args["n"] for job in done) == paid
        assert {job.state for job in done} == {"completed"}
        assert self.app.owner.call(book_faults) == []

    def pages(self, **which: Any) -> Iterator[fl.Job[Any]]:
        cursor = None
        while True:
            page = self.app.jobs(limit=1_000, cursor=cursor, **which)
            yield from page.jobs
            cursor = page.cursor
            if cursor is None:
                return

    def close(self) -> None:
        for process in self.processes:
            process.kill()
            process.wait()
            assert process.stdout is not None
            process.stdout.close()
        self.conn.close()
        self.app.close()


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    if request.param == "sqlite":
        made = Place(f"sqlite:///{tmp_path}/jobs.db")
        yield made
        made.close()
        return
    running: Server = request.getfixturevalue("running")
    url = running.database()
    made = Place(url)
    yield made
    made.close()
    running.drop(url)


@pytest.mark.parametrize("hit", [1, 3])
@pytest.mark.parametrize("name", ["before_block_commit", "after_block_commit"])
def test_death_around_the_commit(place: Place, name: str, hit: int):
    place.run("producer", 0, 10).wait()
    dying = place.run("worker", fail=f"{name}:exit:{hit}")
    assert dying.wait(LONG_S) == 9
    paid = sum(place.rows("paid").values())
    assert paid >= (hit if name == "after_block_commit" else hit - 1)
    completed = sum(job.state == "completed" for job in place.pages(queue="default"))
    assert completed == paid
    place.run("worker")
    place.until(lambda: place.waiting() == 0, "the end")
    place.judge()


def test_a_process_that_is_stopped_before_its_commit_holds_up_nobody_for_longer_than_it_must(place: Place):
    """On PostgreSQL nobody waits for it; on SQLite it has the file until it is killed."""
    place.run("producer", 0, 10).wait()
    stopped = place.run("worker", fail="before_block_commit:pause")
    place.until(
        lambda: Path(f"/proc/{stopped.pid}/stat").read_text().split()[2] == "T" or _a_thread_stands(stopped), "stop"
    )
    if place.sqlite:
        stopped.kill()
        stopped.wait()
    place.run("worker")
    place.until(lambda: place.waiting() == 0, "the end")
    stopped.send_signal(signal.SIGCONT)
    if not place.sqlite:
        place.until(lambda: stopped.poll() is not None or place.waiting() == 0, "its own end")
    place.judge()


def _a_thread_stands(process: subprocess.Popen[str]) -> bool:
    threads = Path(f"/proc/{process.pid}/task").iterdir()
    return any((thread / "stat").read_text().rpartition(")")[2].split()[0] == "T" for thread in threads)


@pytest.mark.postgres
@pytest.mark.parametrize("how", ["blocking", "awaited"])
def test_a_commit_whose_answer_is_lost_is_one(running: Server, tmp_path: Path, how: str):
    """The connection ends right after it: the job has ended, and nobody is told of a failure."""
    url = running.database()
    parts = conninfo_to_dict(url)
    proxy = Proxy(str(parts["host"]), tmp_path, int(str(parts.get("port", 5432))))
    events: list[str] = []
    with psycopg.connect(url, autocommit=True) as conn:
        conn.execute("CREATE TABLE mine (what text, n integer)")
        with fl.Fairlane(f"postgresql://{parts['user']}@/{parts['dbname']}?host={tmp_path}&port=5432") as app:

            @app.task(name="blocking")
            def pay(ctx: fl.Context) -> None:
                with ctx.transaction(result="paid") as own:
                    own.execute("INSERT INTO mine VALUES ('paid', 1)")
                    proxy.cut_next_commit()

            @app.task(name="awaited")
            async def apay(ctx: fl.Context) -> None:
                async with ctx.transaction(result="paid") as own:
                    await own.execute("INSERT INTO mine VALUES ('paid', 1)")
                    proxy.cut_next_commit()

            for moment in ("success", "failure"):
                app.hooks.add(moment, lambda event: events.append(event.moment))
            job = (pay if how == "blocking" else apay).enqueue()
            with app.worker():
                assert job.result(timeout=LONG_S) == "paid"
            record = app.owner.read(lambda store, now_ms: store.get(job.id.bytes))
            assert record is not None
            assert (record.failures, record.crashes, record.errors) == (0, 0, ())
        assert conn.execute("SELECT count(*) FROM mine").fetchone() == (1,)
    assert events == ["success"]
    assert proxy.cut == 1
    proxy.close()
    running.drop(url)


@pytest.mark.postgres
def test_a_commit_that_the_server_did_not_get_is_a_failure(running: Server):
    url = running.database()
    with psycopg.connect(url, autocommit=True) as conn, fl.Fairlane(url) as app:
        conn.execute("CREATE TABLE mine (what text, n integer)")
        conn.execute(
            "CREATE FUNCTION die() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN"
            " IF NEW.n = 1 THEN PERFORM pg_terminate_backend(pg_backend_pid()); END IF; RETURN NULL; END$$"
        )
        conn.execute(
            "CREATE CONSTRAINT TRIGGER die AFTER INSERT ON mine DEFERRABLE INITIALLY DEFERRED"
            " FOR EACH ROW EXECUTE FUNCTION die()"
        )

        @app.task(retry=fl.Retry(max_attempts=2, base=0, jitter=0))
        def pay(ctx: fl.Context) -> None:
            with ctx.transaction(result=ctx.attempt) as own:
                own.execute("INSERT INTO mine VALUES ('paid', %s)", (ctx.attempt,))

        job = pay.enqueue()
        with app.worker():
            assert job.result(timeout=LONG_S) == 2
        assert [error.type for error in job.refresh().errors] == ["fairlane.errors.StoreError"]
        assert conn.execute("SELECT n FROM mine").fetchall() == [(2,)]
    running.drop(url)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_kills_at_any_moment(place: Place, seed: int):
    rng = random.Random(seed)
    place.app.limits["few"].set(max_running=5)
    pause = threading.Event()
    workers = [place.run("worker") for _ in range(2)]
    first = 0
    producer = place.run("producer", first, first + 1_000)
    for _ in range(8):
        pause.wait(rng.uniform(0.05, 0.4))
        victim = rng.choice([0, 1, 2])
        if victim == 2:
            producer.kill()
            producer.wait()
            first += 1_000
            producer = place.run("producer", first, first + 1_000)
        else:
            workers[victim].kill()
            workers[victim].wait()
            workers[victim] = place.run("worker")
    producer.kill()
    producer.wait()
    place.until(lambda: place.waiting() == 0, "the end")
    assert sum(place.rows("paid").values()) > 0
    place.judge()
