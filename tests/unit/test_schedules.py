"""Schedules as a program sees them: declared in code, made by hand, steered, fired by workers."""

from __future__ import annotations

import asyncio
import sys
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import fairlane as fl
from fairlane import maintenance
from fairlane.declarations import source_of
from fairlane.domain.schedules import ScheduleRecord, Spec, Template, declared, look, upcoming
from fairlane.domain.ticks import Every
from fairlane.errors import ConfigError, InvalidJob, InvalidValue, QueueFull, ScheduleNotFound, StoreError
from fairlane.firing import Firing, Ticker
from fairlane.looks import LOOK_S
from fairlane.maintenance import Maintenance
from fairlane.testing.clock import START_MS, ManualClock

LONG_S = 10.0
MINUTE_S = 60
PARIS = "Europe/Paris"


def at(seconds: float) -> datetime:
    """Return the instant so many seconds after the clock's start."""
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=START_MS, seconds=seconds)


def until(holds: Any, what: str) -> None:
    pause = threading.Event()
    for _ in range(int(LONG_S / 0.01)):
        if holds():
            return
        pause.wait(0.01)
    raise AssertionError(f"{what} did not come")


# ---------------------------------------------------------------- in code


def test_decorators_work_above_and_below_the_task(app: fl.Fairlane) -> None:
    @app.cron("0 7 * * mon-fri", tz=PARIS, misfire="skip", tenant="acme", tier="high", tags=["x"])
    @app.task(queue="mail")
    def above(n: int = 1) -> int:
        return n

    @app.task
    @app.every(90, name="below it", overlap="skip", grace=5, args={"n": 2}, expires_in=30, expedite=True)
    def below(n: int) -> int:
        return n

    @app.task
    def plain() -> None: ...

    assert app.every(5)(plain) is plain
    assert above(3) == 3
    assert below(4) == 4
    assert sorted(app.schedules.declare()) == ["above", "below it", "plain"]
    assert app.schedules.declare() == []
    assert [one.name for one in app.schedules] == ["above", "below it", "plain"]
    first, second, third = app.schedules.all()
    assert (first.task, first.queue, first.tenant, first.tier, first.args) == ("above", "mail", "acme", 1, "{}")
    assert (first.cron, first.tz, first.every, first.misfire, first.tags) == (
        "0 7 * * mon-fri", PARIS, None, "skip", ("x",),
    )  # fmt: skip
    assert (second.task, second.args, second.overlap, second.grace) == ("below", '{"n":2}', "skip", 5.0)
    assert (second.every, second.anchor, second.next_at) == (90.0, at(0), at(90))
    assert (second.expires_in, second.expedite) == (30.0, True)
    assert (third.misfire, third.grace, third.overlap) == ("run_once", 60.0, "queue")
    assert first.source == second.source == __name__
    assert first.changed_by == f"code:{__name__}"


def test_one_task_may_have_several_schedules(app: fl.Fairlane) -> None:
    @app.cron("0 7 * * *", name="morning", args={"kind": "short"})
    @app.cron("0 19 * * *", name="evening", args={"kind": "long"})
    @app.task
    def report(kind: str) -> None: ...

    app.schedules.declare()
    assert [(one.name, one.task, one.args) for one in app.schedules.all()] == [
        ("evening", "report", '{"kind":"long"}'),
        ("morning", "report", '{"kind":"short"}'),
    ]


def test_what_is_wrong_in_code_is_told_when_it_is_written(app: fl.Fairlane) -> None:
    @app.task
    def report(n: int) -> None: ...

    for wrong, why in (
        (lambda: app.cron("every day"), "no cron expression"),
        (lambda: app.cron("* * * * *", tz="Mars/Olympus"), "no time zone"),
        (lambda: app.cron("0 0 30 2 *"), "cron"),
        (lambda: app.every(0.5), "must be from 1000"),
        (lambda: app.every(-1), "every"),
        (lambda: app.every(5, anchor=datetime(2026, 1, 1)), "timezone"),  # noqa: DTZ001  that is what is wrong
        (lambda: app.every(5)(report), "'report': .*n"),
        (lambda: app.every(5, args={"n": "x"})(report), "'report'"),
        (lambda: app.every(5, args={"n": 1, "m": 2})(report), "'report'"),
        (lambda: app.every(5, args={"n": 1}, misfire="never")(report), "misfire"),  # type: ignore[arg-type]
        (lambda: app.every(5, args={"n": 1}, overlap="never")(report), "overlap"),  # type: ignore[arg-type]
        (lambda: app.every(5, args={"n": 1}, grace=-1)(report), "grace"),
        (lambda: app.every(5, args={"n": 1}, tier="urgent")(report), "urgent"),  # type: ignore[arg-type]
        (lambda: app.every(5, args={"n": 1}, dedup_key="k")(report), "unexpected option 'dedup_key'"),  # type: ignore[call-arg]
        (lambda: app.every(5, args={"n": 1}, name="x" * 201)(report), "the maximum is 200"),
        (lambda: app.every(5, args={"n": 1}, tags=["x" * 256])(report), "tag"),
        (lambda: app.every(5)("report"), "decorates a task"),
    ):
        with pytest.raises(ConfigError, match=why):
            wrong()
    assert app.schedules.declare() == []


