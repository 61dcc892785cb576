"""Which schema a file has, whose it is, and what is to come: read only."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Final, NamedTuple

from fairlane.errors import StoreError, StoreVersion
from fairlane.stores._migrate import Standing, migrations
from fairlane.stores._queries import query

APPLICATION_ID: Final = 0x6661_6972
"""``fair`` in the file's header: other databases are refused instead of being given our tables."""
MIGRATIONS_DONE: Final = query("sqlite", "migrations_done")

HEADER_BYTES: Final = 100


class Header(NamedTuple):
    """What a database's file says at its head; what is only in its log is left out."""

    application: int
    version: int
    schema: int
    page_size: int


def schema_of(db: sqlite3.Connection, what: object) -> Standing:
    """Return how far a database is; one without any table is ours and new.

    Args:
        db: A connection to it.
        what: How messages call it.

    Raises:
        StoreVersion: It was written by a newer version.
        StoreError: It is another program's, or a migration that was run on it has been changed since.
    """
    known = migrations("sqlite")
    (application,) = db.execute("PRAGMA application_id").fetchone()
    tables = {name for (name,) in db.execute("SELECT name FROM sqlite_schema").fetchall()}
    if application != APPLICATION_ID and tables:
        raise StoreError(f"{what} is a database of another program; name another file")
    done = db.execute(MIGRATIONS_DONE).fetchall() if "migration" in tables else []
    if len(done) > len(known):
        raise _newer(what, len(done), len(known))
    for step, (_, name, checksum) in zip(known, done, strict=False):
        if checksum != step.checksum:
            raise StoreError(f"migration {name} is not the one that was run on {what}")
    return Standing([str(name) for _, name, _ in done], known[len(done) :])


def header_of(path: Path) -> Header | None:
    """Return what the head of a database's file says, and change nothing; None: there is none that can be read.

    SQLite reads it and not we: when a process closes a file, the system ends every lock that the process has on it,
    SQLite's too. The next process that closes the store would think that it is the last one and delete the log, and
    what this one commits from then on would be lost. SQLite knows of its own locks; as ``immutable`` it takes none and
    repairs nothing.
    """
    address = f"{path.absolute().as_uri()}?mode=ro&immutable=1"
    try:
        if path.stat().st_size < HEADER_BYTES:
            return None
        with closing(sqlite3.connect(address, uri=True, isolation_level=None)) as db:
            names = ("application_id", "user_version", "schema_version", "page_size")
            return Header(*(db.execute(f"PRAGMA {name}").fetchone()[0] for name in names))
    except (OSError, sqlite3.Error):
        return None  # opening it will tell


def refuse_others(path: Path) -> None:
    """Look whose file it is before SQLite opens it, which may change it; what the header cannot tell comes later.

    Raises:
        StoreVersion: It was written by a newer version.
        StoreError: It is another program's.
    """
    header = header_of(path)
    if header is None or _has_log(path):
        return
    if header.schema and header.application != APPLICATION_ID:
        raise StoreError(f"{path} is a database of another program; name another file")
    known = len(migrations("sqlite"))
    if header.application == APPLICATION_ID and header.version > known:
        raise _newer(path, header.version, known)


def _has_log(path: Path) -> bool:
    """Return whether a log stands beside a database that knows more than its file."""
    try:
        return path.with_name(path.name + "-wal").stat().st_size > 0
    except OSError:
        return False


def _newer(what: object, has: int, known: int) -> StoreVersion:
    return StoreVersion(f"{what} has schema {has}; this version of fairlane knows {known}: upgrade fairlane")
