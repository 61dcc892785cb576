"""Watching over waits as a program sees it: objectives by tier, incidents, passes, workers that watch, processes."""

from __future__ import annotations

import signal
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

import fairlane as fl
from fairlane import chores, maintenance, monitor
from fairlane.alerts import Alert
from fairlane.domain.jobs import WorkerRecord
from fairlane.domain.lanes import Ask
from fairlane.errors import StoreError
from fairlane.maintenance import Maintenance
from fairlane.stores._queries import query
from fairlane.testing.clock import ManualClock

LONG_S = 10.0


class Sink:
    """Remembers what it was told."""

    name = "mine"

    def __init__(self) -> None:
        self.alerts: list[Alert] = []

    def send(self, alert: Alert) -> None:
        self.alerts.append(alert)


# ---------------------------------------------------------------- objectives


def test_objectives_are_set_for_tiers_queues_and_tenants(app: fl.Fairlane) -> None:
    high = app.tiers[fl.Tier.HIGH]
    assert (high.get().objective, high.get().on_breach) == (120.0, "alert")
    high.set(objective=60, on_breach="boost")
    high.set(objective=10, queue="mail")
    high.set(on_breach="expedite", tenant="acme")
    app.tiers["low"].set(objective=None, queue="batch", tenant="acme")
    assert high.get() == (60_000, "boost")
    assert high.get(queue="mail") == (10_000, "boost")
    assert high.get(queue="mail", tenant="acme") == (10_000, "expedite")
    high.set(objective=5, tenant="acme")
    assert high.get(tenant="acme") == (5_000, "expedite")
    shown = app.tiers.shown()
    assert shown["high"] == {
        "objective": 60.0,
        "on_breach": "boost",
        "overrides": [
            {"queue": None, "tenant": "acme", "objective": 5.0, "on_breach": "expedite"},
            {"queue": "mail", "tenant": None, "objective": 10.0, "on_breach": "boost"},
        ],
    }
    assert shown["normal"] == {"objective": None, "on_breach": "alert", "overrides": []}
    high.unset(queue="mail")
    high.unset()
    assert high.get(queue="mail") == (120_000, "alert")
    assert [one.tier for one in app.tiers] == list(fl.Tier)


async def test_tiers_have_twins(app: fl.Fairlane) -> None:
    high = app.tiers["high"]
    await high.aset(objective=1.5)
    assert (await high.aget()).objective == 1.5
    assert (await app.tiers.ashown())["high"]["objective"] == 1.5
    await high.aunset()
    assert high.get().objective == 120


@pytest.mark.parametrize(
    "wrong",
    [
        {"objective": 0},
        {"objective": -1},
        {"objective": float("nan")},
        {"objective": "2"},
        {"objective": True},
        {"objective": 1e12},
        {"on_breach": "shout"},
        {"on_breach": None},
        {"objective": 1, "queue": ""},
        {"objective": 1, "tenant": "a\0"},
    ],
)
def test_wrong_objectives_change_nothing(app: fl.Fairlane, wrong: dict[str, Any]) -> None:
    with pytest.raises(fl.InvalidValue):
        app.tiers["high"].set(**wrong)
    assert app.tiers["high"].get() == (120_000, "alert")


def test_there_are_five_tiers(app: fl.Fairlane) -> None:
    with pytest.raises(fl.InvalidValue, match="tier"):
        app.tiers["urgent"]  # type: ignore[index]


# ---------------------------------------------------------------- passes and incidents


