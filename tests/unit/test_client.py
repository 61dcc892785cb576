"""The client over a store in memory: enqueue, look, steer, claim, wait; both faces of each call."""

from __future__ import annotations

import dataclasses
import datetime as dt
import inspect
import uuid
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
import uuid_utils

import fairlane as fl
from fairlane.client import Client
from fairlane.handles import Job
from fairlane.pulled import PulledClaim
from fairlane.rules import Handles, Limit, Queue, TaskHandle, Tenant
from fairlane.testing.clock import START_MS, ManualClock

START = dt.datetime.fromtimestamp(START_MS / 1000, dt.UTC)
NOBODY = uuid.UUID(int=7)


@dataclasses.dataclass
class Point:
    x: int


def claimed(app: fl.Fairlane, **options: Any) -> PulledClaim:
    claim = app.claim(**options)
    assert claim is not None
    return claim


# ---------------------------------------------------------------- enqueue


def test_an_enqueue_stores_what_was_said(app: fl.Fairlane, clock: ManualClock) -> None:
    @app.task(queue="mail", tier=fl.Tier.HIGH)
    def send(to: str, template: str) -> str: ...

    job = send.using(tenant="acme", delay=5, expires_in=60, dedup_key="mail:42", tags=["a", "b"], trace="00-1").enqueue(
        "a@b.c", template="hi"
    )
    assert job.created
    assert job.id.version == 7
    assert (job.task, job.queue, job.tenant, job.tier, job.state) == ("send", "mail", "acme", fl.Tier.HIGH, "scheduled")
    assert job.args == {"to": "a@b.c", "template": "hi"}
    assert (job.dedup_key, job.tags, job.trace, job.express) == ("mail:42", ("a", "b"), "00-1", False)
    assert (job.enqueued_at, job.scheduled_at) == (START, START + dt.timedelta(seconds=5))
    assert job.expires_at == START + dt.timedelta(seconds=60)
    assert (job.started_at, job.finished_at, job.lease_expires_at, job.worker) == (None, None, None, None)
    assert (job.failures, job.crashes, job.checks, job.fence, job.errors) == (0, 0, 0, 0, ())
    assert (job.progress, job.checkpoint, job.reason, job.phase, job.ended) == (None, None, None, "process", False)
    assert job.record.uuid == job.id


def test_fields_are_those_of_the_last_reading(app: fl.Fairlane) -> None:
    job = app.enqueue("any")
    assert job.state == "available"
    app.cancel(job)
    assert job.state == "available"
    assert job.refresh() is job
    assert job.state == "cancelled"


def test_any_name_can_be_enqueued(app: fl.Fairlane) -> None:
    job = app.enqueue("mail.send", {"to": "a@b.c"}, tenant="acme", tier="critical", queue="mail")
    assert (job.task, job.tenant, job.tier, job.queue) == ("mail.send", "acme", fl.Tier.CRITICAL, "mail")
    with pytest.raises(fl.InvalidJob, match=r"args\.to is nan"):
        app.enqueue("mail.send", {"to": float("nan")})


def test_a_known_name_has_its_options_and_is_checked(app: fl.Fairlane) -> None:
    @app.task(queue="mail", tier="low")
    def send(to: str) -> None: ...

    assert (app.enqueue("send", {"to": "a"}).queue, app.enqueue(send, args={"to": "a"}).tier) == ("mail", fl.Tier.LOW)
    with pytest.raises(fl.InvalidJob, match="argument 'to' is missing"):
        app.enqueue("send", {})
    assert len(app.jobs()) == 2


@pytest.mark.parametrize("wrong", ["", "n" * 300, 5, None])
def test_a_wrong_name_is_refused(app: fl.Fairlane, wrong: Any) -> None:
    with pytest.raises(fl.InvalidJob):
        app.enqueue(wrong)


def test_wrong_arguments_are_refused(app: fl.Fairlane) -> None:
    with pytest.raises(fl.InvalidJob, match="args must be a mapping"):
        app.enqueue("x", [1])  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="unexpected option 'tenat'"):
        app.enqueue("x", tenat="acme")  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="already"):
        app.enqueue(app.new("x"), {"a": 1})
    assert len(app.jobs()) == 0


