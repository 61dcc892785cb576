"""Claims that programs pull, and waiting for results, over a store in memory."""

from __future__ import annotations

import asyncio
import dataclasses
import datetime as dt
import threading
from concurrent.futures import Future
from typing import Any

import pytest

import fairlane as fl
from fairlane.faces import arun, run, wait
from fairlane.pulled import PulledClaim
from fairlane.testing.clock import START_MS, ManualClock

START = dt.datetime.fromtimestamp(START_MS / 1000, dt.UTC)


@dataclasses.dataclass
class Point:
    x: int


def claimed(app: fl.Fairlane, **options: Any) -> PulledClaim:
    claim = app.claim(**options)
    assert claim is not None
    return claim


# ---------------------------------------------------------------- pull


def test_a_claim_tells_what_to_run(app: fl.Fairlane) -> None:
    app.enqueue("work", {"n": 1}, queue="q", tenant="acme", tier="high")
    claim = claimed(app, queues=["q"], lease=30)
    assert (claim.task, claim.args, claim.attempt, claim.phase, claim.saved) == ("work", {"n": 1}, 1, "process", None)
    assert (claim.queue, claim.tenant, claim.tier) == ("q", "acme", fl.Tier.HIGH)
    assert claim.job.state == "running"
    assert claim.id == claim.job.id
    assert app.claim(queues=["q"]) is None


def test_an_acked_claim_is_completed(app: fl.Fairlane) -> None:
    job = app.enqueue("work")
    claimed(app).ack({"answer": "a\0b"})
    assert job.result(timeout=5) == {"answer": "a\ufffdb"}
    job = app.enqueue("work")
    claimed(app).ack()
    assert job.result(timeout=5) is None


def test_a_nack_is_tried_again_until_the_attempts_are_used_up(app: fl.Fairlane, clock: ManualClock) -> None:
    @app.task(retry=fl.Retry(max_attempts=2, base=10, jitter=0))
    def work() -> None: ...

    job = work.enqueue()
    claim = claimed(app)
    claim.save({"next": 3})
    claim.progress(0.5, "half")
    claim.nack("broken")
    assert (job.state, job.failures, job.errors[0].message, job.errors[0].kind) == ("scheduled", 1, "broken", "failure")
    assert (job.progress, job.checkpoint) == ((0.5, "half"), {"next": 3})
    assert app.claim() is None
    clock.advance(seconds=10)
    again = claimed(app)
    assert (again.attempt, again.saved, again.fence > claim.fence) == (2, {"next": 3}, True)
    again.nack(ValueError("still broken"), retry_in=0)
    assert job.refresh().state == "dead"
    with pytest.raises(fl.JobFailed, match=r"max_attempts is 2.*ValueError: still broken") as failed:
        job.result()
    assert [error.attempt for error in failed.value.errors] == [1, 2]


def test_a_nack_may_say_when(app: fl.Fairlane) -> None:
    job = app.enqueue("work")
    claimed(app).nack("not now", retry_in=0)
    assert job.state in {"available", "scheduled"}
    assert claimed(app).attempt == 2


def test_other_ends_of_a_claim(app: fl.Fairlane, clock: ManualClock) -> None:
    job = app.enqueue("work")
    claimed(app).snooze(5)
    assert (job.state, job.failures) == ("scheduled", 0)
    clock.advance(seconds=5)
    claimed(app).release()
    assert (job.refresh().state, job.failures, job.crashes) == ("available", 0, 0)
    claimed(app).dead("bad")
    assert (job.refresh().state, job.reason) == ("dead", "bad")


def test_a_stale_holder_changes_nothing(app: fl.Fairlane, clock: ManualClock) -> None:
    job = app.enqueue("work")
    stale = claimed(app, lease=1)
    clock.advance(seconds=2)
    app.rescue()
    claimed(app)
    before = job.refresh().record
    for call in (
        stale.heartbeat,
        lambda: stale.save({"a": 1}),
        lambda: stale.progress(1),
        lambda: stale.ack(1),
        lambda: stale.nack("x"),
        lambda: stale.dead("x"),
        lambda: stale.snooze(1),
        stale.release,
        stale.cancelled,
    ):
        with pytest.raises(fl.LeaseLost):
            call()
    assert job.refresh().record == before


def test_a_heartbeat_renews_the_lease(app: fl.Fairlane, clock: ManualClock) -> None:
    app.enqueue("work")
    claim = claimed(app, lease=10)
    clock.advance(seconds=9)
    assert claim.heartbeat() is None
    assert claim.lease_expires_at == START + dt.timedelta(seconds=19)
    clock.advance(seconds=9)
    assert app.rescue() == 0
    claim.ack()


def test_claims_are_for_one_pool_and_for_tasks_that_are_named(app: fl.Fairlane) -> None:
    app.queues["gpu"].set(pool="gpu")
    app.enqueue("a", queue="gpu")
    app.enqueue("b", queue="cpu")
    app.enqueue("c", queue="cpu")
    with pytest.raises(fl.ConfigError, match="a claim is for one pool"):
        app.claim(queues=["gpu", "cpu"])
    with pytest.raises(fl.ConfigError, match="in pool 'gpu', not in 'default'"):
        app.claim(queues=["gpu"], pool="default")
    assert claimed(app, tasks=["c"]).task == "c"
    assert claimed(app, queues=["gpu"]).task == "a"
    assert [claim.task for claim in app.claim_many(5)] == ["b"]


@pytest.mark.parametrize(
    "wrong",
    [
        {"lease": 0},
        {"lease": float("inf")},
        {"queues": []},
        {"queues": [""]},
        {"wait": -1},
        {"tasks": []},
        {"pool": ""},
    ],
)
def test_wrong_claims_are_refused(app: fl.Fairlane, wrong: dict[str, Any]) -> None:
    with pytest.raises(fl.InvalidValue):
        app.claim(**wrong)


