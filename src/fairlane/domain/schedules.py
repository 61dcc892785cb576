"""Schedules, jobs that come again and again: what is said of one, and what becomes of it.

All that a schedule is, is its record; the functions here return the next one, and the store keeps it. When its ticks
are is told in ``domain/ticks.py``.
"""

from __future__ import annotations

from itertools import chain, islice, repeat
from typing import Final, Literal, get_args

import msgspec

from fairlane.domain.checks import whole
from fairlane.domain.jobs import NewJob
from fairlane.domain.payloads import sanitised
from fairlane.domain.policy import DEFAULT_QUEUE, DEFAULT_TENANT, Pause
from fairlane.domain.ticks import DAY_MS, SECOND_MS, Due, Every, Misfire, When, due, instant, next_tick, ticks
from fairlane.domain.tiers import Tier
from fairlane.errors import FairlaneError, InvalidValue

Overlap = Literal["queue", "skip"]

DEFAULT_GRACE_MS: Final = 60 * SECOND_MS
MAX_GRACE_MS: Final = 7 * DAY_MS
MAX_NAME_BYTES: Final = 200
"""A tag and a dedup key hold the name and a little more, in 255 bytes."""
MAX_ERROR_BYTES: Final = 1_000
RETRY_MS: Final = 60 * SECOND_MS
"""Time to the next look at a schedule whose ticks could not be worked out here."""
KEEP_GONE_MS: Final = 7 * DAY_MS
"""How long a schedule that the code no longer has is kept: until then its pause and its figures are still there."""
AHEAD_MS: Final = DAY_MS
"""A latest tick further ahead than this shows a clock that was wrong, and binds nobody."""


