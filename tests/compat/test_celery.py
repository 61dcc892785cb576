"""Celery's shim: what each option means, and that the rest is refused."""

from __future__ import annotations

import sys
import types
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from importlib.machinery import ModuleSpec
from typing import Any

import pytest

import fairlane as fl
from fairlane.compat import _celery_result, _words
from fairlane.compat.celery import AsyncResult, Celery, Conf, Retry, crontab, shared_task
from fairlane.domain.policy import Rate
from fairlane.testing import ManualClock


@pytest.fixture
def app(fairlane_app: fl.Fairlane) -> Iterator[Celery]:
    yield Celery("shop", broker=fairlane_app, tiers={9: "critical", 0: "background"})
    _celery_result.apps.clear()


def test_a_call_is_a_job_with_a_result(app, run):
    @app.task
    def add(x: int, y: int = 1) -> int:
        return x + y

    assert add(2, 3) == 5
    assert add.name == f"{__name__}.add"
    two, three = add.delay(1), add.apply_async(None, {"x": 1, "y": 2})
    assert (two.state, two.ready(), two.result) == ("PENDING", False, None)
    run()
    assert (two.get(timeout=1), three.get(), three.status, three.successful()) == (2, 3, "SUCCESS", True)
    assert app.AsyncResult(two.id).result == AsyncResult(two.id).result == 2


def test_arguments_by_position_and_a_name_of_its_own(app, run):
    @app.task(name="sum", queue="math")
    def add(x: int, y: int) -> int:
        return x + y

    sent = app.send_task("sum", {"x": 1, "y": 2}, queue="other", countdown=5)
    assert (sent.fairlane.queue, add.delay(1, 2).fairlane.queue) == ("other", "math")
    run(5)
    assert sent.get() == 3


def test_countdown_eta_expires_priority_queue(app, fairlane_clock):
    @app.task(priority=0)
    def note() -> None: ...

    now = datetime.fromtimestamp(fairlane_clock.now_ms() / 1000, UTC)
    job = note.apply_async(countdown=10, expires=60, priority=9, queue="q").fairlane
    assert (job.scheduled_at, job.expires_at) == (now + timedelta(seconds=10), now + timedelta(seconds=60))
    assert (job.tier, job.queue) == (fl.Tier.CRITICAL, "q")
    job = note.apply_async(eta=now + timedelta(hours=1), expires=now + timedelta(hours=2)).fairlane
    assert (job.scheduled_at, job.expires_at) == (now + timedelta(hours=1), now + timedelta(hours=2))
    assert (job.tier, job.queue) == (fl.Tier.BACKGROUND, "default")
    with pytest.raises(fl.ConfigError, match=r"priority=5 means, with tiers="):
        note.apply_async(priority=5)
    with pytest.raises(fl.InvalidJob, match="without a timezone"):
        note.apply_async(eta=datetime(2030, 1, 1))  # noqa: DTZ001  that is the point


def test_an_expired_job_is_revoked(app, run):
    @app.task
    def note() -> None: ...

    late = note.apply_async(expires=5)
    run(6)
    assert late.state == "REVOKED"
    with pytest.raises(fl.JobCancelled):
        late.get()


def test_revoke(app, run):
    @app.task
    def note() -> None: ...

    gone, done = note.delay(), note.apply_async()
    gone.revoke()
    run()
    done.revoke(terminate=True)  # it has ended: nothing happens
    assert (gone.state, done.state) == ("REVOKED", "SUCCESS")


def test_revoke_asks_a_run_to_stop_only_with_terminate(app, fairlane_app):
    @app.task(name="note")
    def note() -> None: ...

    result = note.delay()
    claim = fairlane_app.claim()
    assert result.state == "STARTED"
    result.revoke()
    assert claim.heartbeat() is None
    result.revoke(terminate=True)
    assert claim.heartbeat() == "cancel"


