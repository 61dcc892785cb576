"""What is told, and to whom."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, Protocol

Level = Literal["warning", "good"]

MAX_SHOWN: Final = 120
_MARKUP: Final = re.compile(r"<|>|@(?=everyone|here|channel|all)", re.IGNORECASE)
_HARMLESS: Final = {"<": "(", ">": ")", "@": "@\u200b"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    """Something to tell people, once.

    Attributes:
        key: Names the event; no two events have the same, so that a receiver can tell a repeat.
        event: One word or two for logs and filters, as ``wait_raised``.
        title: One line.
        text: A few lines.
        level: ``"warning"``, or ``"good"`` when something is over.
        facts: The same for programs.
    """

    key: str
    event: str
    title: str
    text: str
    level: Level = "warning"
    facts: Mapping[str, str | int | float] = field(default_factory=dict[str, "str | int | float"])


class Sink(Protocol):
    """A place where alerts go. Bring your own: ``app.alerts.add(sink)``."""

    @property
    def name(self) -> str:
        """What health calls it; holds no secret."""
        ...

    def send(self, alert: Alert) -> None:
        """Hand an alert over, in a thread of its own; return when it is delivered.

        Raises:
            Exception: It was not; it is tried again a few times.
        """
        ...


def mild(value: str) -> str:
    r"""Return a stored name for use in a message: one short line, and nothing that a chat service takes for markup.

    A tenant could otherwise be called ``<!channel>`` and wake everybody.

    Example:
        >>> mild("a\nb <!channel>"), len(mild("x" * 300))
        ('a b (!channel)', 120)
    """
    flat = "".join(" " if unicodedata.category(char).startswith("C") else char for char in value)
    harmless = _MARKUP.sub(lambda found: _HARMLESS[found[0]], flat)
    return harmless if len(harmless) <= MAX_SHOWN else harmless[: MAX_SHOWN - 1] + "…"