def test_a_function_that_is_no_task_is_told_when_a_worker_starts(app: fl.Fairlane) -> None:
    @app.every(5)
    def lonely() -> None: ...

    with pytest.raises(ConfigError, match="no task of this app"):
        app.schedules.declare()
    with pytest.raises(ConfigError, match="no task of this app"):
        app.worker().start()


def test_two_schedules_of_one_name_are_refused(app: fl.Fairlane) -> None:
    @app.every(5)
    @app.every(6)
    @app.task
    def twice() -> None: ...

    with pytest.raises(ConfigError, match="two schedules are called 'twice'"):
        app.schedules.declare()


def test_an_anchor_is_kept_across_deploys(clock: ManualClock, tmp_path: Path) -> None:
    def deploy(every: float) -> fl.Fairlane:
        app = fl.Fairlane(f"sqlite:///{tmp_path / 'jobs.db'}", clock=clock)

        @app.every(every)
        @app.task
        def tick() -> None: ...

        app.schedules.declare()
        return app

    with deploy(600) as app:
        assert app.schedules["tick"].next(2) == [at(600), at(1_200)]
    clock.advance(seconds=250)
    with deploy(600) as app:
        assert app.schedules["tick"].next(1) == [at(600)], "a restart moves nothing"
    clock.advance(seconds=110)
    with deploy(100) as app:
        assert app.schedules["tick"].next(2) == [at(400), at(500)], "the first from now, of the same anchor"


def test_what_a_deploy_takes_away_is_gone_and_other_code_is_left_alone(clock: ManualClock, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'jobs.db'}"
    with fl.Fairlane(url, clock=clock) as old, fl.Fairlane(url, clock=clock) as new, fl.Fairlane(url) as other:

        @old.task(name="a")
        def a() -> None: ...

        new.task(name="a")(a.fn)
        old.every(60)(a)
        old.every(60, name="b")(a)
        new.every(60)(a)
        other.schedules.source = "elsewhere"

        @other.task
        @other.every(60)
        def c() -> None: ...

        old.schedules.declare()
        other.schedules.declare()
        assert new.schedules.declare() == ["b"]
        assert [(one.name, one.state, one.source) for one in new.schedules.all()] == [
            ("a", "active", __name__),
            ("b", "gone", __name__),
            ("c", "active", "elsewhere"),
        ]
        assert new.schedules["b"].next() == []
        clock.advance(seconds=120)
        assert new.schedules.fire() == 1 + 1
        assert {job.tags[0] for job in new.jobs().jobs} == {"schedule:a"}
        assert old.schedules.declare() == ["b"], "a rollback brings it back"
        assert other.schedules.declare() == []


def test_a_program_that_was_started_itself_has_the_name_it_would_be_imported_by(
    app: fl.Fairlane, monkeypatch: pytest.MonkeyPatch
) -> None:
    @app.task
    def job() -> None: ...

    class Main:
        __spec__ = None
        __file__ = "/srv/nightly.py"

    monkeypatch.setattr(job.fn, "__module__", "__main__")
    monkeypatch.setitem(sys.modules, "__main__", Main)  # type: ignore[arg-type]
    assert source_of(job) == "nightly"


# ---------------------------------------------------------------- by hand


def test_a_schedule_by_hand(app: fl.Fairlane, clock: ManualClock) -> None:
    one = app.schedule("nightly", "reports.nightly", cron="30 2 * * *", tz=PARIS, args={"n": 1}, tenant="acme", by="me")
    info = one.get()
    assert (info.task, info.args, info.tenant, info.source, info.changed_by) == (
        "reports.nightly", '{"n":1}', "acme", "", "me",
    )  # fmt: skip
    assert info.when == "At 02:30 every day (Europe/Paris)"
    clock.advance(seconds=5)
    app.schedule("nightly", "reports.nightly", cron="30 2 * * *", tz=PARIS, args={"n": 1}, tenant="acme", by="you")
    assert one.get() == info, "the same words change nothing"
    changed = one.set(misfire="skip", args={"n": 2}, tier="low", by="you")
    assert (changed.misfire, changed.args, changed.tier, changed.tenant) == ("skip", '{"n":2}', fl.Tier.LOW, "acme")
    assert changed.next_at == info.next_at
    assert one.set(every=600).next_at == at(600)
    assert one.set(cron="@hourly").cron == "0 * * * *"
    assert one.remove()
    assert not one.remove()
    assert app.schedules.all() == []


