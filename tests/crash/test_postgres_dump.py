"""A dump that is loaded into another server, whose transactions have lower numbers."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from tests.pg import program, server

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


def test_a_dump_loaded_into_a_younger_server_goes_on(tmp_path: Path):
    clock = ManualClock()
    with server() as old, server() as young:
        url = old.database()
        for _ in range(2_000):
            old.run("SELECT pg_current_xact_id()")
        store = open_postgres(url, clock=clock)
        done = [put(store, clock, "a", light=True) for _ in range(3)]
        assert run(store, clock, 3) == done
        waiting = [put(store, clock, tenant, light=True) for tenant in "abab"]  # in the inbox alone
        store.close()
        file = tmp_path / "dump.sql"
        subprocess.run([program("pg_dump"), "--no-owner", "-f", file, url], check=True)
        copy = young.database(empty=True)
        subprocess.run([program("psql"), "-q", "-v", "ON_ERROR_STOP=1", "-f", file, copy], check=True)

        (before,), (now,) = (one.run("SELECT pg_current_xact_id()::text::bigint")[0] for one in (old, young))
        assert now < before, "else there is nothing to see here"
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
