"""Jobs in a caller's own transaction, and transactions that end a job: the same on both stores."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import psycopg
import pytest
from tests.contract.transactional_rig import LONG_S, Place, PostgresPlace, SqlitePlace
from tests.pg import Server, server

import fairlane as fl
from fairlane import handles
from fairlane.clock import SystemClock
from fairlane.worker import loop

OURS = {"seq", "id", "arrival_ms", "enqueued_at_ms", "scheduled_at_ms", "available_at_ms", "expires_at_ms"}


@pytest.fixture(scope="module")
def running(request: pytest.FixtureRequest) -> Iterator[Server]:
    with server() as one:
        yield one


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    if request.param == "sqlite":
        made: Place = SqlitePlace(tmp_path)
        yield made
        made.close()
        return
    running: Server = request.getfixturevalue("running")
    url = running.database()
    made = PostgresPlace(url)
    yield made
    made.close()
    running.drop(url)


def add_one(place: Place) -> Any:
    """Make a task that says which of its jobs ran."""
    ran: list[int] = []

    @place.app.task
    def one(n: int) -> int:
        ran.append(n)
        return n

    return one, ran


# ---------------------------------------------------------------- enqueue


def test_a_job_is_there_with_the_commit_and_not_before(place: Place):
    one, ran = add_one(place)
    conn = place.connect()
    place.put(conn, 7)
    job = one.using(conn=conn).enqueue(7)
    assert job.created
    assert place.jobs() == 0
    with pytest.raises(fl.JobNotFound):
        job.refresh()
    conn.commit()
    assert job.refresh().state == "available"
    with place.app.worker():
        assert job.result(timeout=LONG_S) == 7
    assert (ran, place.mine()) == ([7], [7])


def test_rolled_back_means_never_seen(place: Place):
    one, _ = add_one(place)
    conn = place.connect()
    place.put(conn, 1)
    gone = one.using(conn=conn, dedup_key="k").enqueue(1)
    place.app.enqueue_many([one.new(n) for n in range(300)], conn=conn)
    conn.rollback()
    assert place.jobs() == 0
    with pytest.raises(fl.JobNotFound):
        gone.refresh()
    assert place.claim_all() == []
    assert one.using(dedup_key="k").enqueue(2).created, "its key is free"
    assert place.mine() == []


def test_a_savepoint_takes_back_what_came_after_it(place: Place):
    one, _ = add_one(place)
    conn = place.connect()
    place.put(conn, 1)
    one.using(conn=conn).enqueue(1)
    conn.execute("SAVEPOINT s")
    one.using(conn=conn, dedup_key="k").enqueue(2)
    conn.execute("ROLLBACK TO SAVEPOINT s")
    one.using(conn=conn).enqueue(3)
    conn.commit()
    assert place.claim_all() == [1, 3]
    assert one.using(dedup_key="k").enqueue(4).created


def moment(days: int) -> datetime:
    return datetime.fromtimestamp(SystemClock().now_ms() / 1000, UTC) + timedelta(days=days)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"queue": "mail", "tenant": "ünïcode ✓", "tier": "high", "tags": ["a", "b\\c"], "trace": "00-t"},
        {"delay": 3600},
        {"scheduled_at": 2},
        {"scheduled_at": -2},
        {"expires_in": 50},
        {"delay": 5, "expires_in": 50, "dedup_key": "k\"%'", "dedup_ttl": 9},
    ],
    ids=["plain", "names", "delay", "later", "before", "expires", "all"],
)
def test_a_job_is_stored_as_without_a_connection(place: Place, options: Any):
    args = {"text": 'a "quoted" %s :name $1 \\u0041 \\ ünï ✓ 😀', "n": -1.5, "none": None}
    if "scheduled_at" in options:
        options = {"scheduled_at": moment(days=options["scheduled_at"])}
    plain = place.app.enqueue("t", args, **options)
    other = options | ({"dedup_key": "other"} if "dedup_key" in options else {})
    conn = place.connect()
    job = place.app.enqueue("t", args, conn=conn, **other)
    conn.commit()
    ours, theirs = (msgspec.structs.asdict(place.record(one)) for one in (job, plain))
    assert {k: v for k, v in ours.items() if k not in {*OURS, "dedup_key"}} == {
        k: v for k, v in theirs.items() if k not in {*OURS, "dedup_key"}
    }
    assert ours["seq"] == theirs["seq"] + 1
    for name in OURS - {"seq", "id"}:
        assert (ours[name] is None) == (theirs[name] is None)
        if ours[name] is not None:
            assert 0 <= ours[name] - theirs[name] < LONG_S * 1000


def test_a_late_commit_finds_its_early_place(place: Place):
    one, _ = add_one(place)
    for n in range(3):
        one.enqueue(n)
    if place.mark == "%s":  # SQLite has one writer
        conn = place.connect()
        one.using(conn=conn).enqueue(10)
        for n in range(3, 6):
            one.enqueue(n)
        assert place.app.claim().args == {"n": 0}, "nobody waits for the open transaction"
        conn.commit()
        assert place.claim_all() == [1, 2, 10, 3, 4, 5]
    else:
        conn = place.connect()
        one.using(conn=conn).enqueue(10)
        conn.commit()
        one.enqueue(3)
        assert place.claim_all() == [0, 1, 2, 10, 3]


def test_many_jobs_in_several_lanes(place: Place):
    one, _ = add_one(place)
    one.enqueue(-2)
    assert place.claim_all() == [-2], "the state is in memory from here on, and follows what is told"
    conn = place.connect()
    jobs = [one.using(tenant="ab"[n % 2], delay=0 if n % 3 else 3600).new(n) for n in range(1_000)]
    handles = place.app.enqueue_many(jobs, batch=700, conn=conn)
    assert [handle.id.bytes for handle in handles] == [job.id for job in jobs]
    place.app.enqueue("one", {"n": -1}, conn=conn)
    conn.commit()
    assert place.jobs() == 1_002
    done = place.claim_all()
    assert sorted(done) == sorted([n for n in range(1_000) if n % 3] + [-1])
    for tenant in (0, 1):
        mine = [n for n in done if n % 2 == tenant and n >= 0]
        assert mine == sorted(mine), "by arrival in each lane"


def test_a_group_is_stored_with_the_commit(place: Place):
    one, _ = add_one(place)
    conn = place.connect()
    group = place.app.group([one.new(1), one.new(2)], conn=conn)
    with pytest.raises(fl.GroupNotFound):
        place.app.get_group(group.id)
    conn.commit()
    with place.app.worker():
        assert group.result(timeout=LONG_S) == [1, 2]


def test_a_dedup_key_that_is_held(place: Place):
    one, _ = add_one(place)
    first = one.using(dedup_key="k").enqueue(1)
    conn = place.connect()
    second = one.using(dedup_key="k", conn=conn).enqueue(2)
    assert (second.id, second.created) == (first.id, False)
    with pytest.raises(fl.DedupConflict) as refused:
        one.using(dedup_key="k", on_conflict="raise", conn=conn).enqueue(3)
    assert str(refused.value.job_id) == str(first.id)
    one.using(dedup_key="k", queue="other", conn=conn).enqueue(4)
    conn.commit()
    assert place.claim_all() == [1, 4]
    conn = place.connect()
    assert one.using(dedup_key="k", conn=conn).enqueue(5).created, "the holder has ended"
    conn.commit()
    assert place.claim_all() == [5]


def test_a_dedup_key_that_the_same_transaction_has_taken(place: Place):
    one, _ = add_one(place)
    conn = place.connect()
    place.put(conn, 1)
    first = one.using(dedup_key="k", conn=conn).enqueue(1)
    same = one.using(dedup_key="k", conn=conn).enqueue(2)
    assert (same.id, same.created) == (first.id, False)
    new = [one.new(3), one.using(dedup_key="k", on_conflict="raise").new(4), one.using(dedup_key="new").new(5)]
    with pytest.raises(fl.DedupConflict):
        place.app.enqueue_many(new, conn=conn)
    twice = [one.using(dedup_key="k").new(6), one.using(dedup_key="k").new(7), one.using(dedup_key="l").new(8)]
    handles = place.app.enqueue_many(twice, conn=conn)
    assert [(one.id == first.id, one.created) for one in handles] == [(True, False), (True, False), (False, True)]
    conn.commit()
    assert place.claim_all() == [1, 8], "a refused call has stored nothing"
    assert place.mine() == [1], "and spoiled nothing"


def test_a_key_that_is_kept_after_its_job_has_ended(place: Place):
    one, _ = add_one(place)
    first = one.using(dedup_key="k", dedup_ttl=3600).enqueue(1)
    assert place.claim_all() == [1]
    conn = place.connect()
    again = one.using(dedup_key="k", conn=conn).enqueue(2)
    assert (again.id, again.created) == (first.id, False)
    conn.commit()
    assert place.jobs() == 1


def test_a_refused_job_changes_nothing_and_the_transaction_goes_on(place: Place):
    one, _ = add_one(place)
    conn = place.connect()
    place.put(conn, 1)
    with pytest.raises(fl.InvalidJob):
        place.app.enqueue("one", {"n": "x" * 300_000}, conn=conn)
    with pytest.raises(fl.InvalidJob):
        one.using(conn=conn).enqueue("no number")
    one.using(conn=conn).enqueue(1)
    conn.commit()
    assert (place.claim_all(), place.mine()) == ([1], [1])


def test_what_is_no_connection_is_refused(place: Place):
    one, _ = add_one(place)
    for conn in (object(), place.url, 7, psycopg, b"x"):
        with pytest.raises(fl.InvalidValue, match="conn must be an open connection"):
            one.using(conn=conn).enqueue(1)
        with pytest.raises(fl.InvalidValue, match="conn must be an open connection"):
            asyncio.run(one.using(conn=conn).aenqueue(1))
    assert place.jobs() == 0


@pytest.mark.postgres
def test_a_connection_to_the_other_kind_of_database_is_refused(place: Place, tmp_path: Path, running: Server):
    one, _ = add_one(place)
    if place.mark == "%s":
        other: Any = sqlite3.connect(tmp_path / "other.db")
    else:
        other = psycopg.connect(running.url)
    with other, pytest.raises(fl.InvalidValue, match="one commit cannot be for both"):
        one.using(conn=other).enqueue(1)
    other.close()


def test_a_connection_to_another_database_is_refused(place: Place, tmp_path: Path, request: pytest.FixtureRequest):
    one, _ = add_one(place)
    if place.mark == "%s":
        running: Server = request.getfixturevalue("running")
        url = running.database()
        other: Any = psycopg.connect(url)
        expected = "another database than the store's"
    else:
        other = sqlite3.connect(tmp_path / "other.db")
        expected = "conn is a connection to .*other.db; the store is .*jobs.db"
    with pytest.raises(fl.InvalidValue, match=expected):
        one.using(conn=other).enqueue(1)
    other.commit()
    if place.mark == "%s":  # it has such tables, too
        assert other.execute("SELECT count(*) FROM fairlane.job").fetchone() == (0,)
        assert other.execute("SELECT count(*) FROM fairlane.inbox").fetchone() == (0,)
    other.close()
    assert place.jobs() == 0
    if place.mark == "%s":
        request.getfixturevalue("running").drop(url)


def test_without_a_transaction_nothing_is_stored(place: Place):
    """In autocommit mode the job would be there at once, whatever becomes of the rest."""
    one, _ = add_one(place)
    conn = place.connect()
    if place.mark == "%s":
        conn.autocommit = True
    else:
        conn.isolation_level = None
    with pytest.raises(fl.InvalidValue, match="no transaction is open on conn"):
        one.using(conn=conn).enqueue(1)
    conn.execute("BEGIN")
    one.using(conn=conn).enqueue(2)
    assert place.jobs() == 0
    conn.execute("COMMIT")
    assert place.claim_all() == [2]


def test_what_only_makes_a_job_takes_no_connection(place: Place):
    one, _ = add_one(place)
    conn = place.connect()
    with pytest.raises(TypeError, match="new\\(\\) stores nothing"):
        one.using(conn=conn).new(1)
    with pytest.raises(TypeError, match="unexpected option 'conn'"):
        place.app.new("one", {"n": 1}, conn=conn)  # type: ignore[call-arg]
    bound = one.using(tenant="a", conn=conn).using(tier="high")
    place.app.enqueue(one.using(tenant="a").new(1), conn=conn)
    bound.enqueue(2)
    assert place.jobs() == 0, "using() keeps the connection"
    conn.commit()
    assert place.claim_all() == [2, 1]


def test_workers_are_told_at_the_commit(place: Place, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(loop, "POLL_S", 60.0)  # by themselves they look too late
    one, _ = add_one(place)
    other = place.new_app()
    other.task(name="one")(lambda n: n)
    with other.worker():
        one.enqueue(0).result(timeout=LONG_S)
        for n in range(5):
            conn = place.connect()
            job = one.using(conn=conn).enqueue(n)
            conn.commit()
            conn.close()
            job.result(timeout=LONG_S)


# ---------------------------------------------------------------- settle


def test_own_writes_and_the_jobs_end_are_one_commit(place: Place):
    inside, go = threading.Event(), threading.Event()

    @place.app.task
    def pay(ctx: fl.Context, n: int) -> None:
        ctx.progress(0.5)
        with ctx.transaction() as conn:
            place.put(conn, n)
            ctx.progress(1, "paid")
            ctx.set_result({"paid": n})
            inside.set()
            assert go.wait(LONG_S)

    job = pay.enqueue(5)
    with place.app.worker():
        assert inside.wait(LONG_S)
        assert (place.mine(), job.refresh().state) == ([], "running")
        go.set()
        assert job.result(timeout=LONG_S) == {"paid": 5}
    record = place.record(job)
    assert place.mine() == [5]
    assert (record.failures, record.crashes, record.fence, record.reason) == (0, 0, record.fence, None)
    assert msgspec.json.decode(record.progress) == {"share": 1.0, "note": "paid"}


def test_a_coroutine_does_the_same(place: Place):
    @place.app.task
    async def pay(n: int, ctx: fl.Context) -> None:
        async with ctx.transaction(result=n) as conn:
            written = conn.execute(f"INSERT INTO mine VALUES ({place.mark})", (n,))
            if asyncio.iscoroutine(written):
                await written
            await place.app.aenqueue("later", {"n": n}, conn=conn)

    jobs = [pay.enqueue(n) for n in range(6)]
    with place.app.worker(concurrency=6):
        assert [job.result(timeout=LONG_S) for job in jobs] == list(range(6))
    assert place.mine() == list(range(6))
    assert sorted(place.claim_all()) == list(range(6))


def test_an_error_rolls_everything_back_and_is_a_failure(place: Place):
    @place.app.task(retry=fl.Retry(max_attempts=2, base=0, jitter=0))
    def pay(ctx: fl.Context, n: int) -> None:
        with ctx.transaction() as conn:
            place.put(conn, n)
            place.app.enqueue("later", {"n": n}, conn=conn)
            if ctx.attempt == 1:
                raise ValueError("not yet")

    job = pay.enqueue(3)
    with place.app.worker():
        job.result(timeout=LONG_S)
    record = place.record(job)
    assert (place.mine(), place.claim_all()) == ([3], [3])
    assert [(error.type, error.message) for error in record.errors] == [("ValueError", "not yet")]


def test_a_lost_lease_rolls_everything_back(place: Place):
    """Also while the job runs again: it is the fence that tells the two apart."""
    seen: list[BaseException] = []
    inside, go, again, over = (threading.Event() for _ in range(4))

    @place.app.task
    def pay(ctx: fl.Context, n: int) -> None:
        if ctx.attempt > 1:
            again.set()
            assert over.wait(LONG_S)
            return
        inside.set()
        assert go.wait(LONG_S)
        try:
            with ctx.transaction() as conn:
                place.put(conn, n)
        except fl.LeaseLost as error:
            seen.append(error)
            raise
        finally:
            over.set()

    job = pay.enqueue(3)
    with place.app.worker(concurrency=2):
        assert inside.wait(LONG_S)
        place.app.owner.call(lambda store, now_ms: store.rescue(now_ms + 10**8, limit=10))
        assert again.wait(LONG_S)
        go.set()
        job.result(timeout=LONG_S)
    assert place.mine() == []
    assert "rolled back" in seen[0].__notes__[0]
    assert (place.record(job).crashes, place.record(job).failures) == (1, 0)


def test_hooks_are_called_once_and_the_handler_may_go_on(place: Place, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(handles, "POLL_S", 60.0)  # who waits for the result is told, and need not look
    monkeypatch.setattr(loop, "POLL_S", 60.0)
    events: list[Any] = []
    ended, go = threading.Event(), threading.Event()

    @place.app.task(limits=["one"])
    def pay(ctx: fl.Context, n: int) -> str:
        with ctx.transaction(result=n) as conn:
            place.put(conn, n)
        if n == 1:
            assert ended.wait(LONG_S), "waiters are told before the handler returns"
            assert go.wait(LONG_S)
            raise RuntimeError("too late to count")
        return "dropped"

    @pay.on_finish
    def finished(event: fl.Event) -> None:
        events.append((event.moment, event.outcome, event.result, event.error))
        if event.result == 1:
            ended.set()

    place.app.limits["one"].set(max_running=1)
    first = pay.enqueue(1)
    with place.app.worker(concurrency=2):
        assert first.result(timeout=LONG_S) == 1
        assert ended.wait(LONG_S)
        second = pay.enqueue(2)
        assert second.result(timeout=LONG_S) == 2, "the limit has room from the commit on"
        go.set()
    assert events == [("finish", "completed", 1, None), ("finish", "completed", 2, None)]
    assert place.record(first).failures == 0


def test_a_slot_is_free_at_once_when_the_handler_has_returned(place: Place, monkeypatch: pytest.MonkeyPatch):
    """The worker has nothing to settle then, and must claim all the same: not only when it looks next."""
    monkeypatch.setattr(loop, "POLL_S", 0.02)
    pause = threading.Event()

    @place.app.task
    def pay(ctx: fl.Context, n: int) -> None:
        monkeypatch.setattr(loop, "POLL_S", 0.02)
        pause.wait(0.05)
        with ctx.transaction() as conn:
            place.put(conn, n)
        pause.wait(0.2)  # the worker has looked, in vain: there was no slot
        monkeypatch.setattr(loop, "POLL_S", 60.0)
        pause.wait(0.2)  # and looks no more by itself

    jobs = [pay.enqueue(n) for n in range(4)]
    with place.app.worker(concurrency=1):
        for job in jobs:
            job.result(timeout=LONG_S)
    assert place.mine() == list(range(4))


def test_one_transaction_ends_a_job(place: Place):
    refused: list[str] = []

    @place.app.task
    def pay(ctx: fl.Context) -> None:
        with ctx.transaction() as conn:
            place.put(conn, 1)
            with pytest.raises(fl.ConfigError) as told, ctx.transaction():
                raise AssertionError
            refused.append(str(told.value))
        with pytest.raises(fl.ConfigError) as told, ctx.transaction():
            raise AssertionError
        refused.append(str(told.value))
        with pytest.raises(fl.LeaseLost):
            ctx.checkpoint({"too": "late"})

    job = pay.enqueue()
    with place.app.worker():
        job.result(timeout=LONG_S)
    assert refused[0].startswith("ctx.transaction() is open already")
    assert refused[1] == "ctx.transaction() has ended this job already"
    assert place.mine() == [1]


def test_the_end_of_the_transaction_is_the_end_of_the_block(place: Place):
    """A commit inside would store half of it, whatever comes then."""
    refused: list[BaseException] = []

    @place.app.task(retry=fl.Retry(max_attempts=1))
    def pay(ctx: fl.Context) -> None:
        with ctx.transaction() as conn:
            place.put(conn, 1)
            try:
                conn.commit()
            except Exception as error:
                refused.append(error)
                raise

    job = pay.enqueue()
    with place.app.worker(), pytest.raises(fl.JobFailed):
        job.result(timeout=LONG_S)
    assert isinstance(refused[0], psycopg.ProgrammingError | sqlite3.DatabaseError)
    assert place.mine() == []


def test_a_process_phase_cannot_end_in_one_and_a_check_can(place: Place):
    @place.app.task(retry=fl.Retry(max_attempts=1))
    def prove(ctx: fl.Context, n: int) -> str:
        if n == 0:
            with ctx.transaction():
                raise AssertionError
        return f"ref-{n}"

    @prove.verify(every=0.01)
    def check(reference: str, ctx: fl.Context, n: int) -> fl.Verified[str] | fl.Pending:
        with ctx.transaction(result=f"{reference} is done") as conn:
            place.put(conn, n)
        return fl.Pending()

    bad, good = prove.enqueue(0), prove.enqueue(1)
    with place.app.worker():
        with pytest.raises(fl.JobFailed, match="has a verify phase"):
            bad.result(timeout=LONG_S)
        assert good.result(timeout=LONG_S) == "ref-1 is done"
    assert place.mine() == [1]
    assert place.record(good).checks == 1


def test_jobs_behind_one_that_ends_so_go_on(place: Place):
    @place.app.task
    def pay(ctx: fl.Context, n: int) -> None:
        with ctx.transaction() as conn:
            place.put(conn, n)

    first = pay.enqueue(1)
    second = pay.using(after=first).enqueue(2)
    third = pay.using(after=second).enqueue(3)
    with place.app.worker():
        third.result(timeout=LONG_S)
    assert place.mine() == [1, 2, 3]


def test_the_run_is_charged_to_its_tenant(place: Place):
    """Two tenants, one slot: whoever has used ten times the time gets the fewer turns."""
    order: list[str] = []

    @place.app.task
    def pay(ctx: fl.Context, n: int) -> None:
        order.append(ctx.tenant)
        ctx.charge(10 if ctx.tenant == "dear" else 1)
        with ctx.transaction() as conn:
            place.put(conn, n)

    place.app.configure(policy=fl.Policy.fair(charge="cost"))
    for n in range(24):
        pay.using(tenant="dear").enqueue(n)
        pay.using(tenant="cheap").enqueue(n)
    with place.app.worker(concurrency=1):
        place.app.run_worker(until_idle=True, signals=False, concurrency=1)
    first = order[:24]
    assert first.count("cheap") > 2 * first.count("dear")


def test_a_context_of_no_job_has_no_transaction():
    with pytest.raises(fl.ConfigError, match="belongs to no job"):
        fl.Context().transaction()


def test_a_coroutine_must_not_hold_up_the_others(place: Place):
    @place.app.task(retry=fl.Retry(max_attempts=1))
    async def pay(ctx: fl.Context) -> None:
        with ctx.transaction():
            raise AssertionError

    job = pay.enqueue()
    with place.app.worker(), pytest.raises(fl.JobFailed, match="async with"):
        job.result(timeout=LONG_S)


def test_a_run_whose_time_is_over_rolls_back(place: Place):
    @place.app.task(timeout=0.2, retry=fl.Retry(max_attempts=1))
    def pay(ctx: fl.Context) -> None:
        with ctx.transaction() as conn:
            place.put(conn, 1)
            pause = threading.Event()
            while not ctx.should_stop:
                pause.wait(0.01)

    job = pay.enqueue()
    with place.app.worker(), pytest.raises(fl.JobFailed, match="longer than its timeout"):
        job.result(timeout=LONG_S)
    assert place.mine() == []