def test_a_dedup_key_is_held_by_one_live_job(app: fl.Fairlane) -> None:
    first = app.enqueue("x", dedup_key="k")
    again = app.enqueue("x", dedup_key="k")
    assert (again == first, again.created, hash(again) == hash(first)) == (True, False, True)
    with pytest.raises(fl.DedupConflict) as held:
        app.enqueue("x", dedup_key="k", on_conflict="raise")
    assert held.value.job_id == first.id


def test_many_are_stored_in_batches(app: fl.Fairlane) -> None:
    @app.task
    def send(to: str, template: str) -> None: ...

    jobs = app.enqueue_many((send.using(tenant=f"t{n}").new(str(n), template="x") for n in range(25)), batch=10)
    assert [job.args["to"] for job in jobs] == [str(n) for n in range(25)]
    assert jobs[24].tenant == "t24"
    assert app.enqueue_many([]) == []


def test_a_refused_batch_says_what_is_stored(app: fl.Fairlane) -> None:
    jobs: list[Any] = [app.new("x") for _ in range(5)] + ["no job"]
    with pytest.raises(fl.InvalidJob, match="not 'no job'") as refused:
        app.enqueue_many(jobs, batch=2)
    assert refused.value.__notes__ == ["4 jobs of the batches before it are stored"]
    assert len(app.jobs()) == 4


@pytest.mark.parametrize("batch", [0, 10_001, True])
def test_a_batch_is_bounded(app: fl.Fairlane, batch: Any) -> None:
    with pytest.raises(fl.InvalidValue, match="batch"):
        app.enqueue_many([], batch=batch)


def test_a_full_queue_refuses(app: fl.Fairlane) -> None:
    app.queues["mail"].set(max_waiting=1)
    app.enqueue("x", queue="mail")
    with pytest.raises(fl.QueueFull) as full:
        app.enqueue("x", queue="mail")
    assert (full.value.current, full.value.maximum) == (1, 1)


def test_the_limits_of_a_task_hold_from_its_first_job(app: fl.Fairlane) -> None:
    @app.task(limits=["openai"])
    def embed(n: int) -> None: ...

    app.limits["openai"].set(max_running=1)
    embed.enqueue(1)
    embed.enqueue(2)
    assert app.tasks["embed"].get().limits == ("openai",)
    assert app.claim() is not None
    assert app.claim() is None


# ---------------------------------------------------------------- look


def test_a_job_is_named_in_several_ways(app: fl.Fairlane) -> None:
    job = app.enqueue("x")
    for name in (job.id, str(job.id), job.id.hex, job, uuid_utils.UUID(str(job.id))):
        assert app.get(name) == job  # type: ignore[arg-type]


@pytest.mark.parametrize("wrong", ["x", "", 5, None, b"1" * 16, object()])
def test_what_is_no_id_is_refused(app: fl.Fairlane, wrong: Any) -> None:
    for call in (app.get, app.cancel, app.retry, app.expedite):
        with pytest.raises(fl.InvalidValue, match="a job is named by"):
            call(wrong)


def test_an_unknown_job_is_not_found(app: fl.Fairlane) -> None:
    for call in (
        lambda: app.get(NOBODY),
        lambda: app.cancel(NOBODY),
        lambda: app.retry(NOBODY),
        lambda: app.expedite(NOBODY),
        lambda: app.boost(NOBODY, 0),
        lambda: app.set_tier(NOBODY, 0),
        lambda: Job(app, NOBODY.bytes).refresh(),
        lambda: Job(app, NOBODY.bytes).result(timeout=5),
    ):
        with pytest.raises(fl.JobNotFound):
            call()


def test_pages_are_newest_first_and_go_on(app: fl.Fairlane) -> None:
    jobs = app.enqueue_many(app.new("x", tenant=f"t{n % 2}", tags=[f"g{n}"]) for n in range(7))
    seen: list[Any] = []
    page = app.jobs(limit=3)
    while True:
        seen += page
        if page.cursor is None:
            break
        page = app.jobs(limit=3, cursor=page.cursor)
    assert seen == jobs[::-1]
    assert [len(app.jobs(tenant="t1")), len(app.jobs(tag="g3")), len(app.jobs(task="y"))] == [3, 1, 0]
    app.cancel(jobs[0])
    assert list(app.jobs(state=["cancelled", fl.State.DEAD])) == [jobs[0]]
    assert app.jobs(state="available")[0] == jobs[6]
    assert len(app.jobs(queue="default", tier="normal", state="available")[1:]) == 5


