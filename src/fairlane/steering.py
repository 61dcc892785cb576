"""The client's calls that steer one job, or clear many: cancel, retry, process, check, expedite, boost, rescue."""

from __future__ import annotations

from functools import partial
from typing import Any, Final, Unpack
from uuid import UUID

from fairlane.domain.checks import flag, text
from fairlane.domain.tiers import Tier
from fairlane.errors import InvalidValue
from fairlane.faces import Steps, later, twin, write
from fairlane.handles import Job
from fairlane.holder import Holder
from fairlane.options import TierLike
from fairlane.store import Boosted, Cleared, Store
from fairlane.views import JobFilters, JobId, id_of, job_filter

SWEEP: Final = 1_000
"""Jobs that one transaction of a rescue or a clear takes at most: it bounds how long the others wait."""
MAX_REASON_BYTES: Final = 1024


class Steering(Holder):
    """What people do to jobs."""

    @twin
    def cancel(self, job_id: JobId, *, reason: str = "", by: str = "") -> Steps[str]:
        """Cancel a waiting job, or ask a running one to stop; asking it again changes nothing.

        Args:
            job_id: Its id, or a handle.
            reason: Why, for the job's own record; at most 1,024 bytes.
            by: Who does it; then it is on record among what people changed, too.

        Returns:
            ``"cancelled"``, or ``"running"`` while its holder has yet to stop.

        Raises:
            JobNotFound: There is no such job.
            IllegalMove: It has ended.
        """
        wanted = id_of(job_id)
        _why_and_who(reason, by)

        def op(store: Store, now_ms: int) -> str:
            state = store.cancel(wanted, reason=reason, now_ms=now_ms)
            if by:
                store.record(by, "cancel", str(UUID(bytes=wanted)), detail=reason, now_ms=now_ms)
            return state.label

        return (yield from write(op))

    acancel = later(cancel)

    @twin
    def retry(self, job_id: JobId, *, reason: str = "", by: str = "") -> Steps[Job[Any]]:
        """Make a dead job available again, with its counts at zero and its history kept; return a handle on it.

        One that died in its verify phase is processed again; :meth:`reverify` checks what it handed over.

        Args:
            job_id: Its id, or a handle.
            reason: Why, for the record; at most 1,024 bytes.
            by: Who does it.

        Raises:
            JobNotFound: There is no such job.
            IllegalMove: It is not dead.
            DedupConflict: Another live job holds its dedup key by now.
        """
        wanted = id_of(job_id)
        _why_and_who(reason, by)
        yield from write(lambda store, now_ms: store.retry(wanted, by=by, now_ms=now_ms, reason=reason))
        return Job(self, wanted)

    aretry = later(retry)

    @twin
    def process(self, job_id: JobId, *, expedite: bool = False, by: str = "") -> Steps[Job[Any]]:
        """Have a job processed: one that waits for it becomes available now, a dead one is retried.

        Args:
            job_id: Its id, or a handle.
            expedite: Whether it goes to the express lane.
            by: Who asks.

        Raises:
            JobNotFound: There is no such job.
            IllegalMove: It runs, waits for checks or for other jobs, is completed or cancelled.
            ExpressFull: The lane, or its tenant's part of it, is full; the job is exactly as before.
            DedupConflict: Another live job holds the dedup key of the dead one by now.
        """
        wanted = id_of(job_id)
        flag("expedite", expedite)
        _why_and_who("", by)
        record = yield from write(lambda store, now_ms: store.process(wanted, expedite=expedite, by=by, now_ms=now_ms))
        return Job(self, wanted, record=record)

    aprocess = later(process)

    @twin
    def reverify(self, job_id: JobId, *, expedite: bool = False, reason: str = "", by: str = "") -> Steps[Job[Any]]:
        """Have a job's work checked now: one that waits for its next check, or died in its verify phase.

        The dead one has all its checks again; its attempts, its reference and its history stay.

        Args:
            job_id: Its id, or a handle.
            expedite: Whether it goes to the express lane of the verify phase.
            reason: Why, for the record; at most 1,024 bytes.
            by: Who asks.

        Raises:
            JobNotFound: There is no such job.
            IllegalMove: It is in no verify phase, runs, is completed or cancelled.
            ExpressFull: The lane, or its tenant's part of it, is full; the job is exactly as before.
            DedupConflict: Another live job holds the dedup key of the dead one by now.
        """
        wanted = id_of(job_id)
        flag("expedite", expedite)
        _why_and_who(reason, by)
        record = yield from write(
            lambda store, now_ms: store.reverify(wanted, expedite=expedite, by=by, now_ms=now_ms, reason=reason)
        )
        return Job(self, wanted, record=record)

    areverify = later(reverify)

    @twin
    def expedite(self, job_id: JobId, *, reason: str = "", by: str = "") -> Steps[Job[Any]]:
        """Put a waiting job into the express lane; a scheduled one becomes available.

        Raises:
            JobNotFound: There is no such job.
            IllegalMove: It runs or has ended.
            ExpressFull: The lane, or its tenant's part of it, is full; the job is exactly as before.
        """
        wanted = id_of(job_id)
        _why_and_who(reason, by)
        record = yield from write(lambda store, now_ms: store.expedite(wanted, reason=reason, by=by, now_ms=now_ms))
        return Job(self, wanted, record=record)

    aexpedite = later(expedite)

    @twin
    def boost(self, job_id: JobId, tier: TierLike, *, reason: str = "", by: str = "") -> Steps[Boosted]:
        """Raise a waiting job's tier; its arrival stays.

        Args:
            job_id: Its id, or a handle.
            tier: The tier.
            reason: Why, for the record; at most 1,024 bytes.
            by: Who does it.

        Returns:
            ``outcome`` is ``"boosted"``, or ``"not_higher"`` when it was at least that urgent; ``tier`` is the tier
            that it has now.

        Raises:
            JobNotFound: There is no such job.
            IllegalMove: It runs or has ended.
            InvalidValue: There is no such tier.
        """
        wanted, level = id_of(job_id), Tier.of(tier)
        _why_and_who(reason, by)
        return (yield from write(lambda store, now_ms: store.boost(wanted, level, by=by, now_ms=now_ms, reason=reason)))

    aboost = later(boost)

    @twin
    def set_tier(self, job_id: JobId, tier: TierLike, *, reason: str = "", by: str = "") -> Steps[Boosted]:
        """Give a waiting job any tier, also a lower one; its arrival stays, and the change is on record.

        Raises:
            JobNotFound: There is no such job.
            IllegalMove: It runs or has ended.
            InvalidValue: There is no such tier.
        """
        wanted, level = id_of(job_id), Tier.of(tier)
        _why_and_who(reason, by)
        return (
            yield from write(
                lambda store, now_ms: store.boost(wanted, level, by=by, now_ms=now_ms, lower=True, reason=reason)
            )
        )

    aset_tier = later(set_tier)

    @twin
    def clear(
        self,
        *,
        reason: str = "cleared",
        by: str = "",
        **which: Unpack[JobFilters],
    ) -> Steps[int]:
        """Cancel the waiting jobs that fit every argument given, oldest first, and return how many.

        Each transaction cancels a thousand at most and looks at a bounded number. Jobs that are enqueued while it works
        may be among them; jobs that run go on.

        Args:
            reason: Why, for the jobs' own record; at most 1,024 bytes.
            by: Who does it; then it is on record among what people changed, too.
            which: See :class:`~fairlane.views.JobFilters`.

        Raises:
            InvalidValue: An argument breaks a rule, or there is none: name what to clear.
        """
        meant = job_filter(now_ms=self.clock.now_ms(), **which)
        if meant == job_filter():
            raise InvalidValue("clear cancels jobs: name a queue, task, tenant, tier or tag")
        _why_and_who(reason, by)

        def portion(after: int, store: Store, now_ms: int) -> Cleared:
            cleared = store.clear(meant, reason=reason, limit=SWEEP, now_ms=now_ms, after=after)
            if by and cleared.count:
                store.record(by, "clear", f"{cleared.count} jobs", detail=reason, now_ms=now_ms)
            return cleared

        total, place = 0, 0
        while True:
            cleared = yield from write(partial(portion, place))
            total += cleared.count
            if cleared.place is None:
                return total
            place = cleared.place

    aclear = later(clear)

    @twin
    def rescue(self) -> Steps[int]:
        """Take back the jobs of workers that are gone and of leases that ran out; return how many.

        Workers, servers and monitors do this by themselves.
        """
        total, count = 0, SWEEP
        while count == SWEEP:
            count = yield from write(lambda store, now_ms: store.rescue(now_ms, limit=SWEEP))
            total += count
        return total

    arescue = later(rescue)


def _why_and_who(reason: str, by: str) -> None:
    """Refuse what cannot be put on record.

    Raises:
        InvalidValue: The reason is too long, or one of them is no storable text.
    """
    text("reason", reason, max_bytes=MAX_REASON_BYTES, empty=True)
    text("by", by, empty=True)
