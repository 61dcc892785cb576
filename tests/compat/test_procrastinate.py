"""Procrastinate's shim: what each option means, and that the rest is refused."""

from __future__ import annotations

import asyncio
import sqlite3
from datetime import UTC, datetime, timedelta

import pytest

import fairlane as fl
from fairlane.compat import _words
from fairlane.compat.procrastinate import AlreadyEnqueued, App, RetryStrategy


@pytest.fixture
def app(fairlane_app: fl.Fairlane) -> App:
    return App(connector=fairlane_app, tiers={10: "high", -10: "background"})


def work() -> None: ...


async def test_a_task_and_its_jobs(app, fairlane_app, run):
    @app.task(queue="sums", priority=10)
    def add(x: int, y: int = 1) -> int:
        return x + y

    assert add(x=1, y=2) == 3
    assert add.name == f"{__name__}.test_a_task_and_its_jobs.<locals>.add"
    ids = [add.defer(x=1), await add.defer_async(x=1, y=5), add.configure(task_kwargs={"x": 3}).defer(y=4)]
    ids += [app.configure_task(add.name, queue="other", priority=-10).defer(x=0)]
    jobs = [fairlane_app.get(one) for one in ids]
    assert [(job.queue, job.tier.label) for job in jobs] == [("sums", "high")] * 3 + [("other", "background")]
    run()
    assert [job.refresh().result(0) for job in jobs] == [2, 6, 7, 1]


def test_schedule_in_and_at(app, fairlane_app, fairlane_clock):
    task = app.task(work)
    now = datetime.fromtimestamp(fairlane_clock.now_ms() / 1000, UTC)
    at = now + timedelta(hours=1)
    soon = fairlane_app.get(task.configure(schedule_in={"minutes": 5}).defer())
    later = fairlane_app.get(task.configure(schedule_at=at).defer())
    assert (soon.scheduled_at, later.scheduled_at) == (now + timedelta(minutes=5), at)


def test_the_context(app, fairlane_app, run):
    @app.task(name="look", queue="q", pass_context=True)
    def look(context, x: int) -> list[object]:
        return [*context.job, context.should_abort(), x]

    one = fairlane_app.get(look.defer(x=1))
    run()
    assert one.refresh().result(0) == [str(one.id), "look", "q", 0, False, 1]


@pytest.mark.parametrize(
    ("retry", "delays"),
    [
        (False, []),
        (2, [0, 0]),
        (RetryStrategy(max_attempts=2, wait=5), [5, 5]),
        (RetryStrategy(max_attempts=3, linear_wait=3), [0, 3, 6]),
        (RetryStrategy(max_attempts=3, exponential_wait=3), [3, 9, 27]),
        (RetryStrategy(max_attempts=3, retry_exceptions=[KeyError]), []),
    ],
)
def test_retries(app, fairlane_app, run, retry, delays):
    runs: list[int] = []

    @app.task(retry=retry, pass_context=True)
    def call(context) -> None:
        runs.append(context.job.attempts)
        raise OSError

    one = fairlane_app.get(call.defer())
    run()
    if not any(delays):
        assert (len(runs), one.refresh().state) == (len(delays) + 1, "dead")
        return
    for delay in delays:
        if delay:
            before = len(runs)
            run(delay - 0.01)
            assert len(runs) == before
            run(0.01)
    assert (runs, one.refresh().state) == (list(range(len(delays) + 1)), "dead")


@pytest.mark.parametrize("retry", [True, RetryStrategy()])
def test_retries_without_end_are_refused(app, retry):
    with pytest.raises(fl.ConfigError, match="for ever; say how often"):
        app.task(retry=retry)(work)


def test_jobs_of_one_lock_run_one_at_a_time(app, fairlane_app):
    task = app.task(name="a", lock="customer")(work)
    other = app.task(name="b")(work)
    first, second = task.defer(), other.configure(lock="customer").defer()
    free = other.defer()
    claims = [fairlane_app.claim() for _ in range(3)]
    assert {claim.id for claim in claims if claim is not None} == {first, free}
    claims[0].ack()
    claims[1].ack()
    assert fairlane_app.claim().id == second


async def test_a_lock_of_an_asynchronous_program(app, fairlane_app):
    await app.task(lock="x")(work).defer_async()
    assert fairlane_app.limits["procrastinate:x"].get().max_running == 1


