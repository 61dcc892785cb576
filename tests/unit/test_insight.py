"""The client's insight: explain, waits, inversions; both faces of each."""

from __future__ import annotations

import inspect
import uuid

import pytest

import fairlane as fl
from fairlane.insight import Insight


def test_explain_names_a_pause_with_who_and_why(app):
    job = app.enqueue("t", queue="mail", tenant="acme")
    app.claim(queues=["other"])
    app.queues["mail"].pause(reason="provider down", by="kim")
    told = app.explain(job)
    assert told.summary == "queue 'mail' is paused by kim: provider down"
    assert (told.id, told.tenant, told.blockers[0].by) == (job.id.bytes, "acme", "kim")
    assert app.explain(str(job.id)) == app.explain(job.id) == told


def test_explain_takes_ids_only(app):
    with pytest.raises(fl.InvalidValue):
        app.explain("nonsense")
    with pytest.raises(fl.JobNotFound):
        app.explain(uuid.UUID(int=7))


def test_waits_by_tier_and_window(app, clock):
    for seconds in (1, 3):
        app.enqueue("t", tier="high")
        clock.advance(seconds=seconds)
        claim = app.claim()
        assert claim is not None
        claim.ack()
    told = app.waits("tier")
    assert [(row.tier, row.queue, row.jobs, row.mean, row.p50, row.max) for row in told.rows] == [(1, None, 2, 2, 1, 3)]
    assert (told.jobs, told.more, told.at_ms - told.since_ms) == (2, False, 3_600_000)
    assert app.waits("tier", window=2).jobs == 1
    assert [row.task for row in app.waits(("task", "tenant")).rows] == ["t"]
    with pytest.raises(fl.InvalidValue):
        app.waits("age")
    for wrong in (0, -1, float("nan"), 1e9):
        with pytest.raises(fl.InvalidValue):
            app.waits(window=wrong)
        with pytest.raises(fl.InvalidValue):
            app.inversions(window=wrong)


def test_waits_beyond_the_bound_say_so(app, clock, monkeypatch):
    monkeypatch.setattr("fairlane.insight.MOST_STARTS", 3)
    for _ in range(5):
        app.enqueue("t")
        clock.advance(seconds=1)
        claim = app.claim()
        assert claim is not None
        claim.ack()
    told = app.waits()
    assert (told.jobs, told.more, told.at_ms - told.since_ms) == (3, True, 2_000)


def test_inversions_of_a_fifo_store(clock):
    with fl.Fairlane("sqlite://", policy="fifo", clock=clock) as app:
        app.enqueue("t", tier="background")
        app.enqueue("t", tier="critical")
        clock.advance(seconds=1)
        app.claim()
        told = app.inversions()
    assert (told.counts["arrival"], sum(told.counts.values()), told.unexplained, told.starts) == (1, 1, (), 1)


async def test_twins(app):
    job = app.enqueue("t")
    assert (await app.aexplain(job)).id == app.explain(job).id
    assert (await app.awaits()) == app.waits()
    assert (await app.ainversions()) == app.inversions()


def test_every_call_has_a_twin():
    calls = [name for name, value in vars(Insight).items() if not name.startswith("_") and inspect.isfunction(value)]
    plain = [name for name in calls if not inspect.iscoroutinefunction(vars(Insight)[name])]
    assert sorted(calls) == sorted([*plain, *(f"a{name}" for name in plain)])
