"""B36: two machines whose clocks are ten minutes fast and ten minutes slow share a database, step by step.

Only the database's time counts. Each machine has a wall clock of its own, and a steady clock that began at an instant
of its own; time passes for all three when the test says so.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.pg import Elsewhere, Server, server, set_clock, until_waiting

import fairlane as fl
from fairlane.clock import SystemClock
from fairlane.domain.jobs import Settlement
from fairlane.domain.states import State
from fairlane.store import Conflict
from fairlane.stores.postgres.clock import PostgresClock
from fairlane.stores.postgres.store import open_postgres
from fairlane.testing.contract.bench import LEASE_MS, Bench, ask_for

pytestmark = [pytest.mark.postgres, pytest.mark.timeout(120)]

WRONG_S = 600.0
LEASE_S = LEASE_MS / 1000
MARGIN_S = 10.0
"""Far more than a test takes: what is to happen at an instant is looked at so long before and so long after it."""


class Machine(SystemClock):
    """A machine whose wall clock is wrong.

    Args:
        wrong_s: By how much, in seconds.
    """

    def __init__(self, wrong_s: float) -> None:
        self.wrong_s = wrong_s
        self.passed_s = 0.0

    def now_ms(self) -> int:
        return super().now_ms() + round((self.wrong_s + self.passed_s) * 1e3)

    def steady_ns(self) -> int:
        return super().steady_ns() + round((1_000 * self.wrong_s + self.passed_s) * 1e9)

    def monotonic(self) -> float:
        return self.steady_ns() / 1e9


class Pair:
    """The database and the two machines.

    Args:
        url: The database.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self.passed_s = 0.0
        set_clock(url, 0)
        self.machines = [Machine(WRONG_S), Machine(-WRONG_S)]
        self.clocks = [PostgresClock(url, machine=machine) for machine in self.machines]
        self.open_store = lambda clock, **options: open_postgres(self.url, clock=clock, **options)
        self.benches = [Bench(self, clock) for clock in self.clocks]  # type: ignore[arg-type]  # a clock is enough

    def passes(self, seconds: float) -> None:
        """Let time pass, for the database and both machines."""
        self.passed_s += seconds
        set_clock(self.url, self.passed_s)
        for machine in self.machines:
            machine.passed_s += seconds
        for clock in self.clocks:
            clock.now_ms()  # measures beside; wait for it, so that no later look does so in the middle of something
            if clock._thread is not None:
                clock._thread.join()

    def close(self) -> None:
        for bench in self.benches:
            bench.close()
        for clock in self.clocks:
            clock.close()


@pytest.fixture(scope="module")
def running() -> Iterator[Server]:
    with server() as one:
        yield one


@pytest.fixture
def pair(running: Server) -> Iterator[Pair]:
    url = running.database()
    made = Pair(url)
    yield made
    made.close()
    running.drop(url)


@pytest.fixture(params=[False, True], ids=["fast first", "slow first"])
def two(pair: Pair, request: pytest.FixtureRequest) -> list[Bench]:
    """Return both machines' stores, in either order."""
    return pair.benches[::-1] if request.param else pair.benches


def test_both_tell_the_database_s_time(pair: Pair) -> None:
    first, second = (clock.now_ms() for clock in pair.clocks)
    assert abs(first - second) < MARGIN_S * 1e3
    assert abs(first - SystemClock().now_ms()) < MARGIN_S * 1e3
    assert all(abs(machine.now_ms() - first) > (WRONG_S - MARGIN_S) * 1e3 for machine in pair.machines)


def test_a_delay_is_as_long_on_both(pair: Pair, two: list[Bench]) -> None:
    """The enqueue is open while the other looks; after the commit, nobody starts it early, and nobody waits longer."""
    one, other = two
    with one.store.transaction(light=True):
        new = one.new(delay_ms=30_000)
        one.store.enqueue([new], one.now_ms)
        assert other.claim() == []
    assert one.claim() == other.claim() == []
    due_ms = other.store.next_due_ms()
    assert due_ms is not None
    assert abs(due_ms - other.now_ms - 30_000) < MARGIN_S * 1e3
    pair.passes(30 - MARGIN_S)
    assert one.claim() == other.claim() == []
    pair.passes(2 * MARGIN_S)
    assert other.start() == [new.id]


