"""Operations from a program: bulk, preview, the handle; how fast portions may follow; who carries them on."""

from __future__ import annotations

import asyncio
import random
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rig import Rig

import fairlane as fl
from fairlane import bulk, looks, maintenance
from fairlane.domain.jobs import JobFilter, NewJob
from fairlane.domain.operations import MADE_UP_MS, OperationPlan, allowed_now, due_after
from fairlane.maintenance import Maintenance
from fairlane.options import new_id
from fairlane.stores._queries import query
from fairlane.stores.tables import reading
from fairlane.stores.tables.reading import filter_values
from fairlane.testing import ManualClock

LONG_S = 10


@pytest.fixture
def app(tmp_path: Path, clock: ManualClock) -> Iterator[fl.Fairlane]:
    with fl.Fairlane(f"sqlite:///{tmp_path}/jobs.db", clock=clock, durability="normal") as made:
        yield made


@pytest.fixture
def rig(tmp_path: Path, clock: ManualClock) -> Iterator[Rig]:
    made = Rig(tmp_path, clock)
    yield made
    made.close()


def dead(app: fl.Fairlane, n: int, why: object = "bad", **options) -> list[fl.Job]:
    jobs = [app.enqueue("t", **options) for _ in range(n)]
    for claim in app.claim_many(n):
        claim.dead(why)
    return jobs


# ---------------------------------------------------------------- bulk and its handle


def test_bulk_needs_no_worker(app):
    jobs = dead(app, 450, tenant="acme")
    told = []
    operation = app.bulk("retry", tenant="acme", by="ann", reason="fixed")
    assert (operation.state, operation.total, operation.done, operation.progress) == ("running", 450, 0, 0.0)
    assert jobs[0].refresh().state == "dead"
    operation.run(lambda it: told.append(it.done))
    assert told == [200, 400, 450]
    assert (operation.state, operation.progress, operation.over, operation.refused) == ("done", 1.0, True, 0)
    assert {job.refresh().state for job in jobs} == {"available"}
    assert app.operation(operation.id).done == app.operation(str(operation.id)).done == 450
    assert [one.id for one in app.operations()] == [operation.id]


def test_what_is_shown_is_ready_for_json(app):
    job = dead(app, 1, tenant="acme")[0]
    app.enqueue("t", tenant="acme", dedup_key="k")
    operation = app.bulk(
        "retry", state="dead", tenant="acme", ids=[job, job.id], tier="normal", q="bad", older_than=0.0, rate=2,
        limit=3, to="low", by="ann",
    ).run()  # fmt: skip
    told = operation.shown()
    assert told["which"] == {
        "state": ["dead"], "tenant": "acme", "tier": "normal", "ids": [str(job.id)], "q": "bad",
        "enqueued_before": told["created_at"],
    }  # fmt: skip
    assert (told["to"], told["rate"], told["limit"], told["by"], told["state"]) == ("low", 2, 3, "ann", "done")
    assert fl.State.DEAD.label == "dead"


def test_preview_changes_nothing(app, monkeypatch):
    monkeypatch.setattr(bulk, "PREVIEW_COUNTED", 7)
    jobs = dead(app, 8)
    preview = app.preview("retry", queue="default")
    assert (preview.count, preview.more, str(preview)) == (7, True, "7+")
    assert [job.id for job in preview.sample] == [job.id for job in reversed(jobs)][:5]
    assert app.preview("cancel", queue="default").count == 0
    assert app.operations() == []
    assert {job.refresh().state for job in jobs} == {"dead"}


def test_refusals_are_told(app):
    dead(app, 1, dedup_key="k")
    app.enqueue("t", dedup_key="k")
    operation = app.bulk("retry", state="dead").run()
    assert (operation.done, operation.refused, operation.progress) == (0, 1, 1.0)
    assert "'k'" in operation.refusals[0].reason


def test_pause_resume_cancel(app):
    jobs = dead(app, 3)
    operation = app.bulk("retry", state="dead")
    assert operation.pause(by="ann").state == "paused"
    assert operation.run().done == 0
    assert operation.resume().state == "running"
    assert operation.cancel().run().state == "cancelled"
    assert operation.ended_at == operation.created_at
    with pytest.raises(fl.IllegalMove):
        operation.resume()
    assert {job.refresh().state for job in jobs} == {"dead"}


def test_join_waits_for_workers(app):
    dead(app, 3)
    operation = app.bulk("retry", state="dead")
    with pytest.raises(fl.WaitTimeout, match=f"operation {operation.id} is still running after 0 s"):
        operation.join(0)
    joined = threading.Thread(target=operation.join, args=(LONG_S,))
    joined.start()
    assert maintenance.operate(app.owner) == 1
    joined.join(LONG_S)
    assert (operation.state, operation.done) == ("done", 3)


