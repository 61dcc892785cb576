"""Dead letters: ``app.dead``. Dead jobs by what they died of; bringing them back, deleting them, taking them along."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Unpack
from uuid import UUID

from fairlane.bulk import BulkClient, Operation, plan_of
from fairlane.domain.checks import number, one_of, text, whole
from fairlane.domain.jobs import PHASES, JobFilter, JobRecord, Phase
from fairlane.domain.operations import Action
from fairlane.domain.states import State
from fairlane.errors import InvalidValue
from fairlane.faces import Steps, arun, later, read, run, twin
from fairlane.handles import Job
from fairlane.instants import aware
from fairlane.options import TierLike
from fairlane.owner import Owner
from fairlane.shapes import instant
from fairlane.shapes import whole as whole_of
from fairlane.store import DeadGroupRecord, Page
from fairlane.views import DeadFilters, JobPage, asked_page, job_filter

MAX_GROUPS: Final = 10_000
EXPORT_PAGE: Final = 200
"""Jobs that an export holds in memory at once."""
REPLAY_RATE: Final = 10.0
MAX_WINDOW_S: Final = 366 * 86_400.0
MAX_POINTS: Final = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadGroup:
    """Dead jobs that died of the same thing.

    Attributes:
        fingerprint: What they are found by.
        label: The same in words: ``type: message · function``.
        type: The exception's type; ``""`` where they died of no exception.
        message: Its text, or the reason, without what differs from job to job.
        frame: The innermost function of your own code in the traceback; ``""``: not known.
        count: How many there are.
        tasks: Their tasks, in order.
        tenants: How many tenants they belong to.
        example: The id of the youngest one.
        first_at: When the first of them died, UTC.
        last_at: When the last of them died, UTC.
    """

    fingerprint: str
    label: str
    type: str
    message: str
    frame: str
    count: int
    tasks: tuple[str, ...]
    tenants: int
    example: UUID
    first_at: datetime
    last_at: datetime

    @staticmethod
    def of(record: DeadGroupRecord) -> DeadGroup:
        """Return a stored group as it is shown."""
        return DeadGroup(
            fingerprint=record.fingerprint,
            label=record.words.label,
            type=record.words.type,
            message=record.words.message,
            frame=record.words.frame,
            count=record.count,
            tasks=record.tasks,
            tenants=record.tenants,
            example=UUID(bytes=record.example),
            first_at=aware(record.first_ms),
            last_at=aware(record.last_ms),
        )

    def shown(self) -> dict[str, Any]:  # Any: ready for JSON
        """Return it ready for JSON."""
        told: dict[str, Any] = {name: getattr(self, name) for name in self.__slots__}
        return told | {
            "tasks": list(self.tasks),
            "example": str(self.example),
            "first_at": instant(self.first_at),
            "last_at": instant(self.last_at),
        }


class DeadLetters:
    """Dead jobs: what they died of, and what to do about it."""

    __slots__ = ("_app",)

    def __init__(self, app: BulkClient) -> None:
        self._app = app

    def __repr__(self) -> str:
        return f"<dead jobs of {self._app!r}>"

    @property
    def owner(self) -> Owner:
        """Who owns the store."""
        return self._app.owner

    @property
    def opened(self) -> bool:
        """Whether the store is open."""
        return self._app.opened

    # ------------------------------------------------------------------ look

    @twin
    def groups(self, *, limit: int = 50) -> Steps[list[DeadGroup]]:
        """Return the dead jobs by what they died of, the largest group first.

        Args:
            limit: Most groups, 1 to 10,000.

        Raises:
            InvalidValue: ``limit`` is out of range.
        """
        whole("limit", limit, least=1, most=MAX_GROUPS)
        groups = yield from read(lambda store, _: store.dead_groups(limit=limit))
        return [DeadGroup.of(group) for group in groups]

    agroups = later(groups)

    @twin
    def history(self, fingerprint: str, *, window: float = 86_400.0, points: int = 24) -> Steps[tuple[int, ...]]:
        """Return how many of a group's jobs died in each part of the last ``window`` seconds, the oldest part first.

        Args:
            fingerprint: The group.
            window: How far back, in seconds; above 0, at most 366 days.
            points: In how many parts of one length, 1 to 1,000.

        Raises:
            InvalidValue: An argument is out of range.
        """
        text("fingerprint", fingerprint)
        window_ms = round(number("window", window, least=0, most=MAX_WINDOW_S, above=True) * 1000)
        whole("points", points, least=1, most=MAX_POINTS)
        spell_ms = max(1, -(-window_ms // points))
        counts = yield from read(
            lambda store, now_ms: store.dead_history(
                fingerprint, since_ms=now_ms + 1 - spell_ms * points, spell_ms=spell_ms, spells=points
            )
        )
        return tuple(counts)

    ahistory = later(history)

    @twin
    def jobs(
        self,
        fingerprint: str | None = None,
        *,
        limit: int = 50,
        cursor: str | None = None,
        **which: Unpack[DeadFilters],
    ) -> Steps[JobPage]:
        """Return a page of dead jobs, newest first; give its ``cursor`` to the same call for the next one.

        Args:
            fingerprint: Only this group.
            limit: Most jobs on a page, 1 to 1,000.
            cursor: Where to go on.
            which: See :class:`~fairlane.views.DeadFilters`.

        Raises:
            InvalidValue: An argument breaks a rule, or the cursor is not one of ours.
        """
        meant = self._meant(fingerprint, which)
        asked_page(limit, cursor)
        page = yield from read(lambda store, _: store.jobs(meant, limit=limit, cursor=cursor))
        return JobPage(tuple(Job[Any](self._app, one.id, record=one) for one in page.jobs), page.cursor)

    ajobs = later(jobs)

    # ------------------------------------------------------------------ act

    @twin
    def replay(
        self,
        fingerprint: str | None = None,
        *,
        rate: float | None = REPLAY_RATE,
        limit: int | None = None,
        to: TierLike | None = None,
        phase: Phase = "process",
        by: str = "",
        reason: str = "",
        **which: Unpack[DeadFilters],
    ) -> Steps[Operation]:
        """Make dead jobs available again, oldest first, at a steady rate; return a handle on the operation.

        Their counts start anew and their history is kept. They come back with their own tenant and arrival and run when
        their turn comes, like all others. To try a few first, set ``limit`` and look at what becomes of them.

        Args:
            fingerprint: Only this group; None: all dead jobs, or those that ``which`` says.
            rate: Most jobs a second, over all processes, above 0; None: as fast as the store can.
            limit: Most jobs that are brought back; 1 or more. None: all.
            to: The tier that they come back in; None: their own, as it must be with ``phase="verify"``.
            phase: ``"process"``: they run anew. ``"verify"``: those that died in their verify phase have their work
                checked again and are not run; the others refuse.
            by: Who does it.
            reason: Why, for the record; at most 1,024 bytes.
            which: See :class:`~fairlane.views.DeadFilters`.

        Raises:
            InvalidValue: An argument breaks a rule.
        """
        action: Action = "reverify" if one_of("phase", phase, PHASES) == "verify" else "retry"
        plan = plan_of(action, self._meant(fingerprint, which), to=to, rate=rate, limit=limit)
        return (yield from self._app.start(plan, by=by, reason=reason))

    areplay = later(replay)

    @twin
    def discard(
        self,
        fingerprint: str | None = None,
        *,
        rate: float | None = None,
        limit: int | None = None,
        by: str = "",
        reason: str = "",
        **which: Unpack[DeadFilters],
    ) -> Steps[Operation]:
        """Delete dead jobs for good, oldest first; return a handle on the operation.

        A job whose dedup key is still kept (``dedup_ttl``) refuses.

        Args:
            fingerprint: Only this group.
            rate: Most jobs a second, over all processes, above 0; None: as fast as the store can.
            limit: Most jobs that are deleted; 1 or more. None: all.
            by: Who does it.
            reason: Why, for the record; at most 1,024 bytes.
            which: See :class:`~fairlane.views.DeadFilters`.

        Raises:
            InvalidValue: An argument breaks a rule, or nothing says which jobs are meant.
        """
        meant = self._meant(fingerprint, which)
        if meant == JobFilter(states=(State.DEAD,)):
            raise InvalidValue("discard deletes jobs: say which ones, by fingerprint, tenant, task and so on")
        return (yield from self._app.start(plan_of("discard", meant, rate=rate, limit=limit), by=by, reason=reason))

    adiscard = later(discard)

    # ------------------------------------------------------------------ take along

    def export(
        self, fingerprint: str | None = None, **which: Unpack[DeadFilters]
    ) -> Generator[dict[str, Any]]:  # Any: ready for JSON
        """Yield dead jobs with everything that is kept of them, newest first, ready for JSON.

        Two hundred are in memory at once, however many there are. Jobs that die or come back meanwhile may be left out.

        Args:
            fingerprint: Only this group; None: all dead jobs, or those that ``which`` says.
            which: See :class:`~fairlane.views.DeadFilters`.

        Raises:
            InvalidValue: An argument breaks a rule.
        """
        meant = self._meant(fingerprint, which)
        cursor: str | None = None
        while True:
            page = run(self, _page(meant, cursor))
            yield from (self._whole(record) for record in page.jobs)
            cursor = page.cursor
            if cursor is None:
                return

    async def aexport(
        self, fingerprint: str | None = None, **which: Unpack[DeadFilters]
    ) -> AsyncGenerator[dict[str, Any]]:  # Any: as above
        """Do what :meth:`export` does, without blocking the event loop."""
        meant = self._meant(fingerprint, which)
        cursor: str | None = None
        while True:
            page = await arun(self, _page(meant, cursor))
            for record in page.jobs:
                yield self._whole(record)
            cursor = page.cursor
            if cursor is None:
                return

    def _whole(self, record: JobRecord) -> dict[str, Any]:  # Any: ready for JSON
        return whole_of(Job[Any](self._app, record.id, record=record))

    def _meant(self, fingerprint: str | None, which: DeadFilters) -> JobFilter:
        now_ms = self._app.clock.now_ms()
        return job_filter(state=State.DEAD, now_ms=now_ms, fingerprint=fingerprint, **which)


def _page(which: JobFilter, cursor: str | None) -> Steps[Page]:
    return (yield from read(lambda store, _: store.jobs(which, limit=EXPORT_PAGE, cursor=cursor)))
