"""What a worker does when its store fails: it keeps trying, says so, and turns no success into a failure."""

from __future__ import annotations

import asyncio
import math
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from rig import AT_ONCE, BUSTED, LONG_S, Rig

from fairlane import maintenance
from fairlane.context import Context
from fairlane.domain.jobs import Settlement
from fairlane.domain.states import State
from fairlane.errors import InvalidValue, StoreBusy
from fairlane.handles import Ends
from fairlane.monitor import Monitor
from fairlane.worker import loop

DONE = State.COMPLETED


@pytest.fixture(autouse=True)
def soon_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop, "RETRY_S", (0.001, 0.02))


def no_more_threads(monkeypatch: pytest.MonkeyPatch, name: str, times: float = math.inf) -> None:
    """Have the system refuse threads whose name begins like this."""
    start, left = threading.Thread.start, [times]

    def scarce(thread: threading.Thread) -> None:
        if thread.name.startswith(name) and left[0] > 0:
            left[0] -= 1
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", scarce)


def test_after_ten_failed_claims_a_worker_is_unhealthy_and_it_recovers(rig: Rig, caplog: pytest.LogCaptureFixture):
    @rig.task
    def quick() -> None: ...

    worker = rig.worker()
    rig.faults["claim"] = BUSTED
    worker.start()
    assert worker.healthy
    job = rig.enqueue("quick")
    rig.until(lambda: not worker.healthy)
    calls = rig.stores[0].calls["claim"]
    assert calls >= 10
    rig.until(lambda: rig.stores[0].calls["claim"] > calls + 3, "another try")
    assert caplog.text.count("worker_unhealthy") == 1
    rig.faults.clear()
    rig.until_state(job, DONE)
    rig.until(lambda: worker.healthy)


def test_a_refused_claim_is_a_failure_of_the_worker_and_spoils_no_settlement(rig: Rig):
    job, worker, go = rig.hold()
    rig.faults["claim"] = InvalidValue("no such pool")
    go.set()
    rig.until_state(job, DONE)
    rig.until(lambda: not worker.healthy)


@pytest.mark.parametrize("where", ["settle", "commit", "claim"])
def test_a_success_stays_one_while_the_store_is_away(rig: Rig, where: str):
    """B31: the settlement is tried again until it lands; nobody hears of a failure, and the job runs once.

    A store that only fails to claim takes settlements by themselves.
    """
    running, go, runs = threading.Event(), threading.Event(), []
    told: list[str] = []
    for moment in ("success", "failure", "dead"):
        rig.hooks.add(moment, lambda event: told.append(event.moment))

    @rig.task(retry=AT_ONCE)
    async def hold() -> str:
        runs.append(1)
        running.set()
        while not go.is_set():  # noqa: ASYNC110
            await asyncio.sleep(0.001)
        return "done"

    job = rig.enqueue("hold")
    worker = rig.worker()
    worker.start()
    assert running.wait(LONG_S)
    rig.faults[where] = StoreBusy("locked by another program")
    go.set()
    rig.until(lambda: not worker.healthy)
    assert rig.get(job).state == (DONE if where == "claim" else State.RUNNING)
    rig.faults.clear()
    record = rig.until_state(job, DONE)
    rig.until(lambda: told)
    assert (record.result, record.fence, told, runs) == ('"done"', 1, ["success"], [1])


def test_a_settlement_that_the_store_cannot_take_holds_up_no_other(rig: Rig):
    @rig.task
    async def job(n: int) -> int:
        return n

    jobs = [rig.enqueue("job", f'{{"n": {n}}}') for n in range(6)]
    store: Any = rig.stores[0]._store
    settle = store.settle

    def picky(settlements: list[Settlement], now_ms: int) -> list[bool]:
        if any(one.result == "3" for one in settlements):
            raise ValueError("cannot bind this")
        return settle(settlements, now_ms)

    store.settle = picky
    rig.drain()
    assert [rig.get(one).result for one in jobs] == ["0", "1", "2", None, "4", "5"]
    bad = rig.get(jobs[3])
    assert (bad.state, bad.reason) == (State.DEAD, "the store could not take how it ended: StoreError")


