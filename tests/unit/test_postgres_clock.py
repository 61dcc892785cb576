"""The clock of PostgreSQL stores: the database's time, whatever the machine's wall clock says. A real server."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.pg import Server, server, set_clock

import fairlane as fl
from fairlane.clock import SystemClock, instant_of
from fairlane.stores.postgres.clock import MEASURE_S, Measured, PostgresClock, better
from fairlane.stores.postgres.schema import migrate
from fairlane.testing.clock import ManualClock

HOUR_MS = 3_600_000
NEAR_MS = 60_000
"""Far less than the hour that clocks are wrong by here, and far more than a round trip on a busy machine."""


class Machine(SystemClock):
    """The machine's clocks, with the wall clock an hour slow and a steady clock that a test can move on."""

    moved_ns = 0

    def now_ms(self) -> int:
        return super().now_ms() - HOUR_MS

    def steady_ns(self) -> int:
        return super().steady_ns() + self.moved_ns

    def move(self, seconds: float) -> None:
        self.moved_ns += round(seconds * 1e9)


@pytest.fixture(scope="module")
def running() -> Iterator[Server]:
    with server() as one:
        yield one


@pytest.fixture
def url(running: Server) -> Iterator[str]:
    made = running.database(empty=True)
    yield made
    running.drop(made)


@pytest.fixture
def machine() -> Machine:
    return Machine()


@pytest.fixture
def clock(url: str, machine: Machine) -> Iterator[PostgresClock]:
    made = PostgresClock(url, machine=machine)
    yield made
    made.close()


def database_ms(url: str) -> int:
    with psycopg.connect(url) as db:
        told: Any = db.execute("SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint").fetchone()
        return int(told[0])


def connections(running: Server, url: str) -> list[int]:
    """Return the backends that serve us in a database."""
    name = url.partition("?")[0].rpartition("/")[2]
    rows = running.run(
        f"SELECT pid FROM pg_stat_activity WHERE datname = '{name}' AND application_name = 'fairlane' ORDER BY 1"
    )
    return [pid for (pid,) in rows]


def until_gone(running: Server, url: str, *left: int) -> None:
    """Wait until no backend serves us but those: a server notices a moment later that a connection has ended."""
    for _ in range(1_000):
        if connections(running, url) == list(left):
            return
        running.run("SELECT pg_sleep(0.01)")
    raise AssertionError(connections(running, url))


def measured(clock: PostgresClock) -> None:
    """Wait for the measurement that the last call began."""
    thread = clock._thread
    assert thread is not None
    thread.join(15)
    assert not thread.is_alive()


# ---------------------------------------------------------------- which time


@pytest.mark.postgres
def test_the_database_s_time_is_told(url: str, clock: PostgresClock, machine: Machine) -> None:
    assert abs(clock.now_ms() - database_ms(url)) < NEAR_MS
    assert abs(clock.now_ms() - machine.now_ms() - HOUR_MS) < NEAR_MS


@pytest.mark.postgres
def test_a_database_whose_clock_is_wrong_is_believed(url: str, clock: PostgresClock) -> None:
    set_clock(url, 3600)
    assert abs(clock.now_ms() - SystemClock().now_ms() - HOUR_MS) < NEAR_MS


@pytest.mark.postgres
def test_time_goes_by_as_the_steady_clock_does(clock: PostgresClock, machine: Machine) -> None:
    before = clock.now_ms()
    machine.move(5)
    assert before + 5_000 <= clock.now_ms() < before + 5_000 + NEAR_MS


@pytest.mark.postgres
def test_a_lease_is_counted_from_no_later_than_in_the_store(clock: PostgresClock) -> None:
    before = clock.monotonic()
    now_ms = clock.now_ms()
    assert before - 0.01 <= instant_of(clock, now_ms) <= clock.monotonic()


