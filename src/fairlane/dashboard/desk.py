"""What the dashboard does beyond the service that the API has too: with the same rights, the same record of changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from fairlane.domain.jobs import DepthRow
from fairlane.domain.phases import VERIFY
from fairlane.domain.states import State
from fairlane.errors import InvalidValue
from fairlane.handles import Job
from fairlane.schedules import ScheduleInfo
from fairlane.service import Service
from fairlane.store import Counted
from fairlane.views import JobId, JobPage, job_filter

Which = Mapping[str, Any]  # Any: a filter's values


QUICK: Final = frozenset({"ids", "fingerprint", "dedup_key", "bundle"})
"""What the store has a short way to."""
LANE: Final = frozenset({"queue", "task", "tenant", "tier"})


def _ended(which: Which) -> State | None:
    """Return the state when a filter means jobs that ended in one way, by their lanes alone."""
    states = which.get("state")
    if states in {(State.COMPLETED,), (State.CANCELLED,)} and not which.keys() - LANE - {"state"}:
        ended: State = states[0]
        return ended
    return None


def _matches(lane: DepthRow, name: str, value: object) -> bool:
    held = lane.task.removesuffix(VERIFY) if name == "task" else getattr(lane, name)
    return bool(held == value)


class Desk(Service):
    """One actor's view of an app, as the dashboard needs it."""

    # ------------------------------------------------------------------ jobs

    async def found(self, which: Which, *, limit: int = 50, cursor: str | None = None) -> JobPage:
        """Return a page of jobs that the actor sees, newest first. Their arguments are not to be shown as they are.

        Raises:
            InvalidValue: A value breaks a rule, or the cursor is not one of ours.
        """
        own = self.own(which)
        if own is None:
            return JobPage((), None)
        state = _ended(own)
        if state is None:
            return await self.app.ajobs(**own, limit=limit, cursor=cursor)
        meant = job_filter(**{name: value for name, value in own.items() if name != "state"})
        page = await self.read(lambda store, _: store.ended(state, meant, limit=limit, cursor=cursor))
        return JobPage(tuple(Job(self.app, record.id, record=record) for record in page.jobs), page.cursor)

    async def quick_count(self, which: Which, lanes: Sequence[DepthRow]) -> Counted | None:
        """Return how many jobs a filter means where that is known without a walk over jobs; None: it is not.

        Args:
            which: A filter that the actor may see the jobs of.
            lanes: The live jobs by lane, as they were counted last.
        """
        own = self.own(which)
        if own is None:
            return Counted(0, False)
        if own.keys() & QUICK or own.get("state") in {(State.DEAD,), (State.RUNNING,)}:
            return await self.counted(which)
        states = own.get("state")
        if states is None or own.keys() - LANE - {"state"} or not all(State(state).live for state in states):
            return None
        count = 0
        for lane in lanes:
            if all(name == "state" or _matches(lane, name, value) for name, value in own.items()):
                count += sum(getattr(lane, State(state).label) for state in states)
        return Counted(count, False)

    async def check_again(self, job_id: JobId, *, reason: str = "") -> None:
        """Have a job's work checked now; see ``app.reverify``.

        Raises:
            Forbidden, JobNotFound, IllegalMove, DedupConflict: Nothing has changed.
        """
        self.need("operator")
        job = await self.seen(job_id)
        with self.changing(reason):
            await self.app.areverify(job.id, by=self.actor.name)

    async def recent(self, window_ms: int, *, limit: int) -> list[tuple[float, str, str, int, float]]:
        """Return the jobs that started and ended lately, the latest ones, without what they carry.

        Args:
            window_ms: They started in the last so many milliseconds.
            limit: Most jobs.

        Returns:
            For each its arrival in seconds, tenant, queue, tier, and run time in seconds; by arrival.

        Raises:
            Forbidden: The actor is no operator, or confined to a tenant.
        """
        self.need("operator")
        self.need_all_tenants("recent arrivals")
        starts = await self.read(lambda store, now_ms: store.starts(now_ms - window_ms, limit=limit))
        return sorted(
            (one.arrival_ms / 1000, one.tenant, one.queue, one.tier, (one.finished_ms - one.started_ms) / 1000)
            for one in starts
            if one.started_ms is not None and one.finished_ms is not None
        )

    # ------------------------------------------------------------------ schedules

    async def schedules(self) -> list[ScheduleInfo]:
        """Return the schedules.

        Raises:
            Forbidden: The actor is confined to a tenant.
        """
        self.need_all_tenants("schedules")
        return await self.app.schedules.aall()

    async def schedule_do(self, name: str, what: str, *, reason: str = "") -> str:
        """Run, pause or resume a schedule; return what was done, in words.

        Raises:
            Forbidden, ScheduleNotFound, InvalidValue, InvalidJob, CapacityError: Nothing has changed.
        """
        self.need("operator")
        self.need_all_tenants("schedules")
        handle, by = self.app.schedules[name], self.actor.name
        with self.changing(reason):
            if what == "run":
                job = await handle.arun(by=by)
                return f"Job {job.id} was made of schedule {name}"
            if what == "pause":
                await handle.apause(reason, by=by)
                return f"Schedule {name} is paused"
            if what == "resume":
                await handle.aresume(by=by)
                return f"Schedule {name} goes on"
        raise InvalidValue(f"a schedule cannot {what!r}; it can run, pause, resume")