async def test_a_queueing_lock_is_held_by_the_one_that_waits(app, fairlane_app, run):
    task = app.task(queueing_lock="one")(work)
    task.defer()
    with pytest.raises(AlreadyEnqueued, match="'one'"):
        task.defer()
    claim = fairlane_app.claim()
    second = task.defer()  # the first has begun
    with pytest.raises(AlreadyEnqueued):
        await task.defer_async()
    claim.ack()
    run()
    assert fairlane_app.get(second).state == "completed"


def test_a_connection_of_your_own(tmp_path):
    with App(connector=f"sqlite:///{tmp_path}/jobs.db").open() as app:
        task = app.task(work)
        task.defer()
        mine = sqlite3.connect(tmp_path / "jobs.db", isolation_level=None)
        mine.execute("PRAGMA synchronous=FULL")
        mine.execute("BEGIN IMMEDIATE")
        task.configure(connection=mine).defer()
        mine.execute("ROLLBACK")
        mine.close()
        assert len(app.fairlane.jobs()) == 1


def test_periodic(app, fairlane_app):
    @app.periodic(cron="*/5 * * * *", periodic_id="often")
    @app.task(name="report", queue="q", queueing_lock="r")
    def report() -> None: ...

    fairlane_app.schedules.declare()
    info = next(iter(fairlane_app.schedules.all()))
    assert (info.name, info.cron, info.overlap, info.queue) == ("report:often", "*/5 * * * *", "skip", "q")


def test_periodic_tasks_that_cannot_be(app):
    def with_timestamp(timestamp: int) -> None: ...

    with pytest.raises(fl.ConfigError, match="takes a timestamp"):
        app.periodic(cron="* * * * *")(app.task(with_timestamp))
    with pytest.raises(fl.ConfigError, match="has a lock="):
        app.periodic(cron="* * * * *")(app.task(lock="x")(work))
    with pytest.raises(fl.ConfigError, match=r"periodic\(\): queue= has no counterpart"):
        app.periodic(cron="* * * * *", queue="x")


def test_run_worker(app, fairlane_app):
    one = fairlane_app.get(app.task(work).defer())
    app.run_worker(queues=["other"], wait=False)
    assert one.refresh().state == "available"
    app.run_worker(wait=False, concurrency=2, name="w", shutdown_graceful_timeout=1)
    assert one.refresh().state == "completed"


async def test_run_worker_async(app, fairlane_app):
    ids = [app.task(work).defer()]
    async with app.open_async():
        await app.run_worker_async(wait=False)
        assert fairlane_app.get(ids[0]).state == "completed"
        done = asyncio.Event()
        loop = asyncio.get_running_loop()
        app.task(name="tell")(lambda: loop.call_soon_threadsafe(done.set)).defer()
        waiting = asyncio.create_task(app.run_worker_async(queues=["default"], concurrency=2))
        await asyncio.wait_for(done.wait(), 15)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
    with pytest.raises(fl.StoreError, match="closed"):
        fairlane_app.jobs()


@pytest.mark.parametrize("option", _words.PROCRASTINATE_TASK)
def test_options_of_a_task_that_are_refused(app, option):
    with pytest.raises(fl.ConfigError, match=f"@app.task: {option}= has no counterpart"):
        app.task(**{option: 1})(work)


@pytest.mark.parametrize("option", _words.PROCRASTINATE_APP)
def test_options_of_the_app_that_are_refused(fairlane_app, option):
    with pytest.raises(fl.ConfigError, match=f"{option}= has no counterpart"):
        App(connector=fairlane_app, **{option: 1})


@pytest.mark.parametrize("option", _words.PROCRASTINATE_WORKER)
def test_options_of_a_worker_that_are_refused(app, option):
    with pytest.raises(fl.ConfigError, match=f"{option}= has no counterpart"):
        app.run_worker(**{option: 1})


@pytest.mark.parametrize("name", _words.PROCRASTINATE_GETS)
def test_attributes_that_are_refused(app, name):
    for holder in (app, app.task(work)):
        with pytest.raises(AttributeError, match=f"{name} has no counterpart"):
            getattr(holder, name)


def test_the_rest_that_is_refused(app):
    with pytest.raises(fl.ConfigError, match="priority=5 means"):
        app.task(priority=5)(work)
    with pytest.raises(TypeError, match="unexpected option 'quue'"):
        app.task(name="x")(work).configure(quue="x")
    with pytest.raises(fl.ConfigError, match="must take one more argument"):
        app.task(pass_context=True)(work)
