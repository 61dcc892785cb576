"""Leases: kept alive whatever the handlers do, noticed when they are lost, and never settled by a stale holder."""

from __future__ import annotations

import asyncio
import ctypes
import math
import random
import threading
import time
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import pytest
from rig import AT_ONCE, BUSTED, LONG_S, Rig, make_claim

from fairlane.clock import instant_of
from fairlane.context import Context
from fairlane.domain.states import State
from fairlane.errors import LeaseLost
from fairlane.tasks import Task
from fairlane.worker.attempt import Attempt
from fairlane.worker.hands import Hands
from fairlane.worker.heartbeat import Heartbeat, Watch
from fairlane.worker.verdict import Judge

pytestmark = pytest.mark.slow  # leases must be long enough for a busy machine

DONE = State.COMPLETED


def rescue_later(rig: Rig, seconds: float) -> int:
    """Take back what would have lapsed by then, as a worker elsewhere with a fast clock would."""
    return rig.owner.call(lambda store, now_ms: store.rescue(now_ms + round(seconds * 1000), limit=100))


@pytest.mark.parametrize("how", ["blocks the loop", "holds a processor", "waits in a thread"])
def test_a_run_that_is_longer_than_its_lease_runs_once(rig: Rig, how: str):
    starts: list[str] = []

    @rig.task(name="blocks the loop")
    async def block() -> None:
        starts.append("x")
        time.sleep(2.4)  # noqa: ASYNC251  this is the point

    @rig.task(name="holds a processor")
    def spin() -> None:
        starts.append("x")
        until = time.monotonic() + 2.4
        while time.monotonic() < until:
            sum(range(1000))

    @rig.task(name="waits in a thread")
    def wait() -> None:
        starts.append("x")
        time.sleep(2.4)

    job = rig.enqueue(how)
    rig.worker(lease=1.5).start()
    rig.worker(rig.new_owner(), lease=1.5).start()  # another process that would rescue it
    record = rig.until_state(job, DONE)
    assert len(starts) == 1
    assert (record.fence, record.crashes) == (1, 0)
    assert sum(store.calls.get("heartbeat", 0) for store in rig.stores) == 0, "heartbeats have their own connection"


def test_a_run_is_renewed_through_the_owner_where_there_is_one_connection(tmp_path: Path):
    rig = Rig(None)

    @rig.task
    def slow() -> None:
        time.sleep(2.0)

    job = rig.enqueue("slow")
    rig.worker(lease=0.9).start()
    assert rig.until_state(job, DONE).fence == 1
    assert rig.stores[0].calls["heartbeat"] >= 2
    rig.close()


def test_a_process_that_stood_still_past_the_end_of_a_lease_takes_nothing_away_from_itself(rig: Rig):
    """Code that keeps the interpreter's lock: nobody else could take the job, so it still runs once."""
    starts: list[str] = []
    sleep_with_lock = ctypes.PyDLL(None).usleep

    @rig.task
    def stand() -> None:
        starts.append("x")
        sleep_with_lock(900_000)

    job = rig.enqueue("stand")
    rig.worker(lease=0.3).start()
    record = rig.until_state(job, DONE)
    assert (starts, record.fence, record.crashes) == (["x"], 1, 0)


def test_short_runs_are_not_renewed(rig: Rig):
    @rig.task
    async def quick() -> None: ...

    jobs = [rig.enqueue("quick") for _ in range(50)]
    rig.drain()
    assert len(jobs) == 50
    assert sum(store.calls.get("heartbeat", 0) for store in rig.stores) == 0


def test_a_slow_store_delays_a_renewal_without_losing_the_run(rig: Rig, monkeypatch: pytest.MonkeyPatch):
    starts: list[str] = []

    @rig.task
    def slow() -> None:
        starts.append("x")
        time.sleep(1.2)

    gate = rig.gates["heartbeat"] = threading.Event()
    job = rig.enqueue("slow")
    rig.worker(lease=1.0).start()
    rig.until(lambda: starts)
    threading.Timer(0.7, gate.set).start()  # due at 0.33 s, done at 0.7 s, the lease ends at 1 s
    assert rig.until_state(job, DONE).fence == 1
    assert starts == ["x"]


