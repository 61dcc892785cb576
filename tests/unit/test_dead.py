"""`app.dead`: groups, pages, replay, discard, export, from real runs of real handlers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

import fairlane as fl
from fairlane import dead
from fairlane.testing import ManualClock

ONCE = fl.Retry(max_attempts=1)


@pytest.fixture
def app(tmp_path: Path) -> Iterator[fl.Fairlane]:
    with fl.Fairlane(f"sqlite:///{tmp_path}/jobs.db", durability="normal") as made:
        yield made


def run(app: fl.Fairlane) -> None:
    app.run_worker(until_idle=True, signals=False)


def refuse(card: int) -> None:
    raise PermissionError(f"card {card} was refused by 'bank {card}'")


def test_failures_of_handlers_make_groups(app):
    broken = [True]

    @app.task(name="pay", retry=ONCE)
    def pay(card: int) -> str:
        if broken[0]:
            refuse(card)
        return "paid"

    @app.task(name="look", retry=ONCE)
    async def look(card: int) -> None:
        refuse(card)

    jobs = [pay.using(tenant=f"t{n % 2}").enqueue(n) for n in range(5)]
    look.enqueue(77)
    run(app)
    (group,) = app.dead.groups()
    assert (group.count, group.tasks, group.tenants) == (6, ("look", "pay"), 3)
    module = refuse.__module__
    assert group.label == f"PermissionError: card <n> was refused by <text> · {module}.refuse"
    assert (group.type, group.frame) == ("PermissionError", f"{module}.refuse")
    assert group.first_at <= group.last_at
    assert json.loads(json.dumps(group.shown()))["fingerprint"] == group.fingerprint
    page = app.dead.jobs(group.fingerprint, limit=4)
    rest = app.dead.jobs(group.fingerprint, limit=4, cursor=page.cursor)
    assert (len(page), len(rest), rest.cursor) == (4, 2, None)
    assert len(app.dead.jobs(task="pay", tenant="t0")) == 3

    broken[0] = False
    operation = app.dead.replay(fingerprint=group.fingerprint, task="pay", rate=None, by="ann", reason="bank is back")
    assert operation.run().done == 5
    run(app)
    for job in jobs:
        done = job.refresh()
        assert (done.state, done.result(0), done.failures) == ("completed", "paid", 0)
        assert [error.type for error in done.errors] == ["PermissionError"], "the history stays"
    assert [one.count for one in app.dead.groups()] == [1]


def test_a_canary_comes_first(app):
    jobs = [app.enqueue("t") for _ in range(4)]
    for claim in app.claim_many(4):
        claim.dead("no")
    assert app.dead.replay(rate=None, limit=1).run().done == 1
    assert [job.refresh().state for job in jobs] == ["available", "dead", "dead", "dead"], "the oldest"


def test_replay_of_the_verify_phase_runs_nothing(app):
    jobs = [app.enqueue("t") for _ in range(2)]
    for claim in app.claim_many(2):
        claim.dead("no")
    operation = app.dead.replay(phase="verify", rate=None).run()
    assert (operation.action, operation.done, operation.refused) == ("reverify", 0, 2), "they handed nothing over"
    assert {job.refresh().state for job in jobs} == {"dead"}
    for wrong in ({"phase": "both"}, {"phase": None}, {"phase": "verify", "to": "low"}):
        with pytest.raises(fl.InvalidValue):
            app.dead.replay(**wrong)
    assert len(app.operations()) == 1


def test_replay_goes_at_ten_a_second(tmp_path):
    clock = ManualClock()
    with fl.Fairlane(f"sqlite:///{tmp_path}/jobs.db", clock=clock) as app:
        for _ in range(30):
            app.enqueue("t")
        for claim in app.claim_many(30):
            claim.dead("no")
        operation = app.dead.replay()
        assert operation.record.plan.rate == 10
        done = []
        for _ in range(4):
            while app.owner.call(lambda store, now_ms: store.advance(now_ms, limit=200)):
                pass
            done.append(operation.refresh().done)
            clock.advance(seconds=0.5)
        assert done == [1, 6, 11, 16]


def test_discard_deletes_what_is_named(app):
    for n in range(4):
        app.enqueue("t", tenant="ab"[n % 2])
    for claim in app.claim_many(4):
        claim.dead("no")
    with pytest.raises(fl.InvalidValue, match="say which ones"):
        app.dead.discard()
    assert app.operations() == []
    assert app.dead.discard(tenant="a", limit=1).run().done == 1
    assert app.dead.discard(tenant="a").run().done == 1
    assert [job.tenant for job in app.jobs()] == ["b", "b"]
    assert app.owner.read(lambda store, _: store.check()) == []


def test_only_dead_jobs_are_ever_meant(app):
    app.enqueue("t", tenant="a")
    app.enqueue("t", tenant="a", delay=60)
    assert app.dead.replay(rate=None).run().done == 0
    assert app.dead.discard(tenant="a").run().done == 0
    assert list(app.dead.export()) == []
    assert len(app.jobs()) == 2


def test_export_holds_few_in_memory(app, monkeypatch):
    monkeypatch.setattr(dead, "EXPORT_PAGE", 2)
    for n in range(5):
        app.enqueue("t", {"n": n}, tags=["red"])
    for claim in app.claim_many(5):
        claim.dead(KeyError("k"))
    exporting = app.dead.export(tag="red")
    first = next(exporting)
    assert first["args"] == {"n": 4}
    app.dead.discard(tag="red", limit=1).run()  # n = 0, on a page that is not read yet
    assert [one["args"]["n"] for one in exporting] == [3, 2, 1]
    assert json.loads(json.dumps(first))["errors"][0]["type"] == "KeyError"
    assert {"finished_at", "reason", "tenant", "id"} <= first.keys()


def test_history_ends_now(tmp_path):
    clock = ManualClock()
    with fl.Fairlane(f"sqlite:///{tmp_path}/jobs.db", clock=clock) as app:
        for pause_s in (0, 10, 10):
            clock.advance(seconds=pause_s)
            app.enqueue("t")
            app.claim().dead("no")
        (group,) = app.dead.groups()
        assert app.dead.history(group.fingerprint, window=30, points=3) == (1, 1, 1)
        assert app.dead.history(group.fingerprint, window=0.001, points=2) == (0, 1)
        assert sum(app.dead.history(group.fingerprint)) == 3
        with pytest.raises(fl.InvalidValue, match="points"):
            app.dead.history(group.fingerprint, points=0)


async def test_twins(app):
    await app.aenqueue("t")
    (await app.aclaim()).dead("no")
    (group,) = await app.dead.agroups()
    assert len(await app.dead.ajobs(group.fingerprint)) == 1
    assert [one["reason"] async for one in app.dead.aexport(group.fingerprint)] == ["no"]
    operation = await app.dead.areplay(group.fingerprint, to="low")
    assert (await operation.arun()).done == 1
    assert (await app.ajobs())[0].tier == fl.Tier.LOW
    assert (await (await app.dead.adiscard(group.fingerprint)).arun()).done == 0


@pytest.mark.parametrize("limit", [0, 10_001, True])
def test_groups_are_bounded(app, limit):
    with pytest.raises(fl.InvalidValue):
        app.dead.groups(limit=limit)


def test_an_unknown_group_is_empty(app):
    assert len(app.dead.jobs("nothing")) == 0
    assert app.dead.replay("nothing").total == 0