async def test_twins(app):
    dead(app, 3)
    assert (await app.apreview("retry", state="dead")).count == 3
    counted = await app.acount(state="dead", most=2)
    assert (counted.count, counted.more) == (2, True)
    operation = await app.abulk("retry", state="dead")
    assert (await operation.apause()).state == "paused"
    await operation.aresume()
    waiting = asyncio.create_task(operation.ajoin(LONG_S))
    assert (await (await app.aoperation(operation.id)).arun()).done == 3
    await waiting
    assert (await operation.arefresh()).state == "done"
    assert len(await app.aoperations()) == 1
    with pytest.raises(fl.IllegalMove):
        await operation.acancel()


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({}, "say which ones"),
        ({"tenant": ""}, "tenant is empty"),
        ({"state": "completed"}, "retry means jobs that are dead, not completed"),
        ({"rate": 0}, "rate"),
        ({"limit": 0}, "limit"),
        ({"to": "loud"}, "tier"),
        ({"ids": []}, "the number of ids is 0"),
        ({"ids": "0198f0de-0000-7000-8000-000000000001"}, "list of jobs' ids"),
        ({"ids": ["x"]}, "named by its UUID"),
        ({"ids": [new_id().hex() for _ in range(1_001)]}, "the number of ids is 1001"),
        ({"bundle": "x"}, "UUID"),
        ({"older_than": -1}, "older_than"),
        ({"ended_after": 5}, "ended_after must be a datetime"),
        ({"q": "x" * 256}, "q has 256 bytes"),
        ({"reason": "x" * 1_025}, "reason"),
    ],
)
def test_wrong_arguments_are_refused(app, wrong, words):
    with pytest.raises(fl.InvalidValue, match=words):
        app.bulk("retry", **{"tenant": "a", **wrong} if wrong else {})
    assert app.operations() == []


def test_an_unknown_filter_is_no_filter(app):
    with pytest.raises(TypeError, match="jobs are not found by colour"):
        app.bulk("cancel", colour="red")


def test_unknown_operations(app):
    with pytest.raises(fl.OperationNotFound):
        app.operation("0198f0de-0000-7000-8000-000000000001")
    with pytest.raises(fl.InvalidValue):
        app.operation("x")


def test_every_operation_is_on_record(app):
    dead(app, 2)
    app.bulk("retry", state="dead", by="ann", reason="fixed").cancel(by="bob")
    with closing(sqlite3.connect(app.url.removeprefix("sqlite:///"))) as db:
        rows = db.execute("SELECT what, by, reason FROM audit ORDER BY id").fetchall()
    assert rows == [("bulk retry", "ann", "fixed"), ("cancel bulk retry", "bob", "")]


# ---------------------------------------------------------------- its pace


@given(
    rate=st.floats(0.01, 5_000),
    looks=st.lists(st.tuples(st.integers(0, 3_000), st.integers(1, 200), st.booleans()), min_size=1, max_size=60),
)
def test_no_rate_is_ever_exceeded(rate, looks):
    """In any W seconds at most rate * (W + 1) + 1 jobs; and never fewer than the bound allows when one is due."""
    now_ms, due_ms = 10_000, 10_000
    done: list[tuple[int, int]] = []
    for pause_ms, most, lazy in looks:
        now_ms += pause_ms
        allowed = allowed_now(rate, due_ms, now_ms, most)
        assert (allowed > 0) == (due_ms <= now_ms)
        if allowed:
            count = 1 if lazy else allowed
            done.append((now_ms, count))
            due_ms = due_after(rate, due_ms, now_ms, count)
    for first, (since_ms, _) in enumerate(done):
        for last in range(first, len(done)):
            spell_ms = done[last][0] - since_ms
            assert sum(count for _, count in done[first : last + 1]) <= rate * (spell_ms + MADE_UP_MS) / 1000 + 1


@pytest.mark.parametrize("rate", [0.5, 3.0, 10.0, 999.0])
def test_over_a_long_time_the_rate_is_met(rate):
    due_ms = total = 0
    for now_ms in range(0, 100_000, 250):
        count = allowed_now(rate, due_ms, now_ms, 1_000)
        if count:
            total += count
            due_ms = due_after(rate, due_ms, now_ms, count)
    assert rate * 100 * 0.98 <= total <= rate * 100 + 1