@pytest.mark.parametrize("kind", ["sync", "async"])
@pytest.mark.parametrize("how", ["fails", "hangs"])
def test_a_worker_that_cannot_renew_stops_its_handler_when_the_lease_lapses(rig: Rig, kind: str, how: str):
    told: list[str] = []
    began = threading.Event()

    @rig.task(name="sync")
    def hold(ctx: Context) -> str:
        if ctx.attempt > 1:
            return "second"
        began.set()
        while not ctx.should_stop:
            time.sleep(0.001)
        told.append("stop")
        with pytest.raises(LeaseLost):
            ctx.checkpoint({"n": 1})
        return "first"

    @rig.task(name="async")
    async def ahold(ctx: Context) -> str:
        if ctx.attempt > 1:
            return "second"
        began.set()
        try:
            await asyncio.sleep(LONG_S)
        except asyncio.CancelledError:
            told.append("stop")
        return "first"

    if how == "fails":
        rig.faults["heartbeat"] = BUSTED
    else:
        rig.gates["heartbeat"] = threading.Event()
    job = rig.enqueue(kind)
    rig.worker(lease=0.3).start()
    assert began.wait(LONG_S)
    at = time.monotonic()
    rig.until(lambda: told)
    assert 0.15 < time.monotonic() - at < 1.0
    rig.faults.clear()
    for gate in rig.gates.values():
        gate.set()
    record = rig.until_state(job, DONE)
    assert record.result == '"second"', "what the first run returned was dropped"
    assert [error.type for error in record.errors] == ["LeaseLapsed"]


def test_a_stale_holder_changes_nothing(rig: Rig, caplog: pytest.LogCaptureFixture):
    """B01: the job is taken back and runs elsewhere; then the first run returns."""
    first, second = threading.Event(), threading.Event()
    running = threading.Semaphore(0)
    told: list[Any] = []
    rig.hooks.add("success", lambda event: told.append(event.result))

    @rig.task(retry=AT_ONCE)
    def hold(ctx: Context) -> str:
        running.release()
        assert (first if ctx.attempt == 1 else second).wait(LONG_S)
        return f"run {ctx.attempt}"

    job = rig.enqueue("hold")
    rig.worker(concurrency=1).start()
    assert running.acquire(timeout=LONG_S)
    assert rescue_later(rig, 60) == 1
    rig.worker(rig.new_owner(), concurrency=1).start()
    assert running.acquire(timeout=LONG_S)
    first.set()
    rig.until(lambda: "outcome dropped" in caplog.text)
    assert (rig.get(job).state, rig.get(job).fence) == (State.RUNNING, 2)
    second.set()
    record = rig.until_state(job, DONE)
    assert (record.result, record.crashes) == ('"run 2"', 1)
    rig.until(lambda: told)
    assert told == ["run 2"]


def test_a_heartbeat_finds_out_that_a_lease_is_lost_and_tells_the_handler(rig: Rig):
    running, told = threading.Event(), threading.Event()

    @rig.task
    def hold(ctx: Context) -> str:
        if ctx.attempt > 1:
            return "second"
        running.set()
        while not ctx.should_stop:
            time.sleep(0.001)
        told.set()
        return "first"

    job = rig.enqueue("hold")
    rig.worker(lease=2.1).start()
    assert running.wait(LONG_S)
    assert rescue_later(rig, 60) == 1
    at = time.monotonic()
    assert told.wait(LONG_S)
    assert time.monotonic() - at < 1.6, "at a third of the lease, and not when it lapses"
    assert rig.until_state(job, DONE).result == '"second"'


def test_a_save_finds_out_that_the_lease_is_lost(rig: Rig):
    running, go = threading.Event(), threading.Event()
    seen: list[bool] = []

    @rig.task
    def hold(ctx: Context) -> str:
        if ctx.attempt > 1:
            return "second"
        running.set()
        assert go.wait(LONG_S)
        try:
            ctx.checkpoint({"n": 1})
        except LeaseLost:
            seen.append(ctx.should_stop)
            raise
        return "first"

    job = rig.enqueue("hold")
    rig.worker().start()
    assert running.wait(LONG_S)
    assert rescue_later(rig, 60) == 1
    go.set()
    record = rig.until_state(job, DONE)
    assert seen == [True]
    assert (record.result, record.checkpoint) == ('"second"', None)


