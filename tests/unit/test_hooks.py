"""Which hooks are told of which ends: every way in which a run, and a job, may end."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

import fairlane as fl
from fairlane.hooks import MOMENTS
from fairlane.testing.clock import ManualClock
from fairlane.worker import worker
from fairlane.worker.notices import LOOK_S, Notices

LONG_S = 10.0


class Told:
    """Takes note of what the hooks of an app are told, for all tasks and for one."""

    def __init__(self, app: fl.Fairlane) -> None:
        self.events: list[fl.Event] = []
        for moment in MOMENTS:
            app.hooks.add(moment, self.events.append)

    @property
    def moments(self) -> list[str]:
        return [event.moment for event in self.events]


def work(app: fl.Fairlane) -> None:
    app.run_worker(until_idle=True, signals=False)


def returns() -> str:
    return "fine"


def fails() -> None:
    raise ValueError("no")


def dies() -> None:
    raise fl.Dead("enough")


def cancels() -> None:
    raise fl.Cancel("not wanted")


def leaves() -> None:
    raise SystemExit(1)


def snoozes() -> None:
    raise fl.Snooze(60)


def waits() -> None:
    raise fl.NotReady(60)


def is_limited() -> None:
    raise fl.RateLimited("api", retry_after=60)


ONCE = fl.Retry(max_attempts=1)
AGAIN = fl.Retry(max_attempts=2, base=60.0)


@pytest.mark.parametrize(
    ("handler", "retry", "moments", "outcome"),
    [
        (returns, ONCE, ["start", "success", "finish"], "completed"),
        (fails, ONCE, ["start", "failure", "dead", "finish"], "dead"),
        (fails, AGAIN, ["start", "failure"], "retry"),
        (dies, AGAIN, ["start", "failure", "dead", "finish"], "dead"),
        (cancels, AGAIN, ["start", "finish"], "cancelled"),
        (leaves, fl.Retry(max_crashes=0), ["start", "failure", "dead", "finish"], "crashed"),
        (snoozes, ONCE, ["start"], None),
        (waits, ONCE, ["start"], None),
        (is_limited, ONCE, ["start"], None),
    ],
)
def test_what_is_told_of_each_end(
    app: fl.Fairlane, handler: Callable[[], Any], retry: fl.Retry, moments: list[str], outcome: str | None
) -> None:
    told = Told(app)
    app.task(name="t", retry=retry)(handler)
    app.enqueue("t")
    work(app)
    app.close()
    assert told.moments == moments
    assert told.events[-1].outcome == outcome
    assert {event.attempt for event in told.events} == {1}


def test_arguments_that_do_not_fit(app: fl.Fairlane) -> None:
    told = Told(app)
    app.enqueue("t", {"n": 1})  # not known yet, so not checked

    @app.task
    def t(n: str) -> None: ...

    work(app)
    app.close()
    assert told.moments == ["start", "failure", "dead", "finish"]
    assert told.events[-1].reason is not None


def test_a_run_that_was_asked_to_stop_and_failed_by_itself(app: fl.Fairlane) -> None:
    """The worker has not heard of the wish yet and reports a failure; the store ends the job, and hooks hear that."""
    told = Told(app)

    @app.task(retry=AGAIN)
    def t(ctx: fl.Context) -> None:
        assert ctx.job_id is not None
        app.owner.call(lambda store, now_ms: store.cancel(ctx.job_id.bytes, reason="by hand", now_ms=now_ms))  # type: ignore[union-attr]
        raise ValueError("no")

    job = app.enqueue("t")
    work(app)
    app.close()
    assert told.moments in (["start", "failure", "finish"], ["start", "finish"])
    assert (told.events[-1].outcome, told.events[-1].job_id) == ("cancelled", job.id)


def test_a_retry_that_comes_too_late(app: fl.Fairlane, clock: ManualClock) -> None:
    """The job has expired while it ran: the failure is its end."""
    told = Told(app)

    @app.task(retry=AGAIN)
    def t() -> None:
        clock.advance(seconds=5)
        raise ValueError("no")

    job = app.enqueue("t", expires_in=5)
    work(app)
    state = job.refresh().state
    app.close()
    assert state == "cancelled"
    assert told.moments == ["start", "failure", "finish"]
    assert (told.events[-1].outcome, told.events[-1].reason) == ("cancelled", "expired")


def test_ends_without_a_run_are_told_to_nobody(app: fl.Fairlane, clock: ManualClock) -> None:
    """Hooks belong to runs: a waiting job that is cancelled or expires has none, nor has one behind a failed job."""
    told = Told(app)

    @app.task
    def t() -> None: ...

    app.cancel(t.enqueue())
    first = t.using(delay=5, expires_in=6).enqueue()
    second = t.using(after=first).enqueue()
    clock.advance(seconds=7)
    work(app)
    states = [job.refresh().state for job in (first, second)]
    app.close()
    assert states == ["cancelled", "cancelled"]
    assert told.moments == []


def test_hooks_of_a_task_hear_of_that_task_alone(app: fl.Fairlane) -> None:
    told: list[tuple[str, str]] = []

    @app.task
    def one() -> None: ...

    @app.task
    def other() -> None: ...

    @one.on_start
    @one.on_success
    @one.on_finish
    def note(event: fl.Event) -> None:
        told.append((event.task, event.moment))

    one.enqueue()
    other.enqueue()
    work(app)
    app.close()
    assert told == [("one", "start"), ("one", "success"), ("one", "finish")]


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_hook_that_fails_harms_nothing(app: fl.Fairlane, moment: str, caplog: pytest.LogCaptureFixture) -> None:
    """Every other hook is told, the job ends as it would, the next one runs, and the log names the hook."""

    def broken(event: fl.Event) -> None:
        raise RuntimeError("from a hook")

    app.hooks.add(moment, broken)  # type: ignore[arg-type]
    told = Told(app)
    app.task(name="good")(returns)
    app.task(name="bad", retry=ONCE)(fails)
    jobs = [app.enqueue("good"), app.enqueue("bad")]
    work(app)
    states = [job.refresh().state for job in jobs]
    app.close()
    assert states == ["completed", "dead"]
    assert sorted(told.moments) == sorted(["start", "success", "finish", "start", "failure", "dead", "finish"])
    assert f"hook_failed moment={moment}" in caplog.text


def test_hooks_may_call_the_app(app: fl.Fairlane) -> None:
    """An end that makes the next job: hooks run in threads of their own, and may wait for the store."""
    done = threading.Event()

    @app.task
    def first() -> None: ...

    @app.task
    def second() -> None:
        done.set()

    @first.on_success
    def go_on(event: fl.Event) -> None:
        second.enqueue()

    with app.worker(concurrency=1):
        first.enqueue()
        assert done.wait(LONG_S)


class Held:
    """A hook that is held in the first call until the worker's end waits for it."""

    def __init__(self, app: fl.Fairlane, monkeypatch: pytest.MonkeyPatch) -> None:
        self.told = 0
        self.waited_for = threading.Event()
        self._let_go = threading.Event()
        monkeypatch.setattr(worker, "TIDY_S", 0.0)
        close = Notices.close

        def closing(notices: Notices, left_s: Callable[[], float]) -> None:
            self.waited_for.set()
            close(notices, left_s)

        monkeypatch.setattr(Notices, "close", closing)
        app.on_finish(self)

    def __call__(self, event: fl.Event) -> None:
        if not self.told:
            assert self.waited_for.wait(LONG_S)
            for _ in range(5):  # more than one look of the end
                self._let_go.wait(LOOK_S)
        self.told += 1


def test_an_end_waits_for_hooks_as_long_as_its_grace(app: fl.Fairlane, monkeypatch: pytest.MonkeyPatch) -> None:
    hook = Held(app, monkeypatch)
    app.task(name="good")(returns)
    app.enqueue("good")
    app.enqueue("good")
    work(app)
    assert hook.told == 2


def test_an_end_at_once_says_what_it_left_out(
    app: fl.Fairlane, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    entered, release = threading.Event(), threading.Event()

    @app.on_finish
    def stuck(event: fl.Event) -> None:
        entered.set()
        release.wait(LONG_S)

    @app.task
    def after() -> None:
        assert entered.wait(LONG_S)  # the first job's hook is being told, so only one is left in the line

    app.task(name="good")(returns)
    app.enqueue("good")
    app.enqueue("after")
    monkeypatch.setattr(worker, "TIDY_S", 0.0)
    app.run_worker(until_idle=True, signals=False, grace=0)
    release.set()
    assert "hooks_left_out waiting=1" in caplog.text
