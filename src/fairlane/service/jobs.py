"""Jobs: store, look at, wait for and steer them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple
from uuid import UUID

import msgspec

from fairlane import shapes
from fairlane.domain.access import Remembered
from fairlane.domain.checks import text
from fairlane.domain.jobs import Enqueued, NewJob
from fairlane.domain.states import State
from fairlane.errors import DedupConflict, Forbidden, IllegalMove, InvalidValue, JobNotFound, KeyReused, WaitTimeout
from fairlane.faces import within
from fairlane.handles import Job
from fairlane.options import TierLike
from fairlane.outcomes import UNSTORED
from fairlane.owner import Op
from fairlane.service.base import Base, Json
from fairlane.store import Store
from fairlane.views import JobId

DAY_MS: Final = 86_400_000
MAX_KEY_BYTES: Final = 255
MAX_WAIT_S: Final = 60.0


class Once(NamedTuple):
    """An idempotency key, and the SHA-256 of the request that it came with."""

    key: str
    fingerprint: bytes


@dataclass(slots=True)
class Stored:
    """What an enqueue did.

    Attributes:
        jobs: A handle for each job, in order; ``created`` says whether this request made it.
        replayed: Whether an earlier request with the same idempotency key did it, and this one did nothing.
    """

    jobs: list[Job[Any]] = field(default_factory=list[Job[Any]])  # Any: whatever their tasks return
    replayed: bool = False


class Jobs(Base):
    """What an actor does with jobs."""

    # ------------------------------------------------------------------ store

    def new(self, task: str, args: Mapping[str, Any] | None = None, **options: Any) -> NewJob:  # Any: unchecked options
        """Return a job of the actor's tenant, checked but not stored; options as for ``app.enqueue``.

        Raises:
            Forbidden: The actor may not store jobs, or not for this tenant.
            InvalidJob: An argument or option breaks a rule.
        """
        self.need("operator")
        scope = self.actor.tenant
        if scope is not None and options.setdefault("tenant", scope) != scope:
            raise Forbidden(f"{self.actor.name} is confined to tenant {scope!r}")
        return self.app.new(task, args, **options)

    async def enqueue(self, jobs: Sequence[NewJob], *, once: Once | None = None) -> Stored:
        """Store jobs that :meth:`new` made, all in one transaction or none.

        Args:
            jobs: At most 10,000.
            once: The request's idempotency key: for 24 hours a second request with it does nothing, and is told what
                the first one did. A request that was refused is not remembered.

        Raises:
            KeyReused: The key came with another request before.
            DedupConflict: A live job holds a dedup key and ``on_conflict="raise"`` was asked for, or it is another
                tenant's.
            ExpressFull: ``expedite=True`` was asked for and the express lane is full.
            QueueFull: A queue or tenant holds its maximum of waiting jobs.
        """
        self.need("operator")
        if once is not None:
            text("Idempotency-Key", once.key, max_bytes=MAX_KEY_BYTES)
        stored = Stored()

        def around(op: Op[Any]) -> Op[Any]:
            return lambda store, now_ms: self._store(store, now_ms, op, jobs=jobs, once=once, told=stored)

        with within(around):
            stored.jobs = await self.app.aenqueue_many(jobs)
        return stored

    def _store(
        self,
        store: Store,
        now_ms: int,
        op: Op[list[Enqueued]],
        *,
        jobs: Sequence[NewJob],
        once: Once | None,
        told: Stored,
    ) -> list[Enqueued]:
        """Store jobs unless that was done before; inside the transaction."""
        told.replayed = False  # a transaction may be tried again
        scope = self.actor.token
        if once is not None:
            held = store.remembered(scope, once.key, since_ms=now_ms - DAY_MS)
            if held is not None:
                if held.fingerprint != once.fingerprint:
                    raise KeyReused(once.key)
                told.replayed = True
                return [Enqueued(bytes.fromhex(job), created) for job, created in msgspec.json.decode(held.answer)]
        self._keep_to_own(store, jobs)
        answer = op(store, now_ms)
        if once is not None:
            body = msgspec.json.encode([(one.id.hex(), one.created) for one in answer])
            request = Remembered(once.fingerprint, body)
            store.remember(scope, once.key, request, since_ms=now_ms - DAY_MS, now_ms=now_ms)
        return answer

    def _keep_to_own(self, store: Store, jobs: Sequence[NewJob]) -> None:
        """See that no job depends on, returns or replaces another tenant's; inside the transaction."""
        scope = self.actor.tenant
        if scope is None:
            return
        here = {job.id for job in jobs}
        for job in jobs:
            if job.tenant != scope:
                raise Forbidden(f"{self.actor.name} is confined to tenant {scope!r}")
            if job.dedup_key is not None and store.dedup_tenants(job.queue, job.dedup_key) - {scope}:
                raise DedupConflict(job.dedup_key, job.queue, "of another tenant")
            for parent in job.after:
                record = None if parent in here else store.get(parent)
                if parent not in here and (record is None or record.tenant != scope):
                    raise JobNotFound(UUID(bytes=parent))

    # ------------------------------------------------------------------ look

    async def jobs(self, *, limit: int = 50, cursor: str | None = None, **which: Any) -> Json:  # Any: a filter's values
        """Return a page of jobs as ``{"items", "next_cursor"}``, newest first; filters as for ``app.jobs``.

        Raises:
            InvalidValue: An argument breaks a rule, or the cursor is not one of ours.
        """
        scope = self.actor.tenant
        if scope is not None:
            if which.get("tenant") not in {None, scope}:
                return {"items": [], "next_cursor": None}
            which["tenant"] = scope
        page = await self.app.ajobs(**which, limit=limit, cursor=cursor)
        return {"items": [shapes.brief(job) for job in page.jobs], "next_cursor": page.cursor}

    async def job(self, job_id: JobId) -> Json:
        """Return everything of a job, redacted.

        Raises:
            JobNotFound: There is no such job that the actor may see.
        """
        return self.shown(await self.seen(job_id))

    def shown(self, job: Job[Any]) -> Json:
        """Return everything of a job that the actor may see, redacted."""
        return self.redaction.job(shapes.whole(job))

    async def attempts(self, job_id: JobId) -> Json:
        """Return a job's failed and crashed runs, oldest first, as ``{"items"}``."""
        return {"items": shapes.errors((await self.seen(job_id)).errors)}

    async def explain(self, job_id: JobId) -> Json:
        """Return why a job is waiting. A confined actor is not told of other tenants by name."""
        job = await self.seen(job_id)
        told = shapes.explained(await self.app.aexplain(job.id))
        if self.actor.tenant is not None:
            for blocker in told["blockers"]:
                if blocker["kind"] == "tenant" and blocker["name"] != self.actor.tenant:
                    blocker |= {"name": "", "text": "another tenant", "reason": None, "by": None}
        return told

    async def result(self, job_id: JobId, *, wait: float = 0.0) -> tuple[bool, Json]:
        """Return whether a job has ended, and how, waiting for it up to ``wait`` seconds (0 to 60).

        The answer is ``{"id", "state", "result", "reason", "stored"}``; ``stored`` is False for a result that was too
        large.

        Raises:
            InvalidValue: ``wait`` is out of range.
        """
        if not 0 <= wait <= MAX_WAIT_S:
            raise InvalidValue(f"wait is {wait}; it must be from 0 to {MAX_WAIT_S:g}")
        job = await self.seen(job_id)
        if not job.ended and wait > 0:
            with suppress(WaitTimeout):
                await job.ajoin(wait)
            await job.arefresh()
        body = job.record.result
        unstored = body is not None and body.startswith(f'{{"{UNSTORED}"')
        told: Json = {
            "id": str(job.id),
            "state": job.state,
            "result": None if body is None or unstored else msgspec.json.decode(body),
            "stored": not unstored,
            "reason": job.reason,
        }
        told["result"] = self.redaction(job.task, "result", told["result"])
        return job.ended, told

    # ------------------------------------------------------------------ steer

    async def cancel(self, job_id: JobId, *, reason: str = "") -> Json:
        """Cancel a waiting job, or ask a running one to stop; return the job.

        Raises:
            Forbidden, JobNotFound, IllegalMove: Nothing has changed.
        """
        job = await self._own(job_id)
        with self.changing(reason, "cancel", job.id):
            await self.app.acancel(job.id, reason=reason)
        return await self._after(job)

    async def retry(self, job_id: JobId, *, expedite: bool = False, reason: str = "") -> Json:
        """Make a dead job available again with its counts at zero, perhaps as an express job; return it.

        Raises:
            Forbidden, JobNotFound, IllegalMove, DedupConflict, ExpressFull: Nothing has changed.
        """
        job = await self._own(job_id)
        if not expedite:
            with self.changing(reason):
                await self.app.aretry(job.id, by=self.actor.name)
            return await self._after(job)

        def around(op: Op[Any]) -> Op[Any]:
            def if_dead(store: Store, now_ms: int) -> Any:
                record = store.get(job.id.bytes)
                if record is not None and record.state is not State.DEAD:  # process would take one that waits, too
                    raise IllegalMove(job.id, record.state.label, "be retried")
                return op(store, now_ms)

            return if_dead

        with self.changing(reason), within(around):
            await self.app.aprocess(job.id, expedite=True, by=self.actor.name)
        return await self._after(job)

    async def expedite(self, job_id: JobId, *, reason: str = "") -> Json:
        """Put a waiting job into the express lane; return it.

        Raises:
            Forbidden, JobNotFound, IllegalMove, ExpressFull: Nothing has changed.
        """
        job = await self._own(job_id)
        with self.changing(reason):
            await self.app.aexpedite(job.id, reason=reason, by=self.actor.name)
        return await self._after(job)

    async def process(self, job_id: JobId, *, expedite: bool = False, reason: str = "") -> Json:
        """Have a job processed now, perhaps as an express job; a dead one is retried. Return it.

        Raises:
            Forbidden, JobNotFound, IllegalMove, ExpressFull, DedupConflict: Nothing has changed.
        """
        job = await self._own(job_id)
        with self.changing(reason):
            await self.app.aprocess(job.id, expedite=expedite, by=self.actor.name)
        return await self._after(job)

    async def verify(self, job_id: JobId, *, expedite: bool = False, reason: str = "") -> Json:
        """Have the work of a job checked now, perhaps as an express job. Return it.

        Raises:
            Forbidden, JobNotFound, IllegalMove, ExpressFull, DedupConflict: Nothing has changed.
        """
        job = await self._own(job_id)
        with self.changing(reason):
            await self.app.areverify(job.id, expedite=expedite, by=self.actor.name)
        return await self._after(job)

    async def boost(self, job_id: JobId, tier: TierLike, *, reason: str = "") -> Json:
        """Raise a waiting job's tier; return the job with ``outcome``: ``boosted`` or ``not_higher``.

        Raises:
            Forbidden, JobNotFound, IllegalMove, InvalidValue: Nothing has changed.
        """
        job = await self._own(job_id)
        with self.changing(reason):
            told = await self.app.aboost(job.id, tier, by=self.actor.name)
        return await self._after(job) | {"outcome": told.outcome}

    async def set_tier(self, job_id: JobId, tier: TierLike, *, reason: str = "") -> Json:
        """Give a waiting job any tier, also a lower one; return the job with ``outcome``."""
        job = await self._own(job_id)
        with self.changing(reason):
            told = await self.app.aset_tier(job.id, tier, reason=reason, by=self.actor.name)
        return await self._after(job) | {"outcome": told.outcome}

    async def rescue(self) -> int:
        """Take back the jobs of workers that are gone and of leases that ran out; return how many.

        Raises:
            Forbidden: The actor is no operator for all tenants.
        """
        self.need("operator")
        self.need_all_tenants("rescues")
        return await self.app.arescue()

    async def _own(self, job_id: JobId) -> Job[Any]:
        """Return a job that the actor may change."""
        self.need("operator")
        return await self.seen(job_id)

    async def _after(self, job: Job[Any]) -> Json:
        """Return a job as it is after a change."""
        return self.shown(await job.arefresh())
