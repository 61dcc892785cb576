"""How many connections a process has: what docs/guides/postgres.md tells, for who sets ``max_connections``."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict
from tests.pg import WAIT_S, Server, server, until

import fairlane as fl

pytestmark = [pytest.mark.postgres, pytest.mark.timeout(60)]

SLOTS = 8


@pytest.fixture(scope="module")
def running() -> Iterator[Server]:
    with server() as one:
        yield one


@pytest.fixture
def url(running: Server) -> Iterator[str]:
    made = running.database()
    yield made
    running.drop(made)


def count(one: Server, url: str) -> int:
    """Return how many connections of ours there are to a database."""
    name = conninfo_to_dict(url)["dbname"]
    ((found,),) = one.run(
        f"SELECT count(*) FROM pg_stat_activity WHERE datname = '{name}' AND application_name = 'fairlane'"
    )
    return int(found)


def test_a_process_has_no_more_than_the_guide_tells(running: Server, url: str) -> None:
    begun, go = threading.Barrier(SLOTS + 1), threading.Event()
    with fl.Fairlane(url) as app:

        @app.task
        def pay(ctx: fl.Context) -> None:
            with ctx.transaction() as own:
                app.enqueue("next", conn=own)
                begun.wait(WAIT_S)
                go.wait(WAIT_S)

        @app.task
        def follow() -> None: ...

        job = pay.enqueue()
        app.get(job.id)
        assert count(running, url) == 3
        with psycopg.connect(url) as conn:
            pay.using(conn=conn).enqueue()
        assert count(running, url) == 4
        app.enqueue_many(pay.new() for _ in range(SLOTS - 2))
        with app.worker(concurrency=SLOTS):
            begun.wait(WAIT_S)
            assert 14 <= count(running, url) <= 15, "the one for heartbeats is opened at the first"
            go.set()
    until(lambda: count(running, url) == 0, "the end of all")


def test_why_a_job_waits_is_told_on_whatever_connection_there_is(running: Server, url: str) -> None:
    """B19: the state that an explanation is made of was followed on one that has ended since."""
    with fl.Fairlane(url) as app:
        job = app.enqueue("send")
        assert app.explain(job.id).cause
        pid = app.owner.read(lambda store, _: store._reader.raw.info.backend_pid)  # type: ignore[attr-defined]
        running.run(f"SELECT pg_terminate_backend({pid})")
        with contextlib.suppress(fl.StoreError):  # it may notice before it asks
            app.get(job.id)
        assert app.explain(job.id).cause


@pytest.mark.parametrize("awaited", [False, True])
def test_one_that_ended_while_it_was_kept_is_not_lent_again(running: Server, url: str, awaited: bool) -> None:
    seen: list[tuple[int, int]] = []
    with fl.Fairlane(url) as app:

        def blocking(ctx: fl.Context) -> None:
            with ctx.transaction() as own:
                seen.append((own.info.backend_pid, ctx.attempt))

        async def waiting(ctx: fl.Context) -> None:
            async with ctx.transaction() as own:
                seen.append((own.info.backend_pid, ctx.attempt))

        pay = app.task(waiting if awaited else blocking)
        with app.worker(concurrency=1):
            pay.enqueue().result(timeout=WAIT_S)
            running.run(f"SELECT pg_terminate_backend({seen[0][0]})")
            until(lambda: not running.run(f"SELECT FROM pg_stat_activity WHERE pid = {seen[0][0]}"), "its end")
            pay.enqueue().result(timeout=WAIT_S)
    assert seen[0][0] != seen[1][0]
    assert [attempt for _, attempt in seen] == [1, 1]
