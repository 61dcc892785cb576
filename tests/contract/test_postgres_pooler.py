"""B50: through a pooler that changes the connection after each transaction, with ``pooled=yes``.

This one is stricter than PgBouncer (``test_postgres_pgbouncer.py``), which gives a client the connection that it had
before as long as that is free: what must not be kept between two transactions shows here.

The part of the contract about several programs at once runs here, and all of it with ``WHOLE_CONTRACT=1``.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict
from tests.pg import Server, rows_of, server

sys.path.insert(0, str(Path(__file__).parent))  # "importlib" mode finds no neighbours by itself

from postgres_pooler import Pooler

import fairlane as fl
from fairlane.domain.policy import Capacities, Policy
from fairlane.store import Store
from fairlane.stores.postgres import lighter
from fairlane.stores.postgres.store import PostgresStore, open_postgres
from fairlane.testing.clock import ManualClock
from fairlane.testing.contract import SharedContract, StoreContract
from fairlane.testing.contract.bench import Database, Rows

pytestmark = pytest.mark.postgres

GONE: Final = 99
"""The number of a lane that only a server knew that is gone."""


class PooledDatabase:
    """A database behind the pooler."""

    def __init__(self, direct: str, pooled: str) -> None:
        self.direct, self.pooled = direct, pooled

    def open_store(
        self, clock: ManualClock, *, policy: Policy | None = None, capacities: Capacities | None = None
    ) -> Store:
        return open_postgres(self.pooled, clock=clock, policy=policy, capacities=capacities)

    def rows(self, store: Store) -> Rows:
        return rows_of(store, self.direct)


@pytest.fixture(scope="session")
def behind() -> Iterator[Server]:
    with server() as one:
        yield one


@pytest.fixture
def pooled(behind: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str, Pooler]]:
    direct = behind.database()
    parts = conninfo_to_dict(direct)
    folder = tmp_path_factory.mktemp("pool")
    pooler = Pooler(str(parts["host"]), int(str(parts["port"])), folder)
    yield direct, f"postgresql://postgres@/{parts['dbname']}?host={folder}&port=5432&pooled=yes", pooler
    pooler.close()
    behind.drop(direct)


suite = (StoreContract, SharedContract) if os.environ.get("WHOLE_CONTRACT") else (SharedContract,)


class TestPooled(*suite):  # type: ignore[misc]  # chosen when it runs
    @pytest.fixture
    def database(self, pooled: tuple[str, str, Pooler]) -> Database:
        return PooledDatabase(pooled[0], pooled[1])


def test_an_application_lives_behind_it(pooled: tuple[str, str, Pooler]) -> None:
    direct, url, pooler = pooled
    ran: list[int] = []
    with fl.Fairlane(url) as app:

        @app.task
        def work(n: int) -> None:
            ran.append(n)

        app.enqueue_many(work.new(n) for n in range(50))
        for n in range(50, 70):
            work.using(dedup_key=f"k{n}").enqueue(n)
        app.run_worker(until_idle=True, signals=False)
        assert sorted(ran) == list(range(70))
        assert app.owner.read(lambda store, _: store.check()) == []
    assert pooler.transactions > 20, "each of the jobs with a key is one transaction at least"
    with psycopg.connect(direct) as db:
        left = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'"
        assert db.execute(left).fetchone() == (0,), "a lock of a session was left behind"
        assert db.execute("SELECT count(*) FROM pg_prepared_statements").fetchone() == (0,)


@pytest.mark.parametrize("way", ["alone", "together", "gate", "conn"])
def test_lanes_that_the_server_lost_that_has_taken_over_are_made_again(
    pooled: tuple[str, str, Pooler], monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    """The connection to the pooler stays: only the line of history tells, or when the server was started."""
    direct, url, _ = pooled
    with fl.Fairlane(url) as app, psycopg.connect(direct) as conn:
        app.enqueue("work", dedup_key="first", conn=conn if way == "conn" else None)
        conn.commit()
        store = app.owner.store
        assert isinstance(store, PostgresStore)
        written = store._beside if way == "conn" else store
        assert written is not None
        for key in written._lane_ids:
            written._lane_ids[key] = GONE
        written._line = store._here = written._here = "before"
        if way == "together":
            monkeypatch.setattr(lighter, "MOST_JOBS", 1)
        app.enqueue_many(
            [app.new("work", dedup_key="second" if way == "gate" else None), app.new("work")],
            conn=conn if way == "conn" else None,
        )
        conn.commit()
        assert conn.execute("SELECT count(DISTINCT lane) FROM fairlane.job").fetchone() == (1,)
        assert len(app.claim_many(10)) == 3