def test_a_known_task_has_its_arguments_checked(app: fl.Fairlane) -> None:
    @app.task(queue="mail", tier="low")
    def report(n: int) -> None: ...

    app.schedule("s", report, every=5, args={"n": 1})
    app.schedule("t", "report", every=5, args={"n": 1})
    assert [(one.queue, one.tier) for one in app.schedules.all()] == [("mail", fl.Tier.LOW)] * 2
    with pytest.raises(InvalidJob):
        app.schedule("u", "report", every=5, args={"n": "x"})
    with pytest.raises(InvalidJob):
        app.schedules["s"].set(args={"m": 1})


@pytest.mark.parametrize(
    "said",
    [
        {},
        {"cron": "* * * * *", "every": 5},
        {"every": 5, "tz": PARIS},
        {"cron": "* * * * *", "anchor": at(0)},
        {"every": 5, "grace": 10**9},
        {"every": 5, "by": "x\0"},
        {"every": float("nan")},
    ],
)
def test_wrong_words_are_refused_and_store_nothing(app: fl.Fairlane, said: dict[str, Any]) -> None:
    with pytest.raises((InvalidValue, InvalidJob)):
        app.schedule("s", "t", **said)
    assert app.schedules.all() == []


def test_code_is_not_changed_by_hand(app: fl.Fairlane) -> None:
    @app.every(60)
    @app.task
    def tick() -> None: ...

    app.schedules.declare()
    before = app.schedules["tick"].get()
    with pytest.raises(ConfigError, match=r"declared in .*test_schedules"):
        app.schedules["tick"].set(every=5)
    with pytest.raises(ConfigError, match="declared in"):
        app.schedule("tick", "other", every=5)
    assert app.schedules["tick"].get() == before


def test_what_is_not_there_is_not_found(app: fl.Fairlane) -> None:
    one = app.schedules["none"]
    for call in (one.get, one.next, one.pause, one.resume, one.run, lambda: one.set(grace=1)):
        with pytest.raises(ScheduleNotFound, match="'none'"):
            call()
    assert app.schedules.fire() == 0


# ---------------------------------------------------------------- steering


def test_pause_and_resume(app: fl.Fairlane, clock: ManualClock) -> None:
    one = app.schedule("s", "t", every=60, misfire="run_all")
    info = one.pause("holidays", by="me")
    assert (info.state, info.pause, info.next_at) == ("paused", fl_pause("holidays", "me"), at(60))
    clock.advance(seconds=150)
    assert app.schedules.fire() == 0
    assert one.next(2) == [at(180), at(240)], "as if it were not paused"
    info = one.resume(by="me")
    assert (info.state, info.pause, info.next_at) == ("active", None, at(180))
    assert one.resume() == info
    clock.advance(seconds=30)
    assert app.schedules.fire() == 1


def fl_pause(reason: str, by: str) -> Any:
    from fairlane.domain.policy import Pause

    return Pause(reason, by, None)


def test_a_pause_with_an_end(app: fl.Fairlane, clock: ManualClock) -> None:
    one = app.schedule("s", "t", every=60)
    with pytest.raises(InvalidValue, match="future"):
        one.pause(until=at(0))
    assert one.pause(until=at(100)).state == "paused"
    clock.advance(seconds=100)
    assert one.get().state == "active"
    assert app.schedules.fire() == 0
    clock.advance(seconds=20)
    assert app.schedules.fire() == 1


def test_run_now(app: fl.Fairlane, clock: ManualClock) -> None:
    one = app.schedule("s", "t", every=60, args={"n": 1}, overlap="skip")
    one.pause()
    job = one.run(by="me")
    assert (job.created, job.task, job.args, job.tags) == (True, "t", {"n": 1}, ("schedule:s",))
    assert not one.run().created, "the one that is live"
    info = one.get()
    assert (info.runs, info.last_job, info.last_at, info.next_at) == (1, job.id, None, at(60))
    app.queues["default"].set(max_waiting=1)
    other = app.schedule("u", "t", every=60)
    with pytest.raises(QueueFull):
        other.run()
    assert other.get().runs == 0