@pytest.mark.parametrize(
    "wrong",
    [{"state": "waiting"}, {"state": 5}, {"tier": 9}, {"limit": 0}, {"limit": 1001}, {"queue": ""}, {"cursor": "?"}],
)
def test_wrong_filters_are_refused(app: fl.Fairlane, wrong: dict[str, Any]) -> None:
    with pytest.raises(fl.InvalidValue):
        app.jobs(**wrong)


def test_depth_counts_what_is_stored(app: fl.Fairlane, clock: ManualClock) -> None:
    app.enqueue("x", queue="a", tenant="t1")
    clock.advance(seconds=1)
    app.enqueue("y", queue="a", tenant="t1", delay=5)
    app.enqueue("y", queue="b", tier="critical")
    app.enqueue("y", queue="c")
    app.claim(queues=["c"])
    depth = app.depth()
    assert depth.at == START + dt.timedelta(seconds=1)
    assert (depth.scheduled, depth.available, depth.running) == (1, 2, 1)
    assert [(row.tier, row.queue, row.tenant, row.task) for row in depth] == [
        (fl.Tier.CRITICAL, "b", "default", None),
        (fl.Tier.NORMAL, "a", "t1", None),
        (fl.Tier.NORMAL, "c", "default", None),
    ]
    (row,) = app.depth(by="queue").rows[:1]
    assert (row.queue, row.waiting, row.tier, row.oldest_at) == ("a", 2, None, START)
    (everything,) = app.depth(by=()).rows
    assert (everything.waiting, everything.running, everything.oldest_at) == (3, 1, START)
    with pytest.raises(fl.InvalidValue, match="by 'worker' is not one of"):
        app.depth(by=("worker",))  # type: ignore[arg-type]


def test_peek_shows_the_order_and_changes_nothing(app: fl.Fairlane) -> None:
    app.enqueue("low", tier="low", queue="a")
    app.enqueue("urgent", tier="critical", queue="b")
    assert [job.task for job in app.peek()] == ["urgent", "low"]
    assert [job.task for job in app.peek(queue="a")] == ["low"]
    assert app.depth().running == 0


# ---------------------------------------------------------------- steer


def test_cancel_ends_a_waiting_job_and_asks_a_running_one(app: fl.Fairlane) -> None:
    waiting, running = app.enqueue("x", queue="a"), app.enqueue("x", queue="b")
    claim = claimed(app, queues=["b"])
    assert (app.cancel(waiting, reason="no need"), app.cancel(running)) == ("cancelled", "running")
    assert waiting.reason == "no need"
    assert claim.heartbeat() == "cancel"
    claim.cancelled()
    assert running.refresh().state == "cancelled"
    with pytest.raises(fl.IllegalMove):
        app.cancel(running)


def test_a_dead_job_can_be_retried(app: fl.Fairlane) -> None:
    job = app.enqueue("x")
    with pytest.raises(fl.IllegalMove):
        app.retry(job)
    claimed(app).dead("bad input")
    assert app.retry(job, by="ann").state == "available"
    assert (job.refresh().failures, len(job.errors)) == (0, 1)


def test_expedite_is_bounded_and_changes_nothing_when_full(clock: ManualClock) -> None:
    with fl.Fairlane("sqlite://", clock=clock, express_capacity=2) as app:
        jobs = [app.enqueue("x", delay=9) for _ in range(3)]
        assert app.expedite(jobs[0], reason="boss").state == "available"
        assert app.enqueue("x", expedite=True).express
        with pytest.raises(fl.ExpressFull) as full:
            app.expedite(jobs[2])
        assert (full.value.current, full.value.maximum) == (2, 2)
        assert (jobs[2].refresh().state, jobs[2].express) == ("scheduled", False)
        with pytest.raises(fl.ExpressFull):
            app.enqueue("x", expedite=True)
        assert len(app.jobs()) == 4