# ---------------------------------------------------------------- the watch by itself


class StandingClock:
    def __init__(self) -> None:
        self.at = 100.0

    def now_ms(self) -> int:
        return 0

    def monotonic(self) -> float:
        return self.at


class Crewless:
    """A crew whose attempts never run."""

    def __init__(self) -> None:
        self.interrupted: list[Attempt] = []

    def interrupt(self, attempt: Attempt) -> None:
        self.interrupted.append(attempt)


async def handler() -> None: ...


def an_attempt(crew: Crewless, lapses_at: float) -> Attempt:
    return Attempt(make_claim(), Task(handler), crew, claimed_at=100.0, lapses_at=lapses_at)  # type: ignore[arg-type]


def test_the_watch_plans_by_the_earliest_end_and_tells_each_once():
    crew, clock = Crewless(), StandingClock()
    first, second, ended = an_attempt(crew, 110.0), an_attempt(crew, 120.0), an_attempt(crew, 101.0)
    ended.ended = True
    second.times_out_at = 105.0
    first.tried_at = second.tried_at = 104.0
    watch = Watch(clock, lambda: [first, second, ended], lease_ms=30_000)
    assert watch.look(100.0) == 105.0
    assert watch.look(105.0) == 110.0
    assert (first.stop, second.stop) == (None, "timeout")
    assert watch.look(110.0) == 120.0
    assert first.stop == "lost"
    assert watch.look(120.0) == float("inf")
    assert (second.stop, ended.stop) == ("lost", None)
    assert crew.interrupted == [second, first, second]


def test_the_watch_gives_the_heartbeat_one_moment_after_everything_stood_still():
    crew, clock = Crewless(), StandingClock()
    untried, tried = an_attempt(crew, 110.0), an_attempt(crew, 110.0)
    tried.tried_at = 103.0
    asked: list[int] = []
    watch = Watch(clock, lambda: [untried, tried], lease_ms=30_000)
    watch.ask = lambda: asked.append(1)
    assert watch.look(110.1) == 120.1  # the heartbeat tried to renew one of them and could not; the other it forgot
    assert (untried.stop, tried.stop, asked) == (None, "lost", [1])
    assert watch.look(120.2) == float("inf")
    assert untried.stop == "lost"
    late = an_attempt(crew, 110.0)
    late.tried_at = 103.0
    assert Watch(clock, lambda: [late], lease_ms=30_000).look(115.0) == 125.0  # it looked 5 s too late: all stood still
    late.renewed_at, late.lapses_at = 116.0, 146.0
    assert Watch(clock, lambda: [late], lease_ms=30_000).look(147.0) == 157.0  # a renewal brings a new moment


def test_the_heartbeat_rests_although_a_run_that_has_ended_lost_its_lease(rig: Rig):
    """It is held until its settlement finds out, which a store that fails puts off."""
    clock = StandingClock()
    ended = an_attempt(Crewless(), 130.0)
    ended.ended = True
    rig.owner.clock = clock
    heartbeat = Heartbeat(rig.owner, lambda: [ended], lease_ms=30_000)
    assert heartbeat._pause_s() == 10.0
    clock.at = 112.0
    assert heartbeat._pause_s() == 0.0
    heartbeat.beat()
    assert heartbeat._pause_s() == 10.0
    assert ended.stop is None
    heartbeat._store.close()  # type: ignore[union-attr]


def test_a_worker_does_not_rescue_while_one_of_its_own_leases_is_overdue(rig: Rig):
    job, worker, go = rig.hold()
    hands = worker._start.hands  # type: ignore[union-attr]
    (attempt,) = hands.attempts()
    assert not hands.overdue()
    attempt.lapses_at = rig.clock.monotonic() - 0.001
    assert not hands.overdue(), "it looks again when the first lease may have ended, not at every claim"
    hands._sound_until = attempt.lapses_at
    assert hands.overdue()
    attempt.lapses_at += 30
    assert not hands.overdue()
    go.set()
    rig.until_state(job, DONE)


