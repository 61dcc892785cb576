"""What every part of the suite stands on: the fixtures, and the books that must balance after every test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import pytest

from fairlane.domain.policy import Capacities, Policy
from fairlane.testing.clock import ManualClock
from fairlane.testing.contract.bench import Bench, Database
from fairlane.testing.invariants import book_faults


class OpenBench(Protocol):
    """Opens a bench on the test's database; the second one is a second program on the same database."""

    def __call__(
        self, *, policy: Policy | None = None, capacities: Capacities | None = None, clock: ManualClock | None = None
    ) -> Bench:
        """Open it with this policy, these capacities, on this clock (default: the clock of all)."""
        ...


def faults(bench: Bench) -> list[str]:
    """Return what is wrong with a store, from its own books and from what it shows.

    The invariants I1, I2, I5, I6, I7 of ``requirements/faults.md`` section 0; I3 is tested where limits are set.
    """
    return book_faults(bench.store, bench.now_ms)


class Contract:
    """Base of all parts: override :meth:`database`, and every test runs against that store."""

    @pytest.fixture
    def database(self, tmp_path: Path) -> Database:
        """Return a fresh, empty database of the store under test."""
        raise NotImplementedError

    @pytest.fixture
    def clock(self) -> ManualClock:
        """Return the test's clock."""
        return ManualClock()

    @pytest.fixture
    def open_bench(self, database: Database, clock: ManualClock) -> Iterator[OpenBench]:
        """Open benches on the test's database; after the test the books of each must balance."""
        opened: list[Bench] = []
        usual = clock

        def open_one(
            *, policy: Policy | None = None, capacities: Capacities | None = None, clock: ManualClock | None = None
        ) -> Bench:
            bench = Bench(database, clock or usual, policy=policy, capacities=capacities)
            opened.append(bench)
            return bench

        yield open_one
        try:
            for bench in opened:
                assert faults(bench) == []
        finally:
            for bench in opened:
                bench.close()

    @pytest.fixture
    def b(self, open_bench: OpenBench) -> Bench:
        """Return a bench with the default policy."""
        return open_bench()