def test_boost_raises_and_set_tier_may_lower(app: fl.Fairlane) -> None:
    job = app.enqueue("x")
    assert app.boost(job, "high") == ("boosted", fl.Tier.HIGH)
    assert app.boost(job, "low") == ("not_higher", fl.Tier.HIGH)
    assert app.set_tier(job, fl.Tier.LOW, reason="not urgent").tier == fl.Tier.LOW
    assert job.tier == fl.Tier.LOW
    for wrong in (5, -1, True, 1.0, "", None):
        with pytest.raises(fl.InvalidValue, match="tier"):
            app.boost(job, wrong)  # type: ignore[arg-type]


def test_clear_cancels_what_waits(app: fl.Fairlane, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fairlane.steering.SWEEP", 3)
    app.enqueue_many(app.new("x", queue="a") for _ in range(7))
    other = app.enqueue("x", queue="b")
    claimed(app, queues=["a"])
    assert app.clear(queue="a", reason="cleaning") == 6
    assert (app.depth().running, other.refresh().state) == (1, "available")
    with pytest.raises(fl.InvalidValue, match="name a queue"):
        app.clear()


def test_who_did_it_and_why_is_on_record(app: fl.Fairlane) -> None:
    job, other, queued = app.enqueue("x"), app.enqueue("x"), app.enqueue("x", queue="b")
    claimed(app).dead("no")
    app.retry(job, reason="mended", by="ann")
    app.boost(job, "high", reason="late", by="ben")
    app.cancel(other, reason="twice", by="cy")
    app.cancel(job, reason="nobody said who")
    app.clear(queue="b", reason="old", by="di")
    assert queued.refresh().reason == "old"
    rows = app.owner.read(lambda store, _: store.audit(limit=9))
    assert [(row.by, row.what, row.target, row.detail) for row in rows] == [
        ("di", "clear", "1 jobs", "old"),
        ("cy", "cancel", str(other.id), "twice"),
        ("ben", "boost", str(job.id), "late"),
        ("ann", "retry", str(job.id), "mended"),
    ]


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda app, _: app.enqueue_many(5), fl.InvalidJob, "enqueue_many takes several jobs"),
        (lambda app, _: app.group(app.new("x")), fl.InvalidJob, "group takes several jobs"),
        (lambda app, _: app.jobs(cursor=5), fl.InvalidValue, "cursor must be text"),
        (lambda app, _: app.dead.jobs(cursor=b"x"), fl.InvalidValue, "cursor must be text"),
        (lambda app, _: app.dead.history(7), fl.InvalidValue, "fingerprint must be text"),
        (lambda app, _: app.claim(queues=5), fl.InvalidValue, "queues must be names"),
        (lambda app, _: app.claim(tasks=5), fl.InvalidValue, "tasks must be names"),
        (lambda app, _: app.depth(by=None), fl.InvalidValue, "by must be some of tier, queue"),
        (lambda app, _: app.configure(policy=1.5), fl.InvalidValue, "policy must be a Policy or the name of one"),
        (lambda app, _: app.configure(express_capacity=9, by=5), fl.InvalidValue, "by must be text"),
        (lambda app, _: app.backup(None), fl.InvalidValue, "path must be the name of a file"),
        (lambda app, _: app.backup("a\0b"), fl.InvalidValue, "names no file"),
        (lambda app, _: app.backup("x" * 300), fl.InvalidValue, "names no file"),
        (lambda app, job: app.cancel(job, by=5), fl.InvalidValue, "by must be text"),
        (lambda app, job: app.expedite(job, by="\ud800"), fl.InvalidValue, "by holds a lone surrogate"),
        (lambda app, job: app.boost(job, "high", by=5), fl.InvalidValue, "by must be text"),
        (lambda app, job: app.boost(job, "high", reason="x" * 2000), fl.InvalidValue, "reason has 2000 bytes"),
        (lambda app, job: app.set_tier(job, "low", by=5), fl.InvalidValue, "by must be text"),
        (lambda app, job: app.process(job, by=5), fl.InvalidValue, "by must be text"),
        (lambda app, job: app.reverify(job, by=5), fl.InvalidValue, "by must be text"),
        (lambda app, job: app.retry(job, by=5), fl.InvalidValue, "by must be text"),
        (lambda app, _: app.clear(queue="default", by=5), fl.InvalidValue, "by must be text"),
    ],
)
def test_a_wrong_value_is_named_and_changes_nothing(
    app: fl.Fairlane, call: Callable[[Any, Any], object], error: type[Exception], words: str
) -> None:
    job = app.enqueue("x")
    before = job.refresh().record
    with pytest.raises(error, match=words):
        call(app, job)
    assert job.refresh().record == before
    assert len(app.jobs()) == 1


