"""Calls that type checkers must accept; every line of it. Only read by checkers, never run."""

from __future__ import annotations

import datetime as dt
from collections.abc import Coroutine, Iterator
from typing import Any, assert_type

import fairlane as fl
from fairlane.tasks import Bound

app = fl.Fairlane("sqlite://", policy=fl.Policy.strict(), durability="normal")


@app.task(queue="mail", tier=fl.Tier.HIGH, retry=fl.Retry(max_attempts=8), timeout=30)
def send_email(to: str, template: str = "hi") -> str:
    return to + template


@app.task(queue="embed", preemptible=True, limits=["openai", "smtp:{tenant}"])
async def embed(doc_id: int, ctx: fl.Context) -> int:
    ctx.progress(0.5, "half")
    ctx.checkpoint({"next": 3})
    ctx.raise_if_stopping()
    return doc_id


@app.task
def first(ctx: fl.Context, doc_id: int, *, deep: bool = False) -> list[int]:
    raise fl.Snooze(5)


@app.task
async def plain(n: int) -> float:
    raise fl.RateLimited("openai", retry_after=20)


@app.task(tier="low")
def optional(n: int, *, ctx: fl.Context | None = None) -> None: ...


@app.task
def only(ctx: fl.Context) -> str:
    return ctx.task


@app.task
def prove(block: int) -> str:
    return str(block)


@prove.verify(every=30, max_checks=900, queue="checks", tier=fl.Tier.HIGH, limits=["chain"], timeout=10)
def check_proof(reference: str, ctx: fl.Context, block: int) -> fl.Verified[dict[str, int]] | fl.Pending | fl.Rejected:
    return fl.Verified({"block": block}) if ctx.check > 1 else fl.Rejected("no") if block else fl.Pending()


@embed.verify()
async def check_embedding(reference: int) -> fl.Verified[None] | fl.Pending:
    return fl.Verified(None) if reference else fl.Pending()


@first.verify(every=0.5)
def check_first(ctx: fl.Context, reference: list[int], *, deep: bool = False) -> fl.Pending:
    return fl.Pending()


@app.on_failure
def told(event: fl.Event) -> None: ...


@send_email.on_dead
async def told_of_mail(event: fl.Event) -> None: ...


def sync_calls(rows: Iterator[tuple[str, str]]) -> None:
    job = send_email.enqueue("a@b.c", template="hi")
    assert_type(job, fl.Job[str])
    assert_type(job.result(timeout=60), str)
    assert_type(job.state, str)
    assert_type(job.finished_at, dt.datetime | None)
    assert_type(send_email("a@b.c"), str)
    coroutine = assert_type(plain(5), Coroutine[Any, Any, float])
    coroutine.close()
    send_email.enqueue(to="a@b.c")
    send_email.enqueue("a@b.c", "hi")

    bound = send_email.using(
        tenant="acme",
        tier=fl.Tier.CRITICAL,
        delay=5,
        dedup_key="mail:42",
        on_conflict="raise",
        expires_at=dt.datetime(2030, 1, 1, tzinfo=dt.UTC),
        tags=["a"],
        expedite=False,
    )
    assert_type(bound.enqueue("a@b.c", template="hi"), fl.Job[str])
    assert_type(bound.using(queue="other").new("a@b.c"), fl.NewJob)
    assert_type(embed.enqueue(7), fl.Job[int])
    assert_type(embed.enqueue(doc_id=7), fl.Job[int])
    assert_type(embed.using(tier="high").enqueue(7).result(), int)
    assert_type(embed.using(tier="high").new(doc_id=7), fl.NewJob)
    assert_type(first.enqueue(7, deep=True), fl.Job[list[int]])
    assert_type(first(7), list[int])
    optional.enqueue(7)
    assert_type(only.enqueue(), fl.Job[str])
    assert_type(app.enqueue_many(send_email.using(tenant=t).new(to, template="x") for t, to in rows), list[fl.Job[Any]])
    assert_type(app.enqueue("mail.send", {"to": "a@b.c"}, tenant="acme"), fl.Job[Any])


def steering(job: fl.Job[str]) -> None:
    assert_type(app.get(job.id), fl.Job[Any])
    app.get(str(job.id))
    page = app.jobs(state="available", tenant="acme", tier=fl.Tier.LOW, queue="mail", limit=50, cursor=None)
    assert_type(page, fl.JobPage)
    assert_type(page[0], fl.Job[Any])
    assert_type(page.cursor, str | None)
    assert_type(app.cancel(job, reason="no need"), str)
    assert_type(app.retry(job), fl.Job[Any])
    app.expedite(job, reason="boss")
    assert_type(app.boost(job, "critical").outcome == "boosted", bool)
    app.set_tier(job.id, fl.Tier.LOW, reason="late")
    assert_type(app.clear(queue="mail"), int)
    assert_type(app.depth(by=("tier", "queue")), fl.Depth)
    app.queues["mail"].set(max_running=5, pool="default")
    app.queues["mail"].set(max_running=None)
    app.queues["mail"].pause(reason="full")
    app.queues["mail"].resume()
    app.tenants["acme"].set(weight=2, max_running=10)
    app.tasks["embed"].pause(reason="broken")
    app.limits["openai"].set(max_running=20, rate=100, per=60)
    app.configure(policy="fair", express_capacity=5)
    claim = app.claim(queues=["mail"], lease=30)
    assert_type(claim, fl.PulledClaim | None)
    if claim is not None:
        claim.heartbeat()
        claim.save({"next": 1})
        if claim.phase == "verify":
            claim.pending() if claim.reference else claim.reject("no reference")
        claim.nack("why", retry_in=5)
    assert_type(app.process(job, expedite=True, by="ops"), fl.Job[Any])
    assert_type(app.reverify(job), fl.Job[Any])
    assert_type(check_proof("ref", fl.Context(), 7), fl.Verified[dict[str, int]] | fl.Pending | fl.Rejected)


async def async_calls(job: fl.Job[str]) -> None:
    assert_type(await send_email.aenqueue("a@b.c"), fl.Job[str])
    assert_type(await job.aresult(timeout=5), str)
    assert_type(await embed.using(tenant="acme").aenqueue(7), fl.Job[int])
    assert_type(await embed(7), int)
    assert_type(await app.aget(job), fl.Job[Any])
    assert_type(await app.aenqueue("mail.send", {"to": "a"}, delay=5), fl.Job[Any])
    assert_type(await app.aclaim(), fl.PulledClaim | None)
    await app.queues["mail"].aset(max_waiting=5)


def takes_any_task(task: fl.Task[[str, str], str], more: Bound[..., Any]) -> None:
    task.enqueue("a", "b")
    more.enqueue(1, 2, x=3)


def workers() -> None:
    with app.worker(concurrency=8, queues=["mail"], reserve={"critical": 1}) as worker:
        assert_type(worker.running, int)
    app.run_worker(until_idle=True, queues={"mail": 3}, reserve={fl.Tier.CRITICAL: 1})
