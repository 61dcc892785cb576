"""What jobs do, and the log that they write of it: every figure is computed from that log, none from a queue's books.

Each process appends fixed records to a file of its own, one ``write`` an event, so a killed process loses none that its
handler had written. Instants are of ``CLOCK_MONOTONIC``, which all processes of a machine share; Node's ``hrtime`` is
the same clock.
"""

from __future__ import annotations

import asyncio
import os
import struct
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

RECORD: Final = struct.Struct("<BBxxIqq")
"""Event, kind, two bytes of nothing, number, when it was enqueued, when it happened (ns); ``node/joblog.mjs`` too."""
START: Final = 1
END: Final = 2
FOLDER: Final = "COMPARE_LOG"
"""The variable that tells where the log is."""

now = time.monotonic_ns


class Event(NamedTuple):
    """One record; a job that does nothing writes only its end.

    Attributes:
        event: START or END.
        kind: Which of a scenario's jobs it belongs to.
        number: Which one of that kind.
        enqueued_ns: Just before it was given to the queue.
        at_ns: When it happened.
    """

    event: int
    kind: int
    number: int
    enqueued_ns: int
    at_ns: int


class _Mine:
    """The file of this process; a forked child opens its own."""

    pid = 0
    file = -1


def _write(event: int, kind: int, number: int, enqueued_ns: int) -> None:
    pid = os.getpid()
    if _Mine.pid != pid:
        path = Path(os.environ[FOLDER]) / f"{pid}.log"
        _Mine.file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        _Mine.pid = pid
    os.write(_Mine.file, RECORD.pack(event, kind, number, enqueued_ns, now()))


def job(kind: int, number: int, enqueued_ns: int, sleep_ms: int) -> None:
    """Do nothing, or sleep; the handler of queues whose handlers are functions."""
    if sleep_ms:
        _write(START, kind, number, enqueued_ns)
        time.sleep(sleep_ms / 1000)
    _write(END, kind, number, enqueued_ns)


async def ajob(kind: int, number: int, enqueued_ns: int, sleep_ms: int) -> None:
    """The same for queues whose handlers are coroutines."""
    if sleep_ms:
        _write(START, kind, number, enqueued_ns)
        await asyncio.sleep(sleep_ms / 1000)
    _write(END, kind, number, enqueued_ns)


def files(folder: Path) -> list[Path]:
    """Return the files of a log: one of each process in which a job ran."""
    return sorted(folder.glob("*.log"))


def count(folder: Path) -> int:
    """Return how many records there are."""
    return sum(path.stat().st_size for path in files(folder)) // RECORD.size


def read(folder: Path) -> list[Event]:
    """Return all whole records, in order of time."""
    return sorted((event for path in files(folder) for event in _of(path)), key=lambda event: event.at_ns)


def _of(path: Path) -> Iterator[Event]:
    body = path.read_bytes()
    whole = len(body) // RECORD.size * RECORD.size
    return (Event(*fields) for fields in RECORD.iter_unpack(body[:whole]))
