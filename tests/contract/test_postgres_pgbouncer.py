"""B50: through PgBouncer in transaction mode, with ``pooled=yes`` and few connections to the server.

The part of the contract about several programs at once runs here, and all of it with ``WHOLE_CONTRACT=1``.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import NamedTuple

import psycopg
import pytest
from tests.contract.postgres_pgbouncer import PgBouncer, needed
from tests.pg import Server, rows_of, server

import fairlane as fl
from fairlane.domain.policy import Capacities, Policy
from fairlane.store import Store
from fairlane.stores.postgres.store import open_postgres
from fairlane.testing.clock import ManualClock
from fairlane.testing.contract import SharedContract, StoreContract
from fairlane.testing.contract.bench import Database, Rows

pytestmark = [pytest.mark.postgres, needed, pytest.mark.timeout(60)]

LONG_S = 20.0


class Place(NamedTuple):
    """A database.

    Attributes:
        direct: Its URL.
        pooled: The one behind PgBouncer.
    """

    direct: str
    pooled: str


class PooledDatabase:
    """A database behind PgBouncer."""

    def __init__(self, place: Place) -> None:
        self.place = place

    def open_store(
        self, clock: ManualClock, *, policy: Policy | None = None, capacities: Capacities | None = None
    ) -> Store:
        return open_postgres(self.place.pooled, clock=clock, policy=policy, capacities=capacities)

    def rows(self, store: Store) -> Rows:
        return rows_of(store, self.place.direct)


@pytest.fixture(scope="module")
def behind() -> Iterator[Server]:
    with server() as one:
        yield one


@pytest.fixture(scope="module")
def bouncer(behind: Server) -> Iterator[PgBouncer]:
    made = PgBouncer(behind, 4)
    yield made
    made.close()


@pytest.fixture
def place(behind: Server, bouncer: PgBouncer) -> Iterator[Place]:
    direct = behind.database()
    yield Place(direct, bouncer.pooled(direct))
    behind.drop(direct)


@pytest.fixture
def narrow(behind: Server) -> Iterator[Place]:
    """With one connection to the server for everybody."""
    bouncer = PgBouncer(behind, 1)
    direct = behind.database()
    yield Place(direct, bouncer.pooled(direct))
    bouncer.close()
    behind.drop(direct)


suite = (StoreContract, SharedContract) if os.environ.get("WHOLE_CONTRACT") else (SharedContract,)


class TestPooled(*suite):  # type: ignore[misc]  # chosen when it runs
    @pytest.fixture
    def database(self, place: Place) -> Database:
        return PooledDatabase(place)


def left_behind(place: Place) -> list[int]:
    """Return how many locks of sessions, prepared statements and channels there are on the server's connections."""
    with psycopg.connect(place.pooled.removesuffix("&pooled=yes"), autocommit=True, prepare_threshold=None) as db:
        return [
            db.execute(f"SELECT count(*) FROM {what}").fetchone()[0]  # type: ignore[index]  # one row, always
            for what in (
                "pg_locks WHERE locktype = 'advisory'",
                "pg_prepared_statements",
                "pg_listening_channels() AS channel",
            )
        ]


def test_an_application_lives_on_a_single_connection(narrow: Place) -> None:
    """No transaction of the store needs a second one while it is open: all may be taken by others that do the same."""
    ran: list[int] = []
    with fl.Fairlane(narrow.pooled) as app:

        @app.task
        def work(n: int) -> None:
            ran.append(n)

        app.enqueue_many(work.new(n) for n in range(50))
        for n in range(50, 70):
            work.using(dedup_key=f"k{n}").enqueue(n)
        for n in range(70, 90):
            work.using(tenant=f"t{n}").enqueue(n)
        app.run_worker(until_idle=True, signals=False)
        assert sorted(ran) == list(range(90))
        assert app.owner.read(lambda store, _: store.check()) == []
    assert left_behind(narrow) == [0, 0, 0]


def test_a_worker_hears_of_jobs_of_other_programs_though_nobody_listens(place: Place) -> None:
    with fl.Fairlane(place.pooled) as app, fl.Fairlane(place.pooled) as other:

        @app.task
        def double(n: int) -> int:
            return 2 * n

        with app.worker():
            assert double.enqueue(1).result(timeout=LONG_S) == 2
            job = other.enqueue("double", {"n": 21})
            assert job.result(timeout=LONG_S) == 42
    assert left_behind(place) == [0, 0, 0]


def test_callers_and_handlers_have_transactions_through_it(place: Place) -> None:
    with psycopg.connect(place.direct, autocommit=True) as db:
        db.execute("CREATE TABLE mine (n integer)")
    plain = place.pooled.removesuffix("&pooled=yes")
    with fl.Fairlane(place.pooled) as app, psycopg.connect(plain, prepare_threshold=None) as conn:

        @app.task
        def pay(ctx: fl.Context, n: int) -> None:
            with ctx.transaction(result=n) as own:
                own.execute("INSERT INTO mine VALUES (%s)", (n,))

        jobs = [pay.using(conn=conn, dedup_key=str(n)).enqueue(n) for n in range(5)]
        assert not pay.using(conn=conn, dedup_key="0").enqueue(9).created
        conn.commit()
        with app.worker(concurrency=2):
            assert [job.result(timeout=LONG_S) for job in jobs] == list(range(5))
        assert sorted(conn.execute("SELECT n FROM mine").fetchall()) == [(n,) for n in range(5)]


def test_without_pooled_in_the_url_the_error_tells_what_is_missing(place: Place) -> None:
    with pytest.raises(fl.ConfigError, match="pooled=yes"):
        open_postgres(place.pooled.removesuffix("&pooled=yes"), clock=ManualClock())
