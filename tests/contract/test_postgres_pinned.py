"""B37: while an old snapshot keeps every dead row alive, a claim and an end of jobs cost no more than before.

Compared is work done, in buffers that the server's processes touched, not time.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import psycopg
import pytest
from tests.pg import Server, server

from fairlane.domain.jobs import NewJob, Settlement
from fairlane.domain.lanes import Ask
from fairlane.domain.tiers import Tier
from fairlane.stores.postgres.store import PostgresStore, open_postgres
from fairlane.testing.clock import ManualClock

pytestmark = [pytest.mark.postgres, pytest.mark.timeout(120)]

ROUNDS, CLAIMS, MANY = 8, 60, 10
TENANTS = 20


@pytest.fixture(scope="module")
def running() -> Iterator[Server]:
    with server() as one:
        yield one


def new(number: int, delay_ms: int) -> NewJob:
    tenant = f"t{number % TENANTS}"
    return NewJob(id=uuid.uuid4().bytes, queue="mail", task="send", tenant=tenant, tier=Tier.NORMAL, delay_ms=delay_ms)


class Meter:
    """Counts the buffers that statements of a store touch, but for those of the meter."""

    def __init__(self, store: PostgresStore) -> None:
        self._raw = store._raw
        self._before = self._read()

    def _read(self) -> int:
        self._raw.execute("SELECT pg_stat_force_next_flush()")
        row = self._raw.execute(
            "SELECT blks_hit + blks_read FROM pg_stat_database WHERE datname = current_database()"
        ).fetchone()
        assert row is not None
        return int(row[0])

    def since(self) -> int:
        """Return how many since the last time."""
        now = self._read()
        before, self._before = self._before, now
        return now - before


def rounds(store: PostgresStore, clock: ManualClock, delay_ms: int) -> list[float]:
    """Run jobs, and return what a claim of several and their ends cost, in buffers, round by round."""
    costs: list[float] = []
    meter = Meter(store)
    for _ in range(ROUNDS):
        with store.transaction(light=True):
            store.enqueue([new(number, delay_ms) for number in range(CLAIMS * MANY)], clock.now_ms())
        clock.advance(ms=delay_ms)
        meter.since()
        for _ in range(CLAIMS):
            clock.advance(ms=20)
            with store.transaction():
                claims = store.claim(Ask("default", MANY), worker="w", lease_ms=30_000, now_ms=clock.now_ms())
            assert len(claims) == MANY
            ends = [Settlement(seq=one.seq, fence=one.fence, kind="completed", run_us=1_000) for one in claims]
            with store.transaction(light=True):
                assert all(store.settle(ends, clock.now_ms()))
        costs.append(meter.since() / CLAIMS)
    return costs


@pytest.mark.parametrize("delay_ms", [0, 5_000])
def test_claims_cost_the_same_while_nothing_can_be_vacuumed(running: Server, delay_ms: int) -> None:
    url = running.database()
    clock = ManualClock()
    store = open_postgres(url, clock=clock)
    with psycopg.connect(url) as pin:
        pin.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        pin.execute("SELECT count(*) FROM fairlane.job")
        costs = rounds(store, clock, delay_ms)
        print("buffers of a claim and its ends, round by round:", [round(cost) for cost in costs])  # noqa: T201
        pin.rollback()
    assert costs[-1] < costs[1] * 1.5, costs
    store.close()
    running.drop(url)
