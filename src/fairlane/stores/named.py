"""What a store's URL names: which kind of store, its clock, and opening it. Each kind is imported when it is meant."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from fairlane.clock import Clock, SystemClock
from fairlane.domain.policy import Capacities, Policy
from fairlane.errors import ConfigError
from fairlane.settings import without_password
from fairlane.store import Store

if TYPE_CHECKING:
    from fairlane.stores.postgres.clock import PostgresClock

MEMORY: Final = "sqlite://"
SERVERS: Final = ("postgresql", "postgres")
FILES: Final = "sqlite:///relative.db, sqlite:////absolute.db or sqlite:// (in memory)"
FORMS: Final = "sqlite:///relative.db, sqlite:////absolute.db, sqlite:// (in memory) or postgresql://user@host/database"


def on_server(url: str) -> bool:
    """Return whether a store is in a PostgreSQL database, and not in a file or in memory."""
    return url.partition("://")[0] in SERVERS


def pinned(url: str) -> str:
    """Return a store's URL, checked, with a relative file taken from the working directory of now.

    A program that changes its directory later, or forks, still means the same file.

    Raises:
        ConfigError: No store has such a URL (the message says which there are), or psycopg is not installed.

    Example:
        >>> pinned("sqlite:////var/jobs.db"), pinned("sqlite://")
        ('sqlite:////var/jobs.db', 'sqlite://')
    """
    scheme, separator, rest = url.partition("://")
    if separator and scheme in SERVERS:
        return _checked(url)
    shown = without_password(url)
    if not separator or scheme != "sqlite":
        raise ConfigError(f"{shown!r} is no store: {FORMS}")
    if not rest:
        return MEMORY
    if not rest.startswith("/") or rest == "/" or "?" in rest:
        raise ConfigError(f"{shown!r} names no file: {FILES}")
    return f"sqlite:///{Path(rest[1:]).absolute()}"  # an absolute path begins with the fourth stroke


def _checked(url: str) -> str:
    """Return the URL of a PostgreSQL store, checked.

    Raises:
        ConfigError: It is none, or psycopg is not here, or not the library that it needs.
    """
    try:
        from fairlane.stores.postgres.urls import checked  # noqa: PLC0415  an extra
    except ImportError as error:
        if isinstance(error, ModuleNotFoundError) and not (error.name or "").startswith("psycopg"):
            raise
        raise ConfigError(
            f"{without_password(url)!r}: PostgreSQL needs psycopg: pip install 'fairlane[postgres]' ({error})"
        ) from None
    return checked(url)


def clock_of(url: str) -> PostgresClock | None:
    """Return the clock of the database that a URL names; None where this machine's is the one that counts."""
    if not on_server(url):
        return None
    from fairlane.stores.postgres.clock import PostgresClock  # noqa: PLC0415  an extra

    return PostgresClock(url)


def open_store(
    url: str,
    *,
    clock: Clock,
    policy: Policy | None,
    capacities: Capacities | None,
    durability: Literal["full", "normal"],
) -> Store:
    """Open a store, in the thread that will own it.

    Args:
        url: The store, as :func:`pinned` returns it.
        clock: Where instants come from.
        policy: The policy; None takes the store's own, or the default for a new store.
        capacities: The capacities; likewise.
        durability: Whether commits are flushed to the disk; a PostgreSQL server has its own settings for that.

    Raises:
        ConfigError: The store was created with other settings.
        StoreVersion: A newer version wrote it, or it is a PostgreSQL schema that was not migrated.
        StoreError: It cannot be opened.
    """
    if on_server(url):
        from fairlane.stores.postgres.store import open_postgres  # noqa: PLC0415  an extra

        clock.now_ms()  # asks the database the first time: not within a transaction that others wait for
        return open_postgres(url, clock=clock, policy=policy, capacities=capacities)
    from fairlane.stores.sqlite.store import open_sqlite  # noqa: PLC0415  not where it is not used

    return open_sqlite(url, clock=clock, policy=policy, capacities=capacities, durability=durability)


def scratch_schema(url: str, name: str) -> str:
    """Make a schema in a database that nobody else uses, and return the URL that names it; see :func:`drop_schema`.

    Args:
        url: A PostgreSQL database, as :func:`pinned` returns it.
        name: What the schema's name begins with.

    Raises:
        ConfigError: It is a file, or in memory.
        StoreError: The database cannot be reached, or our role may not make schemas there.
    """
    if not on_server(url):
        raise ConfigError(f"{without_password(url)!r} is no PostgreSQL database")
    from fairlane.stores.postgres.schema import scratch  # noqa: PLC0415  an extra

    return scratch(url, name, SystemClock())


def drop_schema(url: str) -> None:
    """Drop what :func:`scratch_schema` made, if it is there.

    Raises:
        StoreError: The database cannot be reached, or refuses.
    """
    from fairlane.stores.postgres.schema import drop  # noqa: PLC0415  an extra

    drop(url)


def need_file(url: str, what: str) -> None:
    """See that a store is one in a file, or in memory.

    Args:
        url: The store.
        what: What needs that, for the message.

    Raises:
        ConfigError: It is in a PostgreSQL database.
    """
    if on_server(url):
        raise ConfigError(
            f"{what} is for stores in SQLite files, and {without_password(url)} is a PostgreSQL database: use its own "
            "means, pg_dump or backups of the whole server (see the guide on PostgreSQL)"
        )