def test_several_processes_share_a_rate(rig: Rig, clock: ManualClock):
    rig.enqueue_many([NewJob(id=new_id(), task="t") for _ in range(100)])
    plan = OperationPlan(action="cancel", which=JobFilter(queue="default"), rate=20.0).checked()
    owners = [rig.owner, rig.new_owner(), rig.new_owner()]
    operation = new_id()
    counted = rig.owner.read(lambda store, _: store.count(plan.which, limit=1_000))
    rig.owner.call(
        lambda store, now_ms: store.start_operation(operation, plan, counted=counted, by="", reason="", now_ms=now_ms)
    )
    done = []
    for _ in range(5):
        for owner in owners:
            maintenance.operate(owner)
        done.append(rig.owner.read(lambda store, _: store.operation(operation).done))
        clock.advance(ms=500)
    assert done == [1, 11, 21, 31, 41]


# ---------------------------------------------------------------- who carries it on


def test_maintenance_carries_operations_on(rig: Rig):
    rig.enqueue_many([NewJob(id=new_id(), task="t") for _ in range(450)])
    plan = OperationPlan(action="cancel", which=JobFilter(queue="default")).checked()
    upkeep = Maintenance(rig.owner, rng=random.Random(1))
    assert "operate" in {chore.name for chore in upkeep.chores}
    counted = rig.owner.read(lambda store, _: store.count(plan.which, limit=1_000))
    rig.owner.call(
        lambda store, now_ms: store.start_operation(new_id(), plan, counted=counted, by="", reason="", now_ms=now_ms)
    )
    upkeep.start()
    rig.until(lambda: rig.counts().get(fl.State.CANCELLED) == 450)
    upkeep.stop()
    assert maintenance.operate(rig.owner) == 0


def test_a_pass_without_operations_opens_no_transaction(rig: Rig):
    rig.owner.read(lambda store, _: store.operations_due_ms())
    rig.stores[0].calls.clear()
    assert maintenance.operate(rig.owner) == 0
    assert set(rig.stores[0].calls) == {"operations_due_ms"}


def test_the_next_pass_is_near_only_while_an_operation_is_under_way(rig: Rig):
    upkeep = Maintenance(rig.owner, rng=random.Random(1))
    (chore,) = [one for one in upkeep.chores if one.name == "operate"]
    chore.run(0.0)
    assert 0.5 * looks.LOOK_S <= chore.due_at <= looks.LOOK_S
    rig.enqueue_many([NewJob(id=new_id(), task="t") for _ in range(5)])
    plan = OperationPlan(action="cancel", which=JobFilter(queue="default"), rate=1.0).checked()
    counted = rig.owner.read(lambda store, _: store.count(plan.which, limit=1_000))
    rig.owner.call(
        lambda store, now_ms: store.start_operation(new_id(), plan, counted=counted, by="", reason="", now_ms=now_ms)
    )
    chore.run(0.0)
    assert chore.due_at == maintenance.OPERATE_EVERY_S


