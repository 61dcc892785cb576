"""One validator for everything that is stored as JSON: arguments, results, checkpoints, error texts.

Accepted: null, booleans, whole numbers of 64 bits, finite numbers, text without NUL and lone surrogates, lists, and
objects with text keys. ``datetime``, ``date``, ``time``, ``timedelta``, ``UUID``, ``Decimal``, enums, dataclasses and
msgspec structs travel as JSON and arrive typed where the task's signature says so.
"""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
import math
import re
import uuid
from typing import Any, Final, cast

import msgspec

from fairlane.errors import InvalidJob

MAX_DEPTH: Final = 100
TRICKY: Final = "\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff"
"""Control characters beyond ASCII's and bidirectional ones, which show text in another order than it has: a regular
expression's class without its brackets."""
_UNSAFE: Final = re.compile(f"[\x00-\x1f{TRICKY}]")
_LEAST, _MOST = -(2**63), 2**63 - 1
_PLAIN: Final = (datetime.datetime, datetime.date, datetime.time, datetime.timedelta, uuid.UUID, decimal.Decimal)


def encode(value: Any, *, what: str, max_bytes: int) -> str:  # Any: this is where arbitrary values come in
    """Return ``value`` as JSON text.

    Args:
        value: Any value of the kinds named above.
        what: What errors call it: ``args``, ``result``, …
        max_bytes: Longest text allowed, in bytes of UTF-8.

    Raises:
        InvalidJob: The value is not storable; the message names the path of the offending part and the rule.
    """
    plain = _plain(value, what, 0)
    try:
        body = _encoder.encode(plain)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:  # what the walk cannot see
        raise InvalidJob(f"{what} cannot be stored as JSON: {error}") from None
    if len(body) > max_bytes:
        raise InvalidJob(f"{what} has {len(body)} bytes; the maximum is {max_bytes}")
    return body.decode()


_encoder = msgspec.json.Encoder(decimal_format="string")


def _plain(value: Any, path: str, depth: int) -> Any:  # Any: as above
    """Check ``value`` and return it with user-defined types made plain."""
    if value is None or value is True or value is False:
        return value
    kind = value.__class__
    if kind is str:
        return _text(value, path)
    if kind is int:
        if not _LEAST <= value <= _MOST:
            raise InvalidJob(f"{path} is a whole number beyond 64 bits")
        return value
    if kind is float:
        if not math.isfinite(value):
            raise InvalidJob(f"{path} is {value}; JSON has no such number")
        return value
    if depth >= MAX_DEPTH:
        raise InvalidJob(f"{path} is nested deeper than {MAX_DEPTH} levels, or holds itself")
    return _container(value, path, depth)


def _container(value: Any, path: str, depth: int) -> Any:  # Any: as above
    if isinstance(value, dict):
        return _object(value, path, depth)  # pyright: ignore[reportUnknownArgumentType] of unknown items: looked at next
    if isinstance(value, list | tuple | set | frozenset):
        items = cast("list[Any]", value)
        return [_plain(item, f"{path}[{index}]", depth + 1) for index, item in enumerate(items)]
    if isinstance(value, decimal.Decimal) and not value.is_finite():
        raise InvalidJob(f"{path} is {value}; JSON has no such number")
    if isinstance(value, _PLAIN):
        return value
    return _plain(_unwrapped(value, path), path, depth + 1)


def _object(value: dict[Any, Any], path: str, depth: int) -> dict[str, Any]:  # Any: as above
    out: dict[str, Any] = {}
    for key, item in value.items():
        if not isinstance(key, str):
            raise InvalidJob(f"{path} has the key {key!r}; keys must be text")
        out[_text(str(key), f"a key of {path}")] = _plain(item, f"{path}.{key}", depth + 1)
    return out


def _unwrapped(value: Any, path: str) -> Any:  # Any: as above
    """Return what a user-defined type holds, as plain values one level down."""
    if isinstance(value, enum.Enum):
        return value.value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if isinstance(value, msgspec.Struct):
        return msgspec.to_builtins(value)
    model_dump: Any = getattr(value, "model_dump", None)  # a Pydantic model, without importing Pydantic
    if model_dump is not None:
        return model_dump(mode="json")
    for kind in (str, int, float):
        if isinstance(value, kind):
            return kind(value)
    raise InvalidJob(f"{path} is of type {type(value).__qualname__}, which cannot be stored as JSON")


def _text(value: str, path: str) -> str:
    if "\0" in value:
        raise InvalidJob(f"{path} holds a NUL character at position {value.index(chr(0))}")
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError as error:
            raise InvalidJob(f"{path} holds a lone surrogate at position {error.start}") from None
    return value


def sanitised(value: str, max_bytes: int) -> str:
    r"""Return ``value`` without NUL and lone surrogates, cut to ``max_bytes``; never fails.

    Error texts must never be a reason to fail a settle.

    Example:
        >>> sanitised("a\0b" + "c" * 5, 4)
        'a�'
    """
    data = value.replace("\0", "\ufffd").encode("utf-8", "replace")
    return data[:max_bytes].decode("utf-8", "ignore")


def one_line(value: str, most: int | None = None) -> str:
    r"""Return a text of at most ``most`` characters of ``value`` as one line that cannot drive a terminal.

    For logs: a line break in a job's error would let it write lines of its own among ours. Control characters and those
    that turn the direction of writing become escapes.

    Example:
        >>> one_line("a\x1b[2Jb\nERROR c", 9)
        'a\\x1b[2Jb\\nER'
    """
    return _UNSAFE.sub(lambda found: found[0].encode("unicode_escape").decode(), value[:most])
