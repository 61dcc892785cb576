"""What dead jobs have in common: the kind of error, its text without what differs from job to job, and where it was."""

from __future__ import annotations

import hashlib
import re
from typing import Final, NamedTuple

from fairlane.domain.jobs import ErrorRecord

MAX_LOOKED_AT: Final = 2_000
"""Characters of a message that count; what follows is most often the data that was at hand."""
MAX_SHOWN: Final = 200
DIGITS: Final = 12
"""Hexadecimal digits of a fingerprint: with 100,000 of them two are alike once in 56,000 stores (2**48)."""

_NUMBER: Final = r"\d+(?:[.,:_/T-]\d+)*(?:[eE][-+]?\d+)?"
_REPLACED: Final = tuple(
    (re.compile(pattern), by)
    for pattern, by in (
        (r"\b[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}\b", "<id>"),
        # An apostrophe in a word opens nothing.
        (r"""(?<!\w)[bru]{0,2}(["'`])(?:(?!\1)[^\n]){0,500}\1(?!\w)""", "<text>"),
        (r"\b[a-zA-Z][a-zA-Z0-9+.-]{1,20}://\S{1,500}", "<url>"),
        (r"[\w.+-]{1,64}@[\w-]{1,64}(?:\.[\w-]{1,64}){1,8}", "<mail>"),
        (r"(?<![\w/\\<])(?:~|\.{1,2}|[A-Za-z]:)?(?:[/\\][\w.@%+ -]*[\w.@%+-]){1,50}[/\\]?", "<path>"),
        (r"\b0[xX][0-9a-fA-F]+\b", "<hex>"),
        # Not the digits of a number such as 1.0000000000000002e+16.
        (r"(?<![\w.])(?=[a-fA-F]*\d)(?=\d*[a-fA-F])[0-9a-fA-F]{8,}(?!\w|[+-]\d)", "<hex>"),
        (rf"(?<![\w)\]>])[-+]{_NUMBER}|{_NUMBER}", "<n>"),
        (r"\s+", " "),
        (r"(<[a-z]+>)(?:(?: ?[,;] ?| )\1)+", r"\1"),
    )
)


class Fingerprint(NamedTuple):
    """What dead jobs of a group have in common.

    Attributes:
        id: A short name that is the same for all of them, on every machine.
        type: The exception's type, or ``""`` where the job died of no exception.
        message: Its text, or the reason, without what differs from job to job.
        frame: The innermost function of the user's own code in its traceback; ``""``: not known.
    """

    id: str
    type: str
    message: str
    frame: str

    @property
    def label(self) -> str:
        """The group in words.

        Example:
            >>> Fingerprint("0f", "app.Refused", "card <n> refused", "app.pay").label
            'app.Refused: card <n> refused · app.pay'
        """
        words = ": ".join(part for part in (self.type, self.message[:MAX_SHOWN]) if part)
        return f"{words} · {self.frame}" if self.frame else words


def normalised(message: str) -> str:
    """Return a message with everything replaced that differs between two faults of one kind.

    That is: ids, quoted text, addresses, paths, hexadecimal and other numbers; lists of them count as one.

    Example:
        >>> normalised("row 42 of '/tmp/a 1.csv': cannot reach http://x:80/y?z=1 in 3.5 s at 0x7f3a")
        'row <n> of <text>: cannot reach <url> in <n> s at <hex>'
        >>> normalised("user isn't in [1, 2, 3]") == normalised("user isn't in [70, 8]")
        True
    """
    text = message[:MAX_LOOKED_AT]
    for pattern, by in _REPLACED:
        text = pattern.sub(by, text)
    return text.strip()


def fingerprint_of(error: ErrorRecord | None, reason: str | None) -> Fingerprint:
    """Return what a dead job is grouped by.

    Args:
        error: The run that it died of, or None.
        reason: Why it is dead, where no run says so.

    Returns:
        The type, the normalised message and the frame of the error; of a crash without its message, which names the
        worker that is gone. Without an error the normalised reason.
    """
    if error is None:
        return _named("", normalised(reason or "") or "no reason given", "")
    return _named(error.type, "" if error.kind == "crash" else normalised(error.message), error.frame)


def _named(kind: str, message: str, frame: str) -> Fingerprint:
    digest = hashlib.sha256("\x1f".join((kind, message, frame)).encode("utf-8", "replace")).hexdigest()
    return Fingerprint(digest[:DIGITS], kind, message, frame)


def explained(fingerprint: str, errors: tuple[ErrorRecord, ...], reason: str | None) -> Fingerprint:
    """Return the fingerprint of a group in words, from one of its jobs.

    Nothing but the short name is stored with a job: the words are worked out again, and hold when they give that name.
    Jobs that died under an earlier version were grouped by the type of their error, which is its own name.

    Args:
        fingerprint: The group's name.
        errors: All failed runs of the job, the last one at the end.
        reason: Why it is dead.
    """
    for candidate in (*(fingerprint_of(error, reason) for error in errors[-1:]), fingerprint_of(None, reason)):
        if candidate.id == fingerprint:
            return candidate
    return Fingerprint(fingerprint, fingerprint, "", "")
