"""The contract suite on PostgreSQL: a database for each test, copied from one with the schema."""

from collections.abc import Iterator

import pytest
from tests.pg import Server, rows_of, server

from fairlane.domain.policy import Capacities, Policy
from fairlane.store import Store
from fairlane.stores.postgres.store import open_postgres
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
        return rows_of(store, self.url)


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