def test_an_incident_says_what_people_ask_first(app: fl.Fairlane, clock: ManualClock) -> None:
    sink = Sink()
    app.alerts.add(sink)
    job = app.enqueue("send", queue="mail", tenant="acme", tier="high")
    app.enqueue("send", queue="mail", tenant="acme", tier="high")
    clock.advance(seconds=130)
    done = app.monitor()
    assert done.active
    (incident,) = app.incidents()
    assert done.incidents == done.raised == (incident,)
    assert (incident.queue, incident.tier, incident.count) == ("mail", fl.Tier.HIGH, 2)
    assert (incident.job_id, incident.task, incident.tenant) == (job.id, "send", "acme")
    assert (incident.wait, incident.objective, incident.cause) == (130.0, 120.0, "no_worker")
    told = incident.shown()
    assert (told["tier"], told["job_id"], told["wait_s"], told["objective_s"]) == ("high", str(job.id), 130.0, 120.0)
    assert app.alerts.drain(LONG_S)
    (alert,) = sink.alerts
    assert alert.title == "high jobs of queue mail wait: 2 min 10 s, objective 2 min 0 s"
    assert str(job.id) in alert.text
    assert "no live worker serves queue 'mail'" in alert.text

    for _ in range(2):
        app.claim()
    assert len(app.monitor().resolved) == 1
    assert app.incidents() == []
    (past,) = app.incidents(resolved=True)
    assert (past.id, past.resolved_at is not None) == (incident.id, True)
    assert app.alerts.drain(LONG_S)
    assert [one.event for one in sink.alerts] == ["wait_raised", "wait_resolved"]
    with pytest.raises(fl.InvalidValue):
        app.incidents(limit=0)


async def test_passes_have_twins(app: fl.Fairlane, clock: ManualClock) -> None:
    app.enqueue("t", tier="critical")
    clock.advance(seconds=130)
    assert len((await app.amonitor()).raised) == 1
    assert len(await app.aincidents()) == 1
    assert (await app.amonitor()).raised == ()


def test_lost_workers_jobs_are_taken_back_first(app: fl.Fairlane, clock: ManualClock) -> None:
    app.enqueue("t", tier="high")
    assert app.claim(lease=5) is not None
    clock.advance(seconds=6)
    assert app.monitor().rescued == 1


def test_a_killed_worker_serves_nothing(tmp_path: Path, clock: ManualClock) -> None:
    """T-G1: it is still on record, since nobody was there to see it die; the monitor does."""
    with fl.Fairlane(f"sqlite:///{tmp_path}/jobs.db", clock=clock) as app:
        life = app.owner.store.presence("w1")
        record = WorkerRecord(id="w1", pool="default", queues=None, slots=1)
        app.owner.call(lambda store, now_ms: store.register(record, now_ms))
        for _ in range(2):
            app.enqueue("t", tier="high")
        ask = Ask("default", 1)
        app.owner.call(lambda store, now_ms: store.claim(ask, worker="w1", lease_ms=10**9, now_ms=now_ms))
        clock.advance(seconds=130)
        assert app.monitor().incidents[0].cause == "busy"
        life.close()  # what the kernel does for a process that is killed
        done = app.monitor()
        assert (done.rescued, done.incidents[0].cause, done.incidents[0].count) == (1, "no_worker", 2)


@pytest.mark.parametrize("name", ["watched_lanes", "watched_heads", "watched_express", "running_by_worker"])
def test_looking_who_waits_reads_no_job_twice(tmp_path: Path, name: str) -> None:
    """Each query goes by an index: a step a lane, whatever waits in it."""
    with fl.Fairlane(f"sqlite:///{tmp_path}/jobs.db") as app:
        app.depth()
        db = sqlite3.connect(tmp_path / "jobs.db")
        values = {"tiers": 3, "lane": 1, "most": 8}
        plan = [row[3] for row in db.execute("EXPLAIN QUERY PLAN " + query("sqlite", name), values)]
        db.close()
    assert not [step for step in plan if step == "SCAN job" or "TEMP B-TREE FOR ORDER BY" in step], plan


def test_names_from_tenants_are_harmless_in_alerts(app: fl.Fairlane, clock: ManualClock) -> None:
    sink = Sink()
    app.alerts.add(sink)
    app.enqueue("<!channel>", queue="a\nb", tenant="<http://evil|click> @everyone", tier="high")
    clock.advance(seconds=130)
    app.monitor()
    assert app.alerts.drain(LONG_S)
    text = sink.alerts[0].title + sink.alerts[0].text
    assert "<" not in text
    assert "@everyone" not in text
    assert "\n" not in sink.alerts[0].title