def test_a_store_that_is_away_refuses_nobody(rig: Rig):
    """The store fails for longer than it takes to call a settlement bad: that is the store's fault, not a job's."""
    done, running = threading.Semaphore(0), threading.Event()

    @rig.task
    def job() -> int:
        done.release()
        assert running.wait(LONG_S)
        return 1

    jobs = [rig.enqueue("job") for _ in range(3)]
    running.clear()
    worker = rig.worker()
    worker.start()
    for _ in range(3):
        assert done.acquire(timeout=LONG_S)
    rig.faults["commit"] = BUSTED
    running.set()
    rig.until(lambda: not worker.healthy)
    calls = rig.stores[0].calls["settle"]
    rig.until(lambda: rig.stores[0].calls["settle"] > calls + 30, "many more tries")
    rig.faults.clear()
    for one in jobs:
        assert rig.until_state(one, DONE, State.DEAD).state == DONE


def test_a_worker_ends_in_time_although_its_store_is_away(rig: Rig, caplog: pytest.LogCaptureFixture):
    running = threading.Event()

    @rig.task
    async def hold(ctx: Context) -> None:
        running.set()
        await asyncio.sleep(LONG_S)

    job = rig.enqueue("hold")
    worker = rig.worker(grace=0.05)
    worker.start()
    assert running.wait(LONG_S)
    rig.faults["commit"] = BUSTED
    began = time.monotonic()
    worker.stop()
    assert time.monotonic() - began < 2.05
    assert "worker_gone" in caplog.text
    rig.faults.clear()
    assert rig.get(job).state == State.RUNNING
    assert rig.owner.call(lambda store, now_ms: store.rescue(now_ms, limit=10)) == 1
    assert rig.get(job).state == State.AVAILABLE


def test_a_stop_returns_although_the_store_hangs(rig: Rig, caplog: pytest.LogCaptureFixture):
    @rig.task
    def quick() -> None: ...

    worker = rig.worker(grace=0.0)
    worker.start()
    gate = rig.gates["transaction"] = threading.Event()
    rig.owner.submit(lambda store, now_ms: None)
    began = time.monotonic()
    worker.stop()
    assert time.monotonic() - began < 2.1
    assert "stop_incomplete" in caplog.text
    assert worker.abandoned == 1
    gate.set()
    assert worker.join(LONG_S)


def test_nothing_is_started_behind_a_stop_that_a_hung_store_held_up(rig: Rig):
    runs: list[int] = []
    begun = threading.Event()

    @rig.task
    def quick() -> None:
        runs.append(1)
        begun.set()

    worker = rig.worker(grace=0.0)
    gate = threading.Event()
    worker.start()
    hands: Any = worker._start.hands  # type: ignore[union-attr]  # pyright: ignore
    start = hands.start

    def started(attempts: Any) -> None:
        start(attempts)
        begun.wait(1.0)  # the thread of a run that is started may be the next to go on

    hands.start = started
    calls = rig.stores[0].calls
    rig.until(lambda: calls.get("claim"))
    rig.gates["claim"] = gate  # it hangs in the middle of a transaction
    claims = calls["claim"]
    job = rig.enqueue("quick")
    rig.until(lambda: calls["claim"] > claims)
    worker.stop()
    gate.set()
    assert worker.join(LONG_S)
    assert runs == []
    assert rig.get(job).state == State.AVAILABLE


