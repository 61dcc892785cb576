"""Many claimers and enqueuers at once on PostgreSQL: limits and rates hold at every instant, and each job is done once.

Judged twice: by the running rows of snapshots that are taken all the time, and by a log that the runs themselves write.
"""

from __future__ import annotations

import contextlib
import random
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest
from tests.pg import Server, server

from fairlane.clock import SystemClock
from fairlane.domain.fairness import Scheduler
from fairlane.domain.jobs import NewJob, Settlement
from fairlane.domain.lanes import Ask, LaneKey, Place
from fairlane.domain.policy import LimitRule, QueueRule, Rate, TenantRule
from fairlane.store import Conflict, NeedsGate
from fairlane.stores.postgres.store import PostgresStore, open_postgres

pytestmark = [pytest.mark.postgres, pytest.mark.crash, pytest.mark.timeout(150)]

CLAIMERS, ENQUEUERS = 4, 6
JOBS = 1_200
QUEUE_MOST, TENANT_MOST, LIMIT_MOST = 7, 2, 3
TENANTS = "abcde"
RATE = Rate(40, 1_000, 10)
SNAPSHOT = """
SELECT lane.tenant, lane.task FROM fairlane.job JOIN fairlane.lane ON lane.id = job.lane WHERE job.state = 2
"""


@pytest.fixture(scope="module")
def running() -> Iterator[Server]:
    with server() as one:
        yield one


