"""What surfaces show of arguments, results and checkpoints: secrets in them are put out of sight.

A pattern is a path of keys with dots between: ``card.number`` is the key ``number`` in the object ``card``. In a part,
``*`` stands for any characters; a part ``**`` stands for any number of keys, and so does ``*`` as the first of several
parts: ``*.password`` is every key ``password``, wherever it is. Lists are looked through: ``cards.number`` is the
number of every item. What a pattern names is replaced with all that is under it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from fnmatch import fnmatchcase
from typing import Any, Final

from fairlane.domain.checks import text
from fairlane.errors import ConfigError, InvalidValue

HIDDEN: Final = "[redacted]"
FAILED: Final = "[redaction failed]"
MAX_PATTERNS: Final = 1_000

Also = Callable[[str, str, Any], Any]  # Any: JSON values
"""Takes a task's name, what the value is (``args``, ``result``, ``checkpoint``) and the value; returns what is shown.

It gets what the patterns leave, and must not change it in place."""


class Redaction:
    """Puts secrets out of sight.

    Args:
        patterns: Paths of keys; see the module.
        also: Is asked after the patterns. When it raises, nothing of the value is shown.

    Raises:
        ConfigError: A pattern is empty or no text.

    Example:
        >>> Redaction(["*.password"])("login", "args", {"user": "ada", "db": [{"password": "x"}]})
        {'user': 'ada', 'db': [{'password': '[redacted]'}]}
    """

    def __init__(self, patterns: Iterable[str] = (), also: Also | None = None) -> None:
        self._patterns = tuple(_parts(pattern) for pattern in patterns)
        self._also = also
        if len(self._patterns) > MAX_PATTERNS:
            raise ConfigError(f"redact has {len(self._patterns)} patterns; the maximum is {MAX_PATTERNS}")

    def __call__(self, task: str, what: str, value: Any) -> Any:  # Any: JSON values
        """Return what may be shown of a value."""
        if self._patterns:
            value = _walk(value, [(parts, 0) for parts in self._patterns])
        if self._also is not None:
            try:
                value = self._also(task, what, value)
            except Exception:  # noqa: BLE001  the safe side of a faulty function is to show nothing
                return FAILED
        return value

    def job(self, told: Mapping[str, Any]) -> dict[str, Any]:  # Any: ready for JSON
        """Return a job's JSON with its args, result and checkpoint redacted; those that are missing stay missing."""
        shown = dict(told)
        for name in ("args", "result", "checkpoint"):
            if shown.get(name) is not None:
                shown[name] = self(str(told["task"]), name, shown[name])
        return shown


_At = tuple[tuple[str, ...], int]
"""A pattern's parts and how many of them are behind us."""


def _parts(pattern: str) -> tuple[str, ...]:
    try:
        text("redact", pattern, max_bytes=1024)
    except InvalidValue as error:
        raise ConfigError(str(error)) from None
    parts = pattern.split(".")
    if not all(parts):
        raise ConfigError(f"redact pattern {pattern!r} has an empty part between its dots")
    if parts[0] == "*" and len(parts) > 1:
        parts[0] = "**"
    return tuple(parts)


def _walk(value: Any, at: list[_At]) -> Any:  # Any: JSON values
    if not at:
        return value
    plain: Any = value  # its items are JSON values too
    if isinstance(value, list):
        return [_walk(item, at) for item in plain]
    if not isinstance(value, dict):
        return plain
    shown: dict[str, Any] = {}
    for key, item in plain.items():
        further = _further(key, at)
        ended = any(place == len(parts) for parts, place in further)
        shown[key] = HIDDEN if ended else _walk(item, further)
    return shown


def _further(key: str, at: list[_At]) -> list[_At]:
    """Return where the patterns are one key further down."""
    further: list[_At] = []
    for parts, place in at:
        while parts[place] == "**" and place + 1 < len(parts):
            further.append((parts, place))  # it may take this key too
            if parts[place + 1] != "**":
                if fnmatchcase(key, parts[place + 1]):
                    further.append((parts, place + 2))
                break
            place += 1  # noqa: PLW2901  two of them are as one
        else:
            if fnmatchcase(key, parts[place]):
                further.append((parts, place + 1))
    return further


NOTHING: Final = Redaction()
