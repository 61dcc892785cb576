"""Images of a database file and its WAL, as a power cut or a copy leaves them, and what they turn out to hold.

The WAL's format is at https://www.sqlite.org/fileformat2.html#the_write_ahead_log: a header of 32 bytes, then frames of
24 bytes and a page each. A frame whose second field is not zero ends a transaction.
"""

from __future__ import annotations

import contextlib
import shutil
import sqlite3
from pathlib import Path
from typing import NamedTuple

from fairlane.clock import SystemClock
from fairlane.stores.sqlite.store import open_sqlite

WAL_HEADER = 32
FRAME_HEADER = 24


class Image(NamedTuple):
    """The bytes of a main file and of its WAL."""

    main: bytes
    wal: bytes

    @staticmethod
    def of(path: Path) -> Image:
        """Copy the main file, then the WAL."""
        main = path.read_bytes()
        wal = path.with_name(path.name + "-wal")
        return Image(main, wal.read_bytes() if wal.exists() else b"")

    def cut(self, length: int, tail: bytes = b"") -> Image:
        """Return the image with the WAL cut short, and some bytes behind the cut."""
        return Image(self.main, self.wal[:length] + tail)


class Frame(NamedTuple):
    """A frame of a WAL: where it begins and ends, and whether it ends a transaction."""

    start: int
    end: int
    commits: bool


def header(path: Path) -> bytes:
    """Return the header of a store's WAL: it changes whenever the WAL begins anew."""
    with path.with_name(path.name + "-wal").open("rb") as file:
        return file.read(WAL_HEADER)


def frames(wal: bytes) -> list[Frame]:
    """Return the frames that belong to the header; behind them may lie older ones."""
    size = int.from_bytes(wal[8:12]) + FRAME_HEADER
    found: list[Frame] = []
    for start in range(WAL_HEADER, len(wal) - size + 1, size):
        if wal[start + 8 : start + 16] != wal[16:24]:
            break
        found.append(Frame(start, start + size, wal[start + 4 : start + 8] != b"\0\0\0\0"))
    return found


class Held(NamedTuple):
    """What an image holds: job ids in the order of their numbers, and fences by id."""

    jobs: list[str]
    fences: dict[str, int]


def held(image: Image, folder: Path) -> Held:
    """Open an image as the next program after a power cut does, see that all is well, and tell what it holds."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    path = folder / "jobs.db"
    path.write_bytes(image.main)
    path.with_name("jobs.db-wal").write_bytes(image.wal)
    with contextlib.closing(open_sqlite(f"sqlite:///{path}", clock=SystemClock(), durability="normal")) as store:
        with store.transaction():
            store._live()
        assert store.check() == []
    with contextlib.closing(sqlite3.connect(path)) as db:
        assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        rows = [(_uuid(job), fence) for job, fence in db.execute("SELECT hex(id), fence FROM job ORDER BY seq")]
    return Held([job for job, _ in rows], dict(rows))


def _uuid(text: str) -> str:
    low = text.lower()
    return "-".join((low[:8], low[8:12], low[12:16], low[16:20], low[20:]))