def test_self_retry_waits_its_countdown_and_ends_with_the_error(app, run):
    seen: list[int] = []

    @app.task(bind=True, max_retries=2)
    def charge(self, order: int) -> None:
        seen.append(self.request.retries)
        assert self.name.endswith(".charge")
        raise self.retry(exc=OSError(f"order {order}"), countdown=7)

    result = charge.delay(3)
    run()
    assert result.state == "RETRY"
    run(6.9)
    assert seen == [0]
    run(0.1)
    run(7)
    assert (seen, result.state, result.failed()) == ([0, 1, 2], "FAILURE", True)
    assert [error.type for error in result.fairlane.errors] == ["OSError"] * 3
    assert isinstance(result.get(propagate=False), fl.JobFailed)
    with pytest.raises(fl.JobFailed, match="order 3"):
        result.get()


def test_self_retry_in_an_except_block_and_without_any_error(app, run):
    @app.task(bind=True, default_retry_delay=3)
    def charge(self, *, how: str) -> str:
        if self.request.retries:
            return self.request.id
        try:
            if how == "error":
                raise KeyError("x")
        except KeyError:
            self.retry()
        raise self.retry(throw=False)

    error, none = charge.delay(how="error"), charge.delay(how="none")
    run()
    run(3)
    assert (error.get(), none.get()) == (error.id, none.id)
    assert [one.fairlane.errors[0].type.rpartition(".")[2] for one in (error, none)] == ["KeyError", Retry.__name__]


def test_only_what_autoretry_names_is_tried_again(app, run):
    runs: list[str] = []

    @app.task(autoretry_for=(LookupError,), dont_autoretry_for=(IndexError,), max_retries=1, default_retry_delay=4)
    def look(what: str) -> None:
        runs.append(what)
        raise {"key": KeyError, "index": IndexError, "value": ValueError}[what]

    results = [look.delay(what) for what in ("key", "index", "value")]
    run()
    run(4)
    assert sorted(runs) == ["index", "key", "key", "value"]
    assert {one.state for one in results} == {"FAILURE"}


@pytest.mark.parametrize(
    ("options", "delays"),
    [
        ({"retry_backoff": True, "retry_jitter": False}, [1, 2, 4]),
        ({"retry_backoff": 5, "retry_backoff_max": 8, "retry_jitter": False}, [5, 8, 8]),
        ({"retry_kwargs": {"max_retries": 3, "countdown": 9}}, [9, 9, 9]),
        ({}, [180, 180, 180]),
    ],
)
def test_backoff(app, run, options: dict[str, Any], delays: list[int]):
    @app.task(autoretry_for=(OSError,), **options)
    def call() -> None:
        raise OSError

    result = call.delay()
    run()
    for delay in delays:
        wait = result.fairlane.refresh().record
        assert result.state == "RETRY"
        run(delay - 0.01)
        assert result.fairlane.refresh().failures == wait.failures
        run(0.01)
    assert result.state == "FAILURE"


def test_jitter_only_stretches(app, fairlane_app):
    @app.task(autoretry_for=(OSError,), retry_backoff=10)
    def call() -> None: ...

    assert (call.fairlane.retry.base, call.fairlane.retry.jitter, call.fairlane.retry.cap) == (10, 1.0, 600)


def test_rate_limit_is_a_limit_of_all_workers(app, fairlane_app, run):
    done: list[int] = []

    @app.task(rate_limit="6/m")
    def call(n: int) -> None:
        done.append(n)

    results = [call.delay(n) for n in range(2)]
    limit = fairlane_app.limits[f"celery:{call.name}"]
    assert limit.get().rate == Rate.of(6, 60, 1)
    run()
    assert (done, results[1].state) == ([0], "PENDING")
    run(10)
    assert done == [0, 1]


def test_a_rate_is_put_down_by_a_worker_too(app, fairlane_app, run):
    @app.task(name="call", rate_limit="6/m")
    def call() -> None: ...

    app.send_task("call")  # as a schedule does it, or a producer without the code
    assert fairlane_app.limits["celery:call"].get().rate is None
    run()
    assert fairlane_app.limits["celery:call"].get().rate == Rate.of(6, 60, 1)


