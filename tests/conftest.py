"""What all tests share: how hard hypothesis looks, the markers, and a PostgreSQL server for those that ask."""

from collections.abc import Iterator

import pytest
from hypothesis import settings
from tests.pg import Server, server

# A seed that failed is printed, so that the same example runs elsewhere. No deadline: a busy machine is no failure,
# and pytest-timeout ends what hangs. `--hypothesis-profile=nightly` picks the thorough one.
settings.register_profile("check", max_examples=30, deadline=None, print_blob=True)
settings.register_profile("push", max_examples=300, deadline=None, print_blob=True)
settings.register_profile("nightly", max_examples=10_000, deadline=None, print_blob=True)
settings.load_profile("push")


# Programs that tests start, not modules of tests: with --doctest-modules pytest would import them.
collect_ignore = ["crash/program.py", "typing/mistakes.py"]


# Many tests start real processes and threads and kill or stop them: on a machine that is busy with other work a wait
# may run out. One that fails is tried once more, and pytest's closing lines name it (R), so that it is seen. What fails
# by its own logic fails twice; only properties may not, for they look at random.
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if not item.nodeid.startswith("tests/property/") or "/test_faults" in item.nodeid:
            item.add_marker(pytest.mark.flaky(reruns=1))


def pytest_configure(config: pytest.Config) -> None:
    for marker in (
        "slow: takes more than a second; left out of `make check`",
        "crash: kills processes; left out of `make check`",
        "bench: measures; left out of `make check`",
        "postgres: needs a PostgreSQL server; left out of `make check`",
    ):
        config.addinivalue_line("markers", marker)


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