def test_a_store_that_cannot_take_a_worker_on_leaves_nothing_behind(rig: Rig, tmp_path: Path):
    @rig.task
    def quick() -> None: ...

    worker = rig.worker()
    rig.faults["register"] = BUSTED
    with pytest.raises(type(BUSTED)):
        worker.start()
    assert not [one for one in threading.enumerate() if one.name == "fairlane-dispatcher"]
    assert list(tmp_path.glob("**/*.alive")) == []
    rig.faults.clear()
    with worker:
        rig.until_state(rig.enqueue("quick"), DONE)


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_what_no_thread_can_be_made_for_is_given_back_and_run_later(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, kind: str
):
    no_more_threads(monkeypatch, "fairlane-job-1" if kind == "sync" else "fairlane-loop", times=2)
    runs: list[int] = []
    if kind == "sync":

        @rig.task
        def job(n: int) -> None:
            runs.append(n)
    else:

        @rig.task  # type: ignore[no-redef]
        async def job(n: int) -> None:
            runs.append(n)

    jobs = [rig.enqueue("job", f'{{"n": {n}}}') for n in range(8)]
    worker = rig.worker(concurrency=4)
    with worker:
        for one in jobs:
            assert rig.until_state(one, DONE).failures == 0
    assert sorted(runs) == list(range(8))
    assert "can't start new thread" in caplog.text
    assert "not_started" in caplog.text


def test_where_no_thread_can_be_made_coroutines_run_and_nothing_stays_leased(rig: Rig, monkeypatch: pytest.MonkeyPatch):
    no_more_threads(monkeypatch, "fairlane-job")

    @rig.task
    def blocks() -> None: ...

    @rig.task
    async def waits() -> None: ...

    jobs = [rig.enqueue(task) for task in ("blocks", "waits", "blocks", "waits")]
    with rig.worker() as worker:
        for one in jobs[1::2]:
            rig.until_state(one, DONE)
        rig.until(lambda: not worker.healthy)
    assert rig.counts() == {DONE: 2, State.AVAILABLE: 2}
    assert [rig.get(one).crashes for one in jobs] == [0] * 4


@pytest.mark.parametrize("name", ["watch", "heartbeat", "maintenance", "dispatcher"])
def test_a_worker_whose_start_finds_no_more_threads_leaves_nothing_behind(
    rig: Rig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
):
    @rig.task
    def quick() -> None: ...

    monitor = Monitor(rig.owner)
    maintenance.also(rig.owner, monitor.join)
    rig.owner.listen(lambda news: None)  # the bell has its thread before
    before = set(threading.enumerate())
    no_more_threads(monkeypatch, f"fairlane-{name}")
    worker = rig.worker()
    with pytest.raises(RuntimeError, match="new thread"):
        worker.start()
    assert set(threading.enumerate()) == before
    assert list(tmp_path.glob("**/*.alive")) == []
    assert monitor._users == 0  # pyright: ignore[reportPrivateUsage]  # else it keeps the watch after the last worker
    monkeypatch.undo()
    with worker:
        rig.until_state(rig.enqueue("quick"), DONE)


def test_hooks_that_found_no_thread_are_told_when_there_is_one(rig: Rig, monkeypatch: pytest.MonkeyPatch):
    told: list[int] = []
    rig.hooks.add("success", lambda event: told.append(event.result))  # type: ignore[arg-type]

    @rig.task
    def job(n: int) -> int:
        return n

    rig.enqueue("job", '{"n": 0}')
    no_more_threads(monkeypatch, "fairlane-hooks")
    rig.drain()
    rig.enqueue("job", '{"n": 1}')
    worker = rig.worker()
    with worker:
        rig.until(lambda: rig.counts() == {DONE: 2})
        monkeypatch.undo()
        rig.enqueue("job", '{"n": 2}')
        rig.until(lambda: len(told) == 2)
    assert told == [1, 2]


def test_who_waits_for_a_result_is_told_although_the_first_found_no_thread(rig: Rig, monkeypatch: pytest.MonkeyPatch):
    @rig.task
    def quick() -> None: ...

    job, ends = rig.enqueue("quick"), Ends()
    no_more_threads(monkeypatch, "fairlane-ends")
    with pytest.raises(RuntimeError, match="new thread"):
        ends.watch(rig.owner, job)
    monkeypatch.undo()
    rig.drain()
    assert ends.watch(rig.owner, job).result(LONG_S).state == DONE
    ends.close()