@pytest.mark.parametrize(
    ("said", "rate"),
    [("10/s", Rate.of(10, 1, 1)), (3, Rate.of(3, 1, 1)), ("0.5/m", Rate.of(1, 120, 1)), ("2/h", Rate.of(2, 3600, 1))],
)
def test_rates(app, fairlane_app, said, rate):
    @app.task(name="call", rate_limit=said)
    def call() -> None: ...

    call.delay()
    assert fairlane_app.limits["celery:call"].get().rate == rate


def test_a_rate_that_is_none(app):
    with pytest.raises(fl.ConfigError, match="like '10/s'"):
        app.task(rate_limit="10/day")(print)


def test_time_limit_is_a_timeout(app):
    assert app.task(time_limit=30)(lambda_named()).fairlane.timeout_ms == 30_000


def lambda_named() -> Any:
    def work() -> None: ...

    return work


def test_shared_task_gets_the_first_app(fairlane_app, run):
    @shared_task
    def early() -> str:
        return "early"

    with pytest.raises(fl.ConfigError, match="has no app yet"):
        early.delay()
    Celery("shop", broker=fairlane_app)

    @shared_task(name="late")
    def late() -> str:
        return "late"

    results = [early.delay(), late.delay()]
    run()
    assert [one.get() for one in results] == ["early", "late"]
    _celery_result.apps.clear()


def test_beat_schedule(app, fairlane_app, fairlane_clock: ManualClock):
    app.conf.update(
        timezone="Europe/Paris",
        beat_schedule={
            "often": {"task": "add", "schedule": 30.0, "args": (1,), "options": {"queue": "q", "priority": 9}},
            "span": {"task": "add", "schedule": timedelta(minutes=5), "kwargs": {"x": 2}, "options": {"expires": 60}},
            "morning": {"task": "add", "schedule": crontab(minute=0, hour=7, day_of_week="mon-fri"), "args": [3, 4]},
        },
    )

    @app.task(name="add")
    def add(x: int, y: int = 0) -> int:
        return x + y

    fairlane_app.schedules.declare()
    told = {info.name: info for info in fairlane_app.schedules.all()}
    assert told["morning"].cron == "0 7 * * mon-fri"
    assert told["morning"].tz == "Europe/Paris"
    fairlane_clock.advance(seconds=300)
    fairlane_app.schedules.fire()
    often = next(job for job in fairlane_app.jobs(tag="schedule:often"))
    span = next(job for job in fairlane_app.jobs(tag="schedule:span"))
    assert (often.args, often.queue, often.tier) == ({"x": 1}, "q", fl.Tier.CRITICAL)
    assert span.args == {"x": 2}
    assert (span.expires_at - span.enqueued_at).total_seconds() == 60


def test_schedules_that_are_declared_stay_as_they_are(app):
    app.conf.beat_schedule = {"x": {"task": "add", "schedule": 30}}
    with pytest.raises(TypeError):
        app.conf.beat_schedule["y"] = {"task": "add", "schedule": 30}
    for late in ({"timezone": "Europe/Paris"}, {"beat_schedule": {}}):
        with pytest.raises(fl.ConfigError, match="set timezone first"):
            app.conf.update(late)


def test_a_beat_entry_without_its_task_is_told(app, fairlane_app):
    app.conf.beat_schedule = {"x": {"task": "nobody", "schedule": 30}}
    with pytest.raises(fl.ConfigError, match="names the task 'nobody'"):
        fairlane_app.schedules.declare()


@pytest.mark.parametrize(
    ("entry", "why"),
    [
        ({"schedule": 30, "relative": True}, "relative="),
        ({"schedule": 30, "options": {"link": 1}}, "link="),
        ({"schedule": "soon"}, "every must be a number"),
        ({"schedule": 0.5}, "it must be"),
    ],
)
def test_beat_entries_that_cannot_be(app, entry, why):
    with pytest.raises(fl.ConfigError, match=why):
        app.conf.beat_schedule = {"x": {"task": "add", **entry}}


def test_a_crontab_of_both_days_is_refused():
    with pytest.raises(fl.ConfigError, match="both match"):
        crontab(day_of_week=1, day_of_month=13)


# ---------------------------------------------------------------- refused


