"""What a caller may say about one job next to its arguments, checked: tenant, tier, delay, dedup key and so on."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, Literal, cast, get_args
from uuid import UUID

import uuid_utils

from fairlane.bundles import Group
from fairlane.domain.checks import flag, number, one_of, text
from fairlane.domain.jobs import MAX_BATCH, ON_FAILURE, NewJob, OnConflict, OnFailure
from fairlane.domain.policy import DEFAULT_QUEUE, DEFAULT_TENANT
from fairlane.domain.tiers import Tier
from fairlane.errors import InvalidJob, InvalidValue
from fairlane.handles import Job, id_of
from fairlane.instants import instant_ms

if TYPE_CHECKING:
    from typing_extensions import TypedDict
else:
    from typing import TypedDict

TierLike = Tier | Literal[0, 1, 2, 3, 4, "critical", "high", "normal", "low", "background"]
"""How callers name a tier: the enum, its number, or its name."""

Before = UUID | str | Job[Any] | NewJob | Group
"""How callers name what a job waits for; a new job is one of the same batch."""

MAX_SPAN_S: Final = 100 * 366 * 86_400.0
"""Longest delay or life of a job that may be asked for: a hundred years."""


class _JobOptions(TypedDict, total=False):
    queue: str
    tenant: str
    tier: TierLike
    delay: float
    scheduled_at: datetime | None
    expires_in: float | None
    expires_at: datetime | None
    dedup_key: str | None
    on_conflict: OnConflict
    dedup_ttl: float | None
    after: Before | Collection[Before] | None
    on_failure: OnFailure
    expedite: bool
    tags: Sequence[str]
    trace: str | None


# Closed (PEP 728), so that an unknown option is a mistake for every type checker; for some it is one anyway. ``typing``
# has no such thing before Python 3.15.
if not TYPE_CHECKING:

    class JobOptions(_JobOptions, total=False):
        """Options of one job; all may be left out."""

    class EnqueueOptions(_JobOptions, total=False):
        """Options of one job and how it is stored; all may be left out."""

        conn: object

else:

    class JobOptions(_JobOptions, total=False, closed=True):
        """Options of one job, for ``task.using(...)`` and ``app.enqueue(name, args, ...)``. All may be left out.

        Attributes:
            queue: Name of the queue, 1 to 255 bytes; the task's own by default.
            tenant: On whose behalf, 1 to 255 bytes; ``"default"`` by default.
            tier: How urgent; the task's own by default.
            delay: Wait before it may run, in seconds; 0 to a hundred years. Not together with ``scheduled_at``.
            scheduled_at: The instant from which it may run, a datetime with a timezone.
            expires_in: Seconds after which it is cancelled instead of started; above 0 and above ``delay``.
            expires_at: The same as an instant; later than ``scheduled_at``. Not together with ``expires_in``.
            dedup_key: At most one live job per key and queue; 1 to 255 bytes.
            on_conflict: What happens when a live job holds the key: ``return`` it (default), ``raise`` DedupConflict,
                ``replace`` it while it has not started, or wait as its ``successor``.
            dedup_ttl: Seconds for which the key stays taken after the job's end; above 0, needs a ``dedup_key``.
            after: Jobs, ids or groups that must end first, at most 10,000 jobs; not with ``on_conflict="replace"``.
            on_failure: What becomes of the job when one of those is dead or cancelled: ``cancel`` it (default), or
                ``run`` it all the same.
            expedite: Whether it goes to the express lane at once.
            tags: Free words to find it by, each 1 to 255 bytes.
            trace: A trace context to hand on (a W3C traceparent), at most 1,024 bytes.
        """

    class EnqueueOptions(_JobOptions, total=False, closed=True):
        """Options of one job and how it is stored, for ``task.using(...)`` and ``app.enqueue(name, args, ...)``.

        Attributes:
            conn: Your own connection, session or cursor: the job is stored in its transaction, and is there when you
                commit. psycopg, sqlite3 on the same file, SQLAlchemy, Django; see the guide on transactions. None: in a
                transaction of its own, at once.
        """

        conn: object


OPTION_NAMES: Final = frozenset(JobOptions.__annotations__)


@dataclass(frozen=True, slots=True)
class Plan:
    """Checked options; instants and spans in milliseconds. See :class:`JobOptions` for each."""

    queue: str = DEFAULT_QUEUE
    tenant: str = DEFAULT_TENANT
    tier: Tier = Tier.NORMAL
    delay_ms: int = 0
    scheduled_at_ms: int | None = None
    expires_in_ms: int | None = None
    expires_at_ms: int | None = None
    dedup_key: str | None = None
    on_conflict: OnConflict = "return"
    dedup_ttl_ms: int | None = None
    after: tuple[bytes, ...] = ()
    on_failure: OnFailure = "cancel"
    express: bool = False
    tags: tuple[str, ...] = ()
    trace: str | None = None

    def changed(self, options: Mapping[str, Any], caller: str) -> Plan:  # Any: unchecked options
        """Return this plan with ``options`` taken in.

        Args:
            options: Options by name, unchecked.
            caller: The function that was given them, for the error.

        Raises:
            TypeError: There is no such option.
            InvalidJob: A value breaks a rule; the message names the value and the rule.
        """
        if not options:
            return self
        if unknown := options.keys() - OPTION_NAMES:
            raise TypeError(
                f"{caller}() got an unexpected option {min(unknown)!r}; there are {', '.join(sorted(OPTION_NAMES))}"
            )
        try:
            fields: dict[str, Any] = {}  # Any: each field has its own type
            for name, value in options.items():
                field, checked = _CHECKS[name](name, value)
                fields[field] = checked
            plan = replace(self, **fields)
            plan._agree()
        except InvalidValue as error:
            raise InvalidJob(str(error)) from None
        return plan

    def _agree(self) -> None:
        if self.delay_ms and self.scheduled_at_ms is not None:
            raise InvalidValue(f"delay is {self.delay_ms / 1000:g} and scheduled_at is given too; give one of them")
        if self.expires_in_ms is not None:
            if self.expires_at_ms is not None:
                raise InvalidValue(
                    f"expires_in is {self.expires_in_ms / 1000:g} and expires_at is given too; give one of them"
                )
            if self.expires_in_ms <= self.delay_ms:
                raise InvalidValue(
                    f"expires_in is {self.expires_in_ms / 1000:g}; it must be above delay, {self.delay_ms / 1000:g}"
                )
        if self.expires_at_ms is not None and self.expires_at_ms <= (self.scheduled_at_ms or 0):
            raise InvalidValue("expires_at must be later than scheduled_at: the job could never run")

    def job(self, task: str, args: str, now_ms: int) -> NewJob:
        """Return a new job with a fresh id.

        Args:
            task: Name of the task.
            args: Its arguments, a JSON object as text.
            now_ms: The instant that ``expires_in`` counts from.

        Raises:
            InvalidJob: A field breaks a rule.
        """
        expires_at_ms = self.expires_at_ms if self.expires_in_ms is None else now_ms + self.expires_in_ms
        return NewJob(
            id=new_id(),
            task=task,
            queue=self.queue,
            tenant=self.tenant,
            tier=self.tier,
            args=args,
            delay_ms=self.delay_ms,
            scheduled_at_ms=self.scheduled_at_ms,
            expires_at_ms=expires_at_ms,
            dedup_key=self.dedup_key,
            on_conflict=self.on_conflict,
            dedup_ttl_ms=self.dedup_ttl_ms,
            after=self.after,
            on_failure=self.on_failure,
            express=self.express,
            tags=self.tags,
            trace=self.trace,
        )


def without_conn(options: Mapping[str, Any]) -> tuple[Mapping[str, Any], object]:  # Any: unchecked options
    """Return options without the connection, which is no option of the job; and that, or None."""
    if "conn" not in options:
        return options, None
    return {name: value for name, value in options.items() if name != "conn"}, options["conn"]


def new_id() -> bytes:
    """Return a fresh UUIDv7 as 16 bytes."""
    return uuid_utils.uuid7().bytes


def span_ms(name: str, value: object, *, above: bool = False) -> int:
    """Return ``value`` seconds as milliseconds.

    Raises:
        InvalidValue: It is no number from 0 (with ``above``: above 0) to a hundred years.
    """
    ms = round(number(name, value, least=0, most=MAX_SPAN_S, above=above) * 1000)
    return max(1, ms) if above else ms


def tags_of(name: str, value: object) -> tuple[str, ...]:
    """Return ``value`` as a tuple of tags.

    Raises:
        InvalidValue: It is no list, tuple or set of text, or one of them is empty or too long.
    """
    if not isinstance(value, list | tuple | set | frozenset):
        raise InvalidValue(f"{name} must be a list of text, not {value!r}")
    return tuple(text("tag", tag) for tag in cast("Sequence[object]", value))


def conflict_of(name: str, value: object) -> OnConflict:
    """Return ``value`` if it says what to do about a held dedup key.

    Raises:
        InvalidValue: It is none of the four words.
    """
    known: tuple[OnConflict, ...] = get_args(OnConflict)
    return one_of(name, value, known)


def failure_of(name: str, value: object) -> OnFailure:
    """Return ``value`` if it says what becomes of a job when one that it waits for fails.

    Raises:
        InvalidValue: It is neither of the two words.
    """
    return one_of(name, value, ON_FAILURE)


def after_of(name: str, value: object) -> tuple[bytes, ...]:
    """Return the ids of the jobs that ``value`` names, each once.

    Args:
        name: What the error calls it.
        value: A job, its id, a new job of the same batch, a group, or a collection of these; None names none.

    Raises:
        InvalidValue: It is none of these, or names more than 10,000 jobs.
    """
    if value is None:
        return ()
    single = isinstance(value, UUID | str | bytes | Job | NewJob | Group) or not isinstance(value, Collection)
    named: list[object] = [value] if single else list(cast("Collection[object]", value))
    ids: dict[bytes, None] = {}
    for one in named:
        if isinstance(one, Group):
            ids.update((job.id.bytes, None) for job in one.jobs)
        else:
            ids[one.id if isinstance(one, NewJob) else id_of(one)] = None
    if len(ids) > MAX_BATCH:
        raise InvalidValue(f"{name} names {len(ids):,} jobs; at most {MAX_BATCH:,} are allowed")
    return tuple(ids)


_CHECKS: Final[Mapping[str, Callable[[str, object], tuple[str, object]]]] = {
    "queue": lambda name, value: ("queue", text(name, value)),
    "tenant": lambda name, value: ("tenant", text(name, value)),
    "tier": lambda name, value: ("tier", Tier.of(value)),
    "delay": lambda name, value: ("delay_ms", span_ms(name, value)),
    "scheduled_at": lambda name, value: ("scheduled_at_ms", None if value is None else instant_ms(name, value)),
    "expires_in": lambda name, value: ("expires_in_ms", None if value is None else span_ms(name, value, above=True)),
    "expires_at": lambda name, value: ("expires_at_ms", None if value is None else instant_ms(name, value)),
    "dedup_key": lambda name, value: ("dedup_key", None if value is None else text(name, value)),
    "on_conflict": lambda name, value: ("on_conflict", conflict_of(name, value)),
    "dedup_ttl": lambda name, value: ("dedup_ttl_ms", None if value is None else span_ms(name, value, above=True)),
    "after": lambda name, value: ("after", after_of(name, value)),
    "on_failure": lambda name, value: ("on_failure", failure_of(name, value)),
    "expedite": lambda name, value: ("express", flag(name, value)),
    "tags": lambda name, value: ("tags", tags_of(name, value)),
    "trace": lambda name, value: ("trace", None if value is None else text(name, value, max_bytes=1024)),
}
