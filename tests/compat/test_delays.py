"""When a failed job is tried again: the same instants as the real packages', without their jitter."""

from __future__ import annotations

import datetime as dt
import random
import types
import warnings

import pytest

import fairlane as fl
from fairlane.compat import _celery_result, dramatiq, procrastinate
from fairlane.compat import celery as our_celery
from fairlane.compat.rq import Retry

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # theirs
    pytest.importorskip("celery")
    pytest.importorskip("rq")
    pytest.importorskip("dramatiq")
    pytest.importorskip("procrastinate")
    from celery.schedules import crontab as their_crontab
    from celery.utils.time import get_exponential_backoff_interval
    from dramatiq.common import compute_backoff
    from procrastinate import RetryStrategy
    from rq.job import Job as TheirJob


class Lowest(random.Random):
    """Draws the shortest stretch there is."""

    def random(self) -> float:
        return 0.0


def delays(retry: fl.Retry, times: int) -> list[float]:
    found = [retry.delay_ms(failures, OSError(), Lowest()) for failures in range(1, times + 1)]
    return [one / 1000 for one in found if one is not None]


@pytest.mark.parametrize(("factor", "longest"), [(1, 600), (5, 600), (7, 30)])
def test_celery(fairlane_app: fl.Fairlane, factor: int, longest: int):
    app = our_celery.Celery("x", broker=fairlane_app)
    options = {"retry_backoff": factor, "retry_backoff_max": longest, "max_retries": 9}
    task = app.task(autoretry_for=(OSError,), **options)(types.FunctionType((lambda: None).__code__, {}, "work"))
    theirs = [get_exponential_backoff_interval(factor, retries, longest) for retries in range(9)]
    assert delays(task.fairlane.retry, 10) == theirs
    _celery_result.apps.clear()


@pytest.mark.parametrize(("least", "most"), [(15_000, 604_800_000), (100, 1_000)])
def test_dramatiq(fairlane_app: fl.Fairlane, least: int, most: int):
    broker = dramatiq.FairlaneBroker(fairlane_app)
    actor = dramatiq.actor(broker=broker, actor_name="x", max_retries=12, min_backoff=least, max_backoff=most)(print_it)
    theirs = [compute_backoff(n, factor=least, max_backoff=most, jitter=False)[1] / 1000 for n in range(12)]
    assert delays(actor.fairlane.retry, 13) == theirs


def print_it() -> None: ...


@pytest.mark.parametrize("interval", [0, 7, [10, 30, 60], [1], [1, 2, 3, 4, 5, 6, 7]])
@pytest.mark.parametrize("most", [1, 3, 5])
def test_rq(interval: int | list[int], most: int):
    job = object.__new__(TheirJob)
    job.retry_intervals = [interval] if isinstance(interval, int) else interval
    theirs: list[float | None] = []
    for left in range(most, 0, -1):
        job.retries_left = left
        theirs.append(job.get_retry_interval())
    ours = Retry(max=most, interval=interval)
    assert [ours.delay(attempt) for attempt in range(1, most + 2)] == [*theirs, None]


@pytest.mark.parametrize(
    "said", [{}, {"wait": 5}, {"linear_wait": 3}, {"exponential_wait": 3}, {"wait": 1, "linear_wait": 2}]
)
def test_procrastinate(said: dict[str, int]):
    strategy = RetryStrategy(max_attempts=4, **said)
    theirs: list[float] = []
    for attempts in range(6):
        began = dt.datetime.now(dt.UTC)  # noqa: TID251  theirs reads the clock
        decision = strategy.get_retry_decision(exception=OSError(), job=types.SimpleNamespace(attempts=attempts))
        if decision is not None:
            assert decision.retry_at is not None
            theirs.append(round((decision.retry_at - began).total_seconds()))
    assert delays(procrastinate.RetryStrategy(max_attempts=4, **said).delays(), 6) == theirs


@pytest.mark.parametrize(
    "said",
    [
        {},
        {"minute": "*/15", "hour": "2-4"},
        {"minute": 0, "hour": "6,18", "day_of_week": "mon-fri"},
        {"minute": 30, "hour": 0, "day_of_week": "sun"},
        {"minute": "5", "hour": "*/6", "day_of_month": "1,15"},
        {"minute": 0, "hour": 0, "month_of_year": "*/3", "day_of_month": 2},
        {"minute": "10-12", "day_of_week": "0,6"},
    ],
)
def test_crontabs(fairlane_app: fl.Fairlane, said: dict[str, str | int]):
    ours, theirs = our_celery.crontab(**said), their_crontab(**said)
    ticks = fairlane_app.schedule("x", "task", cron=ours.expression).next(20)
    at = dt.datetime.fromtimestamp(fairlane_app.clock.now_ms() // 60_000 * 60, dt.UTC)
    expected: list[dt.datetime] = []
    while len(expected) < 20:
        at += dt.timedelta(minutes=1)
        day = at.isoweekday() % 7 in theirs.day_of_week and at.day in theirs.day_of_month
        if not (day and at.month in theirs.month_of_year):
            at = at.replace(hour=23, minute=59)
        elif at.hour in theirs.hour and at.minute in theirs.minute:
            expected.append(at)
    assert ticks == expected