def test_a_lease_is_as_long_on_both(pair: Pair, two: list[Bench]) -> None:
    """The claim is open while the other waits for the gate to take back what has lapsed."""
    one, other = two
    job = one.put()
    with one.store.transaction():
        (claim,) = one.store.claim(ask_for(1), worker="", lease_ms=LEASE_MS, now_ms=one.now_ms)
        rescue = Elsewhere(other.rescue)
        until_waiting(pair.url, relation="gate_keeper")
    assert rescue.answer() == 0
    pair.passes(LEASE_S - MARGIN_S)
    assert one.rescue() == other.rescue() == 0
    assert other.claim() == one.claim() == []
    assert one.beat(claim) == "ok"
    pair.passes(LEASE_S - MARGIN_S)
    assert one.rescue() == other.rescue() == 0
    pair.passes(2 * MARGIN_S)
    (again,) = other.claim()
    assert (again.id, again.fence > claim.fence) == (job, True)
    assert not one.done(claim)
    assert other.done(again)


def test_a_renewal_that_is_open_when_the_lease_ends_keeps_it(pair: Pair, two: list[Bench]) -> None:
    """The other waits for the renewal's row, begins again, and finds the lease renewed."""
    one, other = two
    one.put()
    claim = one.take()
    pair.passes(LEASE_S - MARGIN_S)

    def rescue() -> int:
        try:
            return other.rescue()
        except Conflict:
            return other.rescue()

    with one.store.transaction(light=True):
        (beat,) = one.store.heartbeat([(claim.seq, claim.fence)], lease_ms=LEASE_MS, now_ms=one.now_ms)
        pair.passes(2 * MARGIN_S)  # the lease that others see is over
        rescued = Elsewhere(rescue)
        until_waiting(pair.url)
    assert beat.answer == "ok"
    assert rescued.answer() == 0
    assert one.done(claim)


def test_an_end_that_is_open_when_the_lease_ends_counts(pair: Pair, two: list[Bench]) -> None:
    one, other = two
    job = one.put()
    claim = one.take()

    def rescue() -> int:
        try:
            return other.rescue()
        except Conflict:
            return other.rescue()

    with one.store.transaction(light=True):
        end = Settlement(seq=claim.seq, fence=claim.fence, kind="completed", run_us=1_000)
        assert one.store.settle([end], one.now_ms) == [True]
        pair.passes(LEASE_S + MARGIN_S)
        rescued = Elsewhere(rescue)
        until_waiting(pair.url)
    assert rescued.answer() == 0
    assert (other.state(job), other.job(job).crashes) == (State.COMPLETED, 0)


def test_a_job_expires_at_its_instant_on_both(pair: Pair, two: list[Bench]) -> None:
    one, other = two
    early, late = (one.put(expires_at_ms=one.now_ms + 30_000) for _ in range(2))
    pair.passes(30 - MARGIN_S)
    assert other.start() == [early]
    with one.store.transaction(light=True):
        one.store.enqueue([one.new(tenant="b")], one.now_ms)
        pair.passes(2 * MARGIN_S)
        assert other.claim() == []
    assert (one.state(late), one.job(late).reason) == (State.CANCELLED, "expired")
    assert len(other.claim()) == 1


def test_retries_and_pauses_are_as_long_on_both(pair: Pair, two: list[Bench]) -> None:
    one, other = two
    job = one.put()
    one.fail(one.take(), delay_ms=30_000)
    other.pause("tenant", "a", until_ms=other.now_ms + 60_000)
    for passed in (30 - MARGIN_S, 2 * MARGIN_S):
        pair.passes(passed)
        assert one.claim() == other.claim() == []
    pair.passes(30)
    assert other.start() == [job]


def test_workers_of_both_start_and_keep_what_they_run(pair: Pair) -> None:
    """Each has jobs of the other's; a worker with free slots looks for what has lapsed with each claim."""
    ran: list[tuple[int, int]] = []
    apps = [fl.Fairlane(pair.url, clock=clock) for clock in pair.clocks]
    for number, app in enumerate(apps):

        def work(what: int, *, number: int = number) -> int:
            ran.append((number, what))
            return what

        app.task(name="work")(work)
    workers = [app.worker(concurrency=2, queues=[f"q{number}"]) for number, app in enumerate(apps)]
    try:
        for worker in workers:
            worker.start()
        jobs = [apps[n % 2].enqueue("work", {"what": n}, queue=f"q{n % 4 // 2}") for n in range(8)]
        assert [job.result(timeout=30) for job in jobs] == list(range(8))
    finally:
        for worker in workers:
            worker.stop()
    assert sorted(ran) == [(number, what) for number in (0, 1) for what in range(8) if what % 4 // 2 == number]
    for job in jobs:
        job.refresh()
        assert abs(job.finished_at.timestamp() - SystemClock().now_ms() / 1e3) < 60
        assert (job.record.crashes, job.record.failures) == (0, 0)
    for app in apps:
        app.close()
