"""What only PostgreSQL can do wrong: callers that hold transactions open, at any isolation, while others go on."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psycopg
import psycopg2.extras
import pytest
from psycopg import IsolationLevel
from psycopg.conninfo import conninfo_to_dict
from psycopg.types.json import set_json_loads
from tests.contract.postgres_pooler import Pooler
from tests.contract.transactional_rig import LONG_S, PostgresPlace
from tests.pg import Server, server, until

import fairlane as fl
from fairlane import client
from fairlane.clock import SystemClock
from fairlane.stores.postgres import keys, lent, loans
from fairlane.stores.postgres.store import PostgresStore

pytestmark = pytest.mark.postgres


@pytest.fixture(scope="module")
def running() -> Iterator[Server]:
    with server(max_prepared_transactions="5") as one:
        yield one


@pytest.fixture
def place(running: Server) -> Iterator[PostgresPlace]:
    url = running.database()
    made = PostgresPlace(url)
    yield made
    made.close()
    running.drop(url)


def add_one(place: PostgresPlace) -> Any:
    @place.app.task
    def one(n: int) -> int:
        return n

    return one


def until_blocked(place: PostgresPlace, count: int = 1) -> None:
    """Wait until that many connections wait for a lock."""
    pause, until = threading.Event(), SystemClock().monotonic() + LONG_S
    with psycopg.connect(place.url, autocommit=True) as watch:
        while True:
            row = watch.execute(
                "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
            ).fetchone()
            if row is not None and row[0] >= count:
                return
            assert SystemClock().monotonic() < until, "nobody waits"
            pause.wait(0.005)


# ---------------------------------------------------------------- nobody waits


def test_open_transactions_hold_up_nobody(place: PostgresPlace):
    """Two callers that make the same lanes, and everybody else: none of them waits for a commit of another."""
    one = add_one(place)
    first, second = place.connect(), place.connect()
    one.using(conn=first, tenant="new", queue="new").enqueue(1)
    one.using(conn=second, tenant="new", queue="new").enqueue(2)
    one.using(tenant="new", queue="new").enqueue(3)
    place.app.queues["new"].set(max_running=5)
    place.app.configure(express_capacity=7)
    assert place.claim_all() == [3]
    second.commit()
    assert place.claim_all() == [2]
    first.commit()
    assert place.claim_all() == [1]


@pytest.mark.parametrize("level", list(IsolationLevel), ids=lambda level: level.name)
def test_at_any_isolation(place: PostgresPlace, level: IsolationLevel):
    one = add_one(place)
    conn = place.connect()
    conn.isolation_level = level
    assert conn.execute("SELECT count(*) FROM mine").fetchone() == (0,), "its snapshot is from here on"
    one.using(tenant="later").enqueue(1)
    one.using(tenant="later", conn=conn).enqueue(2)
    one.using(tenant="later", conn=conn, dedup_key="k").enqueue(3)
    assert not one.using(tenant="later", conn=conn, dedup_key="k").enqueue(4).created
    place.put(conn, 1)
    conn.commit()
    assert place.claim_all() == [1, 2, 3]


@pytest.mark.parametrize("level", list(IsolationLevel), ids=lambda level: level.name)
def test_a_handlers_transaction_of_its_own_isolation(place: PostgresPlace, level: IsolationLevel):
    @place.app.task
    def pay(ctx: fl.Context, n: int) -> None:
        with ctx.transaction(result=n) as conn:
            conn.execute(f"SET TRANSACTION ISOLATION LEVEL {level.name.replace('_', ' ')}")
            place.put(conn, n)

    with place.app.worker():
        assert pay.enqueue(4).result(timeout=LONG_S) == 4


# ---------------------------------------------------------------- dedup keys


def test_of_two_callers_with_one_key_the_second_waits_and_gets_the_first_ones_job(place: PostgresPlace):
    one = add_one(place)
    first, second = place.connect(), place.connect()
    job = one.using(conn=first, dedup_key="k").enqueue(1)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(one.using(conn=second, dedup_key="k").enqueue, 2)
        until_blocked(place)
        assert one.using(dedup_key="another").enqueue(3).created, "others do not wait"
        first.commit()
        same = waiting.result(LONG_S)
    assert (same.id, same.created) == (job.id, False)
    second.commit()
    assert place.claim_all() == [3, 1] or place.claim_all() == []


def test_of_two_callers_with_one_key_the_second_gets_it_when_the_first_rolls_back(place: PostgresPlace):
    one = add_one(place)
    first, second = place.connect(), place.connect()
    one.using(conn=first, dedup_key="k").enqueue(1)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(one.using(conn=second, dedup_key="k").enqueue, 2)
        until_blocked(place)
        first.rollback()
        assert waiting.result(LONG_S).created
    second.commit()
    assert place.claim_all() == [2]


@pytest.mark.parametrize("locks", [500, 0], ids=["tried", "looked at"])
@pytest.mark.parametrize("ends", ["commit", "rollback"])
def test_a_plain_enqueue_waits_for_an_open_transaction_and_claims_do_not(
    place: PostgresPlace, ends: str, locks: int, monkeypatch: pytest.MonkeyPatch
):
    """Behind the gate it would hold up every claim until that transaction ends."""
    monkeypatch.setattr(keys, "MOST_LOCKS", locks)
    one = add_one(place)
    one.enqueue(0)
    conn = place.connect()
    job = one.using(conn=conn, dedup_key="k").enqueue(1)
    tried = threading.Semaphore(0)
    store = place.app.owner.store
    assert isinstance(store, PostgresStore)
    take_keys = store._take_keys

    def noted(wanted: Any) -> None:
        try:
            take_keys(wanted)
        finally:
            tried.release()

    monkeypatch.setattr(store, "_take_keys", noted)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(one.using(dedup_key="k").enqueue, 2)
        for _ in range(2):
            assert tried.acquire(timeout=LONG_S)
        assert not waiting.done()
        assert place.claim_all() == [0]
        getattr(conn, ends)()
        other = waiting.result(LONG_S)
    assert (other.id == job.id, other.created) == ((True, False) if ends == "commit" else (False, True))
    assert place.claim_all() == [1 if ends == "commit" else 2]


def test_an_open_transaction_that_never_ends_makes_a_plain_enqueue_busy(
    place: PostgresPlace, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(client, "KEY_WAIT_S", 0.05)
    one = add_one(place)
    conn = place.connect()
    one.using(conn=conn, dedup_key="k").enqueue(1)
    with pytest.raises(fl.StoreBusy, match="dedup key 'k' in queue 'default' is held by an open transaction"):
        one.using(dedup_key="k").enqueue(2)
    with pytest.raises(fl.StoreBusy):
        asyncio.run(one.using(dedup_key="k").aenqueue(2))
    assert one.using(dedup_key="l").enqueue(3).created
    conn.rollback()


def test_a_dead_job_does_not_take_a_key_that_an_open_transaction_has(place: PostgresPlace):
    one = add_one(place)
    job = one.using(dedup_key="k").enqueue(1)
    claim = place.app.claim()
    assert claim is not None
    claim.dead("no")
    conn = place.connect()
    assert one.using(conn=conn, dedup_key="k").enqueue(2).created
    with pytest.raises(fl.DedupConflict, match="held by an open transaction of another program"):
        place.app.retry(job.id)
    conn.rollback()
    place.app.retry(job.id)
    assert place.claim_all() == [1]


def test_a_holder_that_ends_in_between_keeps_its_key_for_its_time(place: PostgresPlace):
    """The key is looked up after it was locked, in a snapshot of its own: the caller's is older than the job's end."""
    one = add_one(place)
    first = one.using(dedup_key="k", dedup_ttl=3600).enqueue(1)
    conn = place.connect()
    conn.isolation_level = IsolationLevel.REPEATABLE_READ
    conn.execute("SELECT 1")
    assert place.claim_all() == [1]
    again = one.using(conn=conn, dedup_key="k").enqueue(2)
    assert (again.id, again.created) == (first.id, False)


# ---------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"expedite": True}, "expedite takes a look at other jobs"),
        ({"dedup_key": "k", "on_conflict": "replace"}, 'on_conflict="replace" takes a look'),
        ({"dedup_key": "k", "on_conflict": "successor"}, 'on_conflict="successor" takes a look'),
    ],
)
def test_what_needs_the_gate_is_refused(place: PostgresPlace, options: Any, said: str):
    one = add_one(place)
    conn = place.connect()
    place.put(conn, 1)
    with pytest.raises(fl.InvalidJob, match=said):
        one.using(conn=conn, **options).enqueue(1)
    conn.commit()
    assert (place.jobs(), place.mine()) == (0, [1])


def test_a_job_behind_another_is_refused(place: PostgresPlace):
    one = add_one(place)
    first = one.enqueue(1)
    with pytest.raises(fl.InvalidJob, match="after takes a look at other jobs"):
        one.using(conn=place.connect(), after=first).enqueue(2)


@pytest.mark.parametrize("kind", ["queue", "tenant"])
def test_a_bound_on_waiting_jobs_is_refused_where_it_holds(place: PostgresPlace, kind: str):
    one = add_one(place)
    handles = place.app.queues if kind == "queue" else place.app.tenants
    handles["bounded"].set(max_waiting=5)
    conn = place.connect()
    with pytest.raises(fl.InvalidJob, match=f"{kind} 'bounded' bounds how many jobs may wait"):
        one.using(conn=conn, **{kind: "bounded"}).enqueue(1)
    one.using(conn=conn).enqueue(2)
    conn.commit()
    assert place.claim_all() == [2]


def test_too_many_keys_in_one_call_are_refused(place: PostgresPlace):
    one = add_one(place)
    jobs = [one.using(dedup_key=str(n)).new(n) for n in range(lent.MOST_KEYS + 1)]
    with pytest.raises(fl.InvalidJob, match="1,001 jobs with dedup keys in one call with conn; the maximum is 1,000"):
        place.app.enqueue_many(jobs, conn=place.connect())


def test_the_id_of_another_job_is_refused_and_the_transaction_goes_on(place: PostgresPlace):
    one = add_one(place)
    job = one.new(1)
    place.app.enqueue(job)
    conn = place.connect()
    place.put(conn, 1)
    with pytest.raises(fl.StoreError, match="there is a job with the id"):
        place.app.enqueue(job, conn=conn)
    conn.commit()
    assert place.mine() == [1]


def test_a_transaction_that_has_failed_says_so_with_a_note(place: PostgresPlace):
    one = add_one(place)
    conn = place.connect()
    with pytest.raises(psycopg.errors.UndefinedTable):
        conn.execute("SELECT * FROM nothing")
    with pytest.raises(psycopg.errors.InFailedSqlTransaction) as told:
        one.using(conn=conn).enqueue(1)
    assert "fairlane was storing jobs in this transaction" in told.value.__notes__[0]
    conn.rollback()


# ---------------------------------------------------------------- statements and bells


def test_large_batches_go_in_portions_and_none_is_left_when_one_is_refused(
    place: PostgresPlace, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(lent, "STATEMENT_BYTES", 100)
    one = add_one(place)
    conn = place.connect()
    one.using(conn=conn, dedup_key="k").enqueue(0)
    jobs = [one.new(n) for n in range(1, 50)]
    refused = one.using(dedup_key="k", on_conflict="raise").new(50)
    with pytest.raises(fl.DedupConflict):
        place.app.enqueue_many([*jobs, refused], conn=conn)
    place.app.enqueue_many(jobs, conn=conn)
    conn.commit()
    assert place.claim_all() == list(range(50))


def test_under_load_only_some_commits_ring(place: PostgresPlace, monkeypatch: pytest.MonkeyPatch):
    """Commits that ring wait for each other."""
    one = add_one(place)
    store = place.app.owner.store
    assert isinstance(store, PostgresStore)
    now = store._clock.monotonic()
    monkeypatch.setattr(store._clock, "monotonic", lambda: now, raising=False)
    rung: list[str] = []
    with psycopg.connect(place.url, autocommit=True) as ears:
        ears.execute("LISTEN fairlane_fairlane")
        conn = place.connect()
        for n in range(lent.RINGS + 5):
            one.using(conn=conn).enqueue(n)
            conn.commit()
        rung = [note.payload for note in ears.notifies(timeout=0.2)]
    assert len(rung) == lent.RINGS


def test_a_commit_in_two_phases_does_not_ring(place: PostgresPlace):
    """PostgreSQL prepares no transaction that rings."""
    one = add_one(place)
    conn = place.connect()
    conn.tpc_begin(conn.xid(1, "gtrid", "bqual"))
    one.using(conn=conn).enqueue(1)
    conn.tpc_prepare()
    assert place.claim_all() == []
    conn.tpc_commit()
    assert place.claim_all() == [1]


@pytest.mark.parametrize("locks", [keys.MOST_LOCKS, 0])
def test_a_key_that_a_prepared_transaction_has_holds_up_nobody_else(
    place: PostgresPlace, locks: int, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(keys, "MOST_LOCKS", locks)
    monkeypatch.setattr(client, "KEY_WAIT_S", 0.05)
    one = add_one(place)
    conn = place.connect()
    conn.tpc_begin(conn.xid(1, "gtrid", "bqual"))
    one.using(conn=conn, dedup_key="k").enqueue(1)
    conn.tpc_prepare()
    with pytest.raises(fl.StoreBusy, match="dedup key 'k' in queue 'default' is held by an open transaction"):
        one.using(dedup_key="k").enqueue(2)
    conn.tpc_commit()
    assert place.claim_all() == [1]


# ---------------------------------------------------------------- psycopg's own ways


def test_an_asynchronous_connection(place: PostgresPlace):
    one = add_one(place)

    async def go() -> None:
        async with await psycopg.AsyncConnection.connect(place.url) as conn:
            await conn.execute("INSERT INTO mine VALUES (1)")
            job = await one.using(conn=conn).aenqueue(1)
            jobs = await place.app.aenqueue_many([one.new(2), one.new(3)], conn=conn)
            async with conn.cursor() as cursor:
                await place.app.aenqueue("one", {"n": 4}, conn=cursor)
            same = await one.using(conn=conn, dedup_key="k").aenqueue(5)
            again = await one.using(conn=conn, dedup_key="k").aenqueue(6)
            assert (again.id, again.created) == (same.id, False)
            assert place.jobs() == 0
            with pytest.raises(fl.InvalidValue, match="use aenqueue"):
                one.using(conn=conn).enqueue(7)
            await conn.commit()
            assert job.created
            assert len(jobs) == 2
            await conn.set_autocommit(True)
            with pytest.raises(fl.InvalidValue, match="no transaction is open"):
                await one.using(conn=conn).aenqueue(8)
            with pytest.raises(fl.InvalidJob, match="expedite"):
                await one.using(conn=conn, expedite=True).aenqueue(8)

    asyncio.run(go())
    assert place.claim_all() == [1, 2, 3, 4, 5]


def test_a_blocking_connection_in_a_coroutine(place: PostgresPlace):
    one = add_one(place)
    conn = place.connect()
    asyncio.run(one.using(conn=conn).aenqueue(1))
    assert place.jobs() == 0
    conn.commit()
    assert place.claim_all() == [1]


def test_however_the_caller_likes_rows_and_cursors(place: PostgresPlace):
    one = add_one(place)
    for options in (
        {"row_factory": psycopg.rows.dict_row},
        {"cursor_factory": psycopg.ClientCursor},
        {"cursor_factory": psycopg.RawCursor},
        {"prepare_threshold": 0},
    ):
        with psycopg.connect(place.url, **options) as conn:  # type: ignore[arg-type]
            for n in range(3):
                one.using(conn=conn).enqueue(n)
            with conn.pipeline():
                one.using(conn=conn).enqueue(3)
            with conn.cursor("named") as cursor:
                one.using(conn=cursor).enqueue(4)
    for rows in (None, psycopg2.extras.RealDictCursor, psycopg2.extras.DictCursor, psycopg2.extras.NamedTupleCursor):
        other = psycopg2.connect(place.url, cursor_factory=rows)
        for n in range(3):
            one.using(conn=other).enqueue(n)
        place.app.enqueue_many([one.new(3), one.new(4)], conn=other)
        other.commit()
        other.close()
    assert place.claim_all() == [0, 1, 2, 3, 4] * 8


def test_who_moves_the_clock_of_arrivals_just_now_holds_up_nobody(place: PostgresPlace):
    """Another program that stands still in a transaction of its own, say: the clock can wait, callers need not."""
    one = add_one(place)
    conn, other = place.connect(), place.connect()
    one.using(conn=conn).enqueue(1)
    other.execute("UPDATE fairlane.counter SET value = 0 WHERE name = 'enqueued_at_ms'")
    other.commit()
    other.execute("UPDATE fairlane.counter SET value = 0 WHERE name = 'enqueued_at_ms'")
    one.using(conn=conn).enqueue(2)
    place.app.enqueue_many([one.new(3), one.new(4)], conn=conn)
    conn.commit()
    other.rollback()
    assert place.claim_all() == [1, 2, 3, 4]


def test_another_schema(running: Server):
    url = running.database(empty=True)
    with psycopg.connect(url) as conn:
        conn.execute("CREATE SCHEMA jobs")
    from fairlane.stores.postgres.schema import migrate

    migrate(f"{url}&schema=jobs", SystemClock())
    with psycopg.connect(url) as raw, fl.Fairlane(f"{url}&schema=jobs") as app:
        raw.execute("CREATE TABLE mine (n integer)")
        app.enqueue("one", {"n": 1}, conn=raw, dedup_key="k")
        raw.commit()
        assert raw.execute("SELECT count(*) FROM jobs.job").fetchone() == (1,)

        @app.task
        def one(ctx: fl.Context, n: int) -> None:
            with ctx.transaction(result=n):
                pass

        job = one.enqueue(2)
        with app.worker():
            assert job.result(timeout=LONG_S) == 2
    running.drop(url)


def test_behind_a_transaction_pooler(place: PostgresPlace, tmp_path: Path):
    """Callers and handlers too: each transaction of theirs stays on one connection of the server."""
    parts = conninfo_to_dict(place.url)
    pooler = Pooler(str(parts["host"]), int(str(parts.get("port", 5432))), tmp_path)
    url = f"postgresql://{parts['user']}@/{parts['dbname']}?host={tmp_path}&port=5432"
    app = fl.Fairlane(f"{url}&pooled=yes")

    @app.task
    def pay(ctx: fl.Context, n: int) -> None:
        with ctx.transaction(result=n) as own:
            place.put(own, n)

    with psycopg.connect(url, prepare_threshold=None) as conn:
        jobs = [pay.using(conn=conn, dedup_key=str(n)).enqueue(n) for n in range(5)]
        assert not pay.using(conn=conn, dedup_key="0").enqueue(9).created
        assert place.jobs() == 0
        conn.commit()
    with app.worker():
        assert [job.result(timeout=LONG_S) for job in jobs] == list(range(5))
    app.close()
    pooler.close()
    assert place.mine() == list(range(5))


# ---------------------------------------------------------------- connections for handlers


def test_a_handlers_connection_is_as_new_each_time(place: PostgresPlace):
    seen: list[Any] = []

    @place.app.task
    def pay(ctx: fl.Context, n: int) -> None:
        with ctx.transaction() as conn:
            seen.append((
                conn.info.backend_pid,
                conn.execute("SHOW search_path").fetchone(),
                conn.execute("SELECT to_regclass('pg_temp.left_over')").fetchone(),
            ))  # fmt: skip
            conn.row_factory = psycopg.rows.dict_row
            conn.execute("SET search_path = nowhere")
            conn.execute("CREATE TEMP TABLE left_over (n integer)")

    with place.app.worker(concurrency=1):
        for n in range(3):
            pay.enqueue(n).result(timeout=LONG_S)
    assert len({pid for pid, *_ in seen}) == 1
    assert seen[0][1:] == seen[1][1:] == seen[2][1:] == (('"$user", public',), (None,))


def test_a_handlers_connection_forgets_what_the_last_one_made_of_it(place: PostgresPlace):
    seen: list[Any] = []

    def look(conn: Any, row: Any) -> None:
        seen.append((conn.info.backend_pid, row, conn.prepare_threshold))
        conn.add_notice_handler(notices.append)
        conn.prepare_threshold = 0
        set_json_loads(lambda _: "mine", conn)

    notices: list[Any] = []
    ask, tell = """SELECT '{"a": 1}'::jsonb""", "DO $$ BEGIN RAISE NOTICE 'one'; END $$"

    @place.app.task
    def pay(ctx: fl.Context) -> int:
        with ctx.transaction(result=1) as conn:
            conn.execute(tell)
            look(conn, conn.execute(ask).fetchone())
            conn.cursor_factory = psycopg.RawCursor
        return 1

    @place.app.task
    async def apay(ctx: fl.Context) -> int:
        async with ctx.transaction(result=1) as conn:
            await conn.execute(tell)
            look(conn, await (await conn.execute(ask)).fetchone())
            conn.cursor_factory = psycopg.AsyncRawCursor
        return 1

    with place.app.worker(concurrency=1):
        for task in (pay, pay, apay, apay):
            assert task.enqueue().result(timeout=LONG_S) == 1
    assert [row for _, *row in seen] == [[({"a": 1},), None]] * 4
    assert len({pid for pid, *_ in seen}) == 2
    assert notices == []


def test_more_handlers_than_connections_wait_for_one(place: PostgresPlace, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(loans, "MOST", 2)
    most: list[int] = []
    inside: set[int] = set()
    lock = threading.Lock()
    app = place.new_app()

    def entered(n: int) -> None:
        with lock:
            inside.add(n)
            most.append(len(inside))

    @app.task
    def pay(ctx: fl.Context, n: int) -> None:
        with ctx.transaction(result=n) as conn:
            entered(n)
            place.put(conn, n)
            conn.execute("SELECT pg_sleep(0.02)")
            inside.discard(n)

    @app.task
    async def apay(ctx: fl.Context, n: int) -> None:
        async with ctx.transaction(result=n) as conn:
            entered(n)
            await conn.execute("INSERT INTO mine VALUES (%s)", (n,))
            await conn.execute("SELECT pg_sleep(0.02)")
            inside.discard(n)

    jobs = [(pay if n % 2 else apay).enqueue(n) for n in range(12)]
    with app.worker(concurrency=12):
        assert [job.result(timeout=LONG_S) for job in jobs] == list(range(12))
    assert max(most) <= 2
    assert place.mine() == list(range(12))


def test_a_handler_that_breaks_a_rule_of_its_own_tables_is_told_by_the_commit(place: PostgresPlace):
    conn = place.connect()
    conn.execute("ALTER TABLE mine ADD UNIQUE (n) DEFERRABLE INITIALLY DEFERRED")
    conn.commit()

    @place.app.task(retry=fl.Retry(max_attempts=1))
    def pay(ctx: fl.Context) -> None:
        with ctx.transaction() as conn:
            place.put(conn, 1)
            place.put(conn, 1)

    job = pay.enqueue()
    with place.app.worker(), pytest.raises(fl.JobFailed, match="UniqueViolation"):
        job.result(timeout=LONG_S)
    assert place.mine() == []


def test_a_statement_that_failed_inside_is_not_committed_over(place: PostgresPlace):
    @place.app.task(retry=fl.Retry(max_attempts=1))
    def pay(ctx: fl.Context) -> None:
        with ctx.transaction() as conn:
            place.put(conn, 1)
            with pytest.raises(psycopg.errors.UndefinedTable):
                conn.execute("SELECT * FROM nothing")

    job = pay.enqueue()
    with place.app.worker(), pytest.raises(fl.JobFailed, match=r"a statement in ctx\.transaction\(\) failed"):
        job.result(timeout=LONG_S)
    assert place.mine() == []


def test_a_connection_that_is_cut_off_inside_rolls_back(place: PostgresPlace):
    @place.app.task(retry=fl.Retry(max_attempts=2, base=0, jitter=0))
    def pay(ctx: fl.Context) -> None:
        with ctx.transaction(result=ctx.attempt) as conn:
            place.put(conn, ctx.attempt)
            if ctx.attempt == 1:
                with psycopg.connect(place.url) as other:
                    other.execute("SELECT pg_terminate_backend(%s)", (conn.info.backend_pid,))

    job = pay.enqueue()
    with place.app.worker():
        assert job.result(timeout=LONG_S) == 2
    assert place.mine() == [2]


def test_the_connection_beside_comes_back_after_it_was_cut_off(place: PostgresPlace):
    one = add_one(place)
    conn = place.connect()
    one.using(conn=conn).enqueue(1)
    store = place.app.owner.store
    assert isinstance(store, PostgresStore)
    assert store._beside is not None
    pid = store._beside._raw.info.backend_pid
    with psycopg.connect(place.url, autocommit=True) as other:
        other.execute("SELECT pg_terminate_backend(%s)", (pid,))
        until(lambda: not other.execute("SELECT FROM pg_stat_activity WHERE pid = %s", (pid,)).fetchall(), "its end")
    one.using(conn=conn, tenant="new").enqueue(2)
    conn.commit()
    assert sorted(place.claim_all()) == [1, 2]


def test_after_a_restart_the_database_is_the_same_one(place: PostgresPlace):
    """What tells it from others is when its server was started; that was looked at long ago."""
    one = add_one(place)
    conn = place.connect()
    one.using(conn=conn).enqueue(1)
    store = place.app.owner.store
    assert isinstance(store, PostgresStore)
    store._here = "before"
    one.using(conn=conn).enqueue(2)
    assert store._here != "before"
    conn.commit()
    assert place.claim_all() == [1, 2]


def test_a_batch_keeps_its_order_whatever_the_portions(place: PostgresPlace, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(lent, "STATEMENT_BYTES", 30)
    conn = place.connect()
    jobs = [place.app.new("t", {"n": n, **({"x": "y" * 40} if n % 3 == 1 else {})}) for n in range(12)]
    place.app.enqueue_many(jobs, conn=conn)
    conn.commit()
    assert place.claim_all() == list(range(12))


def test_a_bound_that_is_set_later_is_looked_into(place: PostgresPlace):
    """A call that needs no look beside finds out by itself that it needs one now."""
    one = add_one(place)
    conn = place.connect()
    one.using(conn=conn).enqueue(1)
    place.app.queues["default"].set(max_waiting=5)
    with pytest.raises(fl.InvalidJob, match="bounds how many jobs may wait"):
        one.using(conn=conn).enqueue(2)
    place.app.queues["default"].set(max_waiting=None)
    place.app.queues["other"].set(max_waiting=5)
    one.using(conn=conn).enqueue(3)
    conn.commit()
    assert place.claim_all() == [1, 3]


def test_nobody_waits_for_a_handler_that_is_stopped_before_its_commit(place: PostgresPlace):
    """The job's row is locked only while the server ends the job and commits, both of one message."""
    inside, go = threading.Event(), threading.Event()

    @place.app.task
    def pay(ctx: fl.Context) -> None:
        if ctx.attempt == 1:
            with ctx.transaction() as conn:
                place.put(conn, 1)
                inside.set()
                assert go.wait(LONG_S)

    job = pay.enqueue()
    with place.app.worker(concurrency=1):
        assert inside.wait(LONG_S)
        place.app.cancel(job.id)
        place.app.owner.call(lambda store, now_ms: store.rescue(now_ms + 10**8, limit=10))
        go.set()
        with pytest.raises(fl.JobCancelled):
            job.result(timeout=LONG_S)
    assert place.mine() == []


def test_who_comes_to_wait_for_a_job_that_ends_just_now_is_seen(place: PostgresPlace):
    """The enqueue of a job behind it and its own end meet at its row, whoever is first; nobody is left waiting."""
    inside, go = threading.Event(), threading.Event()

    @place.app.task
    def pay(ctx: fl.Context, n: int) -> None:
        with ctx.transaction() as conn:
            place.put(conn, n)
            if n == 1:
                inside.set()
                assert go.wait(LONG_S)

    first = pay.enqueue(1)
    known = pay.using(after=first).enqueue(2)
    other = PostgresStore(place.url, place.app.owner.store.address, SystemClock())  # type: ignore[attr-defined]
    with place.app.worker(concurrency=2):
        assert inside.wait(LONG_S)
        from fairlane.domain.jobs import NewJob
        from fairlane.options import new_id

        late = NewJob(id=new_id(), task="pay", args='{"n":3}', after=(first.id.bytes,))
        with other.transaction():
            other.enqueue([late], SystemClock().now_ms())
            go.set()
            until_blocked(place)  # the end of the first job waits for us
        assert known.result(timeout=LONG_S) is None
        place.app.get(late.id.hex()).result(timeout=LONG_S)
    other.close()
    assert place.mine() == [1, 2, 3]
