"""What only SQLite can do wrong: the caller has the file's one write lock, and settings of its own."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from tests.contract.transactional_rig import LONG_S, SqlitePlace

import fairlane as fl
from fairlane.stores.sqlite import connection, loans


@pytest.fixture
def place(tmp_path: Path) -> Iterator[SqlitePlace]:
    made = SqlitePlace(tmp_path)
    yield made
    made.close()


def add_one(place: SqlitePlace) -> Any:
    @place.app.task
    def one(n: int) -> int:
        return n

    return one


# ---------------------------------------------------------------- enqueue


def test_others_wait_for_the_callers_commit_and_are_told_when_it_does_not_come(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(connection, "BUSY_MS", 50)
    place = SqlitePlace(tmp_path)
    one = add_one(place)
    conn = place.connect()
    one.using(conn=conn).enqueue(1)
    with pytest.raises(fl.StoreBusy):
        one.enqueue(2)
    assert place.jobs() == 0, "reading waits for nobody"
    conn.commit()
    one.enqueue(3)
    assert place.claim_all() == [1, 3]
    place.close()


def test_a_caller_that_has_read_before_others_wrote_is_told(place: SqlitePlace):
    """SQLite cannot let it write any more, however long it waits."""
    one = add_one(place)
    conn = place.connect()
    conn.execute("BEGIN")
    conn.execute("SELECT count(*) FROM mine").fetchone()
    one.enqueue(1)
    with pytest.raises(fl.StoreBusy):
        one.using(conn=conn).enqueue(2)
    conn.rollback()
    one.using(conn=conn).enqueue(3)
    conn.commit()
    assert place.claim_all() == [1, 3]


def test_what_takes_a_look_at_other_jobs_can_be_done_here(place: SqlitePlace):
    """There is one writer, and it is the caller: nobody else changes what was looked at."""
    one = add_one(place)
    first = one.using(dedup_key="k").enqueue(1)
    place.app.queues["bounded"].set(max_waiting=1)
    conn = place.connect()
    one.using(conn=conn, expedite=True).enqueue(2)
    one.using(conn=conn, after=first).enqueue(3)
    assert not one.using(conn=conn, dedup_key="k", on_conflict="replace").enqueue(4).created
    one.using(conn=conn, queue="bounded").enqueue(5)
    with pytest.raises(fl.QueueFull):
        one.using(conn=conn, queue="bounded").enqueue(6)
    with pytest.raises(fl.JobNotFound):
        one.using(conn=conn, after="01a22ed4-60a2-74f9-989e-764582a7bcb6").enqueue(7)
    conn.commit()
    assert place.claim_all() == [2, 4, 3, 5]


@pytest.mark.parametrize("level", ["OFF", "NORMAL"])
def test_a_connection_less_safe_than_the_store_is_refused(tmp_path: Path, level: str):
    place = SqlitePlace(tmp_path, durability="full")
    one = add_one(place)
    conn = place.connect()
    conn.execute(f"PRAGMA synchronous={level}")
    with pytest.raises(fl.ConfigError, match=f"conn has synchronous={level}, so its commit may be lost"):
        one.using(conn=conn).enqueue(1)
    assert not conn.in_transaction
    for safe in ("FULL", "EXTRA"):
        conn.execute(f"PRAGMA synchronous={safe}")
        one.using(conn=conn).enqueue(2)
        conn.commit()
    assert place.claim_all() == [2, 2]
    place.close()


def test_a_store_that_promises_less_takes_any_connection(place: SqlitePlace):
    one = add_one(place)
    conn = place.connect()
    conn.execute("PRAGMA synchronous=OFF")
    one.using(conn=conn).enqueue(1)
    conn.commit()
    assert place.claim_all() == [1]


def test_a_refused_call_ends_the_transaction_that_it_began(place: SqlitePlace):
    one = add_one(place)
    conn = place.connect()
    one.using(dedup_key="k").enqueue(1)
    with pytest.raises(fl.DedupConflict):
        one.using(dedup_key="k", on_conflict="raise", conn=conn).enqueue(2)
    assert not conn.in_transaction
    one.enqueue(3)
    assert place.claim_all() == [1, 3]


def test_a_call_that_fails_half_way_leaves_nothing_of_it(place: SqlitePlace):
    one = add_one(place)
    conn = place.connect()
    place.put(conn, 1)
    conn.execute("CREATE TEMP TRIGGER no BEFORE INSERT ON main.log BEGIN SELECT RAISE(ABORT, 'no room'); END")
    with pytest.raises(fl.StoreError, match="no room"):
        one.using(conn=conn).enqueue(1)
    conn.execute("DROP TRIGGER no")
    one.using(conn=conn).enqueue(2)
    conn.commit()
    assert (place.claim_all(), place.mine()) == ([2], [1])


def test_however_the_caller_likes_rows_and_texts(place: SqlitePlace):
    one = add_one(place)
    conn = place.connect()

    def as_dict(cursor: sqlite3.Cursor, row: tuple[Any, ...]) -> dict[str, Any]:
        return {column[0]: value for column, value in zip(cursor.description, row, strict=True)}

    for rows in (as_dict, sqlite3.Row):
        conn.row_factory, conn.text_factory = rows, bytes
        one.using(conn=conn, dedup_key="k").enqueue(1)
        one.using(conn=conn.cursor(), dedup_key="k").enqueue(2)
        assert (conn.row_factory, conn.text_factory) == (rows, bytes)
        conn.commit()
    assert place.claim_all() == [1]


@pytest.mark.skipif(not hasattr(sqlite3, "LEGACY_TRANSACTION_CONTROL"), reason="from Python 3.12 on")
def test_connections_with_autocommit_as_an_attribute(place: SqlitePlace):
    one = add_one(place)
    conn = sqlite3.connect(place.path, autocommit=False)  # type: ignore[call-arg]
    one.using(conn=conn).enqueue(1)
    assert place.jobs() == 0
    conn.commit()
    conn.autocommit = True  # type: ignore[attr-defined]
    with pytest.raises(fl.InvalidValue, match="no transaction is open"):
        one.using(conn=conn).enqueue(2)
    conn.close()
    assert place.claim_all() == [1]


def test_the_same_file_under_another_name(place: SqlitePlace, tmp_path: Path):
    one = add_one(place)
    (tmp_path / "link.db").symlink_to(place.path)
    conn = sqlite3.connect(tmp_path / "link.db")
    one.using(conn=conn).enqueue(1)
    conn.commit()
    conn.close()
    assert place.claim_all() == [1]


def test_a_file_that_is_only_attached_is_refused(place: SqlitePlace, tmp_path: Path):
    """A commit to two files is not one commit when the power is cut."""
    one = add_one(place)
    conn = sqlite3.connect(tmp_path / "app.db")
    conn.execute("ATTACH ? AS jobs", (str(place.path),))
    with pytest.raises(fl.InvalidValue, match=r"conn is a connection to .*app\.db"):
        one.using(conn=conn).enqueue(1)
    conn.close()


def test_a_connection_in_memory_is_refused(place: SqlitePlace):
    one = add_one(place)
    conn = sqlite3.connect(":memory:")
    with pytest.raises(fl.InvalidValue, match="conn is a connection to a database in memory"):
        one.using(conn=conn).enqueue(1)
    conn.close()


def test_a_store_in_memory_has_no_connections_of_others():
    conn = sqlite3.connect(":memory:")
    with fl.Fairlane("sqlite://") as app, pytest.raises(fl.InvalidValue, match="the store is in memory"):
        app.enqueue("one", conn=conn)
    conn.close()


def test_what_the_code_says_about_tasks_is_stored_with_the_jobs(place: SqlitePlace):
    """There is no other transaction to do it in; rolled back, the next one says it again."""

    @place.app.task(limits=["few"])
    def limited(n: int) -> None: ...

    conn = place.connect()
    limited.using(conn=conn).enqueue(1)
    conn.rollback()
    limited.using(conn=conn).enqueue(2)
    limited.using(conn=conn).enqueue(3)
    conn.commit()
    other = place.new_app()
    other.limits["few"].set(max_running=1)
    assert other.claim() is not None
    assert other.claim() is None


def test_a_coroutine_with_a_blocking_connection(place: SqlitePlace):
    one = add_one(place)
    conn = sqlite3.connect(place.path)

    async def go() -> None:
        await one.using(conn=conn).aenqueue(1)
        conn.commit()

    asyncio.run(go())
    conn.close()
    assert place.claim_all() == [1]


# ---------------------------------------------------------------- settle


def test_handlers_take_turns_and_a_caller_in_between(place: SqlitePlace):
    """Blocking ones and coroutines, two programs, and a caller that takes no gate: all get on, nothing is lost."""

    def tasks(app: fl.Fairlane) -> Any:
        @app.task
        def pay(ctx: fl.Context, n: int) -> None:
            with ctx.transaction(result=n) as conn:
                place.put(conn, n)
                app.enqueue("more", {"n": n}, conn=conn)

        @app.task
        async def apay(ctx: fl.Context, n: int) -> None:
            async with ctx.transaction(result=n) as conn:
                place.put(conn, n)
                await asyncio.sleep(0)
                await app.aenqueue("more", {"n": n}, conn=conn)

        return pay, apay

    pay, apay = tasks(place.app)
    other = place.new_app()
    tasks(other)
    jobs = [(pay if n % 2 else apay).enqueue(n) for n in range(60)]
    with place.app.worker(concurrency=8), other.worker(concurrency=8):
        conn = place.connect()
        for n in range(100, 110):
            place.put(conn, n)
            place.app.enqueue("more", {"n": n}, conn=conn)
            conn.commit()
        assert [job.result(timeout=LONG_S) for job in jobs] == list(range(60))
    expected = [*range(60), *range(100, 110)]
    assert place.mine() == expected
    assert sorted(place.claim_all()) == expected


def test_a_block_that_lasts_makes_others_of_the_process_wait_no_longer_than_they_should(
    place: SqlitePlace, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(loans, "WAIT_S", 0.05)
    inside, go = threading.Event(), threading.Event()

    @place.app.task(retry=fl.Retry(max_attempts=1))
    def pay(ctx: fl.Context, n: int) -> None:
        with ctx.transaction():
            inside.set()
            assert go.wait(LONG_S)

    @place.app.task(retry=fl.Retry(max_attempts=1))
    async def apay(ctx: fl.Context, n: int) -> None:
        async with ctx.transaction():
            raise AssertionError

    first = pay.enqueue(1)
    others = [pay.using(tier="low").enqueue(2), apay.using(tier="low").enqueue(3)]
    with place.app.worker(concurrency=3, grace=0.1):
        assert inside.wait(LONG_S)
        pause = threading.Event()
        pause.wait(0.3)  # they give up meanwhile; what they raise is stored when the block is over
        go.set()
        first.result(timeout=LONG_S)
        for job in others:
            with pytest.raises(fl.JobFailed, match=r"another ctx\.transaction\(\) of this process"):
                job.result(timeout=LONG_S)


def test_calls_of_the_app_wait_while_a_block_is_open(place: SqlitePlace, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("fairlane.owner.BUSY_S", 0.1)
    refused: list[str] = []

    @place.app.task
    def pay(ctx: fl.Context) -> None:
        with ctx.transaction() as conn:
            place.put(conn, 1)
            with pytest.raises(fl.StoreBusy) as told:
                place.app.enqueue("one", {"n": 1})
            refused.append(str(told.value))
            place.app.enqueue("one", {"n": 2}, conn=conn)

    job = pay.enqueue()
    with place.app.worker():
        job.result(timeout=LONG_S)
    assert place.claim_all() == [2]
    assert "the call was not carried out" in refused[0]


def test_the_rules_of_the_handlers_own_tables_hold(place: SqlitePlace):
    conn = place.connect()
    conn.executescript(
        "CREATE TABLE parent (id integer PRIMARY KEY);"
        "CREATE TABLE child (parent integer REFERENCES parent DEFERRABLE INITIALLY DEFERRED)"
    )

    @place.app.task(retry=fl.Retry(max_attempts=1))
    def pay(ctx: fl.Context, n: int) -> None:
        with ctx.transaction() as db:
            db.execute("INSERT INTO child VALUES (1)")
            if n:
                db.execute("INSERT INTO parent VALUES (1)")

    bad, good = pay.enqueue(0), pay.enqueue(1)
    with place.app.worker(concurrency=1):
        with pytest.raises(fl.JobFailed, match="FOREIGN KEY constraint failed"):
            bad.result(timeout=LONG_S)
        good.result(timeout=LONG_S)
    assert conn.execute("SELECT count(*) FROM child").fetchone() == (1,)


@pytest.mark.parametrize("how", ["COMMIT", "ROLLBACK", "END", "script", "with"])
def test_no_way_out_of_the_transaction_but_the_end_of_the_block(place: SqlitePlace, how: str):
    @place.app.task(retry=fl.Retry(max_attempts=1))
    def pay(ctx: fl.Context) -> None:
        with ctx.transaction() as conn:
            place.put(conn, 1)
            with pytest.raises(sqlite3.DatabaseError, match="not authorized"):  # noqa: PT012 - one of three ways
                if how == "script":
                    conn.executescript("SELECT 1")
                elif how == "with":
                    with conn:
                        pass
                else:
                    conn.execute(how)
            conn.execute("SAVEPOINT s")
            place.put(conn, 2)
            conn.execute("ROLLBACK TO s")

    job = pay.enqueue()
    with place.app.worker():
        job.result(timeout=LONG_S)
    assert place.mine() == [1]


def test_a_handlers_connection_is_as_new_each_time(place: SqlitePlace):
    seen: list[Any] = []

    @place.app.task
    def pay(ctx: fl.Context, n: int) -> None:
        with ctx.transaction() as conn:
            seen.append((conn.row_factory, conn.text_factory))
            conn.row_factory, conn.text_factory = sqlite3.Row, bytes

    with place.app.worker(concurrency=1):
        for n in range(3):
            pay.enqueue(n).result(timeout=LONG_S)
    assert seen == [(None, str)] * 3


def test_a_handler_in_a_store_in_memory():
    """For tests of handlers: the one connection is lent, and everybody else waits."""
    with fl.Fairlane("sqlite://") as app:

        @app.task
        def pay(ctx: fl.Context, n: int) -> None:
            with ctx.transaction(result=n) as conn:
                conn.execute("CREATE TABLE IF NOT EXISTS mine (n integer)")
                conn.execute("INSERT INTO mine VALUES (?)", (n,))

        @app.task
        async def apay(ctx: fl.Context, n: int) -> None:
            async with ctx.transaction() as conn:
                conn.execute("CREATE TABLE IF NOT EXISTS mine (n integer)")
                conn.execute("INSERT INTO mine VALUES (?)", (n,))
                await asyncio.sleep(0.001)
                ctx.set_result(conn.execute("SELECT count(*) FROM mine WHERE n = ?", (n,)).fetchone()[0])

        jobs = [pay.enqueue(n) for n in range(5)] + [apay.enqueue(n) for n in range(10, 15)]
        with app.worker(concurrency=6):
            assert [job.result(timeout=LONG_S) for job in jobs] == [*range(5), *[1] * 5]
        assert app.owner.read(lambda store, now_ms: store.check()) == []


def test_a_coroutine_that_is_cancelled_while_it_waits_leaves_the_way_free(place: SqlitePlace):
    """For the write lock, from where nobody can be called back: what was got too late is given back."""
    started, go = threading.Event(), threading.Event()

    @place.app.task(timeout=0.3, retry=fl.Retry(max_attempts=1))
    async def apay(ctx: fl.Context, n: int) -> None:
        if n == 1:
            started.set()
            await asyncio.to_thread(go.wait, LONG_S)
        async with ctx.transaction(result=n) as conn:
            place.put(conn, n)

    conn = place.connect()
    job = apay.enqueue(1)
    with place.app.worker(concurrency=1):
        assert started.wait(LONG_S)
        conn.execute("BEGIN IMMEDIATE")
        go.set()
        pause = threading.Event()
        pause.wait(0.5)  # its time is over meanwhile
        conn.rollback()
        with pytest.raises(fl.JobFailed, match="longer than its timeout"):
            job.result(timeout=LONG_S)
        assert apay.enqueue(2).result(timeout=LONG_S) == 2
    assert place.mine() == [2]


forking = threading.Event()
os.register_at_fork(before=forking.set)


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_fork_waits_for_the_end_of_a_block_and_the_child_uses_the_store(place: SqlitePlace):
    """Else the child would believe for ever that the file is being written."""
    inside, go = threading.Event(), threading.Event()

    @place.app.task
    def pay(ctx: fl.Context, n: int) -> None:
        with ctx.transaction(result=n) as conn:
            place.put(conn, n)
            inside.set()
            assert go.wait(LONG_S)
            assert place.app.get(ctx.job_id).state == "running", "who is in a block may read while a fork waits"

    def fork() -> int:
        child = os.fork()
        if child == 0:
            try:
                place.app.enqueue("more", {"n": 8})
                os._exit(0)
            finally:
                os._exit(1)
        return os.waitpid(child, 0)[1]

    job = pay.enqueue(1)
    with place.app.worker(), ThreadPoolExecutor(1) as pool:
        assert inside.wait(LONG_S)
        forking.clear()
        forked = pool.submit(fork)
        assert forking.wait(LONG_S)
        go.set()
        assert job.result(timeout=LONG_S) == 1
        assert forked.result(LONG_S) == 0
        assert pay.enqueue(2).result(timeout=LONG_S) == 2
    assert place.mine() == [1, 2]
    assert place.claim_all() == [8]


def test_a_store_that_is_opened_inside_the_callers_transaction(place: SqlitePlace):
    """The caller has the write lock already: opening a store that is there must not need it."""
    conn = place.connect()
    place.put(conn, 1)
    with fl.Fairlane(place.url, durability="normal") as other:
        other.enqueue("one", {"n": 1}, conn=conn)
        conn.commit()
    assert (place.claim_all(), place.mine()) == ([1], [1])