class Race:
    """Claimers, enqueuers and a witness on one database."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.clock = SystemClock()
        self.left = threading.Semaphore(0)
        self.stopping = threading.Event()
        self.lock = threading.Lock()
        self.accepted: set[bytes] = set()
        self.log: list[tuple[float, int, str, str, bytes]] = []  # when, +1 or -1, tenant, task, job
        self.most: Counter[str] = Counter()
        self.snapshots = 0
        self.errors: list[BaseException] = []
        store = open_postgres(url, clock=self.clock)
        now_ms = self.clock.now_ms()
        with store.transaction():
            store.declare_task("calls", limits=("api",), max_attempts=4, max_crashes=3, now_ms=now_ms)
            store.declare_task("rated", limits=("slow",), max_attempts=4, max_crashes=3, now_ms=now_ms)
            store.set_rule("queue", "mail", QueueRule("default", None, QUEUE_MOST, None), by="test", now_ms=now_ms)
            store.set_rule("limit", "api", LimitRule(None, LIMIT_MOST, None), by="test", now_ms=now_ms)
            store.set_rule("limit", "slow", LimitRule(None, None, RATE), by="test", now_ms=now_ms)
            for tenant in TENANTS:
                rule = TenantRule(1000, None, TENANT_MOST, None, None)
                store.set_rule("tenant", tenant, rule, by="test", now_ms=now_ms)
        store.close()

    def run(self) -> None:
        """Let it run until all jobs are done."""
        threads = [self._thread(self._enqueue, seed) for seed in range(ENQUEUERS)]
        others = [self._thread(self._claim, seed) for seed in range(CLAIMERS)] + [self._thread(self._witness, 0)]
        for thread in threads:
            thread.join()
        end = time.monotonic() + 90
        while time.monotonic() < end and not self.errors:
            with self.lock:
                if {entry[4] for entry in self.log if entry[1] < 0} >= self.accepted:
                    break
            self.stopping.wait(0.05)
        self.stopping.set()
        for thread in others:
            thread.join()
        assert self.errors == []

    def _thread(self, call: Callable[[PostgresStore, random.Random], None], seed: int) -> threading.Thread:
        def run() -> None:
            store = open_postgres(self.url, clock=self.clock)
            try:
                call(store, random.Random(seed))
            except BaseException as error:  # noqa: BLE001 - shown by who waits for all
                self.errors.append(error)
            finally:
                store.close()

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        return thread

    def _enqueue(self, store: PostgresStore, rng: random.Random) -> None:
        """Store jobs in transactions that stay open for a while, in light ones and others; some are rolled back."""
        for _ in range(JOBS // ENQUEUERS):
            task = rng.choices(["plain", "calls", "rated"], [6, 4, 1])[0]
            new = NewJob(
                id=uuid.uuid4().bytes, queue="mail", task=task, tenant=rng.choice(TENANTS), tier=rng.randrange(5)
            )
            undone = rng.random() < 0.1
            light = rng.random() < 0.8
            try:
                with store.transaction(light=light):
                    store.enqueue([new], self.clock.now_ms())
                    if light:
                        time.sleep(rng.uniform(0, 0.03))
                    if undone:
                        raise ZeroDivisionError
            except ZeroDivisionError:
                continue
            except (NeedsGate, Conflict):
                continue
            with self.lock:
                self.accepted.add(new.id)

    def _claim(self, store: PostgresStore, rng: random.Random) -> None:
        held: list[Any] = []
        while not self.stopping.is_set():
            try:
                with store.transaction():
                    ask = Ask("default", rng.choice([1, 2, 5]))
                    claims = store.claim(ask, worker="w", lease_ms=600_000, now_ms=self.clock.now_ms())
            except Conflict:
                continue
            held += claims
            with self.lock:
                self.log += [
                    (time.monotonic(), 1, one.start.lane.tenant, one.start.lane.task, one.id) for one in claims
                ]
            rng.shuffle(held)
            ending, held = held[: len(held) // 2 + 1], held[len(held) // 2 + 1 :]
            with self.lock:  # before: once it is settled, the next may start at any time
                self.log += [
                    (time.monotonic(), -1, one.start.lane.tenant, one.start.lane.task, one.id) for one in ending
                ]
            ends = [Settlement(seq=one.seq, fence=one.fence, kind="completed", run_us=1_000) for one in ending]
            self._settle(store, ends, light=rng.random() < 0.7)

    def _settle(self, store: PostgresStore, ends: list[Settlement], *, light: bool) -> None:
        while ends:
            try:
                with store.transaction(light=light):
                    assert store.settle(ends, self.clock.now_ms()) == [True] * len(ends)
            except (NeedsGate, Conflict):
                light = False
            else:
                return

    def _witness(self, store: PostgresStore, rng: random.Random) -> None:
        with psycopg.connect(self.url, autocommit=True) as db:
            while not self.stopping.is_set():
                self.most |= self._counted(db.execute(SNAPSHOT).fetchall())
                self.snapshots += 1

    @staticmethod
    def _counted(rows: list[Any]) -> Counter[str]:
        counted = Counter(tenant for tenant, _ in rows)
        counted["the queue"] = len(rows)
        counted["the limit"] = sum(task == "calls" for _, task in rows)
        return counted

    def most_in_log(self) -> Counter[str]:
        """Return the most runs at once, as the runs themselves say."""
        now: Counter[str] = Counter()
        most: Counter[str] = Counter()
        for _, by, tenant, task, _ in self.log:
            now[tenant] += by
            now["the queue"] += by
            now["the limit"] += by * (task == "calls")
            most |= now
        return most

    def rated(self) -> list[float]:
        """Return when jobs with a rate started."""
        return [at for at, by, _, task, _ in self.log if by > 0 and task == "rated"]


def too_many(most: Counter[str]) -> dict[str, int]:
    """Return what went beyond its limit."""
    limits = {"the queue": QUEUE_MOST, "the limit": LIMIT_MOST} | dict.fromkeys(TENANTS, TENANT_MOST)
    return {name: count for name, count in most.items() if count > limits[name]}


def test_limits_and_rates_hold_and_each_job_is_done_once(running: Server) -> None:
    url = running.database()
    race = Race(url)
    race.run()
    ended = Counter(job for _, by, _, _, job in race.log if by < 0)
    assert set(ended) == race.accepted
    assert set(ended.values()) == {1}
    assert race.snapshots > 100
    assert too_many(race.most) == {}
    assert too_many(race.most_in_log()) == {}
    assert race.most["the queue"] == QUEUE_MOST, "it was no race"
    starts = race.rated()
    for place, at in enumerate(starts):
        within = sum(at <= other < at + 1.0 for other in starts[place:])
        assert within <= RATE.starts + RATE.burst + 1
    store = open_postgres(url, clock=SystemClock())
    assert store.check() == []
    with store.transaction():
        assert store.claim(Ask("default", 5), worker="", lease_ms=1, now_ms=SystemClock().now_ms()) == []
    store.close()
    running.drop(url)


def test_the_witnesses_see_it_when_claims_do_not_know_of_each_other(
    running: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The control: without what others started, the same race goes beyond its limits."""

    def only_gone(self: Scheduler, key: LaneKey, place: Place, express: int | None, now_ms: int) -> None:
        self._take(self._lane(key), place, express)

    monkeypatch.setattr(Scheduler, "began", only_gone)
    url = running.database()
    race = Race(url)
    with contextlib.suppress(AssertionError):  # they may fall over each other too
        race.run()
    assert too_many(race.most)
    running.drop(url)