def test_leases_that_are_being_claimed_count_before_anything_is_started(rig: Rig):
    """Else a process that stands still right after the commit takes back its own jobs when it goes on."""
    hands = Hands(rig.owner, None, rig.hooks, lease_ms=30_000, wake=lambda: None)  # type: ignore[arg-type]
    now = rig.clock.monotonic()
    hands.claiming(now + 30)
    assert not hands.overdue()
    hands.claiming(now - 0.001)
    assert hands.overdue()
    hands.claiming(math.inf)
    assert not hands.overdue()


class Slow:
    """A clock that goes on by a second between any two looks at it."""

    def __init__(self) -> None:
        self.at = 100.0

    def now_ms(self) -> int:
        self.at += 1.0
        return round(self.at * 1000)

    def monotonic(self) -> float:
        self.at += 1.0
        return self.at


def test_a_lease_ends_here_no_later_than_in_the_store():
    clock = Slow()
    for _ in range(5):
        now_ms = clock.now_ms()
        assert instant_of(clock, now_ms) <= now_ms / 1000
    assert instant_of(clock, now_ms + 3_600_000) <= clock.at, "the wall clock was set back"


def an_attempt_of(fn: Any, clock: StandingClock, **options: Any) -> Attempt:
    class Crew(Crewless):
        judge = Judge("w", random.Random(1))
        owner = None

        def wanted(self, moment: str, task: str) -> bool:
            return False

        def began(self, attempt: Attempt) -> None: ...

    crew: Any = Crew()
    crew.clock = clock
    return Attempt(make_claim(), Task(fn, **options), crew, claimed_at=100.0, lapses_at=130.0)


def test_a_run_that_is_asked_to_stop_before_it_began_never_begins():
    calls: list[int] = []
    for stop, kind in (("cancel", "cancelled"), ("shutdown", "released"), ("preempt", "released"), ("lost", None)):
        attempt = an_attempt_of(lambda: calls.append(1), StandingClock(), name="t")
        attempt.tell(stop)  # type: ignore[arg-type]
        attempt.run()
        assert attempt.ended
        assert (None if attempt.settlement is None else attempt.settlement.kind) == kind
    assert calls == []


def test_a_run_that_ended_in_time_was_not_too_late_although_it_was_told_so():
    clock = StandingClock()

    def run(seconds: float) -> Attempt:
        def handler() -> str:
            clock.at += seconds
            attempt.tell("timeout")
            return "done"

        attempt = an_attempt_of(handler, clock, timeout=1.0)
        attempt.run()
        return attempt

    in_time, late = run(0.999).settlement, run(1.001).settlement
    assert in_time is not None
    assert late is not None
    assert (in_time.kind, in_time.run_us) == ("completed", 999_000)
    assert (late.kind, late.run_us) == ("retry", 1_001_000)


def test_context_variables_of_one_run_are_not_seen_by_the_next(rig: Rig):
    var: ContextVar[str] = ContextVar("var", default="clean")

    @rig.task
    def leave(n: int) -> str:
        before = var.get()
        var.set(f"left by {n}")
        return before

    jobs = [rig.enqueue("leave", f'{{"n": {n}}}') for n in range(4)]
    rig.drain(concurrency=1)
    assert {rig.get(job).result for job in jobs} == {'"clean"'}


def test_a_weaker_reason_to_stop_never_replaces_a_stronger_one():
    crew = Crewless()
    attempt = an_attempt(crew, 110.0)
    for stop, holds in (("shutdown", "shutdown"), ("cancel", "cancel"), ("preempt", "cancel"), ("lost", "lost")):
        attempt.tell(stop)  # type: ignore[arg-type]
        assert attempt.stopping() == holds
    assert len(crew.interrupted) == 3
    attempt.tell("lost")
    assert len(crew.interrupted) == 3, "it is interrupted once for each reason"