def test_a_pass_stops_between_portions(rig: Rig, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(maintenance, "OPERATE_BATCH", 3)
    rig.enqueue_many([NewJob(id=new_id(), task="t") for _ in range(10)])
    plan = OperationPlan(action="cancel", which=JobFilter(queue="default")).checked()
    counted = rig.owner.read(lambda store, _: store.count(plan.which, limit=1_000))
    rig.owner.call(
        lambda store, now_ms: store.start_operation(new_id(), plan, counted=counted, by="", reason="", now_ms=now_ms)
    )
    assert maintenance.operate(rig.owner, going_on=lambda: False) == 1
    assert rig.counts()[fl.State.CANCELLED] == 3


# ---------------------------------------------------------------- on full tables


def _job(n: int) -> tuple:
    state = (3, 3, 4, 5, 1)[n % 5]
    return (
        n.to_bytes(16), n % 40 + 1, state, n, n, n, n if state >= 3 else None, f"f{n % 50}" if state == 4 else None,
        f"2:q{n % 4}:k{n}" if n % 3 else None, (n // 10).to_bytes(16) if n % 7 == 0 else None,
    )  # fmt: skip


@pytest.fixture(scope="module")
def full(tmp_path_factory) -> Iterator[sqlite3.Connection]:
    """A store with 20,000 jobs in every state, analysed."""
    file = tmp_path_factory.mktemp("full") / "jobs.db"
    with fl.Fairlane(f"sqlite:///{file}", durability="normal") as app:
        app.owner  # noqa: B018  makes the file
    db = sqlite3.connect(file)
    with db:
        db.executemany(
            "INSERT INTO lane (id, queue, task, tenant, tier) VALUES (?, ?, 't', ?, 2)",
            [(n + 1, f"q{n % 4}", f"tenant{n}") for n in range(40)],
        )
        db.executemany(
            "INSERT INTO job (id, lane, state, arrival_ms, enqueued_at_ms, scheduled_at_ms, finished_at_ms,"
            " fingerprint, dedup, bundle, args) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, '{}')",
            [_job(n) for n in range(20_000)],
        )
    db.execute("ANALYZE")
    yield db
    db.close()


def plan_of(db: sqlite3.Connection, name: str, **values) -> list[str]:
    return [row[3] for row in db.execute(f"EXPLAIN QUERY PLAN {query('sqlite', name)}", values)]


@pytest.mark.parametrize("name", ["jobs_page", "jobs_page_end", "jobs_portion", "jobs_portion_end", "meant_count"])
def test_jobs_are_found_along_indexes(full, name):
    values = filter_values(JobFilter(fingerprint="f1", ids=(bytes(16),))) | {"most": 50}
    steps = plan_of(full, name, **values)
    assert not [step for step in steps if step in {"SCAN job", "SCAN lane"}], steps
    for index in (
        "PRIMARY KEY (rowid>? AND rowid<?)",
        "job_dead_seq",
        "job_dead ",
        "job_key",
        "job_bundle",
        "job_lease",
    ):
        assert [step for step in steps if step.startswith(("SEARCH job", "SCAN job USING")) and index in step], steps


@pytest.mark.parametrize(
    ("which", "found"),
    [
        (JobFilter(fingerprint="f7"), 80),
        (JobFilter(states=(fl.State.DEAD,)), 4_000),
        (JobFilter(dedup_key="k4444"), 1),
        (JobFilter(bundle=(70 // 10).to_bytes(16)), 2),
        (JobFilter(ids=((5).to_bytes(16), (6).to_bytes(16), b"x" * 16)), 2),
    ],
)
def test_few_steps_lead_to_few_jobs(full, which, found):
    """What a page, a count and a portion look at grows with what is meant, not with the table."""
    for name, per_job in (("jobs_page", 1), ("meant_count", 1), ("jobs_portion", 1)):
        steps = [0]

        def step(steps=steps) -> int:
            steps[0] += 1
            return 0

        full.set_progress_handler(step, 100)
        rows = full.execute(query("sqlite", name), filter_values(which) | {"most": 20}).fetchall()
        full.set_progress_handler(None, 0)
        seen = rows[0][0] if name == "meant_count" else len(rows)
        assert seen == min(found, 20), name
        assert steps[0] <= 40 * per_job, (name, which, steps)  # 4,000 instructions; the whole table is 500,000 of them


def test_groups_and_surplus_are_counted_from_indexes_alone(full):
    (scan, *_) = [step for step in plan_of(full, "dead_groups", most=5) if "job" in step]
    assert "USING COVERING INDEX job_dead" in scan
    (scan, *_) = [step for step in plan_of(full, "surplus_queues", keep=5) if "job" in step]
    assert "USING COVERING INDEX job_ended" in scan
    steps = plan_of(full, "surplus_jobs", queue="q1", most=5)
    assert [step for step in steps if "USING COVERING INDEX job_ended (state=? AND finished_at_ms>?)" in step], steps
    assert not [step for step in steps if "TEMP B-TREE" in step], steps
    steps = plan_of(full, "prune_old", state=3, before_ms=5, now_ms=5, most=5)
    assert [step for step in steps if "job_ended (state=? AND finished_at_ms<?)" in step], steps
    assert not [step for step in steps if "TEMP B-TREE" in step], steps
    for name, values in (("operations_due", {}), ("operation_due", {"now_ms": 5})):
        steps = plan_of(full, name, **values)
        assert [step for step in steps if "operation_due" in step], steps
        assert not [step for step in steps if "TEMP B-TREE" in step], steps


def test_a_page_looks_at_a_bounded_number_of_jobs(app, monkeypatch):
    """Where few jobs fit, a page may hold none and still say where to go on; nothing is passed over or told twice."""
    monkeypatch.setattr(reading, "PAGE_SCAN", 3)
    wanted = [app.enqueue("t", tenant="a").id]
    app.enqueue_many(app.new("t") for _ in range(8))
    wanted.append(app.enqueue("t", tenant="a").id)
    found, cursor, pages = [], None, 0
    while pages == 0 or cursor:
        page = app.jobs(tenant="a", limit=1, cursor=cursor)
        found += [job.id for job in page]
        cursor, pages = page.cursor, pages + 1
    assert (found, pages) == (wanted[::-1], 4)
    assert app.count(tenant="a").count == 2