def test_what_people_did_is_on_record(app: fl.Fairlane) -> None:
    one = app.schedule("s", "t", every=60, by="me")
    one.pause("why", by="me")
    one.resume(by="me")
    one.run(by="me")
    one.remove(by="me")
    rows = app.owner.read(
        lambda store, _: store._raw.execute("SELECT what, target, by FROM audit ORDER BY id").fetchall()
    )  # type: ignore[attr-defined]
    assert rows == [(f"{what} schedule", "s", "me") for what in ("set", "pause", "resume", "run", "remove")]


def test_the_asynchronous_face(app: fl.Fairlane, clock: ManualClock) -> None:
    async def all_of_it() -> None:
        one = await app.aschedule("s", "t", every=60)
        assert (await one.aget()).next_at == at(60)
        assert await one.anext(1) == [at(60)]
        assert (await one.aset(grace=1)).grace == 1.0
        await one.apause()
        await one.aresume()
        assert (await one.arun()).created
        clock.advance(seconds=60)
        assert await app.schedules.afire() == 1
        assert [info.name for info in await app.schedules.aall()] == ["s"]
        assert await app.schedules.adeclare() == []
        assert await one.aremove()

    asyncio.run(all_of_it())


def test_next_ticks_are_bounded(app: fl.Fairlane) -> None:
    one = app.schedule("s", "t", every=60)
    assert len(one.next(1_000)) == 1_000
    for wrong in (0, 1_001, True):
        with pytest.raises(InvalidValue):
            one.next(wrong)


def test_what_is_shown_is_json(app: fl.Fairlane) -> None:
    one = app.schedule("s", "t", every=60, args={"n": [1]}, tags=["x"])
    shown = one.pause("why", until=at(90)).shown()
    assert (shown["args"], shown["tags"], shown["tier"]) == ({"n": [1]}, ["x"], "normal")
    assert shown["next_at"] == "2023-11-14T22:14:20.000Z"
    assert shown["pause"] == {"reason": "why", "by": "", "until": "2023-11-14T22:14:50.000Z"}


# ---------------------------------------------------------------- who fires


def test_a_worker_declares_and_fires(tmp_path: Path) -> None:
    with fl.Fairlane(f"sqlite:///{tmp_path / 'jobs.db'}") as app:
        ran = threading.Event()

        @app.every(1)
        @app.task
        def tick() -> None:
            ran.set()

        with app.worker():
            assert app.schedules["tick"].get().state == "active", "it is declared when the start returns"
            assert ran.wait(LONG_S)
        info = app.schedules["tick"].get()
        assert info.runs >= 1
        assert info.missed == 0


def looks_later(firing: Firing) -> bool:
    """Return whether the next pass comes with the next look."""
    return 0.5 * LOOK_S <= firing.every_s <= LOOK_S


def test_a_look_costs_a_transaction_only_when_something_is_due(app: fl.Fairlane, clock: ManualClock) -> None:
    firing = Firing(app.owner)
    assert firing.every_s == 0.0, "the first comes at once"
    assert (firing.work(), looks_later(firing)) == (0, True)
    app.schedule("s", "t", every=60)
    assert (firing.work(), looks_later(firing)) == (0, True)
    clock.advance(seconds=59.75)
    assert (firing.work(), firing.every_s) == (0, 0.25), "it sleeps no longer than to the tick"
    clock.advance(seconds=0.25)
    assert (firing.work(), looks_later(firing)) == (1, True)
    called: list[object] = []
    call = app.owner.call
    app.owner.call = lambda op: called.append(op) or call(op)  # type: ignore[method-assign,func-returns-value]
    assert firing.work() == 0
    assert called == []


def test_looks_go_on_at_once_while_more_is_due(app: fl.Fairlane, clock: ManualClock) -> None:
    for number in range(45):
        app.schedule(f"s{number}", "t", every=60)
    clock.advance(seconds=60)
    firing = Firing(app.owner)
    assert [(firing.work(), firing.every_s) for _ in range(2)] == [(20, 0.0), (20, 0.0)]
    assert (firing.work(), looks_later(firing)) == (5, True)
    clock.advance(seconds=60)
    assert app.schedules.fire() == 45


def test_every_maintenance_thread_watches_and_fires(app: fl.Fairlane, clock: ManualClock) -> None:
    upkeep = Maintenance(app.owner)
    assert {"watch", "schedules"} <= {chore.name for chore in upkeep.chores}
    app.schedule("s", "t", every=60)
    clock.advance(seconds=60)
    for runs in (1, 2):
        upkeep.start()
        until(lambda runs=runs: app.schedules["s"].get().runs == runs, "a run")
        upkeep.stop()
        assert not [one for one in threading.enumerate() if one.name in {"fairlane-schedules", "fairlane-maintenance"}]
        clock.advance(seconds=60)