@pytest.mark.postgres
def test_instants_of_jobs_are_the_database_s(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The machine's wall clock is an hour slow, and the app has no clock of its own."""
    real = SystemClock.now_ms
    monkeypatch.setattr(SystemClock, "now_ms", lambda self: real(self) - HOUR_MS)
    with fl.Fairlane(url) as app:
        migrate(url, app.clock)

        @app.task
        def work() -> None: ...

        since = datetime.fromtimestamp(database_ms(url) // 1000 - 1, UTC)
        now, later = work.enqueue(), work.using(delay=600).enqueue()
        app.run_worker(until_idle=True, signals=False)
        until = datetime.fromtimestamp(database_ms(url) // 1000 + 1, UTC)
        now.refresh()
        assert now.state == "completed"
        assert since <= now.enqueued_at <= now.started_at <= now.finished_at <= until
        assert abs((later.scheduled_at - now.enqueued_at).total_seconds() - 600) < NEAR_MS / 1000
        assert since <= app.depth().at <= datetime.fromtimestamp(database_ms(url) // 1000 + 1, UTC)


@pytest.mark.postgres
def test_a_clock_of_the_callers_own_counts(url: str) -> None:
    clock = ManualClock()
    with fl.Fairlane(url, clock=clock) as app:
        assert app.clock is clock
        app.use(url)
        assert app.clock is clock


@pytest.mark.postgres
def test_use_takes_the_clock_of_the_other_store(url: str, running: Server) -> None:
    with fl.Fairlane("sqlite://") as app:
        assert isinstance(app.clock, SystemClock)
        app.use(url)
        assert isinstance(app.clock, PostgresClock)
        app.clock.now_ms()
        assert len(connections(running, url)) == 1
        app.use("sqlite://")
        assert isinstance(app.clock, SystemClock)
        until_gone(running, url)


# ---------------------------------------------------------------- measuring


@pytest.mark.postgres
def test_it_is_measured_again_when_it_is_old_and_nobody_waits(url: str, clock: PostgresClock, machine: Machine) -> None:
    set_clock(url, 0)
    before = clock.now_ms()
    assert clock._thread is None
    machine.move(MEASURE_S - 1)
    clock.now_ms()
    assert clock._thread is None, "young enough"
    set_clock(url, 3600)
    machine.move(1.5)
    assert clock.now_ms() < before + HOUR_MS, "told by the old measurement"
    measured(clock)
    assert before + HOUR_MS <= clock.now_ms()


@pytest.mark.postgres
def test_it_never_goes_back(url: str, clock: PostgresClock, machine: Machine, caplog: pytest.LogCaptureFixture) -> None:
    set_clock(url, 60)
    before = clock.now_ms()
    set_clock(url, 0)
    machine.move(MEASURE_S + 1)  # the steady clock of this test is ahead by as much from here on
    late = clock.now_ms()
    with caplog.at_level(logging.WARNING):
        measured(clock)
    assert late == clock.now_ms() == clock.now_ms() >= before
    assert "clock_set_back seconds=" in caplog.text
    machine.move(90)
    assert clock.now_ms() > late, "it has caught up"


@pytest.mark.postgres
def test_a_connection_that_was_cut_is_made_anew(
    url: str, clock: PostgresClock, machine: Machine, running: Server, caplog: pytest.LogCaptureFixture
) -> None:
    clock.now_ms()
    (first,) = connections(running, url)
    running.run(f"SELECT pg_terminate_backend({first}, 5000)")
    machine.move(MEASURE_S + 1)
    clock.now_ms()
    measured(clock)
    assert "clock_not_measured" not in caplog.text
    (second,) = connections(running, url)
    assert second != first


@pytest.mark.postgres
def test_time_goes_on_while_the_database_cannot_be_asked(
    url: str, clock: PostgresClock, machine: Machine, running: Server, caplog: pytest.LogCaptureFixture
) -> None:
    before = clock.now_ms()
    name = url.partition("?")[0].rpartition("/")[2]
    running.run(f"ALTER DATABASE {name} ALLOW_CONNECTIONS false")
    (first,) = connections(running, url)
    running.run(f"SELECT pg_terminate_backend({first}, 5000)")
    for turn in range(1, 4):
        machine.move(MEASURE_S + 1)
        assert clock.now_ms() >= before + turn * 1000 * (MEASURE_S + 1)
        measured(clock)
    assert caplog.text.count("clock_not_measured") == 1, "told once"
    running.run(f"ALTER DATABASE {name} ALLOW_CONNECTIONS true")
    machine.move(MEASURE_S + 1)
    clock.now_ms()
    measured(clock)
    assert len(connections(running, url)) == 1


def test_a_database_that_was_never_there_is_an_error() -> None:
    clock = PostgresClock("postgresql://me:s3same@127.0.0.1:1/jobs")
    for _ in range(2):
        with pytest.raises(fl.StoreError, match=r"127\.0\.0\.1") as refused:
            clock.now_ms()
        assert "s3same" not in str(refused.value)
    clock.close()


@pytest.mark.postgres
def test_many_threads_ask_on_one_connection(url: str, clock: PostgresClock, running: Server) -> None:
    ready = threading.Barrier(8)
    told: list[int] = []

    def ask() -> None:
        ready.wait()
        told.extend(clock.now_ms() for _ in range(50))

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(told) == 400
    assert max(told) - min(told) < NEAR_MS
    assert len(connections(running, url)) == 1


@pytest.mark.postgres
def test_closing_lets_go_of_the_database(url: str, clock: PostgresClock, machine: Machine, running: Server) -> None:
    before = clock.now_ms()
    clock.close()
    clock.close()
    until_gone(running, url)
    machine.move(MEASURE_S + 1)
    assert clock.now_ms() >= before + 1000 * (MEASURE_S + 1)
    assert clock._thread is None, "nothing is measured any more"


@pytest.mark.postgres
def test_asking_after_the_end_leaves_no_connection(url: str, clock: PostgresClock, running: Server) -> None:
    clock.close()
    assert abs(clock.now_ms() - database_ms(url)) < NEAR_MS
    until_gone(running, url)


@pytest.mark.postgres
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_child_has_a_connection_of_its_own(
    url: str, clock: PostgresClock, machine: Machine, running: Server
) -> None:
    before = clock.now_ms()
    (ours,) = connections(running, url)
    child = os.fork()
    if child == 0:
        status = 1
        try:
            machine.move(MEASURE_S + 1)
            later = clock.now_ms()
            measured(clock)
            status = 0 if later > before and len(connections_anew(running, url)) == 2 else 2
            clock.close()
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    until_gone(running, url, ours)
    machine.move(MEASURE_S + 1)
    clock.now_ms()
    measured(clock)
    assert connections(running, url) == [ours]


def connections_anew(running: Server, url: str) -> list[int]:
    """Do what :func:`connections` does on a connection of our own: a child must not use its parent's."""
    other = Server(running.url)
    try:
        return connections(other, url)
    finally:
        other.close()


# ---------------------------------------------------------------- which measurement counts

SOME = st.builds(
    Measured,
    offset_ns=st.integers(-(10**12), 10**12),
    error_ns=st.integers(0, 10**9),
    at_ns=st.integers(0, 10**13),
)


def test_a_slow_trip_that_tells_nothing_new_changes_nothing() -> None:
    held = Measured(1_000_000, 100_000, 0)
    at_ns = 10 * 10**9  # by then it may be wrong by 1.1 ms
    assert better(held, Measured(1_500_000, 50_000, at_ns)).offset_ns == 1_500_000, "a quicker one"
    assert better(held, Measured(5_000_000, 40_000_000, at_ns)) is held, "slow, and they may both be right"
    assert better(held, Measured(90_000_000, 40_000_000, at_ns)).offset_ns == 90_000_000, "they cannot both be right"


@given(held=SOME, fresh=SOME)
def test_what_counts_may_be_right_by_the_fresh_one(held: Measured, fresh: Measured) -> None:
    """Whatever was known, the time told afterwards lies within what the last measurement says, or is as good."""
    fresh = fresh._replace(at_ns=held.at_ns + fresh.at_ns)
    kept = better(held, fresh)
    assert abs(kept.offset_ns - fresh.offset_ns) <= fresh.error_ns + kept.wrong_by_ns(fresh.at_ns)
    assert kept.wrong_by_ns(fresh.at_ns) <= max(fresh.error_ns, held.wrong_by_ns(fresh.at_ns))
    assert better(None, fresh) is fresh
