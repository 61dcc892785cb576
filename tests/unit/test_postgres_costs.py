"""What a cycle of a job costs on PostgreSQL, counted and not timed: statements, and buffers that the server touches.

As in ``test_costs.py``: a limit here that is passed is a mistake, or the price of something new that the commit names.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

import psycopg
import pytest
from tests.pg import Server, server

from fairlane.domain.jobs import Claim, NewJob, Settlement
from fairlane.domain.lanes import Ask
from fairlane.options import new_id
from fairlane.stores.postgres.connection import address_of
from fairlane.stores.postgres.store import PostgresStore
from fairlane.testing.clock import ManualClock

pytestmark = [pytest.mark.postgres, pytest.mark.slow, pytest.mark.timeout(120)]

ROUNDS: Final = 40
FEW: Final = 200
GROWTH: Final = 1.3


class Cost(NamedTuple):
    """What a round costs."""

    statements: float
    buffers: float


@pytest.fixture(scope="module")
def place() -> Iterator[Server]:
    with server(autovacuum="off", track_io_timing="off") as running:
        yield running


class Bench:
    """A database with jobs, and cycles over it."""

    def __init__(self, place: Server, jobs: int, tenants: int = 10) -> None:
        self.clock = ManualClock()
        self.url = place.database()
        self.store = PostgresStore(self.url, address_of(self.url), self.clock)
        self.store.agree(None, None)
        self.add(jobs, tenants)
        with psycopg.connect(self.url, autocommit=True) as db:
            db.execute("VACUUM ANALYZE")
        self.held: list[Claim] = []
        for _ in range(8):  # plans are made, the state is loaded
            self.claim(1)
            self.settle()

    def add(self, jobs: int, tenants: int = 1) -> None:
        """Store jobs, 5,000 in a transaction."""
        for first in range(0, jobs, 5_000):
            batch = [
                NewJob(id=new_id(), task="work", tenant=f"t{number % tenants}")
                for number in range(first, min(jobs, first + 5_000))
            ]
            with self.store.transaction(light=True):
                self.store.enqueue(batch, self.clock.now_ms())

    def claim(self, free: int) -> None:
        """Claim jobs."""
        self.clock.advance(ms=1)
        with self.store.transaction():
            got = self.store.claim(Ask("default", free), worker="w", lease_ms=30_000, now_ms=self.clock.now_ms())
        assert len(got) == free
        self.held += got

    def settle(self) -> None:
        """Settle what was claimed."""
        ends = [Settlement(seq=one.seq, fence=one.fence, kind="completed", run_us=1_000) for one in self.held]
        self.held.clear()
        with self.store.transaction(light=True):
            self.store.settle(ends, self.clock.now_ms())

    def cost(self, work: Callable[[], None], after: Callable[[], None]) -> Cost:
        """Count what ``work`` costs, with ``after`` done uncounted between two rounds."""
        statements = buffers = 0
        self._buffers()  # what it has touched before counts from now on
        for _ in range(ROUNDS):
            before = self._buffers()
            with counted() as count:
                work()
            statements += count[0]
            buffers += self._buffers() - before
            after()
        self.store.close()
        return Cost(statements / ROUNDS, buffers / ROUNDS)

    def _buffers(self) -> int:
        """Return how many buffers of our tables were touched so far."""
        raw = self.store._raw  # pyright: ignore[reportPrivateUsage]  # it counts what it has sent when it is asked
        row = raw.execute(
            "SELECT sum(heap_blks_hit + heap_blks_read + coalesce(idx_blks_hit, 0) + coalesce(idx_blks_read, 0))"
            " FROM pg_statio_user_tables, pg_stat_force_next_flush() WHERE schemaname = 'fairlane'"
        ).fetchone()
        assert row is not None
        return int(row[0])


@contextmanager
def counted() -> Generator[list[int]]:
    """Count the statements that go out on all connections of this process."""
    count = [0]
    execute, many = psycopg.Connection.execute, psycopg.Cursor.executemany

    def one(self: Any, *args: Any, **options: Any) -> Any:
        count[0] += 1
        return execute(self, *args, **options)

    def each(self: Any, query: Any, rows: Any, **options: Any) -> Any:
        rows = list(rows)
        count[0] += len(rows)
        return many(self, query, rows, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(psycopg.Connection, "execute", one)
        patch.setattr(psycopg.Cursor, "executemany", each)
        yield count


def claim_cost(place: Server, free: int, jobs: int = FEW, tenants: int = 10) -> Cost:
    bench = Bench(place, jobs + ROUNDS * free, tenants)
    return bench.cost(lambda: bench.claim(free), bench.settle)


def settle_cost(place: Server, many: int) -> Cost:
    bench = Bench(place, FEW + (ROUNDS + 1) * many)
    bench.claim(many)
    return bench.cost(bench.settle, lambda: bench.claim(many))


def enqueue_cost(place: Server, many: int) -> Cost:
    bench = Bench(place, FEW)
    return bench.cost(lambda: bench.add(many), lambda: None)


@pytest.mark.parametrize("free", [1, 10])
@pytest.mark.parametrize("much", [(30_000, 10), (10_000, 5_000)], ids=["30,000 jobs", "5,000 tenants"])
def test_a_claim_does_not_grow(place: Server, free: int, much: tuple[int, int]) -> None:
    few, cost = claim_cost(place, free), claim_cost(place, free, *much)
    assert cost.statements <= few.statements
    assert cost.buffers <= few.buffers * GROWTH


@pytest.mark.parametrize(
    ("what", "many", "most"),
    [
        ("claim", 1, Cost(statements=7, buffers=75)),
        ("claim", 10, Cost(statements=7.5, buffers=340)),
        ("settle", 1, Cost(statements=5, buffers=115)),
        ("settle", 10, Cost(statements=5, buffers=350)),
        ("enqueue", 1, Cost(statements=1, buffers=50)),
        ("enqueue", 10, Cost(statements=1, buffers=80)),
    ],
)
def test_what_a_cycle_costs(place: Server, what: str, many: int, most: Cost) -> None:
    measure: dict[str, Callable[[Server, int], Cost]] = {
        "claim": claim_cost,
        "settle": settle_cost,
        "enqueue": enqueue_cost,
    }
    cost = measure[what](place, many)
    over = [
        f"{name} {have:.1f} > {limit}"
        for name, have, limit in zip(Cost._fields, cost, most, strict=True)
        if have > limit
    ]
    assert not over, f"{what} of {many}: {'; '.join(over)}"


def unpacked(bench: Bench) -> int:
    """Return how many buffers of values too large for their rows were touched so far."""
    raw = bench.store._raw  # pyright: ignore[reportPrivateUsage]  # as above
    raw.execute("SELECT pg_stat_force_next_flush()")  # at the end of this statement, so before the next one
    row = raw.execute(
        "SELECT sum(toast_blks_hit + toast_blks_read) FROM pg_statio_user_tables WHERE schemaname = 'fairlane'"
    ).fetchone()
    assert row is not None
    return int(row[0])


def test_counts_of_many_lanes_are_unpacked_once(place: Server) -> None:
    bench = Bench(place, FEW)
    for _ in range(4):
        bench.add(1_000, tenants=1_000)
    bench.store.close()
    bench.store = PostgresStore(bench.url, address_of(bench.url), bench.clock)
    before = unpacked(bench)
    bench.claim(1)
    assert 0 < unpacked(bench) - before < 500
    bench.store.close()