def test_a_tick_does_not_wait_for_a_long_pass(
    app: fl.Fairlane, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Deleting what ended long ago may take minutes."""
    begun, over = threading.Event(), threading.Event()
    monkeypatch.setattr(maintenance, "preempt", lambda *_, **__: begun.set() or over.wait(LONG_S) or 0)
    app.schedule("s", "t", every=60)
    upkeep = Maintenance(app.owner)
    for chore in upkeep.chores:
        chore.due_at = float("inf" if chore.name != "schedules" else "-inf")
    upkeep.start()
    until(lambda: [one for one in threading.enumerate() if one.name == "fairlane-schedules"], "the thread")
    (long,) = [chore for chore in upkeep.chores if chore.name == "preempt"]
    long.due_at = float("-inf")
    assert begun.wait(LONG_S)
    clock.advance(seconds=60)
    until(lambda: app.schedules["s"].get().runs == 1, "a run")
    over.set()
    upkeep.stop()


def test_a_ticker_starts_and_stops_in_any_order(app: fl.Fairlane, clock: ManualClock) -> None:
    app.schedule("s", "t", every=60)
    fired: list[int] = []
    ticker = Ticker(app.owner, fired=fired.append)
    ticker.stop()
    for expected in (1, 2):
        clock.advance(seconds=60)
        ticker.start()
        ticker.start()
        until(lambda expected=expected: app.schedules["s"].get().runs == expected, "a run")
        until(lambda expected=expected: len(fired) == expected, "the word of it")
        assert ticker.healthy
        ticker.stop()
        ticker.stop()
        assert not [one for one in threading.enumerate() if one.name == "fairlane-schedules"]


def test_a_ticker_outlives_a_store_that_fails(
    app: fl.Fairlane, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fairlane.chores.RETRY_S", (0.001, 0.01))
    app.schedule("s", "t", every=60)
    clock.advance(seconds=60)
    call = app.owner.call

    def busy(op: Any) -> Any:
        raise StoreError("no")

    monkeypatch.setattr(app.owner, "call", busy)
    ticker = Ticker(app.owner)
    ticker.start()
    until(lambda: not ticker.healthy, "a failure")
    monkeypatch.setattr(app.owner, "call", call)
    until(lambda: app.schedules["s"].get().runs == 1, "the run")
    ticker.stop()


# ---------------------------------------------------------------- whatever happens, in whatever order


@given(
    st.lists(st.integers(-200_000, 400_000), max_size=40),
    st.sampled_from([1_000, 7_000, 60_000]),
    st.sampled_from(["skip", "run_once", "run_all"]),
    st.sampled_from([0, 5_000, 60_000]),
)
def test_no_tick_is_fired_twice_whatever_the_clock_does(
    steps: list[int], every_ms: int, misfire: str, grace_ms: int
) -> None:
    """Looks at any instants, later ones and earlier ones: what was fired or passed over is over."""
    said = Spec(when=Every(every_ms), job=Template(task="t"), misfire=misfire, grace_ms=grace_ms)  # type: ignore[arg-type]
    now_ms = START_MS
    record = declared(None, "s", said, source="", by="", now_ms=now_ms)
    assert record is not None
    fired: list[int] = []
    for step in steps:
        now_ms += step
        record, found = look(record, now_ms)
        fired += found.fire
        assert record.next_at_ms is not None
        assert not fired or record.next_at_ms > fired[-1]
        assert all(at_ms <= now_ms for at_ms in found.fire)
        assert upcoming(record, 1, now_ms) != []
    assert fired == sorted(set(fired))
    assert all((at_ms - START_MS) % every_ms == 0 for at_ms in fired)


@given(st.lists(st.integers(1, 20_000), min_size=1, max_size=40))
def test_every_tick_is_fired_when_looks_are_close_together(steps: list[int]) -> None:
    """Whatever the rule: a look within the grace loses nothing."""
    said = Spec(when=Every(1_500), job=Template(task="t"), misfire="skip", grace_ms=20_000)
    record: ScheduleRecord | None = declared(None, "s", said, source="", by="", now_ms=0)
    now_ms = 0
    fired: list[int] = []
    for step in steps:
        now_ms += step
        assert record is not None
        record, found = look(record, now_ms)
        fired += found.fire
    assert fired == list(range(1_500, now_ms + 1, 1_500))
