"""Workers on a real SQLite file: what is started, what becomes of it, how a worker starts and ends."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import threading
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from rig import AT_ONCE, LONG_S, Rig

from fairlane.context import Context
from fairlane.domain.policy import LimitRule, QueueRule
from fairlane.domain.retries import Retry
from fairlane.domain.states import State
from fairlane.errors import ConfigError
from fairlane.hooks import Event
from fairlane.outcomes import Cancel, Dead, RateLimited, Snooze
from fairlane.worker import JobFilter
from fairlane.worker.loop import Dispatcher

DONE = State.COMPLETED


@pytest.fixture(params=["file", "memory"])
def any_rig(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Rig]:
    made = Rig(tmp_path if request.param == "file" else None)
    yield made
    made.close()


def fairlane_threads() -> set[str]:
    keep = ("fairlane-owner", "fairlane-bell")
    return {one.name for one in threading.enumerate() if one.name.startswith("fairlane") and one.name not in keep}


# ---------------------------------------------------------------- running


def test_sync_and_async_handlers_run_with_typed_arguments_and_a_context(any_rig: Rig):
    rig = any_rig

    @rig.task
    def add(a: int, b: int = 2) -> int:
        return a + b

    @rig.task
    async def tell(ctx: Context, name: str) -> dict[str, Any]:
        await asyncio.sleep(0)
        return {"name": name, "task": ctx.task, "tenant": ctx.tenant, "attempt": ctx.attempt, "tier": ctx.tier}

    first = rig.enqueue("add", '{"a": 1}')
    second = rig.enqueue("tell", '{"name": "x"}', tenant="acme", tier=1)
    rig.drain()
    assert rig.get(first).result == "3"
    assert rig.get(second).result == '{"name":"x","task":"tell","tenant":"acme","attempt":1,"tier":1}'
    assert rig.owner.read(lambda store, now_ms: store.check()) == []


def test_run_until_idle_does_not_wait_for_jobs_of_later_or_of_other_tasks(rig: Rig):
    @rig.task
    def quick() -> None: ...

    done = rig.enqueue("quick")
    later = rig.enqueue("quick", delay_ms=3_600_000)
    unknown = rig.enqueue("some.other")
    rig.worker().run(until_idle=True)
    assert [rig.get(one).state for one in (done, later, unknown)] == [DONE, State.SCHEDULED, State.AVAILABLE]
    assert rig.get(unknown).fence == 0


def test_run_until_idle_sees_jobs_that_its_jobs_enqueue_and_retries_that_are_due(rig: Rig):
    @rig.task(retry=AT_ONCE)
    def chain(left: int, ctx: Context) -> None:
        if ctx.attempt == 1:
            raise ValueError("once")
        if left:
            rig.enqueue("chain", f'{{"left": {left - 1}}}')

    rig.enqueue("chain", '{"left": 3}')
    rig.drain()
    assert rig.counts() == {DONE: 4}


def test_jobs_are_started_as_soon_as_they_are_enqueued_and_as_slots_come_free(rig: Rig):
    running, go = threading.Semaphore(0), threading.Semaphore(0)
    most: list[int] = []
    count: list[int] = []

    @rig.task
    def hold() -> None:
        count.append(1)
        most.append(len(count))
        running.release()
        assert go.acquire(timeout=LONG_S)
        count.pop()

    worker = rig.worker(concurrency=2)
    worker.start()
    began = time.monotonic()
    for _ in range(5):
        rig.enqueue("hold")
    for _ in range(2):
        assert running.acquire(timeout=LONG_S)
    for _ in range(3):
        go.release()
        assert running.acquire(timeout=LONG_S)
    for _ in range(2):
        go.release()
    rig.until(lambda: rig.counts() == {DONE: 5})
    assert max(most) == 2
    assert time.monotonic() - began < 0.9, "it went by news and not by the poll of a second"


def test_a_worker_claims_only_what_it_can_start_now(rig: Rig):
    busy, go, order = threading.Event(), threading.Event(), []

    @rig.task
    def work(n: int) -> None:
        order.append(n)
        busy.set()
        assert go.wait(LONG_S)

    for n in range(20):
        rig.enqueue("work", f'{{"n": {n}}}', tier=4)
    rig.worker(concurrency=1).start()
    assert busy.wait(LONG_S)
    rig.enqueue("work", '{"n": 99}', tier=0)
    assert rig.counts() == {State.RUNNING: 1, State.AVAILABLE: 20}
    go.set()
    rig.until(lambda: rig.counts() == {DONE: 21})
    assert order[1] == 99


def test_slots_per_queue_and_reserved_slots_are_kept(rig: Rig):
    began, go = threading.Semaphore(0), threading.Event()

    @rig.task
    async def hold() -> None:
        began.release()
        while not go.is_set():  # noqa: ASYNC110
            await asyncio.sleep(0.005)

    for queue in ("mail", "setup"):
        for _ in range(5):
            rig.enqueue("hold", queue=queue, tier=4)
    worker = rig.worker(concurrency=5, queues={"mail": 1, "setup": 5}, reserve={"critical": 1})
    worker.start()
    for _ in range(4):
        assert began.acquire(timeout=LONG_S)
    assert worker.running == 4, "the fifth is kept for a critical job"
    assert sum(row.running for row in depth(rig, "mail")) == 1
    rig.enqueue("hold", queue="setup", tier=1)
    rig.enqueue("hold", queue="setup", tier=0)
    assert began.acquire(timeout=LONG_S)
    rig.until(lambda: worker.running == 5)
    assert [(row.tier, row.running) for row in depth(rig, "setup") if row.running] == [(0, 1), (4, 3)]
    go.set()
    rig.until(lambda: rig.counts() == {DONE: 12})


def depth(rig: Rig, queue: str) -> list[Any]:
    return sorted(
        (row for row in rig.owner.read(lambda store, now_ms: store.depth(now_ms)) if row.queue == queue),
        key=lambda row: row.tier,
    )


def test_a_worker_serves_the_queues_of_one_pool(rig: Rig):
    rig.owner.call(lambda store, now_ms: store.set_rule("queue", "gpu", QueueRule(pool="big"), by="t", now_ms=now_ms))
    with pytest.raises(ConfigError, match="serves one pool"):
        rig.worker(queues=["mail", "gpu"])

    @rig.task
    def quick() -> None: ...

    here, there = rig.enqueue("quick", queue="mail"), rig.enqueue("quick", queue="gpu")
    rig.drain()
    assert (rig.get(here).state, rig.get(there).state) == (DONE, State.AVAILABLE)
    rig.drain(queues=["gpu"])
    assert rig.get(there).state == DONE


def test_a_limit_that_the_code_declares_holds_from_the_first_claim(rig: Rig):
    count: list[int] = []
    most: list[int] = []

    @rig.task(limits=["api"])
    def call() -> None:
        count.append(1)
        most.append(len(count))
        time.sleep(0.002)
        count.pop()

    rig.owner.call(
        lambda store, now_ms: store.set_rule("limit", "api", LimitRule(max_running=1), by="t", now_ms=now_ms)
    )
    for _ in range(10):
        rig.enqueue("call")
    rig.worker().start()
    rig.until(lambda: rig.counts() == {DONE: 10})
    assert max(most) == 1


def test_a_task_that_is_registered_later_is_served_too(rig: Rig):
    worker = rig.worker()
    worker.start()
    job = rig.enqueue("late", delay_ms=1)

    @rig.task
    def late() -> None: ...

    rig.until_state(job, DONE)
    count: list[int] = []
    most: list[int] = []
    rig.owner.call(
        lambda store, now_ms: store.set_rule("limit", "api", LimitRule(max_running=1), by="t", now_ms=now_ms)
    )
    jobs = [rig.enqueue("limited") for _ in range(5)]

    @rig.task(limits=["api"])
    def limited() -> None:
        count.append(1)
        most.append(len(count))
        time.sleep(0.002)
        count.pop()

    for one in jobs:
        rig.until_state(one, DONE)
    assert max(most) == 1, "its limits were made known before the first claim"


# ---------------------------------------------------------------- outcomes


def test_failures_are_kept_and_tried_again_until_the_job_is_dead(rig: Rig):
    @rig.task(retry=Retry(max_attempts=3, base=0.0))
    def fail(ctx: Context) -> None:
        raise ValueError(f"attempt {ctx.attempt}\0")

    job = rig.enqueue("fail")
    rig.drain()
    record = rig.get(job)
    assert (record.state, record.failures, record.reason) == (State.DEAD, 3, "failed 3 times; max_attempts is 3")
    assert [error.message for error in record.errors] == [f"attempt {n}�" for n in (1, 2, 3)]
    assert "in fail" in record.errors[0].traceback
    assert record.errors[0].traceback.count("File") == 1, "our own frames are left out"


def test_crashing_exceptions_do_not_end_the_worker_and_have_a_budget_of_their_own(any_rig: Rig):
    rig = any_rig

    @rig.task(retry=Retry(max_crashes=1), name="sync")
    def leave(how: str) -> None:
        raise {"exit": SystemExit(1), "memory": MemoryError(), "key": KeyboardInterrupt()}[how]

    @rig.task(retry=Retry(max_crashes=1), name="async")
    async def aleave(how: str) -> None:
        leave(how)

    jobs = [rig.enqueue(task, f'{{"how": "{how}"}}') for task in ("sync", "async") for how in ("exit", "memory", "key")]
    rig.drain()
    for job in jobs:
        record = rig.get(job)
        assert (record.state, record.crashes, record.failures) == (State.DEAD, 2, 0)
        assert record.reason == "crashed 2 times; the maximum is 1"
        assert [error.kind for error in record.errors] == ["crash", "crash"]


def test_a_handlers_own_task_that_exits_does_not_end_the_loop(rig: Rig, caplog: pytest.LogCaptureFixture):
    async def leave() -> None:
        raise SystemExit(3)

    @rig.task(retry=Retry(max_attempts=1))
    async def spawn() -> str:
        child = asyncio.ensure_future(leave())
        try:
            await child
        except SystemExit:
            return "survived"
        return "?"

    @rig.task
    async def other() -> int:
        await asyncio.sleep(0.01)
        return 1

    jobs = [rig.enqueue("other"), rig.enqueue("spawn"), rig.enqueue("other")]
    rig.drain()
    assert [rig.get(job).result for job in jobs] == ["1", '"survived"', "1"]
    assert "event_loop_interrupted" in caplog.text


def test_a_handler_that_cancels_everybody_leaks_no_slot(rig: Rig):
    @rig.task(retry=Retry(max_attempts=2, base=0.0))
    async def rampage(ctx: Context) -> None:
        if ctx.attempt == 1:
            for task in asyncio.all_tasks():
                task.cancel()
            await asyncio.sleep(0)

    for _ in range(8):
        rig.enqueue("rampage")
    worker = rig.drain(concurrency=4)
    assert rig.counts().get(State.RUNNING) is None
    assert sum(rig.counts().values()) == 8
    assert worker.running == 0


def test_wishes_of_a_handler_are_carried_out(rig: Rig):
    @rig.task
    def wish(what: str) -> None:
        raise {"snooze": Snooze(3600), "cancel": Cancel("not needed"), "dead": Dead("hopeless")}[what]

    jobs = {what: rig.enqueue("wish", f'{{"what": "{what}"}}') for what in ("snooze", "cancel", "dead")}
    rig.drain()
    snoozed, cancelled, dead = (rig.get(jobs[what]) for what in ("snooze", "cancel", "dead"))
    assert (snoozed.state, snoozed.failures) == (State.SCHEDULED, 0)
    assert (cancelled.state, cancelled.reason) == (State.CANCELLED, "not needed")
    assert (dead.state, dead.reason) == (State.DEAD, "hopeless")


def test_a_limit_that_is_told_to_wait_closes_for_everyone(rig: Rig):
    calls: list[int] = []

    @rig.task(limits=["api:{tenant}"])
    def call() -> None:
        calls.append(1)
        raise RateLimited("api:{tenant}", retry_after=3600)

    @rig.task
    def free() -> None: ...

    mine = [rig.enqueue("call", tenant="acme") for _ in range(5)]
    free_job = rig.enqueue("free", tenant="acme")
    rig.drain(concurrency=1)
    assert len(calls) == 1
    assert {rig.get(one).failures for one in mine} == {0}
    assert rig.get(free_job).state == DONE


def test_arguments_that_do_not_fit_are_dead_at_once(rig: Rig):
    @rig.task
    def strict(n: int) -> None: ...

    jobs = [rig.enqueue("strict", args) for args in ('{"n": "x"}', "{}", '{"n": 1, "m": 2}')]
    rig.drain()
    assert {rig.get(job).state for job in jobs} == {State.DEAD}
    assert all("arguments do not fit" in (rig.get(job).reason or "") for job in jobs)


def test_a_sync_handler_that_returns_a_coroutine_is_told_so(rig: Rig):
    async def inner() -> None: ...

    @rig.task(retry=Retry(max_attempts=1))
    def outer() -> Any:
        return inner()

    job = rig.enqueue("outer")
    rig.drain()
    assert "returned a coroutine" in rig.get(job).errors[0].message


# ---------------------------------------------------------------- timeouts, cancel, preemption


def test_a_timeout_cancels_an_async_handler_and_fails_the_run(rig: Rig):
    @rig.task(timeout=0.05, retry=Retry(max_attempts=1))
    async def slow() -> None:
        await asyncio.sleep(LONG_S)

    @rig.task(timeout=5)
    async def quick() -> None: ...

    job, other = rig.enqueue("slow"), rig.enqueue("quick")
    rig.drain()
    record = rig.get(job)
    assert (record.state, record.failures) == (State.DEAD, 1)
    assert record.errors[0].type == "TimeoutError"
    assert "longer than its timeout of 0.05 s" in record.errors[0].message
    assert rig.get(other).state == DONE


def test_a_timeout_tells_a_sync_handler_to_stop_and_its_slot_stays_used(rig: Rig):
    seen: list[str] = []

    @rig.task(timeout=0.05, retry=Retry(max_attempts=1))
    def slow(polite: bool, ctx: Context) -> str:
        while not ctx.should_stop:
            time.sleep(0.001)
        seen.append("told")
        if polite:
            ctx.raise_if_stopping()
        return "late"

    polite, rude = rig.enqueue("slow", '{"polite": true}'), rig.enqueue("slow", '{"polite": false}')
    rig.drain(concurrency=1)
    assert seen == ["told", "told"]
    assert [rig.get(job).errors[0].type for job in (polite, rude)] == ["TimeoutError", "TimeoutError"]
    assert "it ignored the request to stop and its result was dropped" in rig.get(rude).errors[0].message
    assert rig.get(rude).result is None


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_a_running_job_can_be_cancelled(any_rig: Rig, kind: str):
    rig, running = any_rig, threading.Event()

    @rig.task(name="sync")
    def hold(ctx: Context) -> None:
        running.set()
        while True:
            ctx.raise_if_stopping()
            time.sleep(0.001)

    @rig.task(name="async")
    async def ahold() -> None:
        running.set()
        await asyncio.sleep(LONG_S)

    job = rig.enqueue(kind)
    rig.worker().start()
    assert running.wait(LONG_S)
    rig.until(lambda: rig.stores[0].calls.get("asked"), "the first look, the next is in a second")
    began = time.monotonic()
    state = rig.owner.call(lambda store, now_ms: store.cancel(job, reason="changed my mind", now_ms=now_ms))
    assert state == State.RUNNING
    record = rig.until_state(job, State.CANCELLED)
    assert time.monotonic() - began < 0.9
    assert (record.failures, record.reason) == (0, "cancelled while it ran")


def test_a_cancelled_job_that_ends_first_is_completed_and_one_that_fails_is_not_tried_again(rig: Rig):
    running, go = threading.Semaphore(0), threading.Event()

    @rig.task(retry=AT_ONCE)
    def hold(fail: bool) -> int:
        running.release()
        assert go.wait(LONG_S)
        if fail:
            raise ValueError
        return 1

    good, bad = rig.enqueue("hold", '{"fail": false}'), rig.enqueue("hold", '{"fail": true}')
    rig.worker().start()
    for _ in range(2):
        assert running.acquire(timeout=LONG_S)
    for job in (good, bad):
        rig.owner.call(lambda store, now_ms, job=job: store.cancel(job, reason="", now_ms=now_ms))
    go.set()
    assert rig.until_state(good, DONE, State.CANCELLED).state == DONE
    assert rig.until_state(bad, State.CANCELLED, State.DEAD).state == State.CANCELLED


def test_a_handler_that_swallows_the_cancellation_ends_as_it_likes(rig: Rig):
    running = threading.Event()

    @rig.task
    async def stubborn() -> str:
        running.set()
        try:
            await asyncio.sleep(LONG_S)
        except asyncio.CancelledError:
            return "finished anyway"
        return "?"

    job = rig.enqueue("stubborn")
    rig.worker().start()
    assert running.wait(LONG_S)
    rig.owner.call(lambda store, now_ms: store.cancel(job, reason="", now_ms=now_ms))
    assert rig.until_state(job, DONE, State.CANCELLED).result == '"finished anyway"'


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_a_preempted_run_goes_back_with_its_checkpoint_and_counts_for_nothing(rig: Rig, kind: str):
    running, runs = threading.Event(), []

    @rig.task(name="sync", preemptible=True)
    def hold(ctx: Context) -> str:
        runs.append(ctx.saved)
        if ctx.saved is not None:
            return "went on"
        ctx.checkpoint({"at": 5})
        running.set()
        while True:
            ctx.raise_if_stopping()
            time.sleep(0.001)

    @rig.task(name="async", preemptible=True)
    async def ahold(ctx: Context) -> str:
        runs.append(ctx.saved)
        if ctx.saved is not None:
            return "went on"
        ctx.checkpoint({"at": 5})
        running.set()
        await asyncio.sleep(LONG_S)
        return "?"

    def ask(store: Any, now_ms: int) -> None:
        store._store._raw.execute("UPDATE job SET ask = 2 WHERE state = 2")
        store._store._fresh.add("ask")

    job = rig.enqueue(kind)
    rig.worker().start()
    assert running.wait(LONG_S)
    rig.owner.call(ask)
    record = rig.until_state(job, DONE)
    assert (record.result, record.failures, record.crashes, record.preemptions) == ('"went on"', 0, 0, 1)
    assert runs == [None, {"at": 5}]


# ---------------------------------------------------------------- progress and checkpoints


def test_progress_and_checkpoints_reach_the_store_and_the_next_run(any_rig: Rig):
    rig, saved = any_rig, []

    @rig.task(retry=AT_ONCE)
    def step(ctx: Context) -> None:
        saved.append(ctx.saved)
        for n in range(200):
            ctx.progress(n / 200, f"n {n}")
        ctx.checkpoint({"next": ctx.attempt})
        if ctx.attempt < 3:
            raise ValueError

    @rig.task(retry=AT_ONCE)
    async def astep(ctx: Context) -> None:
        saved.append(ctx.saved)
        for n in range(200):
            ctx.progress(n / 200, f"n {n}")
            ctx.checkpoint({"n": n})
        ctx.checkpoint({"next": ctx.attempt})
        if ctx.attempt < 3:
            raise ValueError

    for task in ("step", "astep"):
        saved.clear()
        job = rig.enqueue(task)
        rig.drain()
        record = rig.get(job)
        assert saved == [None, {"next": 1}, {"next": 2}]
        assert record.checkpoint == '{"next":3}'
        assert record.progress == '{"share":0.995,"note":"n 199"}'


def test_reporting_progress_in_a_tight_loop_does_not_hold_up_the_event_loop(rig: Rig):
    @rig.task
    async def chatty(ctx: Context) -> float:
        began = time.monotonic()
        for n in range(1_000):
            ctx.progress(n / 1_000)
        return time.monotonic() - began

    gate = rig.gates["transaction"] = threading.Event()
    gate.set()
    job = rig.enqueue("chatty")
    rig.drain()
    assert float(rig.get(job).result or "9") < 0.5
    assert sum(store.calls.get("save", 0) for store in rig.stores) < 500


# ---------------------------------------------------------------- hooks


def test_hooks_are_told_after_the_commit_and_one_that_fails_harms_nothing(rig: Rig, caplog: pytest.LogCaptureFixture):
    told: list[tuple[str, str, Any, State]] = []
    jobs: dict[str, bytes] = {}

    def note(event: Event) -> None:
        state = rig.get(jobs[event.task]).state
        told.append((event.task, event.moment, event.result if event.error is None else str(event.error), state))

    def broken(event: Event) -> None:
        raise RuntimeError("from a hook")

    def leaving(event: Event) -> None:
        raise SystemExit("from a hook")

    async def anote(event: Event) -> None:
        await asyncio.sleep(0)
        note(event)

    for moment in ("success", "failure"):
        rig.hooks.add(moment, broken)
        rig.hooks.add(moment, note)
        rig.hooks.add(moment, leaving)
    for moment in ("start", "dead"):
        rig.hooks.add(moment, leaving)
    rig.hooks.add("finish", anote)

    @rig.task
    def good() -> int:
        return 7

    @rig.task(retry=Retry(max_attempts=2, base=0.0))
    async def bad() -> None:
        raise ValueError("no")

    for task in ("good", "bad"):
        jobs[task] = rig.enqueue(task)
        rig.drain()
    assert told[:2] == [("good", "success", 7, DONE), ("good", "finish", 7, DONE)]
    assert [one[1:3] for one in told[2:]] == [("failure", "no"), ("failure", "no"), ("finish", "no")]
    assert told[-1][-1] == State.DEAD
    assert "hook_failed moment=success" in caplog.text
    assert "hook_failed moment=start" in caplog.text


def test_hooks_hear_every_moment(rig: Rig):
    """In order, but for starts: those are told by the run itself, and the next run does not wait for hooks."""
    told: list[tuple[str, str, Any]] = []
    started: list[tuple[str, int]] = []

    def note(event: Event) -> None:
        told.append((event.task, event.moment, event.outcome))

    for moment in ("success", "failure", "dead", "finish"):
        rig.hooks.add(moment, note)
    rig.hooks.add("start", lambda event: started.append((event.task, event.attempt)))

    @rig.task
    def good() -> None: ...

    @rig.task(retry=Retry(max_attempts=2, base=0.0))
    async def bad() -> None:
        raise ValueError("no")

    @rig.task(retry=Retry(max_crashes=0))
    def crash() -> None:
        raise MemoryError

    for task in ("good", "bad", "crash"):
        rig.enqueue(task)
        rig.drain()
    assert started == [("good", 1), ("bad", 1), ("bad", 2), ("crash", 1)]
    assert told == [
        ("good", "success", "completed"),
        ("good", "finish", "completed"),
        ("bad", "failure", "retry"),
        ("bad", "failure", "dead"),
        ("bad", "dead", "dead"),
        ("bad", "finish", "dead"),
        ("crash", "failure", "crashed"),
        ("crash", "dead", "crashed"),
        ("crash", "finish", "crashed"),
    ]


def test_a_slow_hook_does_not_hold_up_the_worker(rig: Rig):
    go = threading.Event()
    rig.hooks.add("success", lambda event: go.wait(LONG_S))

    @rig.task
    def quick() -> None: ...

    worker = rig.worker()
    worker.start()
    for _ in range(20):
        rig.enqueue("quick")
    rig.until(lambda: rig.counts() == {DONE: 20})
    go.set()


# ---------------------------------------------------------------- starting and stopping


def test_start_and_stop_are_safe_in_any_order_and_nothing_runs_afterwards(rig: Rig):
    @rig.task
    async def one() -> None: ...

    @rig.task
    def two() -> None: ...

    worker = rig.worker(name="web")
    worker.stop()
    assert worker.join(0)
    assert (worker.id, worker.healthy) == ("", False)
    worker.start()
    worker.start()
    first = worker.id
    assert first.startswith("web-")
    assert worker.healthy
    rig.enqueue("one"), rig.enqueue("two")
    rig.until(lambda: rig.counts() == {DONE: 2})
    assert [one.id for one in rig.owner.read(lambda store, now_ms: store.workers())] == [first]
    worker.stop()
    worker.stop()
    assert fairlane_threads() == set()
    assert rig.owner.read(lambda store, now_ms: store.workers()) == []
    with worker:
        assert worker.id != first
        rig.enqueue("one")
        rig.until(lambda: rig.counts() == {DONE: 3})
    assert fairlane_threads() == set()


def test_stopping_waits_for_running_jobs_and_claims_no_more(rig: Rig):
    running, go = threading.Event(), threading.Event()

    @rig.task
    def hold() -> None:
        running.set()
        assert go.wait(LONG_S)

    first, second = rig.enqueue("hold"), rig.enqueue("hold")
    worker = rig.worker(concurrency=1)
    worker.start()
    assert running.wait(LONG_S)
    worker.request_stop()
    threading.Timer(0.05, go.set).start()
    worker.stop()
    assert [rig.get(job).state for job in (first, second)] == [DONE, State.AVAILABLE]
    assert rig.get(second).fence == 0


@pytest.mark.parametrize("kind", ["sync", "async", "rude"])
def test_what_outlasts_the_grace_is_given_back_unharmed(rig: Rig, kind: str):
    running, release = threading.Event(), threading.Event()

    @rig.task(name="sync")
    def hold(ctx: Context) -> None:
        ctx.checkpoint({"at": 1})
        running.set()
        while not ctx.should_stop:
            time.sleep(0.001)
        ctx.raise_if_stopping()

    @rig.task(name="async")
    async def ahold(ctx: Context) -> None:
        await ctx.acheckpoint({"at": 1})
        running.set()
        await asyncio.sleep(LONG_S)

    @rig.task(name="rude")
    def ignore(ctx: Context) -> None:
        ctx.checkpoint({"at": 1})
        running.set()
        release.wait(LONG_S)

    job = rig.enqueue(kind)
    worker = rig.worker(grace=0.05)
    worker.start()
    assert running.wait(LONG_S)
    began = time.monotonic()
    worker.stop()
    assert time.monotonic() - began < 2.05
    record = rig.get(job)
    assert (record.state, record.failures, record.crashes, record.worker) == (State.AVAILABLE, 0, 0, None)
    assert record.checkpoint == '{"at":1}'
    assert worker.abandoned == (kind == "rude")
    release.set()
    rig.until(lambda: fairlane_threads() == set(), "the end of the abandoned thread")
    assert rig.get(job).state == State.AVAILABLE, "what it returned afterwards is dropped"


def test_threads_that_run_nothing_are_not_counted_as_abandoned(rig: Rig):
    """A handler that takes all the time there is to tidy up leaves none to the threads."""
    together, hung = threading.Barrier(3), threading.Event()

    @rig.task
    def quick() -> None:
        together.wait(LONG_S)

    @rig.task
    async def stubborn() -> None:
        hung.set()
        while True:
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(LONG_S)

    jobs = [rig.enqueue("quick") for _ in range(3)]
    worker = rig.worker(grace=0.0)
    worker.start()
    for job in jobs:
        rig.until_state(job, DONE)
    rig.enqueue("stubborn")
    assert hung.wait(LONG_S)
    worker.stop()
    assert worker.abandoned == 1


def test_a_second_wish_gives_back_at_once(rig: Rig):
    running = threading.Event()

    @rig.task
    async def hold() -> None:
        running.set()
        await asyncio.sleep(LONG_S)

    job = rig.enqueue("hold")
    worker = rig.worker(grace=60)
    worker.start()
    assert running.wait(LONG_S)
    began = time.monotonic()
    worker.request_stop()
    worker.request_stop(at_once=True)
    assert worker.join(LONG_S)
    assert time.monotonic() - began < 1
    assert rig.get(job).state == State.AVAILABLE


def test_a_handler_may_ask_its_own_worker_to_stop(rig: Rig):
    @rig.task
    def last() -> None:
        worker.request_stop()

    job = rig.enqueue("last")
    worker = rig.worker()
    worker.run()
    assert rig.get(job).state == DONE


def test_log_records_of_handlers_carry_the_job(rig: Rig):
    seen: list[Any] = []
    log = logging.getLogger("test.handler")
    handler = logging.Handler()
    handler.emit = seen.append  # type: ignore[method-assign]
    handler.addFilter(JobFilter())
    log.addHandler(handler)

    @rig.task
    async def speak() -> None:
        log.warning("async")

    @rig.task
    def shout() -> None:
        log.warning("sync")

    ids = {str(rig.get(rig.enqueue(task)).uuid) for task in ("speak", "shout")}
    rig.drain()
    log.removeHandler(handler)
    assert {record.job_id for record in seen} == ids
    assert {record.job_task for record in seen} == {"speak", "shout"}


def test_what_a_job_says_is_one_line_of_the_log(rig: Rig, caplog: pytest.LogCaptureFixture):
    """Its error, its reason and its trace context come from others: none of them can write a line of its own."""
    seen: list[str] = []

    @rig.task(retry=Retry(max_attempts=1))
    def fails(ctx: Context) -> None:
        record = logging.LogRecord("x", logging.INFO, "", 0, "", (), None)
        JobFilter().filter(record)
        seen.append(record.__dict__["job_trace"])
        raise Dead("b\nERROR c") if ctx.tenant == "dead" else ValueError("a\x1b[2J\nERROR " + "x" * 1_000)

    rig.enqueue("fails", tenant="dead", trace="t\nERROR d")
    rig.enqueue("fails", tenant="fails")
    rig.drain()
    told = sorted(one.getMessage() for one in caplog.records if one.name == "fairlane.worker" and "reason=" in one.msg)
    assert len(told) == 2
    assert all(line.isprintable() and len(line) < 400 for line in told)
    assert "reason=ValueError: a\\x1b[2J\\nERROR xxx" in "".join(told)
    assert "b\\nERROR c" in "".join(told)
    assert r"t\nERROR d" in seen


# ---------------------------------------------------------------- an event loop that is blocked


def blocked_loop(rig: Rig, **options: Any) -> threading.Event:
    """Start a worker whose event loop a coroutine blocks until the event that is returned is set."""
    blocked, go = threading.Event(), threading.Event()

    @rig.task
    async def block() -> None:
        blocked.set()
        go.wait(LONG_S)

    @rig.task
    async def behind() -> None: ...

    rig.enqueue("block")
    rig.worker(**options).start()
    assert blocked.wait(LONG_S)
    return go


def test_a_blocked_event_loop_hoards_nothing(rig: Rig):
    @rig.task
    def beside() -> None: ...

    go = blocked_loop(rig, concurrency=8)
    stuck = [rig.enqueue("behind") for _ in range(3)]
    sync = [rig.enqueue("beside") for _ in range(3)]
    rig.until(lambda: all(rig.get(job).state == DONE for job in sync))
    rig.until(lambda: all(rig.get(job).state == State.AVAILABLE for job in stuck), "their return to the store")
    go.set()
    rig.until(lambda: rig.counts() == {DONE: 7})
    assert {rig.get(job).failures + rig.get(job).crashes for job in stuck} == {0}


def test_what_a_blocked_event_loop_gave_back_is_not_claimed_again_before_the_loop_goes_on(rig: Rig):
    go = blocked_loop(rig)
    stuck = rig.enqueue("behind")
    rig.until(lambda: rig.get(stuck).fence == 1, "its claim")
    rig.until_state(stuck, State.AVAILABLE)
    calls = rig.stores[0].calls
    claims = calls["claim"]
    rig.until(lambda: calls["claim"] > claims + 3, "another claim")
    record = rig.get(stuck)
    assert (record.state, record.fence) == (State.AVAILABLE, 1), "others may run it"
    go.set()
    assert rig.until_state(stuck, DONE).fence == 2


def test_a_worker_whose_queues_are_full_does_not_spin(rig: Rig, monkeypatch: pytest.MonkeyPatch):
    running, go, turns = threading.Event(), threading.Event(), []
    turn = Dispatcher._turn
    monkeypatch.setattr(Dispatcher, "_turn", lambda self, claiming: (turns.append(1), turn(self, claiming))[1])

    @rig.task
    def hold() -> None:
        running.set()
        assert go.wait(LONG_S)

    rig.enqueue("hold", queue="mail")
    rig.enqueue("hold", queue="mail", delay_ms=50)
    rig.worker(concurrency=4, queues={"mail": 1}).start()
    assert running.wait(LONG_S)
    rig.enqueue("hold", queue="mail")  # news of work, and then a timer, that it can do nothing about
    pause = threading.Event()
    pause.wait(0.1)
    turns.clear()
    pause.wait(0.2)
    assert len(turns) <= 3
    go.set()
    rig.until(lambda: rig.counts() == {DONE: 3})


def test_an_idle_worker_reads_and_writes_next_to_nothing(rig: Rig):
    @rig.task
    def quick() -> None: ...

    worker = rig.worker()
    worker.start()
    rig.enqueue("quick")
    rig.until(lambda: rig.counts() == {DONE: 1})
    pause = threading.Event()
    pause.wait(0.1)  # its own last news
    before = dict(rig.stores[0].calls)
    pause.wait(1.5)  # the one test that must let time pass: it is about what happens when nothing does
    calls = {name: count - before.get(name, 0) for name, count in rig.stores[0].calls.items()}
    assert calls.get("claim", 0) <= 3
    assert sum(calls.values()) <= 20, calls


def test_a_worker_with_many_slots_claims_in_portions_without_a_pause(rig: Rig, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("fairlane.worker.options.MAX_CLAIMS", 3)
    monkeypatch.setattr("fairlane.worker.loop.MAX_SETTLED", 2)
    all_here = threading.Barrier(21)

    @rig.task
    def meet() -> None:
        all_here.wait(LONG_S)

    for _ in range(20):
        rig.enqueue("meet")
    worker = rig.worker(concurrency=20)
    began = time.monotonic()
    worker.start()
    all_here.wait(LONG_S)
    rig.until(lambda: rig.counts() == {DONE: 20})
    assert time.monotonic() - began < 0.9


def test_a_worker_without_tasks_ends_when_told_to_end_when_idle(rig: Rig):
    job = rig.enqueue("unknown")
    rig.drain()
    assert rig.get(job).state == State.AVAILABLE


async def test_a_worker_can_be_entered_from_a_coroutine(rig: Rig):
    @rig.task
    async def one() -> None: ...

    async with rig.worker() as worker:
        job = rig.enqueue("one")
        while rig.get(job).state != DONE:  # noqa: ASYNC110
            await asyncio.sleep(0.002)
        assert worker.healthy
    assert fairlane_threads() == set()


def test_a_forked_child_starts_a_worker_of_its_own(rig: Rig):
    @rig.task
    def where() -> int:
        return os.getpid()

    worker = rig.worker()
    worker.start()
    before = rig.enqueue("where")
    rig.until_state(before, DONE)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # from 3.12 on: forking with threads
        child = os.fork()
    if child == 0:
        try:
            worker.stop()  # the parent's: nothing to wait for here
            assert worker.id == ""
            rig.enqueue("where")
            worker.start(until_idle=True)
            os._exit(0 if worker.join(LONG_S) else 3)
        finally:
            os._exit(4)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert worker.healthy
    rig.until(lambda: rig.counts() == {DONE: 2})


@pytest.mark.parametrize("busy", [False, True], ids=["idle", "running"])
def test_a_slow_read_of_another_thread_holds_up_no_claim(rig: Rig, monkeypatch: pytest.MonkeyPatch, busy: bool):
    """Reads of a process are made one after the other; a dispatcher, which reads too, does not wait for its turn."""
    monkeypatch.setattr("fairlane.worker.loop.POLL_S", 0.01)
    monkeypatch.setattr("fairlane.looks.LOOK_S", 0.01)
    reads, read, calls = threading.Event(), threading.Event(), rig.stores[0].calls

    def slow(store: Any, now_ms: int) -> None:
        reads.set()
        assert read.wait(LONG_S)

    @rig.task
    def quick() -> None: ...

    reader = threading.Thread(target=rig.owner.read, args=(slow,))
    job, go = b"", None
    if busy:
        job, worker, go = rig.hold()
    else:
        worker = rig.worker()
        worker.start()
    rig.until(lambda: calls.get("asked" if busy else "look", 0) > 3)
    reader.start()
    assert reads.wait(LONG_S)
    claims = calls["claim"]
    rig.until(lambda: calls["claim"] > claims + 3, "a claim")
    if go is not None:
        rig.owner.call(lambda store, now_ms: store.cancel(job, reason="no more", now_ms=now_ms))
    read.set()
    reader.join()
    if go is not None:
        (attempt,) = worker._start.hands.attempts()  # type: ignore[union-attr]  # pyright: ignore
        rig.until(lambda: attempt.stop == "cancel")
        go.set()
