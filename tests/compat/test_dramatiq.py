"""Dramatiq's shim: what each option means, and that the rest is refused."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import pytest

import fairlane as fl
from fairlane.compat import _words, dramatiq


@pytest.fixture
def broker(fairlane_app: fl.Fairlane) -> Iterator[dramatiq.FairlaneBroker]:
    made = dramatiq.FairlaneBroker(fairlane_app, tiers={-1: "critical", 10: "low"})
    dramatiq.set_broker(made)
    yield made
    dramatiq._broker.clear()


def work() -> None: ...


def test_a_message_is_a_job_with_a_result(broker, run):
    @dramatiq.actor
    def add(x: int, y: int = 1) -> int:
        return x + y

    @dramatiq.actor(actor_name="async", queue_name="q", store_results=True)
    async def other(x: int) -> int:
        return x

    assert add(2) == 3
    messages = [add.send(1), add.send(1, y=5), other.send(7)]
    with pytest.raises(TimeoutError):
        messages[0].get_result()
    run()
    assert [one.get_result(block=True, timeout=1_000) for one in messages] == [2, 6, 7]
    assert (messages[2].fairlane.task, messages[2].fairlane.queue) == ("async", "q")
    assert str(messages[0].fairlane.id) == messages[0].message_id


def test_delay_and_max_age(broker, run):
    actor = dramatiq.actor(max_age=60_000)(work)
    soon, later = actor.send(), actor.send_with_options(delay=30_000)
    span = actor.send_with_options(delay=timedelta(seconds=30), max_age=40_000)
    run(29)
    assert [one.fairlane.refresh().state for one in (soon, later, span)] == ["completed", "scheduled", "scheduled"]
    run(12)
    assert [one.fairlane.refresh().state for one in (later, span)] == ["completed", "cancelled"]


def test_priority_names_a_tier(broker):
    tiers = [dramatiq.actor(actor_name=str(n), priority=n)(work).send().fairlane.tier for n in (-1, 0, 10)]
    assert tiers == [fl.Tier.CRITICAL, fl.Tier.NORMAL, fl.Tier.LOW]
    with pytest.raises(fl.ConfigError, match="priority=5 means"):
        dramatiq.actor(priority=5)(work)


def test_retries(broker, run):
    runs: list[str] = []

    @dramatiq.actor(max_retries=2, min_backoff=4_000, max_backoff=6_000, throws=(ValueError,))
    def call(what: str) -> None:
        runs.append(what)
        if what == "asked":
            raise dramatiq.Retry("please", delay=1_000)
        raise (ValueError if what == "throws" else OSError)(what)

    failing, thrown, asked = call.send("fails"), call.send("throws"), call.send("asked")
    assert (call.fairlane.retry.cap, call.fairlane.retry.jitter) == (6, 1)
    run()
    run(1)
    run(1)
    assert runs.count("asked") == 3
    run(1.9)
    assert runs.count("fails") == 1
    run(4.2)
    run(12)
    assert (runs.count("fails"), runs.count("throws")) == (3, 1)
    assert {one.fairlane.refresh().state for one in (failing, thrown, asked)} == {"dead"}
    with pytest.raises(fl.JobFailed):
        failing.get_result()


def test_what_holds_when_nothing_is_said(broker):
    task = dramatiq.actor(work).fairlane
    assert (task.retry.max_attempts, task.retry.base, task.retry.cap, task.timeout_ms) == (21, 15, 604_800, 600_000)
    assert dramatiq.actor(actor_name="x", time_limit=float("inf"))(work).fairlane.timeout_ms is None
    assert dramatiq.actor(actor_name="y", time_limit=5_000)(work).fairlane.timeout_ms == 5_000


def test_another_broker(broker):
    with dramatiq_app() as app:
        actor = dramatiq.actor(broker=dramatiq.FairlaneBroker(app))(work)
        actor.send()
        assert (len(app.jobs()), len(broker.fairlane.jobs())) == (1, 0)
        actor.broker.close()


def dramatiq_app() -> fl.Fairlane:
    return fl.Fairlane("sqlite://")


@pytest.mark.parametrize("option", _words.DRAMATIQ_ACTOR)
def test_options_of_an_actor_that_are_refused(broker, option):
    with pytest.raises(fl.ConfigError, match=f"@actor: {option}= has no counterpart"):
        dramatiq.actor(**{option: 1})(work)


@pytest.mark.parametrize("option", _words.DRAMATIQ_SEND)
def test_options_of_a_message_that_are_refused(broker, option):
    with pytest.raises(fl.ConfigError, match=rf"send_with_options\(\): {option}= has no counterpart"):
        dramatiq.actor(work).send_with_options(**{option: 1})
    assert len(broker.fairlane.jobs()) == 0


@pytest.mark.parametrize("name", _words.DRAMATIQ_BROKER_GETS)
def test_attributes_of_a_broker_that_are_refused(broker, name):
    with pytest.raises(AttributeError, match=f"FairlaneBroker.{name} has no counterpart"):
        getattr(broker, name)


@pytest.mark.parametrize("name", _words.DRAMATIQ_NAMES)
def test_names_of_the_module_that_are_refused(name):
    with pytest.raises(ImportError, match=f"{name} has no counterpart"):
        getattr(dramatiq, name)


def test_the_rest_that_is_refused(broker, fairlane_app):
    with pytest.raises(fl.ConfigError, match="store_results=False cannot be had"):
        dramatiq.actor(store_results=False)(work)
    with pytest.raises(fl.ConfigError, match="max_retries=None"):
        dramatiq.actor(max_retries=None)(work)
    with pytest.raises(TypeError, match="unexpected option 'max_retrys'"):
        dramatiq.actor(max_retrys=1)(work)
    with pytest.raises(AttributeError, match=r"Actor.message has no counterpart in fairlane; use .fairlane.new"):
        dramatiq.actor(actor_name="m")(work).message  # noqa: B018
    with pytest.raises(fl.ConfigError, match="middleware="):
        dramatiq.FairlaneBroker(fairlane_app, middleware=[])
    dramatiq._broker.clear()
    with pytest.raises(fl.ConfigError, match="there is no broker yet"):
        dramatiq.actor(work)