def test_how_sinks_do_is_in_the_store_for_others_to_see(app: fl.Fairlane) -> None:
    app.monitor()
    held = app.owner.read(lambda store, _: store.monitor())
    assert held is not None
    assert held.sinks == '[{"name":"log","healthy":true,"error":""},{"name":"in-app","healthy":true,"error":""}]'


# ---------------------------------------------------------------- in workers


def test_workers_watch_without_being_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(monitor.Round, "every_s", 0.01)
    sink = Sink()
    with fl.Fairlane(f"sqlite:///{tmp_path}/jobs.db", durability="normal") as app:
        app.alerts.add(sink)
        app.tiers["high"].set(objective=0.001)
        app.enqueue("nobody.knows", queue="other", tier="high")
        seen = threading.Event()
        monkeypatch.setattr(sink, "send", lambda alert: seen.set())
        with app.worker(queues=["mail"]):
            assert seen.wait(LONG_S)
        assert [one.cause for one in app.incidents()] == ["no_worker"]
        # The worker has ended and let go: the next one need not wait.
        assert app.owner.read(lambda store, _: store.monitor()).until_ms == 0  # type: ignore[union-attr]


def test_workers_of_one_process_share_a_monitor(app: fl.Fairlane, monkeypatch: pytest.MonkeyPatch) -> None:
    passes: list[int] = []
    monkeypatch.setattr(monitor.Monitor, "look", lambda self, **_: passes.append(1) or setattr(self, "_last_pass", 0.0))
    app.depth()
    assert app._monitor is not None
    first, second = (app._monitor.join() for _ in range(2))
    first.work()
    assert len(passes) == 1
    watch = app._monitor
    assert watch is not None
    watch._last_pass = watch._clock.monotonic()
    second.work()
    assert len(passes) == 1
    first.close()
    assert watch._last_pass is not None  # another still watches
    second.close()
    assert watch._last_pass is None


def test_a_pass_that_fails_comes_again(app: fl.Fairlane, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(monitor.Round, "every_s", 0.0)
    monkeypatch.setattr(chores, "RETRY_S", (0.001, 0.002))
    app.depth()
    left = [StoreError("busy"), ValueError("a bug")]
    came = threading.Event()
    watch = app._monitor
    assert watch is not None

    def tick() -> int:
        if left:
            raise left.pop(0)
        came.set()
        return 0

    monkeypatch.setattr(watch, "tick", tick)
    upkeep = Maintenance(app.owner)
    upkeep.start()
    assert came.wait(LONG_S)
    upkeep.stop()


def test_a_closed_app_leaves_nothing_behind(clock: ManualClock) -> None:
    app = fl.Fairlane("sqlite://", clock=clock)
    app.monitor()
    owner = app.owner
    app.close()
    app.close()
    assert owner not in maintenance._upkeep
    assert not [one for one in threading.enumerate() if one.name == "fairlane-alerts"]


# ---------------------------------------------------------------- several processes

WATCHER = """
import sys
import fairlane as fl

app = fl.Fairlane(sys.argv[1])
done = app.monitor()
print(done.active, len(done.raised), flush=True)
sys.stdin.readline()
"""


def test_processes_raise_one_and_another_takes_over_from_a_killed_one(
    tmp_path: Path, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"sqlite:///{tmp_path}/jobs.db"
    with fl.Fairlane(url) as app:
        app.tiers["high"].set(objective=0.001)
        app.enqueue("t", tier="high")
        process = subprocess.Popen(
            [sys.executable, "-c", WATCHER, url], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        try:
            assert process.stdout is not None
            assert process.stdout.readline().split() == ["True", "1"]
            here = app.monitor()
            assert (here.active, here.raised, len(here.incidents)) == (False, (), 1)
        finally:
            process.kill()
            process.communicate()
        assert process.returncode == -signal.SIGKILL
        later = app.clock.now_ms() + monitor.LEASE_MS
        monkeypatch.setattr(app.clock, "now_ms", lambda: later)
        here = app.monitor()
        assert (here.active, here.raised, len(here.incidents)) == (True, (), 1)
