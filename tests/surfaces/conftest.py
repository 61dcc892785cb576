"""What the tests of the surfaces share: a PostgreSQL server, started once, and a database for each test that asks."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.pg import Server, server


@pytest.fixture(scope="session")
def postgres() -> Iterator[Server]:
    with server() as one:
        yield one


@pytest.fixture
def empty(postgres: Server) -> Iterator[str]:
    """The URL of a database without anything in it."""
    url = postgres.database(empty=True)
    yield url
    postgres.drop(url)


@pytest.fixture
def database(postgres: Server) -> Iterator[str]:
    """The URL of a database that was migrated."""
    url = postgres.database()
    yield url
    postgres.drop(url)
