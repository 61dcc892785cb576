"""What closes the way to a job, whoever else waits."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import UUID

from fairlane.domain.explaining.subject import Subject
from fairlane.domain.explaining.values import HARD, Blocker, Cause, Kind
from fairlane.domain.explaining.words import jobs, span
from fairlane.domain.limits import Gate
from fairlane.domain.states import State


def hard(job: Subject) -> list[Blocker]:
    """Return everything that closes the way to the job, the main one first."""
    found = [*_behind(job), *_schedule(job), *_gates(job), *_workers(job)]
    return sorted(found, key=lambda blocker: HARD.index(blocker.cause))


def _behind(job: Subject) -> Iterator[Blocker]:
    record = job.record
    if not record.behind:
        return
    shown = [str(UUID(bytes=one)) for one in job.around.waits_for]
    more = record.behind - len(shown)
    names = ", ".join(shown) + (f" and {more:,} more" if more > 0 and shown else "")
    text = f"it waits for the end of {jobs(record.behind)}{': ' if names else ''}{names}"
    if record.successor:
        text += f" (one holds its dedup key {record.dedup_key!r})"
    yield Blocker(
        cause="order",
        kind="job",
        name=job.around.waits_for[0].hex() if shown else record.uuid.hex,
        current=record.behind,
        text=text,
    )


def _schedule(job: Subject) -> Iterator[Blocker]:
    record, due_ms = job.record, job.around.due_ms
    if record.state == State.SCHEDULED and due_ms is not None and due_ms > job.now_ms:
        again = record.failures + record.crashes
        what = "is due" if not again else f"is tried again (attempt {again + 1})"
        if record.phase == "verify":
            what = f"is checked (check {record.checks + 1})"
        yield Blocker(
            cause="schedule",
            kind="job",
            name=record.uuid.hex,
            until_ms=due_ms,
            text=f"it {what} in {span(due_ms - job.now_ms)}",
        )


def _gates(job: Subject) -> Iterator[Blocker]:
    scheduler, key = job.scheduler, job.key
    queue, task, tenant = scheduler.queues.get(key.queue), scheduler.tasks.get(key.task), job.tenant()
    if queue is not None:
        yield from _gate(job, queue, "queue", key.queue, "queue full")
    if task is not None:
        yield from _gate(job, task, "task", key.task, "limit")
    if tenant is not None:
        yield from _gate(job, tenant, "tenant", key.tenant, "tenant cap")
        most = None if queue is None else queue.rule.tenant_max_running
        runs = tenant.by_queue.get(key.queue, 0)
        if most is not None and runs >= most:
            yield Blocker(
                cause="tenant cap",
                kind="tenant",
                name=key.tenant,
                current=runs,
                maximum=most,
                text=f"tenant {key.tenant!r} runs {runs:,} of at most {most:,} jobs in queue {key.queue!r}",
            )
    for limit in job.limits():
        yield from _gate(job, limit, "limit", limit.key, "limit")


def _gate(job: Subject, gate: Gate, kind: Kind, name: str, full: Cause) -> Iterator[Blocker]:
    now_ms, shown = job.now_ms, f"{'named limit' if kind == 'limit' else kind} {name!r}"
    pause = gate.pause
    if pause is not None and pause.active(now_ms):
        who = f" by {pause.by}" if pause.by else ""
        why = f": {pause.reason}" if pause.reason else ""
        end = "" if pause.until_ms is None else f" for another {span(pause.until_ms - now_ms)}"
        yield Blocker(
            cause="pause",
            kind=kind,
            name=name,
            until_ms=pause.until_ms,
            reason=pause.reason,
            by=pause.by,
            text=f"{shown} is paused{who}{end}{why}",
        )
    if gate.max_running is not None and gate.running >= gate.max_running:
        yield Blocker(
            cause=full,
            kind=kind,
            name=name,
            current=gate.running,
            maximum=gate.max_running,
            text=f"{shown} runs {gate.running:,} of at most {gate.max_running:,} jobs",
        )
    if now_ms < gate.held_until_ms:
        yield Blocker(
            cause="limit",
            kind=kind,
            name=name,
            until_ms=gate.held_until_ms,
            text=f"a handler was told to wait: {shown} is closed for {span(gate.held_until_ms - now_ms)}",
        )
    rate = gate.rate
    if rate is not None and gate.tat - now_ms * rate.starts > (rate.burst - 1) * rate.per_ms:
        opens_ms = -(-(gate.tat - (rate.burst - 1) * rate.per_ms) // rate.starts)
        yield Blocker(
            cause="rate",
            kind=kind,
            name=name,
            maximum=rate.starts,
            until_ms=opens_ms,
            text=f"{shown} may start {rate.starts:,} jobs in {span(rate.per_ms)}; "
            f"the next one in {span(opens_ms - now_ms)}",
        )


def _workers(job: Subject) -> Iterator[Blocker]:
    if job.able or job.pulled:
        return
    record = job.record
    if job.serving:
        text = f"no worker that serves queue {record.queue!r} knows task {job.key.task!r}"
    else:
        text = f"no live worker serves queue {record.queue!r} (pool {job.pool_name!r})"
    yield Blocker(
        cause="no worker",
        kind="task" if job.serving else "queue",
        name=job.key.task if job.serving else record.queue,
        current=0,
        text=text,
    )
