"""How callers name jobs and groups of jobs, and how they are shown: ids, filters, pages, depth."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, Literal, Unpack, cast, get_args, overload
from uuid import UUID

from fairlane.domain.checks import text, whole
from fairlane.domain.jobs import MAX_IDS, DepthRow, JobFilter
from fairlane.domain.states import State
from fairlane.domain.tiers import Tier
from fairlane.errors import InvalidValue
from fairlane.handles import Job
from fairlane.handles import id_of as id_of  # noqa: PLC0414  it is looked for here
from fairlane.instants import aware, instant_ms
from fairlane.options import TierLike, span_ms

if TYPE_CHECKING:
    from typing_extensions import TypedDict
else:
    from typing import TypedDict

JobId = UUID | str | Job[Any]
"""How callers name a job."""
StateName = Literal["scheduled", "available", "running", "completed", "dead", "cancelled"]
StateLike = StateName | State
By = Literal["tier", "queue", "tenant", "task"]
MAX_PAGE: Final = 1_000
"""Most jobs on a page."""
ALL_BY: Final[tuple[By, ...]] = get_args(By)


def state_of(value: object) -> State:
    """Return the state that ``value`` names.

    Raises:
        InvalidValue: It is no state and no state's name.
    """
    if isinstance(value, State):
        return value
    if isinstance(value, str) and value.upper() in State.__members__:
        return State[value.upper()]
    raise InvalidValue(f"state {value!r} is not one of {', '.join(state.label for state in State)}")


class _Filters(TypedDict, total=False):
    queue: str | None
    task: str | None
    tenant: str | None
    tier: TierLike | None
    tag: str | None
    dedup_key: str | None
    error: str | None
    ids: Collection[JobId] | None
    bundle: UUID | str | None
    older_than: float | None
    ended_after: datetime | None
    ended_before: datetime | None
    q: str | None


# Closed as ``options.JobOptions`` is, for type checkers.
if not TYPE_CHECKING:

    class DeadFilters(_Filters, total=False):
        """What callers say about the jobs that they mean; what is left out or None means any."""

    class JobFilters(_Filters, total=False):
        """The same, and a group of dead jobs."""

        fingerprint: str | None

else:

    class DeadFilters(_Filters, total=False, closed=True):
        """What callers say about the jobs that they mean; what is left out or None means any.

        Attributes:
            queue: Their queue.
            task: Their task's name.
            tenant: Their tenant.
            tier: Their tier.
            tag: A tag that they have.
            dedup_key: Their dedup key, in any queue.
            error: The type of their last error, as it is shown: ``"ValueError"``, ``"smtplib.SMTPException"``.
            ids: Their ids, at most 1,000.
            bundle: The id of the group with one result that they belong to.
            older_than: They were enqueued longer ago than so many seconds.
            ended_after: They ended at this instant or later, a datetime with a timezone.
            ended_before: They ended before this instant.
            q: What their task, tenant, dedup key, one of their tags, or the type or message of their last error
                contains; ASCII letters in either case, at most 255 bytes.
        """

    class JobFilters(_Filters, total=False, closed=True):
        """As :class:`DeadFilters`, and a group of dead jobs.

        Attributes:
            fingerprint: What dead jobs have in common; see ``app.dead.groups()``.
        """

        fingerprint: str | None


_TEXTS: Final = ("queue", "task", "tenant", "tag", "dedup_key", "fingerprint", "error")


def job_filter(*, state: object = None, now_ms: int = 0, **given: Unpack[JobFilters]) -> JobFilter:
    """Return a checked filter; None means any, several states are any of them.

    Args:
        state: A state, or several.
        now_ms: The instant that ``older_than`` counts from.
        given: What is said about the jobs.

    Raises:
        InvalidValue: A value breaks a rule; the message names it.
    """
    values: dict[str, object] = {name: value for name, value in given.items() if value is not None}
    unknown = values.keys() - JobFilters.__optional_keys__
    if unknown:
        raise TypeError(f"jobs are not found by {', '.join(sorted(unknown))}")
    fields: dict[str, Any] = {name: text(name, values[name]) for name in _TEXTS if name in values}
    for name, (field, check) in _CHECKED.items():
        if name in values:
            fields[field] = check(name, values[name])
    if "older_than" in values:
        fields["enqueued_before_ms"] = max(0, now_ms - span_ms("older_than", values["older_than"]))
    return JobFilter(states=_states(state), **fields)


def _states(state: object) -> tuple[State, ...] | None:
    if state is None:
        return None
    if isinstance(state, str | State):
        return (state_of(state),)
    if not isinstance(state, Collection):
        raise InvalidValue(f"state must be a state's name or a list of them, not {state!r}")
    return tuple(state_of(one) for one in cast("Collection[object]", state))


def _ids(name: str, value: object) -> tuple[bytes, ...]:
    if isinstance(value, str | bytes) or not isinstance(value, Collection):
        raise InvalidValue(f"{name} must be a list of jobs' ids, not {value!r}")
    given = cast("Collection[object]", value)
    whole(f"the number of {name}", len(given), least=1, most=MAX_IDS)
    return tuple(dict.fromkeys(id_of(one) for one in given))


_CHECKED: Final[dict[str, tuple[str, Callable[[str, object], object]]]] = {
    # what callers say: (the field of the filter, its value)
    "tier": ("tier", lambda _, value: Tier.of(value)),
    "ids": ("ids", _ids),
    "bundle": ("bundle", lambda _, value: id_of(value)),
    "ended_after": ("ended_from_ms", instant_ms),
    "ended_before": ("ended_before_ms", instant_ms),
    "q": ("text", text),
}


@dataclass(frozen=True, slots=True)
class JobPage(Sequence[Job[Any]]):
    """Some jobs, newest first, and where the next page starts.

    Attributes:
        jobs: The jobs.
        cursor: Give it to the same call to go on; None when there are no more.
    """

    jobs: tuple[Job[Any], ...]
    cursor: str | None

    def __len__(self) -> int:
        return len(self.jobs)

    @overload
    def __getitem__(self, index: int) -> Job[Any]: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Job[Any], ...]: ...
    def __getitem__(self, index: int | slice) -> Job[Any] | tuple[Job[Any], ...]:
        return self.jobs[index]

    def __iter__(self) -> Iterator[Job[Any]]:
        return iter(self.jobs)


@dataclass(frozen=True, slots=True, kw_only=True)
class DepthGroup:
    """How many jobs wait and run under one tier, queue, tenant and task; None where these are taken together.

    Attributes:
        scheduled: Jobs whose time has not come, waiting retries too.
        available: Jobs that may start.
        running: Jobs that run.
        oldest_at: Arrival of the one that has waited longest, UTC; None when nothing waits.
    """

    tier: Tier | None = None
    queue: str | None = None
    tenant: str | None = None
    task: str | None = None
    scheduled: int = 0
    available: int = 0
    running: int = 0
    oldest_at: datetime | None = None

    @property
    def waiting(self) -> int:
        """Jobs that have yet to start."""
        return self.scheduled + self.available


@dataclass(frozen=True, slots=True)
class Depth:
    """How many jobs waited and ran at one instant.

    Attributes:
        at: The instant, UTC.
        rows: One for each group with a live job, by tier, queue, tenant and task.
    """

    at: datetime
    rows: tuple[DepthGroup, ...]

    def __iter__(self) -> Iterator[DepthGroup]:
        return iter(self.rows)

    @property
    def scheduled(self) -> int:
        """Jobs whose time has not come, in all."""
        return sum(row.scheduled for row in self.rows)

    @property
    def available(self) -> int:
        """Jobs that may start, in all."""
        return sum(row.available for row in self.rows)

    @property
    def running(self) -> int:
        """Jobs that run, in all."""
        return sum(row.running for row in self.rows)


def asked_page(limit: int, cursor: str | None) -> None:
    """Refuse what asks for no page.

    Raises:
        InvalidValue: ``limit`` is not from 1 to 1,000, or ``cursor`` is no text.
    """
    whole("limit", limit, least=1, most=MAX_PAGE)
    if cursor is not None:
        text("cursor", cursor)


def grouped_by(by: object) -> tuple[By, ...]:
    """Return what to group by, checked.

    Raises:
        InvalidValue: Something in ``by`` is no field to group by.
    """
    if not isinstance(by, Iterable):
        raise InvalidValue(f"by must be some of {', '.join(ALL_BY)}, not {by!r}")
    names = (by,) if isinstance(by, str) else tuple(cast("Iterable[object]", by))
    for name in names:
        if name not in ALL_BY:
            raise InvalidValue(f"by {name!r} is not one of {', '.join(ALL_BY)}")
    return cast("tuple[By, ...]", names)


def depth_of(lanes: Iterable[DepthRow], by: tuple[By, ...], now_ms: int) -> Depth:
    """Return the lanes' figures taken together by the fields in ``by``."""
    groups: dict[tuple[object, ...], list[DepthRow]] = {}
    for lane in lanes:
        if lane.scheduled or lane.available or lane.running:
            groups.setdefault(tuple(getattr(lane, name) for name in by), []).append(lane)
    rows = [_together(dict(zip(by, key, strict=True)), rows) for key, rows in groups.items()]
    rows.sort(key=lambda row: (row.tier or 0, row.queue or "", row.tenant or "", row.task or ""))
    return Depth(aware(now_ms), tuple(rows))


def _together(names: dict[By, Any], lanes: list[DepthRow]) -> DepthGroup:
    oldest = [lane.oldest_arrival_ms for lane in lanes if lane.oldest_arrival_ms is not None]
    return DepthGroup(
        tier=Tier(names["tier"]) if "tier" in names else None,
        queue=names.get("queue"),
        tenant=names.get("tenant"),
        task=names.get("task"),
        scheduled=sum(lane.scheduled for lane in lanes),
        available=sum(lane.available for lane in lanes),
        running=sum(lane.running for lane in lanes),
        oldest_at=aware(min(oldest)) if oldest else None,
    )