def test_rescue_takes_back_lapsed_leases(app: fl.Fairlane, clock: ManualClock) -> None:
    job = app.enqueue("x")
    claim = claimed(app, lease=10)
    assert claim.lease_expires_at == START + dt.timedelta(seconds=10)
    clock.advance(seconds=11)
    assert app.rescue() == 1
    assert (job.refresh().state, job.crashes) == ("available", 1)
    assert app.rescue() == 0
    with pytest.raises(fl.LeaseLost):
        claim.ack()


# ---------------------------------------------------------------- both faces


BLOCKING = {
    Client: (
        "enqueue enqueue_many get jobs peek depth cancel retry expedite boost set_tier clear rescue claim claim_many "
        "group get_group process reverify close"
    ),
    fl.Fairlane: "configure",
    Job: "refresh join result",
    PulledClaim: "heartbeat save progress ack nack dead snooze cancelled release",
    Queue: "get pause resume set",
    TaskHandle: "get pause resume",
    Tenant: "get pause resume set",
    Limit: "get pause resume set",
    Handles: "list shown",
    fl.Task: "enqueue",
    fl.Context: "progress checkpoint heartbeat",
}


@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind, names in BLOCKING.items() for name in names.split()])
def test_every_blocking_call_has_a_twin(kind: type, name: str) -> None:
    blocking, twin = getattr(kind, name), getattr(kind, f"a{name}")
    assert inspect.iscoroutinefunction(twin)
    assert not inspect.iscoroutinefunction(blocking)
    assert (twin.__name__, bool(twin.__doc__)) == (f"a{name}", True)
    assert list(inspect.signature(twin).parameters) == list(inspect.signature(blocking).parameters)


@pytest.fixture
async def aapp(clock: ManualClock) -> AsyncIterator[fl.Fairlane]:
    async with fl.Fairlane("sqlite://", clock=clock) as app:
        yield app


async def test_the_asynchronous_face_does_the_same(aapp: fl.Fairlane) -> None:
    @aapp.task(queue="mail")
    async def send(to: str, ctx: fl.Context) -> str: ...

    job = await send.using(tenant="acme").aenqueue("a")
    assert (await job.arefresh()).tenant == "acme"
    assert (await aapp.aget(job.id)).state == "available"
    assert list(await aapp.ajobs(queue="mail")) == [job]
    assert (await aapp.aexpedite(job)).express
    assert (await aapp.aboost(job, "critical")).outcome == "boosted"
    assert (await aapp.aset_tier(job, "low")).tier == fl.Tier.LOW
    assert [one.id for one in await aapp.apeek()] == [job.id]
    await aapp.queues["mail"].apause("busy")
    assert (await aapp.queues["mail"].aget()).pause is not None
    assert [queue.name for queue in await aapp.queues.alist()] == ["mail"]
    assert await aapp.aclaim() is None
    await aapp.queues["mail"].aresume()
    claim = await aapp.aclaim()
    assert claim is not None
    assert await claim.aheartbeat() is None
    await claim.asave([1])
    await claim.adead("x")
    assert (await aapp.aretry(job)).id == job.id
    assert await aapp.acancel(job) == "cancelled"
    with pytest.raises(fl.JobCancelled):
        await job.aresult()
    with pytest.raises(fl.JobNotFound):
        await aapp.aget(NOBODY)
    assert await aapp.aclear(queue="mail") == await aapp.arescue() == 0
