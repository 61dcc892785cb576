"""Instants as callers write them (aware datetimes) and as they are stored (milliseconds since 1970, UTC)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final, overload

from fairlane.errors import InvalidValue

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MS: Final = timedelta(milliseconds=1)


def instant_ms(name: str, value: object) -> int:
    """Return an aware datetime as milliseconds since 1970, UTC.

    Args:
        name: What the error calls it.
        value: Any object.

    Raises:
        InvalidValue: It is no datetime, has no timezone, or lies before 1970.

    Example:
        >>> instant_ms("at", EPOCH + timedelta(seconds=2))
        2000
    """
    if not isinstance(value, datetime):
        raise InvalidValue(f"{name} must be a datetime with a timezone, not {value!r}")
    if value.utcoffset() is None:
        raise InvalidValue(f"{name} is {value} without a timezone; give one: datetime.now(UTC), or .astimezone()")
    if value < EPOCH:
        raise InvalidValue(f"{name} is {value}; it must be 1970 or later")
    return (value - EPOCH) // _MS


@overload
def aware(at_ms: int) -> datetime: ...
@overload
def aware(at_ms: int | None) -> datetime | None: ...
def aware(at_ms: int | None) -> datetime | None:
    """Return stored milliseconds as a datetime in UTC; beyond the year 9999 it is the last one of that year.

    Example:
        >>> aware(2000).isoformat()
        '1970-01-01T00:00:02+00:00'
    """
    if at_ms is None:
        return None
    try:
        return EPOCH + timedelta(milliseconds=at_ms)
    except OverflowError:  # "never" is stored as a number beyond the year 9999
        return datetime.max.replace(tzinfo=UTC)
