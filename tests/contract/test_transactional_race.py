"""Callers with open transactions, plain ones, and workers whose handlers end jobs themselves, all at once."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest
from psycopg import IsolationLevel
from tests.contract.transactional_rig import PostgresPlace
from tests.pg import server

import fairlane as fl
from fairlane.clock import SystemClock

pytestmark = [pytest.mark.postgres, pytest.mark.slow, pytest.mark.timeout(120)]
LONG_S = 60.0
STEPS = 25


@pytest.fixture
def place() -> Iterator[PostgresPlace]:
    with server() as one:
        made = PostgresPlace(one.database())
        yield made
        made.close()


class Race:
    """Two programs, and what their callers have committed."""

    def __init__(self, place: PostgresPlace, seed: int) -> None:
        self.place = place
        self.seed = seed
        self.apps = [place.app, place.new_app()]
        self.wanted: list[int] = []
        self._lock = threading.Lock()
        for app in self.apps:
            self._tasks(app)

    def _tasks(self, app: fl.Fairlane) -> None:
        @app.task(limits=["few"])
        def pay(ctx: fl.Context, n: int) -> None:
            with ctx.transaction(result=n) as conn:
                self.place.put(conn, n)

        @app.task(limits=["few"])
        async def apay(ctx: fl.Context, n: int) -> None:
            async with ctx.transaction() as conn:
                ctx.set_result(n)
                await conn.execute("INSERT INTO mine VALUES (%s)", (n,))

    def _committed(self, jobs: list[int]) -> None:
        with self._lock:
            self.wanted += jobs

    def caller(self, which: int) -> None:
        """Store jobs in transactions of its own, at any isolation; some are rolled back."""
        rng = random.Random(self.seed * 100 + which)
        with psycopg.connect(self.place.url) as conn:
            for step in range(STEPS):
                conn.isolation_level = rng.choice([*IsolationLevel])
                try:
                    jobs = self._transaction(self.apps[which % 2], conn, which * 1_000 + step * 10, rng)
                    if rng.random() < 0.2:
                        conn.rollback()
                        continue
                    conn.commit()
                except (psycopg.errors.SerializationFailure, fl.StoreBusy):
                    conn.rollback()  # what a stricter isolation asks of its users
                    continue
                self._committed(jobs)

    def _transaction(self, app: fl.Fairlane, conn: Any, n: int, rng: random.Random) -> list[int]:
        conn.execute("SELECT count(*) FROM mine")
        app.enqueue(rng.choice(["pay", "apay"]), {"n": n}, conn=conn, tenant=rng.choice("abc"))
        jobs = [n]
        if rng.random() < 0.3:
            conn.execute("SAVEPOINT s")
            app.enqueue("pay", {"n": n + 1}, conn=conn)
            conn.execute("ROLLBACK TO s")
        if rng.random() < 0.4:
            key = f"k{rng.randrange(4)}"
            job = app.enqueue("pay", {"n": n + 2}, conn=conn, dedup_key=key, queue="keyed")
            jobs += [n + 2] if job.created else []
        if rng.random() < 0.3:
            app.enqueue_many([app.new("apay", {"n": n + 3}), app.new("pay", {"n": n + 4}, delay=0.05)], conn=conn)
            jobs += [n + 3, n + 4]
        time.sleep(rng.uniform(0, 0.01))
        return jobs

    def plain(self, which: int) -> None:
        """Store jobs without a transaction: behind each other, and with the same keys."""
        rng = random.Random(self.seed * 100 + 50 + which)
        app = self.apps[which % 2]
        last: fl.Job[Any] | None = None
        for step in range(STEPS):
            n = 100_000 + which * 1_000 + step * 10
            last = app.enqueue("pay", {"n": n}, after=last if rng.random() < 0.5 else None, on_failure="run")
            job = app.enqueue("pay", {"n": n + 1}, dedup_key=f"k{rng.randrange(4)}", queue="keyed")
            self._committed([n, n + 1] if job.created else [n])


@pytest.mark.parametrize("seed", range(2))
def test_what_was_committed_ran_once(place: PostgresPlace, seed: int):
    race = Race(place, seed)
    place.app.limits["few"].set(max_running=3)
    workers = [app.worker(concurrency=4) for app in race.apps]
    with workers[0], workers[1], ThreadPoolExecutor(8) as pool:
        calls = [pool.submit(race.caller, which) for which in range(6)]
        calls += [pool.submit(race.plain, which) for which in range(2)]
        for one in calls:
            one.result(LONG_S)
        pause, until = threading.Event(), SystemClock().monotonic() + LONG_S
        while place.mine() != sorted(race.wanted) and SystemClock().monotonic() < until:
            pause.wait(0.05)
    assert place.mine() == sorted(race.wanted)
    assert {job.state for job in place.app.jobs(limit=1_000).jobs} == {"completed"}
