"""Connections to a SQLite file: how they are opened, and what its errors mean."""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Literal

from fairlane.clock import SystemClock
from fairlane.errors import ConfigError, StoreBusy, StoreError, StoreFull

Durability = Literal["full", "normal"]

BUSY_MS: Final = 10_000
"""How long a writer waits for a program that holds the file without using our gate."""
PAUSE_S: Final = 0.005
"""Between two tries to be the first connection to a file."""
CHECKPOINT_PAGES: Final = 4_000
CACHE_KIB: Final = 32 * 1024
STATEMENTS: Final = 512
_QPSG: Final = 1007
"""SQLITE_DBCONFIG_ENABLE_QPSG: plans do not depend on bound values. It halved the claim on builds with STAT4."""

_FULL = frozenset({sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_WRITE, sqlite3.SQLITE_IOERR_FSYNC})
_BUSY = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED})


def path_of(url: str) -> Path | None:
    """Return the file that a ``sqlite:`` URL names; None stands for a private store in memory.

    Raises:
        ConfigError: It is no such URL.

    Example:
        >>> path_of("sqlite:////var/jobs.db"), path_of("sqlite:///jobs.db"), path_of("sqlite://")
        (PosixPath('/var/jobs.db'), PosixPath('jobs.db'), None)
    """
    scheme, separator, rest = url.partition("://")
    if scheme != "sqlite" or not separator:
        raise ConfigError(f"{url!r} is not a SQLite URL: sqlite:///relative.db, sqlite:////absolute.db or sqlite://")
    if not rest:
        return None
    if not rest.startswith("/") or rest == "/" or "?" in rest:
        raise ConfigError(f"{url!r} names no file: sqlite:///relative.db, sqlite:////absolute.db or sqlite://")
    return Path(rest[1:])


def same_file(path: Path | None, opened: os.stat_result | None) -> None:
    """See that a store's file is still the one that was opened: whoever has it open would go on writing to nowhere.

    Raises:
        StoreError: It was deleted or replaced.
    """
    if path is None or opened is None:
        return
    try:
        there = os.stat(path)
    except OSError as error:
        raise StoreError(f"{path} is gone: {error}; put it back, or stop what uses it") from error
    if (there.st_ino, there.st_dev) != (opened.st_ino, opened.st_dev):
        raise StoreError(f"{path} was replaced by another file while it was open: restart what uses it")


def connect(
    path: Path | None, durability: Durability, *, reading: bool = False, new: bool = True
) -> sqlite3.Connection:
    """Open a connection with our settings.

    Args:
        path: The file; None stands for a private database in memory.
        durability: How safe a commit is.
        reading: Whether it is for reading alone.
        new: Whether the file is made when it is missing.

    Raises:
        StoreError: The file cannot be opened.
    """
    if durability not in {"full", "normal"}:
        raise ConfigError(f"durability {durability!r} is not one of full, normal")
    with translated(f"open {path}"):
        db = sqlite3.connect(
            ":memory:" if path is None else path if new else f"{path.as_uri()}?mode=rw",
            uri=not new,
            isolation_level=None,
            check_same_thread=False,  # the owner and the reading lock see to it that one thread uses it at a time
            cached_statements=STATEMENTS,
            timeout=BUSY_MS / 1000,
        )
        try:
            _set_up(db, durability, reading=reading)
        except BaseException:
            db.close()
            raise
        return db


def _set_up(db: sqlite3.Connection, durability: Durability, *, reading: bool) -> None:
    setconfig = getattr(db, "setconfig", None)  # from Python 3.12 on
    if setconfig is not None:
        setconfig(_QPSG, True)
    db.execute(f"PRAGMA cache_size=-{CACHE_KIB}")
    db.execute("PRAGMA temp_store=MEMORY")
    if reading:
        db.execute("PRAGMA query_only=ON")
    else:
        _write_ahead(db)
        db.execute(f"PRAGMA synchronous={durability}")
        if durability == "full":
            db.execute("PRAGMA fullfsync=ON")  # macOS alone: its fsync does not reach the platter
        db.execute(f"PRAGMA wal_autocheckpoint={CHECKPOINT_PAGES}")


def _write_ahead(db: sqlite3.Connection) -> None:
    """Have a database write ahead. Where two connections want to be the first, SQLite waits for neither: so we do."""
    clock = SystemClock()
    until = clock.monotonic() + BUSY_MS / 1000
    pause = threading.Event()
    while db.execute("PRAGMA journal_mode").fetchone()[0] not in {"wal", "memory"}:
        try:
            db.execute("PRAGMA journal_mode=WAL")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode not in _BUSY or clock.monotonic() > until:
                raise
            pause.wait(PAUSE_S)


@contextmanager
def translated(doing: str) -> Generator[None]:
    """Turn SQLite's errors into ours, with the cause chained."""
    try:
        yield
    except sqlite3.Error as error:
        raise_translated(error, doing)


def raise_translated(error: BaseException, doing: str, *, only_sqlite: bool = False) -> None:
    """Raise our error for one of SQLite's, with the cause chained; any other is raised as it is.

    Args:
        error: What was caught.
        doing: What the message says was being done.
        only_sqlite: Return instead when it is not SQLite's: its own raise goes on.
    """
    if not isinstance(error, sqlite3.Error):
        if only_sqlite:
            return
        raise error
    code = getattr(error, "sqlite_errorcode", 0)
    name = getattr(error, "sqlite_errorname", type(error).__name__)
    message = f"could not {doing}: {error} ({name})"
    if code & 0xFF in _BUSY:
        raise StoreBusy(message) from error
    if code in _FULL:
        raise StoreFull(message) from error
    raise StoreError(message) from error


def missing(path: Path) -> str | None:
    """Return what there is instead of a database at a path, for a message; None: there may be one.

    Raises:
        StoreError: Nobody can look.
    """
    try:
        size = path.stat().st_size
    except FileNotFoundError:
        return "does not exist"
    except OSError as error:
        raise StoreError(f"cannot look at {path}: {error.strerror}") from error
    return None if size else "is empty"