@pytest.mark.parametrize("option", _words.CELERY_TASK)
def test_options_of_a_task_that_are_refused(app, option):
    with pytest.raises(fl.ConfigError, match=rf"@app.task: {option}= has no counterpart"):
        app.task(**{option: 1})(lambda_named())


@pytest.mark.parametrize(("option", "value"), [("acks_late", False), ("serializer", "pickle")])
def test_what_is_always_so(app, option, value):
    app.task(name="fine", acks_late=True, serializer="json")(lambda_named())
    with pytest.raises(fl.ConfigError, match=f"{option}={value!r} cannot be had"):
        app.task(**{option: value})(lambda_named())


def test_retries_without_end_are_refused(app):
    with pytest.raises(fl.ConfigError, match="max_retries=None"):
        app.task(max_retries=None)(lambda_named())
    with pytest.raises(fl.ConfigError, match="retry_kwargs: eta="):
        app.task(retry_kwargs={"eta": 1})(lambda_named())


@pytest.mark.parametrize("option", sorted(_words.CELERY_CALL.keys() - {"eta"}))
def test_options_of_a_call_that_are_refused(app, fairlane_app, option):
    task = app.task(name="x")(lambda_named())
    with pytest.raises(fl.ConfigError, match=rf"apply_async\(\): {option}= has no counterpart"):
        task.apply_async(**{option: 1})
    assert len(fairlane_app.jobs()) == 0


def test_a_slip_is_told(app):
    with pytest.raises(fl.ConfigError, match=r"send_task\(\): args= has no counterpart .* kwargs="):
        app.send_task("x", args=[1])
    with pytest.raises(TypeError, match="unexpected option 'coutdown'"):
        app.task(name="x")(lambda_named()).apply_async(coutdown=3)


def test_self_retry_refuses_what_belongs_to_the_task(app, run):
    @app.task(bind=True)
    def charge(self) -> None:
        self.retry(max_retries=9)

    result = charge.delay()
    run()
    assert "max_retries= has no counterpart" in result.fairlane.errors[0].message


@pytest.mark.parametrize("name", _words.CELERY_TASK_GETS)
def test_attributes_of_a_task_that_are_refused(app, name):
    with pytest.raises(AttributeError, match=f"Task.{name} has no counterpart"):
        getattr(app.task(name="x")(lambda_named()), name)


@pytest.mark.parametrize("name", _words.CELERY_RESULT_GETS)
def test_attributes_of_a_result_that_are_refused(app, name):
    with pytest.raises(AttributeError, match=f"AsyncResult.{name} has no counterpart"):
        getattr(app.task(name="x")(lambda_named()).delay(), name)


@pytest.mark.parametrize("option", _words.CELERY_APP)
def test_options_of_the_app_that_are_refused(fairlane_app, option):
    with pytest.raises(fl.ConfigError, match=f"{option}= has no counterpart"):
        Celery("x", broker=fairlane_app, **{option: "y"})


@pytest.mark.parametrize("name", _words.CELERY_APP_GETS)
def test_attributes_of_the_app_that_are_refused(app, name):
    with pytest.raises(AttributeError, match=f"Celery.{name} has no counterpart"):
        getattr(app, name)


@pytest.mark.parametrize("name", _words.CELERY_CONF)
def test_settings_that_are_refused(app, name):
    with pytest.raises(fl.ConfigError, match=f"app.conf: {name}= has no counterpart"):
        setattr(app.conf, name, 1)
    assert isinstance(app.conf, Conf)


@pytest.mark.parametrize("broker", [None, "redis://localhost", "amqp://"])
def test_other_brokers_are_refused(broker):
    with pytest.raises(fl.ConfigError, match="takes a fairlane store"):
        Celery("x", broker=broker)


def test_a_program_that_is_started_itself_has_the_name_that_others_import_it_by(app, monkeypatch):
    main = types.ModuleType("__main__")
    main.__file__ = "/srv/shop.py"
    monkeypatch.setitem(sys.modules, "__main__", main)
    work = lambda_named()
    work.__module__ = "__main__"
    assert app.task(work).name == "shop.work"
    main.__spec__ = ModuleSpec("shop.jobs", None)
    work.__name__ = "other"
    assert app.task(work).name == "shop.jobs.other"