class Template(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What each tick's job is; see :class:`~fairlane.domain.jobs.NewJob` for the fields."""

    task: str
    queue: str = DEFAULT_QUEUE
    tenant: str = DEFAULT_TENANT
    tier: int = Tier.NORMAL
    args: str = "{}"
    expires_in_ms: int | None = None
    express: bool = False
    tags: tuple[str, ...] = ()


class Spec(msgspec.Struct, frozen=True, kw_only=True):
    """What is said of a schedule, in code or by hand.

    Attributes:
        when: When its ticks are.
        job: What each of them makes.
        misfire: What is done about late ticks, when nothing was there to fire them: ``skip`` passes over them,
            ``run_once`` makes one job for all of them, ``run_all`` one for each of the latest hundred.
        grace_ms: A tick that is not more than this late is on time, and is fired under every rule.
        overlap: What a tick does while the job of an earlier one is live: ``queue`` makes its job all the same,
            ``skip`` passes over the tick.
    """

    when: When
    job: Template
    misfire: Misfire = "run_once"
    grace_ms: int = DEFAULT_GRACE_MS
    overlap: Overlap = "queue"

    def __post_init__(self) -> None:
        if self.misfire not in get_args(Misfire):
            raise InvalidValue(f"misfire {self.misfire!r} is not one of {', '.join(get_args(Misfire))}")
        if self.overlap not in get_args(Overlap):
            raise InvalidValue(f"overlap {self.overlap!r} is not one of {', '.join(get_args(Overlap))}")
        whole("grace_ms", self.grace_ms, most=MAX_GRACE_MS)


class ScheduleRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A schedule as it is stored; instants in milliseconds UTC.

    Attributes:
        name: Its name, 1 to 200 bytes.
        spec: What was said of it.
        source: Where that was said: a module of code, or ``""`` by hand.
        created_at_ms: When it was first stored; intervals without an anchor count from there.
        next_at_ms: The next tick; None when there is none.
        due_at_ms: When it is looked at next; None: not before somebody changes it.
        pause: Who paused it, and why.
        last_at_ms: The latest tick that was fired or passed over.
        last_job: The job that was made last.
        runs: Jobs that it made.
        missed: Ticks that were passed over because they were late; of one gap at most a thousand are counted.
        skipped: Ticks that were passed over because an earlier job was live.
        refused: Ticks whose job the store refused.
        error: Why the last one was refused, until one is not; else empty.
        error_at_ms: When that was.
        gone_at_ms: When the code no longer had it; None while it is in force.
        changed_at_ms: When it was last changed by code or people.
        changed_by: By whom.
    """

    name: str
    spec: Spec
    source: str = ""
    created_at_ms: int
    next_at_ms: int | None
    due_at_ms: int | None
    pause: Pause | None = None
    last_at_ms: int | None = None
    last_job: bytes | None = None
    runs: int = 0
    missed: int = 0
    skipped: int = 0
    refused: int = 0
    error: str = ""
    error_at_ms: int | None = None
    gone_at_ms: int | None = None
    changed_at_ms: int
    changed_by: str = ""

    @property
    def when(self) -> When:
        """When its ticks are, with the anchor filled in."""
        when = self.spec.when
        if isinstance(when, Every) and when.anchor_ms is None:
            return Every(when.every_ms, self.created_at_ms)
        return when


# ---------------------------------------------------------------- what becomes of a schedule


def declared(
    old: ScheduleRecord | None, name: str, spec: Spec, *, source: str, by: str, now_ms: int
) -> ScheduleRecord | None:
    """Return a schedule after code or people have said what it is; None when that changes nothing.

    Pause and figures stay. Where the ticks are others than before, or it was gone, the next one is the first from now
    on; else it stays, and a tick that came meanwhile is late or on time as ever.

    Args:
        old: The schedule so far.
        name: Its name.
        spec: What is said.
        source: Where; ``""`` is by hand.
        by: Who, for the record.
        now_ms: The instant.
    """
    if old is None:
        made = ScheduleRecord(
            name=name, spec=spec, source=source, created_at_ms=now_ms, next_at_ms=None, due_at_ms=None,
            changed_at_ms=now_ms, changed_by=by,
        )  # fmt: skip
        return planned(made, now_ms)
    wrong_clock = old.last_at_ms is not None and old.last_at_ms > now_ms + AHEAD_MS
    same = (old.spec, old.source, old.gone_at_ms) == (spec, source, None)
    if same and not wrong_clock:
        return None
    again = old.gone_at_ms is not None or old.spec.when != spec.when or wrong_clock
    new = msgspec.structs.replace(
        old, spec=spec, source=source, gone_at_ms=None, changed_at_ms=now_ms, changed_by=by, error="", error_at_ms=None
    )
    return planned(new, now_ms) if again else _looked_at(new)


def planned(record: ScheduleRecord, now_ms: int) -> ScheduleRecord:
    """Return a schedule whose next tick is the first from now on, and after the latest that was fired.

    The latter counts when the wall clock was set back. A latest tick more than :data:`AHEAD_MS` ahead shows that the
    clock was wrong when it was fired; it binds nobody.
    """
    last_ms = record.last_at_ms
    after_ms = last_ms if last_ms is not None and now_ms < last_ms <= now_ms + AHEAD_MS else now_ms
    if last_ms is not None and last_ms > now_ms + AHEAD_MS:
        record = msgspec.structs.replace(record, last_at_ms=None)
    return _looked_at(msgspec.structs.replace(record, next_at_ms=next_tick(record.when, after_ms)))


def paused(record: ScheduleRecord, pause: Pause, *, now_ms: int) -> ScheduleRecord:
    """Return a schedule that fires nothing until it is resumed, or until the pause ends by itself."""
    return _looked_at(
        msgspec.structs.replace(record, pause=pause, changed_at_ms=now_ms, changed_by=pause.by or record.changed_by)
    )


def resumed(record: ScheduleRecord, *, by: str, now_ms: int) -> ScheduleRecord | None:
    """Return a schedule whose pause is over: the ticks in it are not made up for. None when there is no pause."""
    if record.pause is None:
        return None
    return planned(msgspec.structs.replace(record, pause=None, changed_at_ms=now_ms, changed_by=by), now_ms)


def gone(record: ScheduleRecord, *, by: str, now_ms: int) -> ScheduleRecord:
    """Return a schedule that the code no longer has: it fires nothing, and keeps what it was."""
    return msgspec.structs.replace(
        record, gone_at_ms=now_ms, due_at_ms=now_ms + KEEP_GONE_MS, changed_at_ms=now_ms, changed_by=by
    )


def _looked_at(record: ScheduleRecord) -> ScheduleRecord:
    """Return a schedule with the instant at which there is something to do about it."""
    at_ms = record.next_at_ms if record.pause is None else record.pause.until_ms
    return msgspec.structs.replace(record, due_at_ms=at_ms)


def look(record: ScheduleRecord, now_ms: int) -> tuple[ScheduleRecord, Due]:
    """Return what is to be done about a schedule that is due, and the schedule after it, but for its figures.

    Raises:
        InvalidValue: The time zone is not known here.
    """
    pause = record.pause
    if pause is not None:
        if pause.active(now_ms):
            return _looked_at(record), Due((), 0, None, record.next_at_ms)
        ended_ms = pause.until_ms or 0
        record = planned(msgspec.structs.replace(record, pause=None), ended_ms - 1)
    if record.next_at_ms is None or record.next_at_ms > now_ms:
        return _looked_at(record), Due((), 0, None, record.next_at_ms)
    spec = record.spec
    found = due(record.when, record.next_at_ms, now_ms, misfire=spec.misfire, grace_ms=spec.grace_ms)
    last_ms = record.last_at_ms if found.last_ms is None else found.last_ms
    after = msgspec.structs.replace(
        record, next_at_ms=found.next_ms, last_at_ms=last_ms, missed=record.missed + found.missed
    )
    return _looked_at(after), found


def made(record: ScheduleRecord, job_id: bytes, *, created: bool) -> ScheduleRecord:
    """Return a schedule after a tick made a job, or found an earlier one live."""
    if not created:
        return msgspec.structs.replace(record, skipped=record.skipped + 1)
    return msgspec.structs.replace(record, runs=record.runs + 1, last_job=job_id, error="", error_at_ms=None)


def refused(record: ScheduleRecord, error: FairlaneError, now_ms: int) -> ScheduleRecord:
    """Return a schedule after the store refused a tick's job: it is not tried again, and the reason is shown."""
    told = sanitised(f"{type(error).__name__}: {error}", MAX_ERROR_BYTES)
    return msgspec.structs.replace(record, refused=record.refused + 1, error=told, error_at_ms=now_ms)


def unknown(record: ScheduleRecord, error: InvalidValue, now_ms: int) -> ScheduleRecord:
    """Return a schedule whose ticks could not be worked out here: it is looked at again in a minute."""
    told = sanitised(str(error), MAX_ERROR_BYTES)
    return msgspec.structs.replace(record, error=told, error_at_ms=now_ms, due_at_ms=now_ms + RETRY_MS)


# ---------------------------------------------------------------- its jobs


def job_of(name: str, spec: Spec, tick_ms: int | None, job_id: bytes, now_ms: int) -> NewJob:
    """Return the job of a tick, or (None) the one that somebody wants now.

    Its dedup key is the schedule and the tick, so that a tick cannot have two live jobs whatever else goes wrong; with
    ``overlap="skip"`` it is the schedule alone, so that none is made while an earlier one is live.

    Raises:
        InvalidJob: A field breaks a rule.
    """
    job = spec.job
    tags = [*job.tags, tag_of(name)]
    key: str | None = f"schedule:{name}"
    if tick_ms is not None:
        tags.append(f"tick:{instant(tick_ms).isoformat(timespec='milliseconds').replace('+00:00', 'Z')}")
    if spec.overlap == "queue":
        key = None if tick_ms is None else f"{key}:{tick_ms}"
    return NewJob(
        id=job_id,
        task=job.task,
        queue=job.queue,
        tenant=job.tenant,
        tier=job.tier,
        args=job.args,
        expires_at_ms=None if job.expires_in_ms is None else now_ms + job.expires_in_ms,
        dedup_key=key,
        express=job.express,
        tags=tuple(tags),
    )


def tag_of(name: str) -> str:
    """Return the tag that the jobs of a schedule have."""
    return f"schedule:{name}"


def upcoming(record: ScheduleRecord, most: int, now_ms: int) -> list[int]:
    """Return the next ticks, as if it were not paused; none when it is gone.

    Args:
        record: The schedule.
        most: How many.
        now_ms: The instant; a tick that is due and not fired yet comes first.

    Raises:
        InvalidValue: The time zone is not known here.
    """
    if record.gone_at_ms is not None:
        return []
    first_ms = record.next_at_ms
    if first_ms is None:
        return []
    if record.pause is not None or first_ms < now_ms:
        later = ticks(record.when, now_ms)
        return list(islice(later if record.pause is not None else chain(repeat(first_ms, 1), later), most))
    return list(islice(ticks(record.when, first_ms - 1), most))
