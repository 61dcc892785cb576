"""One schedule: what is shown of it, and steering it. How schedules come to be: ``scheduling.py``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Unpack
from uuid import UUID

import msgspec

from fairlane.client import Client
from fairlane.declarations import ScheduleOptions, name_of, spec_of, template_of, template_with, when_of
from fairlane.domain import schedules as rules
from fairlane.domain.checks import text, whole
from fairlane.domain.policy import Pause
from fairlane.domain.schedules import Overlap, ScheduleRecord, Spec
from fairlane.domain.ticks import Every, Misfire, in_words
from fairlane.domain.tiers import Tier
from fairlane.errors import ConfigError, InvalidValue, ScheduleNotFound
from fairlane.faces import Homed, Steps, later, read, twin, write
from fairlane.handles import Job
from fairlane.instants import aware
from fairlane.options import new_id
from fairlane.rules import pausing
from fairlane.store import Store

MAX_NEXT: Final = 1_000


# ---------------------------------------------------------------- what is shown


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleInfo:
    """A schedule as it is shown; times in seconds.

    Attributes:
        name: Its name.
        state: ``active``, ``paused``, ``gone`` (the code no longer has it), or ``over`` (there is no further tick).
        when: When its ticks are, in words.
        cron: The expression, with the time zone ``tz``; None for an interval.
        every: The interval, counted from ``anchor``; None for cron.
        task: What it runs.
        queue: The queue of its jobs, with their ``tenant``, ``tier``, ``expires_in``, ``expedite`` and ``tags``.
        args: Their arguments, as JSON text.
        misfire: What is done about ticks that are late by more than ``grace``.
        overlap: What is done about a tick while an earlier job is live.
        source: The module that declares it; ``""`` is by hand.
        pause: Who paused it, why and until when.
        next_at: The next tick, were it not paused; None when there is none.
        last_at: The latest tick that was fired or passed over.
        last_job: The job that it made last.
        runs: Jobs that it made.
        missed: Ticks that were passed over because they were late; of one gap a thousand at most are counted.
        skipped: Ticks that were passed over because an earlier job was live.
        refused: Ticks whose job the store refused.
        error: Why the last one was refused, until one is not, and ``error_at`` when; else empty.
        created_at: When it was first stored.
        changed_at: When code or people last changed it, and ``changed_by`` whom.
    """

    name: str
    state: str
    when: str
    cron: str | None
    tz: str | None
    every: float | None
    anchor: datetime | None
    task: str
    queue: str
    tenant: str
    tier: Tier
    args: str
    expires_in: float | None
    expedite: bool
    tags: tuple[str, ...]
    misfire: Misfire
    grace: float
    overlap: Overlap
    source: str
    pause: Pause | None
    next_at: datetime | None
    last_at: datetime | None
    last_job: UUID | None
    runs: int
    missed: int
    skipped: int
    refused: int
    error: str
    error_at: datetime | None
    created_at: datetime
    changed_at: datetime
    changed_by: str

    @staticmethod
    def of(record: ScheduleRecord, now_ms: int) -> ScheduleInfo:
        """Return a stored schedule as it is shown."""
        spec, job, when = record.spec, record.spec.job, record.when
        interval = when if isinstance(when, Every) else None
        cron = None if isinstance(when, Every) else when
        pause = record.pause if record.pause is not None and record.pause.active(now_ms) else None
        return ScheduleInfo(
            name=record.name,
            state=_state(record, pause),
            when=in_words(when),
            cron=None if cron is None else cron.expression,
            tz=None if cron is None else cron.tz,
            every=None if interval is None else interval.every_ms / 1000,
            anchor=None if interval is None else aware(interval.anchor_ms),
            task=job.task,
            queue=job.queue,
            tenant=job.tenant,
            tier=Tier(job.tier),
            args=job.args,
            expires_in=None if job.expires_in_ms is None else job.expires_in_ms / 1000,
            expedite=job.express,
            tags=job.tags,
            misfire=spec.misfire,
            grace=spec.grace_ms / 1000,
            overlap=spec.overlap,
            source=record.source,
            pause=pause,
            next_at=_next_at(record, now_ms),
            last_at=aware(record.last_at_ms),
            last_job=None if record.last_job is None else UUID(bytes=record.last_job),
            runs=record.runs,
            missed=record.missed,
            skipped=record.skipped,
            refused=record.refused,
            error=record.error,
            error_at=aware(record.error_at_ms),
            created_at=aware(record.created_at_ms),
            changed_at=aware(record.changed_at_ms),
            changed_by=record.changed_by,
        )

    def shown(self) -> dict[str, Any]:  # Any: ready for JSON
        """Return it ready for JSON: instants as ISO 8601, times in seconds, tier and job by name."""
        told: dict[str, Any] = {name: getattr(self, name) for name in self.__slots__}
        for name, value in told.items():
            if isinstance(value, datetime):
                told[name] = _iso(value)
        pause = self.pause
        return told | {
            "tier": self.tier.label,
            "args": msgspec.json.decode(self.args),
            "tags": list(self.tags),
            "last_job": None if self.last_job is None else str(self.last_job),
            "pause": None
            if pause is None
            else {"reason": pause.reason, "by": pause.by, "until": _iso(aware(pause.until_ms))},
        }


def _iso(at: datetime | None) -> str | None:
    return None if at is None else at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _state(record: ScheduleRecord, pause: Pause | None) -> str:
    if record.gone_at_ms is not None:
        return "gone"
    if pause is not None:
        return "paused"
    return "over" if record.next_at_ms is None else "active"


def _next_at(record: ScheduleRecord, now_ms: int) -> datetime | None:
    try:
        return aware(next(iter(rules.upcoming(record, 1, now_ms)), None))
    except InvalidValue:  # a time zone that this machine does not have
        return aware(record.next_at_ms)


# ---------------------------------------------------------------- one schedule


class Schedule(Homed[Client]):
    """A handle on one schedule: ``app.schedules["nightly"]``. It may be there or not.

    Attributes:
        name: Its name.
    """

    __slots__ = ("name",)

    def __init__(self, home: Client, name: str) -> None:
        super().__init__(home)
        self.name = name_of(name)

    def __repr__(self) -> str:
        return f"<Schedule {self.name}>"

    def _held(self, store: Store) -> ScheduleRecord:
        record = store.schedule(self.name)
        if record is None:
            raise ScheduleNotFound(self.name)
        return record

    @twin
    def get(self) -> Steps[ScheduleInfo]:
        """Return what it is and did.

        Raises:
            ScheduleNotFound: There is none of this name.
        """
        return (yield from read(lambda store, now_ms: ScheduleInfo.of(self._held(store), now_ms)))

    aget = later(get)

    @twin
    def next(self, most: int = 5) -> Steps[list[datetime]]:
        """Return its next ticks, as if it were not paused; fewer when there are no more.

        Args:
            most: How many, 1 to 1,000.

        Raises:
            ScheduleNotFound: There is none of this name.
            InvalidValue: ``most`` is out of range, or this machine does not know the time zone.
        """
        whole("most", most, least=1, most=MAX_NEXT)
        found = yield from read(lambda store, now_ms: rules.upcoming(self._held(store), most, now_ms))
        return [aware(at_ms) for at_ms in found]

    anext = later(next)

    @twin
    def set(
        self,
        *,
        cron: str | None = None,
        every: float | None = None,
        tz: str | None = None,
        anchor: datetime | None = None,
        misfire: Misfire | None = None,
        grace: float | None = None,
        overlap: Overlap | None = None,
        args: Mapping[str, Any] | None = None,
        by: str = "",
        **options: Unpack[ScheduleOptions],
    ) -> Steps[ScheduleInfo]:
        """Change what is named of a schedule that was made by hand, and leave the rest; return what holds now.

        With other ticks the next one is the first from now on. Pause and figures stay.

        Args:
            cron: As for :meth:`~fairlane.scheduling.SchedulingClient.schedule`, like the rest.
            every: The interval, in seconds.
            tz: The time zone of ``cron``.
            anchor: The first tick of ``every``.
            misfire: What is done about late ticks.
            grace: Up to how late one is on time, in seconds.
            overlap: What a tick does while an earlier one's job is live.
            args: All its arguments.
            by: Who does it.
            options: See :class:`~fairlane.declarations.ScheduleOptions`.

        Raises:
            ScheduleNotFound: There is none of this name.
            ConfigError: Code declares it: change it there, or pause it.
            InvalidValue, InvalidJob: An argument breaks a rule.
        """
        text("by", by, empty=True)
        timing = None if (cron, every, tz, anchor) == (None,) * 4 else when_of(cron, every, tz, anchor)
        home = self._home

        def change(old: Spec) -> Spec:
            job = template_with(old.job, options)
            if args is not None:
                job = msgspec.structs.replace(job, args=template_of(job.task, home.registry, args, {}).args)
            return spec_of(
                self.name,
                timing or old.when,
                job,
                misfire=misfire or old.misfire,
                grace=old.grace_ms / 1000 if grace is None else grace,
                overlap=overlap or old.overlap,
            )

        def op(store: Store, now_ms: int) -> ScheduleInfo:
            held = self._held(store)
            return said_by_hand(store, self.name, change(held.spec), by=by, now_ms=now_ms)

        return (yield from write(op))

    aset = later(set)

    @twin
    def remove(self, *, by: str = "") -> Steps[bool]:
        """Forget it; its jobs stay. One that code declares comes back when a worker of that code starts.

        Returns:
            Whether there was one.
        """
        text("by", by, empty=True)
        return (yield from write(lambda store, now_ms: store.remove_schedule(self.name, by=by, now_ms=now_ms)))

    aremove = later(remove)

    @twin
    def pause(self, reason: str = "", *, by: str = "", until: datetime | None = None) -> Steps[ScheduleInfo]:
        """Fire nothing of it until :meth:`resume`, deploys included; jobs that it has made go on.

        Args:
            reason: Why, for people; at most 1,024 bytes.
            by: Who does it.
            until: When the pause ends by itself, a datetime with a timezone in the future; None: never.

        Raises:
            ScheduleNotFound: There is none of this name.
            InvalidValue: An argument is outside the range given above.
        """
        pause = pausing(reason, by, until)

        def op(store: Store, now_ms: int) -> ScheduleInfo:
            record = rules.paused(self._held(store), pause(now_ms), now_ms=now_ms)
            store.put_schedule(record, did="pause schedule", by=by, now_ms=now_ms)
            return ScheduleInfo.of(record, now_ms)

        return (yield from write(op))

    apause = later(pause)

    @twin
    def resume(self, *, by: str = "") -> Steps[ScheduleInfo]:
        """End the pause: the next tick is the first from now on, those meanwhile are not made up for.

        Nothing happens when there is no pause.

        Raises:
            ScheduleNotFound: There is none of this name.
        """
        text("by", by, empty=True)

        def op(store: Store, now_ms: int) -> ScheduleInfo:
            held = self._held(store)
            record = rules.resumed(held, by=by, now_ms=now_ms)
            if record is not None:
                store.put_schedule(record, did="resume schedule", by=by, now_ms=now_ms)
            return ScheduleInfo.of(record or held, now_ms)

        return (yield from write(op))

    aresume = later(resume)

    @twin
    def run(self, *, by: str = "") -> Steps[Job[Any]]:
        """Make a job of it now, also while it is paused; its ticks stay as they are.

        Returns:
            A handle on the job; with ``overlap="skip"`` on the live one, if there is one (``created`` tells).

        Raises:
            ScheduleNotFound: There is none of this name.
            InvalidJob, QueueFull, ExpressFull: The store refused the job; nothing has changed.
        """
        text("by", by, empty=True)

        def op(store: Store, now_ms: int) -> Job[Any]:
            held = self._held(store)
            answer = store.enqueue((rules.job_of(held.name, held.spec, None, new_id(), now_ms),), now_ms)[0]
            if answer.created:
                record = rules.made(held, answer.id, created=True)
                store.put_schedule(record, did="run schedule", by=by, now_ms=now_ms)
            return Job(self._home, answer.id, created=answer.created)

        return (yield from write(op))

    arun = later(run)


def said_by_hand(store: Store, name: str, spec: Spec, *, by: str, now_ms: int) -> ScheduleInfo:
    """Put down what somebody says of a schedule by hand, and return what holds now.

    Raises:
        ConfigError: Code declares it; nothing has changed.
    """
    held = store.schedule(name)
    if held is not None and held.source and held.gone_at_ms is None:
        raise ConfigError(f"schedule {name!r} is declared in {held.source}: change it there, or pause it")
    record = rules.declared(held, name, spec, source="", by=by, now_ms=now_ms)
    if record is not None:
        store.put_schedule(record, did="set schedule", by=by, now_ms=now_ms)
    known = record or held
    assert known is not None  # without one before there is one now
    return ScheduleInfo.of(known, now_ms)
