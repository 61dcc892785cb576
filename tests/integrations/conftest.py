"""What the tests of integrations share: a PostgreSQL server, started once, and a database for each test that asks."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.pg import Server, server

collect_ignore = ["django_project"]  # programs of a Django project, not modules of tests


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