def test_a_claim_can_wait_for_a_job(app: fl.Fairlane) -> None:
    assert app.claim(wait=0.01) is None
    got: list[PulledClaim | None] = []
    waiting = threading.Thread(target=lambda: got.append(app.claim(wait=10)))
    waiting.start()
    job = app.enqueue("work")
    waiting.join(10)
    assert got[0] is not None
    assert got[0].job == job


async def test_a_cancelled_claim_leaves_nothing_leased(app: fl.Fairlane) -> None:
    blocked = threading.Event()
    entered = threading.Event()

    def block(store: object, now_ms: int) -> None:
        entered.set()
        blocked.wait(10)

    app.enqueue("work")
    holding = app.owner.submit(block)  # the claim waits in line behind it
    await asyncio.to_thread(entered.wait, 10)
    claim = asyncio.create_task(app.aclaim())
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    claim.cancel()
    with pytest.raises(asyncio.CancelledError):
        await claim
    blocked.set()
    await asyncio.wrap_future(holding)
    assert await app.aclaim() is not None
    assert (await app.adepth()).running == 1


# ---------------------------------------------------------------- waiting for results


def test_results_arrive_typed_where_the_task_is_known(app: fl.Fairlane) -> None:
    @app.task
    def point() -> Point: ...

    job = point.enqueue()
    claimed(app).ack(Point(3))
    assert job.result(timeout=5) == Point(3)
    assert app.get(job.id).result() == Point(3)


def test_a_wait_ends_in_time(app: fl.Fairlane) -> None:
    job = app.enqueue("work")
    for timeout in (0, 0.01):
        with pytest.raises(fl.WaitTimeout, match="is still available") as late:
            job.result(timeout=timeout)
    assert isinstance(late.value, TimeoutError)
    with pytest.raises(fl.InvalidValue):
        job.result(timeout=-1)


def test_a_cancelled_job_has_no_result(app: fl.Fairlane) -> None:
    job = app.enqueue("work")
    app.cancel(job, reason="no need")
    with pytest.raises(fl.JobCancelled, match="no need"):
        job.result()
    assert job.join() == "cancelled"


def test_a_result_that_was_too_large_is_told(app: fl.Fairlane) -> None:
    job = app.enqueue("work")
    claimed(app).ack("x" * 300_000)
    with pytest.raises(fl.InvalidJob, match="not stored: result has"):
        job.result()


def test_news_of_an_end_ends_a_wait(app: fl.Fairlane, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fairlane.handles.POLL_S", 60)
    jobs = [app.enqueue("work") for _ in range(2)]
    got: list[Any] = []
    threads = [threading.Thread(target=lambda job=job: got.append(job.result(timeout=15))) for job in jobs]
    for thread in threads:
        thread.start()
    for claim in app.claim_many(2):
        claim.ack("done")
    for thread in threads:
        thread.join(15)
    assert got == ["done"] * 2


async def test_a_wait_that_is_over_cancels_what_it_waited_for(app: fl.Fairlane) -> None:
    future: Future[None] = Future()
    assert not await arun(app, wait(future, 0.01))
    assert future.cancelled()
    future = Future()
    assert not run(app, wait(future, 0.01))
    assert future.cancelled()
    future = Future()
    future.set_result(None)
    assert await arun(app, wait(future, None))
    assert run(app, wait(future, None))


def test_many_wait_for_one_end(app: fl.Fairlane) -> None:
    job = app.enqueue("work")
    got: list[Any] = []
    threads = [threading.Thread(target=lambda: got.append(job.result(timeout=10))) for _ in range(5)]
    for thread in threads:
        thread.start()
    claimed(app).ack("done")
    for thread in threads:
        thread.join(10)
    assert got == ["done"] * 5


async def test_many_wait_for_many_ends(app: fl.Fairlane) -> None:
    jobs = await app.aenqueue_many(app.new("work", {"n": n}) for n in range(50))
    results = asyncio.gather(*(job.aresult(timeout=10) for job in jobs))
    for claim in await app.aclaim_many(50):
        await claim.aack(claim.args["n"])
    assert await results == list(range(50))


async def test_a_cancelled_wait_leaves_the_others_waiting(app: fl.Fairlane) -> None:
    job = await app.aenqueue("work")
    first, second = asyncio.create_task(job.aresult()), asyncio.create_task(job.aresult(timeout=10))
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(first, 0.05)
    claim = await app.aclaim()
    assert claim is not None
    await claim.aack(1)
    assert await second == 1


def test_closing_wakes_those_who_wait(clock: ManualClock, monkeypatch: pytest.MonkeyPatch) -> None:
    app = fl.Fairlane("sqlite://", clock=clock)
    job = app.enqueue("work")
    errors: list[Exception] = []
    watching = threading.Event()
    watch = app.ends.watch

    def watched(*args: Any) -> Any:
        future = watch(*args)
        watching.set()
        return future

    def waits() -> None:
        try:
            job.result(timeout=10)
        except fl.FairlaneError as error:
            errors.append(error)

    monkeypatch.setattr(app.ends, "watch", watched)
    thread = threading.Thread(target=waits)
    thread.start()
    assert watching.wait(10)
    app.close()
    assert "fairlane-ends" not in {running.name for running in threading.enumerate()}
    thread.join(10)
    assert [type(error) for error in errors] == [fl.StoreError]
    for call in (app.depth, lambda: app.enqueue("x"), job.result):
        with pytest.raises(fl.StoreError, match="closed"):
            call()
