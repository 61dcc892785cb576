"""When the ticks of a schedule are, and which of them are fired late.

A *tick* is an instant at which a schedule makes a job. Cron expressions are read by cronsim, time zones by zoneinfo:
what they do about daylight saving time is what Debian's cron does, and is told in ``docs/guides/schedules.md``.
Intervals are counted from an anchor in elapsed time, so they neither drift nor know of daylight saving time.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, tzinfo
from itertools import count, islice, takewhile
from typing import Final, Literal, NamedTuple
from zoneinfo import ZoneInfo

import msgspec
from cronsim import CronSim, CronSimError

from fairlane.domain.checks import text, whole
from fairlane.errors import InvalidValue

Misfire = Literal["skip", "run_once", "run_all"]

SECOND_MS: Final = 1_000
DAY_MS: Final = 86_400_000
MIN_EVERY_MS: Final = SECOND_MS
MAX_EVERY_MS: Final = 36_600 * DAY_MS
"""A hundred years."""
MAX_CRON_BYTES: Final = 255
CATCH_UP: Final = 100
"""Most jobs that one look at a schedule makes, however many ticks are due."""
COUNTED: Final = 1_000
"""Ticks of a gap that are counted; a longer gap counts as that many. A tick takes about 0.02 ms."""
ALIASES: Final = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MS: Final = timedelta(milliseconds=1)
_LAST_MS: Final = (datetime(9999, 1, 1, tzinfo=UTC) - _EPOCH) // _MS
_ANY_LEAP_CYCLE: Final = (datetime(2000, 1, 1, tzinfo=UTC) - _EPOCH) // _MS


class Cron(msgspec.Struct, frozen=True, tag="cron"):
    """Ticks of a cron expression; make it with :func:`cron`.

    Attributes:
        expression: Minute, hour, day of month, month, day of week; six fields begin with the second.
        tz: Name of the time zone that it is meant in.
    """

    expression: str
    tz: str = "UTC"


class Every(msgspec.Struct, frozen=True, tag="every"):
    """Ticks at an anchor and every so many milliseconds after it; make it with :func:`every`.

    Attributes:
        every_ms: From a tick to the next.
        anchor_ms: The first tick; None: one interval after the schedule was first stored.
    """

    every_ms: int
    anchor_ms: int | None = None


When = Cron | Every


# ---------------------------------------------------------------- what is said


def cron(expression: object, tz: object = "UTC") -> Cron:
    """Return the ticks of a cron expression, checked.

    Args:
        expression: Five fields (minute, hour, day of month, month, day of week), six with the second in front, or one
            of ``@yearly``, ``@monthly``, ``@weekly``, ``@daily`` and ``@hourly``; at most 255 bytes.
        tz: Name of a time zone of the IANA database.

    Raises:
        InvalidValue: It is no cron expression, none of its ticks lies within fifty years, or the zone is not known.

    Example:
        >>> cron("0 7 * * mon-fri", "Europe/Paris")
        Cron(expression='0 7 * * mon-fri', tz='Europe/Paris')
    """
    given = text("cron", expression, max_bytes=MAX_CRON_BYTES).strip()
    told = " ".join(ALIASES.get(given.lower(), given).split())
    made = Cron(told, text("tz", tz))
    _zone(made.tz)
    try:
        found = next_tick(Cron(told), _ANY_LEAP_CYCLE)
    except (CronSimError, AssertionError, ValueError) as error:
        raise InvalidValue(
            f"cron {given!r} is no cron expression ({str(error) or 'a field is wrong'}); five fields are wanted: "
            "minute, hour, day of month, month, day of week"
        ) from None
    if found is None:
        raise InvalidValue(f"cron {given!r} has no tick within fifty years")
    return made


def every(every_ms: object, anchor_ms: int | None = None) -> Every:
    """Return ticks at an interval, checked.

    Args:
        every_ms: From a tick to the next, in milliseconds; a second to a hundred years.
        anchor_ms: The first tick; None: one interval after the schedule is first stored.

    Raises:
        InvalidValue: An argument is outside the range given above.
    """
    return Every(
        whole("every_ms", every_ms, least=MIN_EVERY_MS, most=MAX_EVERY_MS),
        None if anchor_ms is None else whole("anchor_ms", anchor_ms, most=_LAST_MS),
    )


def in_words(when: When) -> str:
    """Return when the ticks are, as people say it.

    Example:
        >>> in_words(cron("0 7 * * mon-fri", "Europe/Paris"))
        'At 07:00 on Monday through Friday (Europe/Paris)'
        >>> in_words(every(90_000)), in_words(every(86_400_000))
        ('every 90 seconds', 'every 1 day')
    """
    if isinstance(when, Cron):
        words: str = CronSim(when.expression, _EPOCH).explain()
        return f"{words} ({when.tz})"
    for unit, name in ((DAY_MS, "day"), (3_600_000, "hour"), (60_000, "minute"), (SECOND_MS, "second")):
        if when.every_ms % unit == 0:
            units = when.every_ms // unit
            return f"every {units} {name}{'s' * (units > 1)}"
    return f"every {when.every_ms / SECOND_MS:g} seconds"


# ---------------------------------------------------------------- ticks


def _zone(name: str) -> tzinfo:
    """Return a time zone.

    Raises:
        InvalidValue: This machine knows none of that name.
    """
    if name == "UTC":
        return UTC  # cronsim takes a short cut with it
    try:
        return ZoneInfo(name)
    except (LookupError, ValueError, OSError):
        raise InvalidValue(
            f"tz {name!r} is no time zone that this machine knows; zones have names like Europe/Paris, and the package "
            "tzdata brings them where the system has none"
        ) from None


def ticks(when: When, after_ms: int) -> Iterator[int]:
    """Yield the ticks after an instant, in order, each once; it may go on for ever.

    Args:
        when: When they are; an interval must have its anchor.
        after_ms: The instant, in milliseconds UTC; a tick at it is not among them.

    Raises:
        InvalidValue: The time zone is not known here.
    """
    if isinstance(when, Every):
        anchor_ms = when.anchor_ms or 0
        first = max(0, (after_ms - anchor_ms) // when.every_ms + 1)
        return takewhile(lambda at_ms: at_ms <= _LAST_MS, count(anchor_ms + first * when.every_ms, when.every_ms))
    return _cron_ticks(when, after_ms)


def _cron_ticks(when: Cron, after_ms: int) -> Iterator[int]:
    zone = _zone(when.tz)
    before_ms = after_ms
    try:
        # In the hour that daylight saving time repeats cronsim starts from the wall clock alone, and gives ticks that
        # are over; in the hour that it leaves out, several at the same instant.
        for at in CronSim(when.expression, instant(after_ms).astimezone(zone)):
            at_ms = (at.astimezone(UTC) - _EPOCH) // _MS
            if at_ms > _LAST_MS:
                return
            if at_ms > before_ms:
                before_ms = at_ms
                yield at_ms
    except OverflowError:  # the end of the calendar
        return


def instant(at_ms: int) -> datetime:
    """Return milliseconds as a datetime in UTC."""
    return _EPOCH + timedelta(milliseconds=at_ms)


def next_tick(when: When, after_ms: int) -> int | None:
    """Return the first tick after an instant, or None when there is none within fifty years.

    Raises:
        InvalidValue: The time zone is not known here.

    Example:
        >>> next_tick(Every(60_000, 5_000), 65_000)
        125000
    """
    return next(ticks(when, after_ms), None)


def latest_ticks(when: When, until_ms: int, most: int) -> list[int]:
    """Return the latest ticks up to an instant, and at it, in order, without going through those before them.

    Args:
        when: When they are; an interval must have its anchor.
        until_ms: The instant, in milliseconds UTC.
        most: How many; 1 or more.
    """
    if isinstance(when, Every):
        anchor_ms = when.anchor_ms or 0
        last = (until_ms - anchor_ms) // when.every_ms
        return [anchor_ms + n * when.every_ms for n in range(max(0, last + 1 - most), last + 1)]
    # Backwards cronsim may name other instants about a change of daylight saving time: what holds is the way forwards.
    back = CronSim(when.expression, instant(until_ms + SECOND_MS).astimezone(_zone(when.tz)), reverse=True)
    found: set[int] = set()
    for at in islice(back, 2 * most):
        at_ms = (at.astimezone(UTC) - _EPOCH) // _MS
        if at_ms <= until_ms and next_tick(when, at_ms - 1) == at_ms:
            found.add(at_ms)
        if len(found) == most:
            break
    return sorted(found)


class Due(NamedTuple):
    """What is to be done at a look: the ticks to fire, how many are passed over, the latest of both, the next one."""

    fire: tuple[int, ...]
    missed: int
    last_ms: int | None
    next_ms: int | None


def due(when: When, first_ms: int, now_ms: int, *, misfire: Misfire, grace_ms: int) -> Due:
    """Return what is to be done about the ticks from ``first_ms`` up to now.

    Those that are not later than ``grace_ms`` are fired, under every rule. Of those that are later ``skip`` fires
    none, ``run_all`` each, and ``run_once`` the latest, unless one is on time: then that one stands for them. At most
    the latest :data:`CATCH_UP` are fired at all.

    Example:
        >>> due(Every(10, 0), 30, 65, misfire="run_once", grace_ms=2)
        Due(fire=(60,), missed=3, last_ms=60, next_ms=70)
    """
    seen = list(islice(takewhile(lambda at_ms: at_ms <= now_ms, ticks(when, first_ms - 1)), COUNTED))
    next_ms = next_tick(when, max(now_ms, first_ms - 1))
    if not seen:
        return Due((), 0, None, next_ms)
    latest = latest_ticks(when, now_ms, CATCH_UP) if len(seen) == COUNTED else seen
    on_time = [at_ms for at_ms in latest if now_ms - at_ms <= grace_ms]
    fire = on_time
    if misfire == "run_all":
        fire = latest
    elif misfire == "run_once" and not on_time:
        fire = latest[-1:]
    fire = fire[-CATCH_UP:]
    return Due(tuple(fire), len(seen) - len(fire), latest[-1] if latest else seen[-1], next_ms)
