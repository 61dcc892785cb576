"""A dump that is loaded into another server, whose transactions have lower numbers."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.pg import Server, program, server

from fairlane.domain.jobs import NewJob, Settlement
from fairlane.domain.lanes import Ask
from fairlane.stores.postgres.store import PostgresStore, open_postgres
from fairlane.testing.clock import ManualClock
from fairlane.testing.contract.bench import job_id

pytestmark = [pytest.mark.postgres, pytest.mark.crash]


def put(store: PostgresStore, clock: ManualClock, tenant: str, *, light: bool) -> bytes:
    job = NewJob(id=job_id(clock.now_ms()), task="t", tenant=tenant)
    with store.transaction(light=light):
        store.enqueue([job], clock.now_ms())
    return job.id


def run(store: PostgresStore, clock: ManualClock, count: int) -> list[bytes]:
    now_ms = clock.now_ms()
    with store.transaction():
        claims = store.claim(Ask("default", count), worker="w", lease_ms=1_000, now_ms=now_ms)
    with store.transaction():
        ends = [Settlement(seq=one.seq, fence=one.fence, kind="completed", run_us=1_000) for one in claims]
        assert all(store.settle(ends, now_ms))
    return [one.id for one in claims]


def number(server: Server) -> int:
    """Return the number of a transaction that is over."""
    ((found,),) = server.run("SELECT pg_current_xact_id()::text::bigint")
    return int(found)


def grow(server: Server, number_: int) -> None:
    while number(server) < number_:
        pass


def far_ahead(old: Server, young: Server) -> str:
    """Return the URL of a new database of the old server, whose numbers are far ahead of the young one's."""
    url = old.database()
    grow(old, number(young) + 2_000)
    return url


def loaded(url: str, young: Server, folder: Path) -> str:
    """Return the URL of a copy on another server."""
    file = folder / "dump.sql"
    subprocess.run([program("pg_dump"), "--no-owner", "-f", file, url], check=True)
    copy = young.database(empty=True)
    subprocess.run([program("psql"), "-q", "-v", "ON_ERROR_STOP=1", "-f", file, copy], check=True)
    return copy


@pytest.fixture(scope="module")
def servers() -> Iterator[tuple[Server, Server]]:
    with server() as old, server() as young:
        yield old, young


def test_a_dump_loaded_into_a_younger_server_goes_on(servers: tuple[Server, Server], tmp_path: Path):
    old, young = servers
    clock, url = ManualClock(), far_ahead(old, young)
    store = open_postgres(url, clock=clock)
    done = [put(store, clock, "a", light=True) for _ in range(3)]
    assert run(store, clock, 3) == done
    waiting = [put(store, clock, tenant, light=True) for tenant in "abab"]  # in the inbox alone
    store.close()
    copy = loaded(url, young, tmp_path)

    assert number(young) < number(old), "else there is nothing to see here"
    goes_on(copy, clock, waiting)


def test_a_dump_of_a_store_where_nobody_has_claimed(servers: tuple[Server, Server], tmp_path: Path):
    """Its log is empty: the inbox alone tells where it comes from."""
    old, young = servers
    clock, url = ManualClock(), far_ahead(old, young)
    store = open_postgres(url, clock=clock)
    waiting = [put(store, clock, tenant, light=True) for tenant in "abab"]
    store.close()
    goes_on(loaded(url, young, tmp_path), clock, waiting)


def test_a_dump_whose_log_is_older_than_the_server_and_whose_inbox_is_younger(
    servers: tuple[Server, Server], tmp_path: Path
):
    old, young = servers
    clock = ManualClock()
    store = open_postgres(url := old.database(), clock=clock)
    done = [put(store, clock, "a", light=True)]
    assert run(store, clock, 1) == done
    grow(young, number(old) + 1)
    grow(old, number(young) + 2_000)
    waiting = [put(store, clock, tenant, light=True) for tenant in "abab"]
    store.close()
    goes_on(loaded(url, young, tmp_path), clock, waiting)


def test_a_fence_that_was_given_after_the_dump_does_not_come_again(servers: tuple[Server, Server], tmp_path: Path):
    """A worker over HTTP may still hold it when the other server has taken the place of this one."""
    old, young = servers
    clock, url = ManualClock(), far_ahead(old, young)
    stores = [open_postgres(url, clock=clock)]
    put(stores[0], clock, "a", light=True)
    stores.append(open_postgres(loaded(url, young, tmp_path), clock=clock))
    fences = []
    for store in stores:
        with store.transaction():
            (claim,) = store.claim(Ask("default", 1), worker="w", lease_ms=1_000, now_ms=clock.now_ms())
        fences.append(claim.fence)
        store.close()
    assert fences[0] < fences[1]


def goes_on(copy: str, clock: ManualClock, waiting: list[bytes]) -> None:
    """See that a copy's jobs run, each once, and those that come in; and that it finds nothing wrong with itself."""
    first, second = open_postgres(copy, clock=clock), open_postgres(copy, clock=clock)
    try:
        late = put(first, clock, "c", light=True)
        assert sum(row.available for row in first.depth(clock.now_ms())) == 5
        started = run(second, clock, 2) + run(first, clock, 10)
        assert sorted(started) == sorted([*waiting, late])
        assert second.check() == []
        assert first.check() == []
    finally:
        first.close()
        second.close()
