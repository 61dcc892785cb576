"""What a handler may raise to say how its run ends; none of these is a failure that is tried again.

    Outcome
    ├── Snooze          back at its place in some seconds; counts for nothing
    ├── NotReady        the same, because what the job needs is not there yet
    ├── RateLimited     a named limit was told to wait: it closes for everyone that long; counts for nothing
    ├── Cancel          the job ends as cancelled
    ├── Dead            the job ends as dead, whatever attempts remain
    └── StopRequested   the run gives way to a wish to stop (raised by ``ctx.raise_if_stopping``)

Any other exception is a failure. A check of another system's work (``@task.verify``) returns one of three values:

    Verified(result)    the work is done: the job is completed, with this result
    Pending()           it is not finished: ask again later
    Rejected(reason)    it failed: process it again while attempts remain

Results are turned into JSON here too, because that must never fail a run.
"""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar, cast

import msgspec

from fairlane.domain.checks import number, text
from fairlane.domain.jobs import MAX_ERROR_BYTES, MAX_RESULT_BYTES
from fairlane.domain.payloads import MAX_DEPTH, encode, sanitised
from fairlane.errors import InvalidJob

if TYPE_CHECKING:
    from collections.abc import Collection

T_co = TypeVar("T_co", covariant=True)

MAX_WAIT_S: Final = 366 * 86_400.0
"""Longest wait that a handler may ask for: a year."""

UNSTORED: Final = "$fairlane_unstored"
"""Key of the object that is stored in place of a result that is too large."""


class Outcome(Exception):
    """Base of all outcomes below; catch it to let them through a broad ``except Exception``."""


class Snooze(Outcome):
    """Put the job back for later, at no cost in attempts and with its place kept.

    Args:
        seconds: Wait before it may run again, in seconds; 0 to a year.

    Raises:
        InvalidValue: ``seconds`` is outside the range given above.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds = number("seconds", seconds, least=0, most=MAX_WAIT_S)
        super().__init__(f"again in {self.seconds:g} s")

    @property
    def delay_ms(self) -> int:
        """The wait in milliseconds."""
        return round(self.seconds * 1000)


class NotReady(Snooze):
    """What the job needs is not there yet: as :class:`Snooze`, under a name of its own in logs and figures."""


class RateLimited(Outcome):
    """Another system said "too fast": close a named limit for everyone for a time; the run counts for nothing.

    Args:
        limit: The limit's key, as in the task's ``limits``; a key with ``{tenant}`` stands for this job's tenant's.
        retry_after: How long it stays closed, in seconds; 0 to a year.

    Raises:
        InvalidValue: An argument is outside the range given above.
    """

    def __init__(self, limit: str, retry_after: float) -> None:
        self.limit = text("limit", limit)
        self.retry_after = number("retry_after", retry_after, least=0, most=MAX_WAIT_S)
        super().__init__(f"limit {limit!r} waits {self.retry_after:g} s")

    @property
    def delay_ms(self) -> int:
        """The wait in milliseconds."""
        return round(self.retry_after * 1000)


class _Reasoned(Outcome):
    """An outcome with a reason; any object will do, its text is cleaned and cut: it must not spoil the settle."""

    def __init__(self, reason: object = "") -> None:
        self.reason = _text_of(reason, MAX_ERROR_BYTES)
        super().__init__(self.reason)


class Cancel(_Reasoned):
    """End the job as cancelled, for ``reason``."""


class Dead(_Reasoned):
    """End the job as dead, for ``reason``: no more retries, kept among the dead letters."""


class StopRequested(_Reasoned):
    """Somebody wants this run to stop, and the handler gives way.

    ``reason`` is ``cancel``, ``preempt``, ``shutdown``, ``timeout`` or ``lost``. What becomes of the job follows from
    that and not from this exception: let it pass, after tidying up.
    """


@dataclasses.dataclass(frozen=True, slots=True)
class Verified(Generic[T_co]):
    """A check's answer: the work is done.

    Attributes:
        result: The job's result, what ``job.result()`` gives.
    """

    result: T_co = dataclasses.field(default=cast("Any", None))  # Any: of any type


@dataclasses.dataclass(frozen=True, slots=True)
class Pending:
    """A check's answer: the work is not finished; it is checked again after the time that ``every`` says."""


