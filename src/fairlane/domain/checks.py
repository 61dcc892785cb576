"""Checks of arguments, shared by every value that checks itself."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeVar

from fairlane.errors import InvalidValue

W = TypeVar("W", bound=str)

MAX_INT = 2**63 - 1
MAX_NAME_BYTES = 255


def whole(name: str, value: object, *, least: int = 0, most: int = MAX_INT) -> int:
    """Return ``value`` if it is a whole number from ``least`` to ``most``.

    Raises:
        InvalidValue: It is of another type (True and 1.0 are) or out of range.
    """
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidValue(f"{name} must be a whole number, not {value!r}")
    if not least <= value <= most:
        raise InvalidValue(f"{name} is {value}; it must be from {least} to {most}")
    return value


def optional_whole(name: str, value: object, *, least: int = 0) -> int | None:
    """Return ``value`` if it is None or passes :func:`whole`."""
    return None if value is None else whole(name, value, least=least)


def number(name: str, value: object, *, least: float, most: float = math.inf, above: bool = False) -> float:
    """Return ``value`` as a float if it is a finite number from ``least`` to ``most``.

    Args:
        name: What the error calls it.
        value: Any object.
        least: Smallest value allowed.
        most: Largest value allowed.
        above: Whether ``least`` itself is too small.

    Raises:
        InvalidValue: It is of another type, not finite, or out of range.
    """
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise InvalidValue(f"{name} must be a number, not {value!r}")
    if not math.isfinite(value) or not least <= value <= most or (above and value == least):
        raise InvalidValue(
            f"{name} is {value}; it must be {'above' if above else 'at least'} {least} and at most {most}"
        )
    return float(value)


def one_of(name: str, value: object, words: Sequence[W]) -> W:
    """Return ``value`` if it is one of some words.

    Raises:
        InvalidValue: It is not.
    """
    for word in words:
        if value == word:
            return word
    raise InvalidValue(f"{name} {value!r} is not one of {', '.join(words)}")


def text(name: str, value: object, *, max_bytes: int = MAX_NAME_BYTES, empty: bool = False) -> str:
    """Return ``value`` if it is storable text: no NUL, no lone surrogate, at most ``max_bytes`` in UTF-8.

    Raises:
        InvalidValue: It breaks one of these rules; the message names the figure.
    """
    if not isinstance(value, str):
        raise InvalidValue(f"{name} must be text, not {value!r}")
    if "\0" in value:
        raise InvalidValue(f"{name} holds a NUL character at position {value.index(chr(0))}")
    try:
        size = len(value.encode())
    except UnicodeEncodeError as error:
        raise InvalidValue(f"{name} holds a lone surrogate at position {error.start}") from None
    if size > max_bytes:
        raise InvalidValue(f"{name} has {size} bytes; the maximum is {max_bytes}")
    if not value and not empty:
        raise InvalidValue(f"{name} is empty")
    return value


def flag(name: str, value: object) -> bool:
    """Return ``value`` if it is True or False.

    Raises:
        InvalidValue: It is anything else.
    """
    if not isinstance(value, bool):
        raise InvalidValue(f"{name} must be True or False, not {value!r}")
    return value
