"""The contract suite on PostgreSQL: a database for each test, copied from one with the schema."""

from collections.abc import Iterator

import psycopg
import pytest
from tests.pg import Server, server

from fairlane.domain.policy import Capacities, Policy
from fairlane.store import Store
from fairlane.stores.postgres.store import PostgresStore, open_postgres
from fairlane.testing.clock import ManualClock
from fairlane.testing.contract import SharedContract, StoreContract
from fairlane.testing.contract.bench import Database, Rows

pytestmark = pytest.mark.postgres


class PostgresDatabase:
    """A database of a server that all tests share."""

    def __init__(self, url: str) -> None:
        self.url = url

    def open_store(
        self, clock: ManualClock, *, policy: Policy | None = None, capacities: Capacities | None = None
    ) -> Store:
        return open_postgres(self.url, clock=clock, policy=policy, capacities=capacities)

    def rows(self, store: Store) -> Rows:
        assert isinstance(store, PostgresStore)
        with store.transaction():
            store._copy()  # light transactions may have left something in the inbox, which changes nothing that is seen
        with psycopg.connect(self.url) as db:
            names = db.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'fairlane' ORDER BY 1").fetchall()
            return {
                name: sorted(db.execute(f"SELECT * FROM fairlane.{name}").fetchall(), key=repr) for (name,) in names
            }


@pytest.fixture(scope="session")
def running() -> Iterator[Server]:
    with server() as one:
        yield one


class OnPostgres:
    @pytest.fixture
    def database(self, running: Server) -> Iterator[Database]:
        url = running.database()
        yield PostgresDatabase(url)
        running.drop(url)


class TestPostgres(OnPostgres, StoreContract):
    """What a program does by itself."""


class TestShared(OnPostgres, SharedContract):
    """What several programs do to each other; ``make test-postgres`` takes this part alone."""
