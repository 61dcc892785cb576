"""What a cycle of a job costs, counted and not timed: statements, steps of SQLite's machine, calls of Python functions.

A machine that is busy cannot move these numbers, so they guard what the benches measure: the cost of a claim does not
grow with the jobs that wait, nor with tenants, queues, or what is paused or full. A limit here that is passed is either
a mistake or the price of something new: then raise it in the same commit and say what it buys.
"""

from __future__ import annotations

import sys
import uuid
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Final, NamedTuple

import pytest

from fairlane.domain.jobs import Claim, NewJob, Settlement
from fairlane.domain.lanes import Ask
from fairlane.domain.policy import TenantRule
from fairlane.stores.sqlite.store import SqliteStore, open_sqlite
from fairlane.testing.clock import ManualClock

ROUNDS: Final = 60
FEW: Final = 200
GROWTH: Final = 1.25
"""How much more than with few jobs it may cost: B-trees are deeper, heads of lanes are loaded anew."""


class Cost(NamedTuple):
    """What was counted, for each round."""

    statements: float
    steps: float
    calls: float


class Counter:
    """Counts what a store does."""

    def __init__(self, store: SqliteStore) -> None:
        self._raw = store._raw  # pyright: ignore[reportPrivateUsage]  # nothing else can be counted on
        self.statements = self.steps = self.calls = 0

    @contextmanager
    def counting(self) -> Generator[None]:
        """Count until the block ends."""

        def statement(_: str) -> None:
            self.statements += 1

        def step() -> int:
            self.steps += 1
            return 0

        def profile(_frame: object, event: str, _arg: object) -> None:
            self.calls += event == "call"

        before = sys.getprofile()
        self._raw.set_trace_callback(statement)
        self._raw.set_progress_handler(step, 1)
        sys.setprofile(profile)
        try:
            yield
        finally:
            sys.setprofile(before)
            self._raw.set_progress_handler(None, 1)
            self._raw.set_trace_callback(None)

    def per(self, rounds: int) -> Cost:
        """Return what was counted, for each of the rounds."""
        calls = self.calls - self.statements - self.steps  # what counts here is called too
        return Cost(self.statements / rounds, self.steps / rounds, calls / rounds)


class Bench:
    """A private store with jobs, and cycles over it."""

    def __init__(self, jobs: int, tenants: int = 10, queues: int = 1, *, full: int = 0) -> None:
        self.clock = ManualClock()
        self.store = open_sqlite("sqlite://", clock=self.clock)
        self.queues = [f"q{number}" for number in range(queues)]
        if full:  # jobs that may not run stand in front
            self.add(full, 1, name="full", tier=0)
            with self.store.transaction():
                self.store.set_rule("tenant", "full0", TenantRule(max_running=0), by="test", now_ms=self.clock.now_ms())
        self.add(jobs, tenants)
        self.held: list[Claim] = []
        for _ in range(8):  # the state is loaded, each tenant is known
            self.claim(1)
            self.settle()

    def add(self, jobs: int, tenants: int, *, name: str = "t", tier: int = 2) -> None:
        """Store jobs, 5,000 in a transaction."""
        for first in range(0, jobs, 5_000):
            batch = [
                NewJob(
                    id=uuid.UUID(int=number + (1 << 64)).bytes if name == "t" else uuid.uuid4().bytes,
                    task="work",
                    queue=self.queues[number % len(self.queues)],
                    tenant=f"{name}{number % tenants}",
                    tier=tier,
                )
                for number in range(first, min(jobs, first + 5_000))
            ]
            with self.store.transaction():
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
        with self.store.transaction():
            self.store.settle(ends, self.clock.now_ms())

    def cost(self, work: Callable[[], None], after: Callable[[], None], rounds: int = ROUNDS) -> Cost:
        """Count what ``work`` costs, with ``after`` done uncounted between two rounds."""
        counter = Counter(self.store)
        for _ in range(rounds):
            with counter.counting():
                work()
            after()
        self.store.close()
        return counter.per(rounds)


def claim_cost(free: int, jobs: int = FEW, tenants: int = 10, queues: int = 1, *, full: int = 0) -> Cost:
    bench = Bench(jobs + ROUNDS * free, tenants, queues, full=full)
    return bench.cost(lambda: bench.claim(free), bench.settle)


def settle_cost(many: int) -> Cost:
    bench = Bench(FEW + ROUNDS * many)
    bench.claim(many)
    return bench.cost(bench.settle, lambda: bench.claim(many), ROUNDS - 1)


def enqueue_cost(many: int) -> Cost:
    bench = Bench(FEW)
    return bench.cost(lambda: bench.add(many, 1, name="u"), lambda: None)


@pytest.fixture(scope="module")
def few() -> dict[int, Cost]:
    return {free: claim_cost(free) for free in (1, 10)}


@pytest.mark.slow
@pytest.mark.parametrize("free", [1, 10])
@pytest.mark.parametrize(
    "much",
    [
        {"jobs": 50_000},
        {"jobs": 20_000, "tenants": 5_000},
        {"jobs": 10_000, "queues": 100},
        {"full": 20_000},
    ],
    ids=["50,000 jobs", "5,000 tenants", "100 queues", "20,000 jobs of a tenant that is full in front"],
)
def test_a_claim_does_not_grow(few: dict[int, Cost], free: int, much: dict[str, int]) -> None:
    cost = claim_cost(free, **much)
    assert cost.statements <= few[free].statements * GROWTH
    assert cost.steps <= few[free].steps * GROWTH
    groups = much.get("queues", 0) // 10  # in which the chosen tenant has work: there is a step for each (SPEC 2)
    assert cost.calls <= few[free].calls * GROWTH + 5 * groups * free


@pytest.mark.slow
@pytest.mark.parametrize(
    ("what", "many", "most"),
    [
        ("claim", 1, Cost(statements=8, steps=450, calls=110)),
        ("claim", 10, Cost(statements=27, steps=3_300, calls=550)),
        ("settle", 1, Cost(statements=7, steps=390, calls=75)),
        ("settle", 10, Cost(statements=16, steps=2_500, calls=390)),
        ("enqueue", 1, Cost(statements=11.1, steps=450, calls=95)),
        ("enqueue", 10, Cost(statements=20.1, steps=2_100, calls=330)),
        ("enqueue", 100, Cost(statements=20.1, steps=11_800, calls=2_600)),
    ],
)
def test_what_a_cycle_costs(what: str, many: int, most: Cost) -> None:
    measure: dict[str, Callable[[int], Cost]] = {"claim": claim_cost, "settle": settle_cost, "enqueue": enqueue_cost}
    cost = measure[what](many)
    over = [
        f"{name} {have:.1f} > {limit}"
        for name, have, limit in zip(Cost._fields, cost, most, strict=True)
        if have > limit
    ]
    assert not over, f"{what} of {many}: {'; '.join(over)}"
