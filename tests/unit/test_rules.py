"""What can be set for queues, tasks, tenants and limits, and what it does."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

import fairlane as fl
from fairlane.domain.policy import LimitRule, Pause, QueueRule, TenantRule
from fairlane.testing.clock import START_MS, ManualClock

START = dt.datetime.fromtimestamp(START_MS / 1000, dt.UTC)


def test_set_changes_only_what_is_named(app: fl.Fairlane) -> None:
    mail = app.queues["mail"]
    assert mail.get() == QueueRule()
    mail.set(max_running=5, pool="post", max_waiting=100)
    mail.set(max_running=None, tenant_max_running=2)
    assert mail.get() == QueueRule(pool="post", tenant_max_running=2, max_waiting=100)


def test_weights_are_numbers(app: fl.Fairlane) -> None:
    acme = app.tenants["acme"]
    acme.set(weight=2.5)
    acme.set(max_running=10)
    assert acme.get() == TenantRule(weight_milli=2500, max_running=10)
    for wrong in (0, -1, float("nan"), 2e6, "2", True, None):
        with pytest.raises(fl.InvalidValue, match="weight"):
            acme.set(weight=wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", ["limits", "tenants"])
def test_rates_keep_what_is_not_named(app: fl.Fairlane, kind: str) -> None:
    handle = app.limits["openai"] if kind == "limits" else app.tenants["acme"]
    handle.set(rate=100, per=60)
    assert handle.get().rate == fl.Rate(100, 60_000, 10)
    handle.set(burst=3)
    assert handle.get().rate == fl.Rate(100, 60_000, 3)
    handle.set(per=30)
    assert handle.get().rate == fl.Rate(100, 30_000, 3)
    handle.set(per=60)
    handle.set(rate=50)
    assert handle.get().rate == fl.Rate(50, 60_000, 5)
    handle.set(per=0.5, burst=None)
    assert handle.get().rate == fl.Rate(50, 500, 5)
    handle.set(max_running=7)
    assert handle.get().rate == fl.Rate(50, 500, 5)
    handle.set(rate=None)
    assert handle.get().rate is None
    with pytest.raises(fl.InvalidValue, match="there is no rate"):
        handle.set(per=60)


@pytest.mark.parametrize(
    "wrong",
    [
        {"max_running": -1},
        {"max_running": 1.5},
        {"rate": 0},
        {"rate": 0.5},
        {"rate": 1, "per": 0},
        {"rate": 1, "burst": 0},
        {"rate": None, "per": 1},
    ],
)
def test_wrong_values_change_nothing(app: fl.Fairlane, wrong: dict[str, Any]) -> None:
    limit = app.limits["openai"]
    limit.set(max_running=3)
    with pytest.raises(fl.InvalidValue):
        limit.set(**wrong)
    assert limit.get() == LimitRule(max_running=3)


def test_unknown_options_are_a_type_error(app: fl.Fairlane) -> None:
    with pytest.raises(TypeError, match="max_runing"):
        app.queues["mail"].set(max_runing=5)  # type: ignore[call-arg]


@pytest.mark.parametrize("name", ["", "n" * 300, "a\0", 5])
def test_names_are_checked(app: fl.Fairlane, name: Any) -> None:
    for handles in (app.queues, app.tenants, app.tasks, app.limits):
        with pytest.raises(fl.InvalidValue):
            handles[name]


def test_a_pause_holds_until_it_is_over(app: fl.Fairlane, clock: ManualClock) -> None:
    mail = app.queues["mail"]
    mail.set(max_running=5)
    app.enqueue("x", queue="mail")
    mail.pause("full", by="ann", until=START + dt.timedelta(seconds=10))
    assert mail.get() == QueueRule(max_running=5, pause=Pause("full", "ann", START_MS + 10_000))
    assert app.claim() is None
    mail.resume()
    claim = app.claim()
    assert claim is not None
    claim.release()
    mail.pause(until=START + dt.timedelta(seconds=10))
    assert app.claim() is None
    clock.advance(seconds=10)
    assert app.claim() is not None


def test_a_pause_that_is_over_already_is_refused(app: fl.Fairlane) -> None:
    for until in (START, START.replace(tzinfo=None), 5):
        with pytest.raises(fl.InvalidValue, match="until"):
            app.queues["mail"].pause(until=until)  # type: ignore[arg-type]
    assert app.queues["mail"].get().pause is None


def test_everything_with_rules_can_be_paused(app: fl.Fairlane) -> None:
    @app.task(limits=["api"])
    def work() -> None: ...

    work.using(tenant="acme", queue="q").enqueue()
    for handle in (app.queues["q"], app.tasks["work"], app.tenants["acme"], app.limits["api"]):
        handle.pause("why")
        assert app.claim() is None
        handle.resume()
    assert app.claim() is not None


def test_lists_show_what_is_set(app: fl.Fairlane) -> None:
    assert app.queues.list() == []
    app.queues["b"].set(max_running=1)
    app.queues["a"].pause("why", by="ann", until=START + dt.timedelta(days=1))
    app.tenants["acme"].set(weight=2, rate=10, per=60)
    assert [queue.name for queue in app.queues] == ["a", "b"]
    assert app.queues.shown()["b"] == {
        "pool": "default", "max_running": 1, "tenant_max_running": None, "max_waiting": None, "pause": None,
    }  # fmt: skip
    assert app.queues.shown()["a"]["pause"] == {"reason": "why", "by": "ann", "until": "2023-11-15T22:13:20+00:00"}
    assert app.tenants.shown() == {
        "acme": {
            "weight": 2.0, "max_running": None, "max_waiting": None, "rate": 10, "per": 60.0, "burst": 1, "pause": None,
        }
    }  # fmt: skip
    assert app.limits.shown() == {}
