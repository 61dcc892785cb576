"""What the tests of the surfaces share: a database for each test that asks."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.pg import Server


@pytest.fixture
def database(postgres: Server) -> Iterator[str]:
    """The URL of a database that was migrated."""
    url = postgres.database()
    yield url
    postgres.drop(url)