@dataclasses.dataclass(frozen=True, slots=True)
class Rejected:
    """A check's answer: the work failed. It is processed again while attempts remain, else the job is dead.

    Attributes:
        reason: Why, for people; any object will do, its text is cleaned and cut.
    """

    reason: object = ""

    @property
    def text(self) -> str:
        """The reason as it is stored."""
        return _text_of(self.reason, MAX_ERROR_BYTES)


def reference_json(value: object) -> str:
    """Return what ``process`` handed back as JSON text: what the other system calls the work.

    Unlike a result it is stored exactly or not at all: checks would ask for something else.

    Raises:
        InvalidJob: It is no JSON value, or above 256 KiB; the message names the path of the offending part.

    Example:
        >>> reference_json({"proof": 7})
        '{"proof":7}'
    """
    try:
        return encode(value, what="reference", max_bytes=MAX_RESULT_BYTES)
    except InvalidJob:
        raise
    except Exception as error:  # a model's own dump may raise anything
        raise InvalidJob(f"reference cannot be stored as JSON: {type(error).__qualname__}") from error


def result_json(value: object) -> str:
    """Return a handler's result as JSON text; never fails.

    What JSON cannot hold is made storable: a NUL becomes U+FFFD and a lone surrogate "?", an unknown object its text,
    NaN and infinities null, a whole number beyond 64 bits text. A result above 256 KiB is left out: an object with the
    one key ``$fairlane_unstored`` takes its place and says why.

    Example:
        >>> result_json({"n": 1}), result_json({"x": float("nan")})
        ('{"n":1}', '{"x":null}')
    """
    try:
        return encode(value, what="result", max_bytes=MAX_RESULT_BYTES)
    except Exception:  # noqa: BLE001, S110  a model's own dump may raise anything; the second try looks closer
        pass
    try:
        return encode(_storable(value, 0), what="result", max_bytes=MAX_RESULT_BYTES)
    except InvalidJob as error:
        return encode({UNSTORED: str(error)}, what="result", max_bytes=MAX_RESULT_BYTES)


def _storable(value: object, depth: int) -> object:
    if isinstance(value, str):
        return sanitised(value, MAX_RESULT_BYTES + 4)  # one character more than fits, so that it is still too large
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if depth < MAX_DEPTH and (parts := _parts(value)) is not None:
        if isinstance(parts, list):
            return [_storable(item, depth + 1) for item in parts]
        return {_key(key): _storable(item, depth + 1) for key, item in parts.items()}
    try:
        encode(value, what="result", max_bytes=MAX_RESULT_BYTES)
    except Exception:  # noqa: BLE001  as above
        return _text_of(value)
    return value


def _parts(value: object) -> list[object] | dict[object, object] | None:
    """Return what a container holds; None for anything else."""
    if isinstance(value, dict):
        return cast("dict[object, object]", value)
    if isinstance(value, list | tuple | set | frozenset):
        return list(cast("Collection[object]", value))
    if isinstance(value, msgspec.Struct):
        return {name: getattr(value, name, None) for name in value.__struct_fields__}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name, None) for field in dataclasses.fields(value)}
    return None


def _key(key: object) -> str:
    return sanitised(key, MAX_RESULT_BYTES) if isinstance(key, str) else _text_of(key)


def _text_of(value: object, max_bytes: int = 1_000) -> str:
    try:
        return sanitised(str(value), max_bytes)
    except Exception:  # noqa: BLE001  a handler's object whose __str__ raises must not fail the run
        return f"<{type(value).__qualname__}>"
