"""Connections of callers that jobs are stored on: psycopg's, sqlite3's, SQLAlchemy's, Django's, and what is like them.

No driver is imported here: whoever gives us one of its connections has done so. What is done on a connection comes as
the asks of a script (``fairlane.store.lending``); here it is known how each kind does it, and whether a transaction is
open, without which nothing could be rolled back together. Errors of a caller's driver are raised as they are, with a
note: they are about the caller's transaction, and what follows from them is the caller's to say.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, Protocol

from fairlane.errors import InvalidValue
from fairlane.store.lending import Ask, Database, Do, Say

if TYPE_CHECKING:
    import sqlite3

Raw = Any  # Any: connections, sessions and cursors of libraries that are not imported here

IDLE: Final = 0
"""What libpq's drivers call a connection without a transaction."""
NO_TRANSACTION: Final = (
    "no transaction is open on conn and it commits every statement by itself, so nothing could be rolled back "
    "together: begin one first, or leave conn out"
)
PLACES: Final = {"qmark": "?", "numeric": ":1", "numeric_dollar": "$1", "named": ":batch"}
"""How drivers of other styles write the parameter; ``%s`` is that of the rest."""


class Borrowed(Protocol):
    """A caller's connection.

    Attributes:
        database: What it is a connection of.
        awaited: Whether it can only be used by awaiting.
        rings: Whether workers may be told by its commit.
    """

    @property
    def database(self) -> Database:
        """What it is a connection of."""
        ...

    @property
    def awaited(self) -> bool:
        """Whether it can only be used by awaiting."""
        ...

    @property
    def rings(self) -> bool:
        """Whether workers may be told by its commit: not by one that comes in two phases."""
        ...

    def look(self) -> None:
        """See that what is done on it can be rolled back.

        Raises:
            InvalidValue: No transaction is open, and none begins by itself.
        """
        ...

    def carry(self, ask: Ask) -> object:
        """Do what is asked in this thread, and return the answer."""
        ...

    async def acarry(self, ask: Ask) -> object:
        """Do what is asked by awaiting."""
        ...


# ---------------------------------------------------------------- which kind


def borrowed(conn: object) -> Borrowed:
    """Return a caller's connection as scripts use it.

    Args:
        conn: A connection or cursor of psycopg 3 (also the asynchronous ones), sqlite3, psycopg2, asyncpg or another
            PostgreSQL driver after PEP 249; a SQLAlchemy ``Connection``, ``Session``, ``AsyncConnection``,
            ``AsyncSession`` or one of its scoped sessions; or Django's ``connection``.

    Raises:
        InvalidValue: It is none of these.
    """
    for known in (_of_sqlite3, _of_psycopg, _of_sqlalchemy, _of_asyncpg, _of_django, _of_dbapi):
        found = known(conn)
        if found is not None:
            return found
    raise InvalidValue(
        "conn must be an open connection, session or cursor (psycopg, sqlite3, SQLAlchemy, Django, or another driver "
        f"after PEP 249), not {type(conn).__module__}.{type(conn).__qualname__}"
    )


def _is(conn: object, module: str, *names: str) -> bool:
    """Return whether something is of a class of a module, which is imported if it is."""
    loaded = sys.modules.get(module)
    classes = tuple(one for name in names if (one := getattr(loaded, name, None)) is not None)
    return isinstance(conn, classes)


class _Awaited:
    """What kinds have in common that can only be awaited."""

    awaited = True
    rings = True

    def look(self) -> None:
        raise InvalidValue("an asynchronous connection is awaited: use aenqueue, aenqueue_many or agroup with it")

    def carry(self, ask: Ask) -> object:
        raise NotImplementedError


class _Blocking:
    """What kinds have in common that block; so they do in a coroutine, as the caller's own statements there."""

    awaited = False
    rings = True

    def look(self) -> None:
        raise NotImplementedError

    def carry(self, ask: Ask) -> object:
        raise NotImplementedError

    async def acarry(self, ask: Ask) -> object:
        return self.carry(ask)


def _said(ask: Ask) -> Say:
    assert isinstance(ask, Say), "what the store says is checked against the kind of the connection"
    return ask


# ---------------------------------------------------------------- psycopg


def _of_psycopg(conn: Raw) -> Borrowed | None:
    if _is(conn, "psycopg", "Cursor", "ServerCursor", "ClientCursor", "AsyncCursor", "AsyncServerCursor"):
        conn = conn.connection
    if _is(conn, "psycopg", "Connection"):
        return _Psycopg(conn)
    if _is(conn, "psycopg", "AsyncConnection"):
        return _AsyncPsycopg(conn)
    return None


def _plain_rows() -> Any:  # Any: psycopg's maker of rows that are tuples
    return sys.modules["psycopg.rows"].tuple_row


def _numbered(cursor: Raw, sql: str) -> str:
    """Return a statement as a cursor takes it: there are some for which the parameter has a number."""
    return sql.replace("%s", "$1") if _is(cursor, "psycopg", "RawCursor", "AsyncRawCursor") else sql


def _must_be_open(conn: Raw) -> None:
    """See that a transaction is open or begins by itself, of libpq's drivers.

    Raises:
        InvalidValue: It does not.
    """
    if conn.autocommit and conn.info.transaction_status == IDLE:
        raise InvalidValue(NO_TRANSACTION)


class _Psycopg(_Blocking):
    database: Database = "postgresql"

    def __init__(self, raw: Raw) -> None:
        self._raw = raw

    @property
    def rings(self) -> bool:  # type: ignore[override]  # read-only, as the protocol has it
        return getattr(self._raw, "_tpc", None) is None

    def look(self) -> None:
        _must_be_open(self._raw)

    def carry(self, ask: Ask) -> object:
        sql, text = _said(ask)
        with self._raw.cursor(row_factory=_plain_rows()) as cursor:
            cursor.execute(_numbered(cursor, sql), None if text is None else (text,))
            return [] if text is None else cursor.fetchall()


class _AsyncPsycopg(_Awaited):
    database: Database = "postgresql"

    def __init__(self, raw: Raw) -> None:
        self._raw = raw

    @property
    def rings(self) -> bool:  # type: ignore[override]  # as above
        return getattr(self._raw, "_tpc", None) is None

    async def acarry(self, ask: Ask) -> object:
        sql, text = _said(ask)
        _must_be_open(self._raw)
        async with self._raw.cursor(row_factory=_plain_rows()) as cursor:
            await cursor.execute(_numbered(cursor, sql), None if text is None else (text,))
            return [] if text is None else await cursor.fetchall()


# ---------------------------------------------------------------- asyncpg


def _of_asyncpg(conn: Raw) -> Borrowed | None:
    if _is(conn, "asyncpg", "Connection") or _is(conn, "asyncpg.pool", "PoolConnectionProxy"):
        return _Asyncpg(conn)
    return None


class _Asyncpg(_Awaited):
    database: Database = "postgresql"

    def __init__(self, raw: Raw) -> None:
        self._raw = raw

    async def acarry(self, ask: Ask) -> object:
        sql, text = _said(ask)
        if not self._raw.is_in_transaction():
            raise InvalidValue(NO_TRANSACTION)
        rows = await (self._raw.fetch(sql) if text is None else self._raw.fetch(sql.replace("%s", "$1"), text))
        return [tuple(row) for row in rows]


# ---------------------------------------------------------------- any driver after PEP 249, and Django


def _of_dbapi(conn: Raw) -> Borrowed | None:
    if callable(getattr(conn, "cursor", None)) and callable(getattr(conn, "rollback", None)):
        return _Dbapi(conn, conn.cursor)
    if callable(getattr(conn, "execute", None)) and callable(getattr(conn, "fetchall", None)):
        owner = getattr(conn, "connection", None)  # a cursor's own result is left alone where it tells its connection
        return _Dbapi(conn, lambda: conn) if owner is None else _of_dbapi(owner)
    return None


def _of_django(conn: Raw) -> Borrowed | None:
    vendor = getattr(conn, "vendor", None)
    if not isinstance(vendor, str) or not hasattr(conn, "in_atomic_block"):
        return None
    if vendor == "sqlite":
        return _DjangoSqlite(conn)
    if vendor != "postgresql":
        raise InvalidValue(f"conn is Django's connection to {vendor}; jobs are stored in PostgreSQL or SQLite")
    return _Django(conn)


class _Dbapi(_Blocking):
    database: Database = "postgresql"

    def __init__(self, conn: Raw, cursor: Callable[[], Raw]) -> None:
        self._conn = conn
        self._cursor = cursor
        module = sys.modules.get(type(conn).__module__.partition(".")[0])
        self._place = PLACES.get(getattr(module, "paramstyle", ""), "%s")

    def look(self) -> None:
        autocommit = getattr(self._conn, "autocommit", None)
        if autocommit is False:
            return
        if hasattr(getattr(self._conn, "info", None), "transaction_status"):
            _must_be_open(self._conn)
            return
        # Nobody tells: PostgreSQL refuses a savepoint outside a transaction.
        self.carry(Say("SAVEPOINT fairlane"))
        self.carry(Say("RELEASE SAVEPOINT fairlane"))

    def carry(self, ask: Ask) -> object:
        sql, text = _said(ask)
        cursor = self._cursor()
        try:
            if text is None:
                cursor.execute(sql)
            else:
                values: Any = {"batch": text} if self._place == ":batch" else (text,)
                cursor.execute(sql.replace("%s", self._place), values)
            return [] if text is None else [_tuple_of(row) for row in cursor.fetchall()]
        finally:
            if cursor is not self._conn:
                cursor.close()


def _tuple_of(row: Raw) -> tuple[Raw, ...]:
    """Return a row as a tuple: it may be a dictionary, as those of psycopg2's ``RealDictCursor`` are."""
    return tuple(row.values()) if hasattr(row, "values") else tuple(row)


class _Django(_Dbapi):
    def __init__(self, conn: Raw) -> None:
        super().__init__(conn, conn.cursor)
        self._place = "%s"

    def look(self) -> None:
        if self._conn.get_autocommit():  # False in atomic(), and where Django was told to leave commits alone
            raise InvalidValue(NO_TRANSACTION)


# ---------------------------------------------------------------- SQLite


class SqliteLink:
    """A connection of sqlite3, used in a way that does not depend on how its owner likes rows and texts."""

    def __init__(self, raw: sqlite3.Connection) -> None:
        self.raw = raw

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction is open."""
        return self.raw.in_transaction

    @property
    def autocommit(self) -> bool:
        """Whether every statement is a transaction of its own unless one was begun by hand."""
        mode = getattr(self.raw, "autocommit", -1)  # from Python 3.12 on; -1: isolation_level says it
        return self.raw.isolation_level is None if mode == -1 else bool(mode)

    def execute(self, sql: str, values: Any = ()) -> sqlite3.Cursor:  # Any: as for Link
        """Run a statement."""
        return self._cursor().execute(sql, values)

    def executemany(self, sql: str, rows: Any) -> sqlite3.Cursor:  # Any: likewise
        """Run a statement for each of the rows."""
        return self._cursor().executemany(sql, rows)

    def _cursor(self) -> sqlite3.Cursor:
        cursor = self.raw.cursor()
        cursor.row_factory = None
        return cursor


def _of_sqlite3(conn: Raw) -> Borrowed | None:
    if _is(conn, "sqlite3", "Cursor"):
        conn = conn.connection
    return _Sqlite(conn) if _is(conn, "sqlite3", "Connection") else None


class _Sqlite(_Blocking):
    database: Database = "sqlite"

    def __init__(self, raw: sqlite3.Connection) -> None:
        self._raw = raw

    def look(self) -> None:
        """The script looks itself, and begins a transaction where the caller's commit will end it."""

    def carry(self, ask: Ask) -> object:
        assert isinstance(ask, Do), "as in _said"
        raw = self._raw
        before = raw.text_factory
        raw.text_factory = str
        try:
            return ask.do(SqliteLink(raw))
        finally:
            raw.text_factory = before


class _DjangoSqlite(_Blocking):
    database: Database = "sqlite"

    def __init__(self, conn: Raw) -> None:
        self._conn = conn

    def look(self) -> None:
        if self._conn.get_autocommit():
            raise InvalidValue(NO_TRANSACTION)

    def carry(self, ask: Ask) -> object:
        self._conn.ensure_connection()
        return _Sqlite(self._conn.connection).carry(ask)


# ---------------------------------------------------------------- SQLAlchemy


def _of_sqlalchemy(conn: Raw) -> Borrowed | None:
    if "sqlalchemy" not in sys.modules:
        return None
    if _is(conn, "sqlalchemy.orm", "scoped_session") or _is(conn, "sqlalchemy.ext.asyncio", "async_scoped_session"):
        conn = conn()  # that of this thread or task
    if _is(conn, "sqlalchemy.orm", "Session") or _is(conn, "sqlalchemy.engine", "Connection"):
        return _Sqlalchemy(conn)
    if _is(conn, "sqlalchemy.ext.asyncio", "AsyncSession", "AsyncConnection"):
        return _AsyncSqlalchemy(conn)
    return None


def _database_of(conn: Raw) -> Database:
    """Return what database a connection or a session of SQLAlchemy is of.

    Raises:
        InvalidValue: It is of another kind than stores are.
    """
    dialect = conn.dialect if hasattr(conn, "dialect") else conn.get_bind().dialect
    if dialect.name == "postgresql":
        return "postgresql"
    if dialect.name == "sqlite":
        return "sqlite"
    raise InvalidValue(f"conn is a connection to {dialect.name}; jobs are stored in PostgreSQL or SQLite")


def _rings(conn: Raw) -> bool:
    if conn is None:  # an asynchronous one that was not awaited yet, which its own error will tell
        return True
    return not getattr(conn, "twophase", False) and not _is(
        conn.get_transaction(), "sqlalchemy.engine", "TwoPhaseTransaction"
    )


def _must_not_autocommit(conn: Raw) -> None:
    """See that a connection of SQLAlchemy has a transaction: it begins one by itself, unless it was told not to.

    Raises:
        InvalidValue: It was.
    """
    if getattr(conn.connection.dbapi_connection, "autocommit", False) is True:
        raise InvalidValue(NO_TRANSACTION)
    if not conn.in_transaction():
        conn.begin()


def _do(conn: Raw, ask: Ask) -> object:
    """Do what is asked on a connection of SQLAlchemy, which may be the front of an asynchronous one."""
    if isinstance(ask, Do):
        if conn.dialect.is_async:
            if not conn.in_transaction():
                conn.begin()
            return ask.do(_SqlalchemyLink(conn))
        raw = conn.connection.driver_connection
        if not conn.in_transaction():  # else it would not know what it is to commit
            conn.begin()
        return _Sqlite(raw).carry(ask)
    _must_not_autocommit(conn)
    statement = sys.modules["sqlalchemy"].text(ask.sql.replace("%s", "(:batch)"))
    result = conn.execute(statement, {} if ask.text is None else {"batch": ask.text})
    return [] if ask.text is None else [tuple(row) for row in result]


class _SqlalchemyLink:
    """SQLAlchemy's front of an asynchronous SQLite connection."""

    def __init__(self, conn: Raw) -> None:
        self._conn = conn

    @property
    def in_transaction(self) -> bool:
        return bool(self._conn.connection.driver_connection.in_transaction)

    @property
    def autocommit(self) -> bool:
        return self._conn.connection.driver_connection.isolation_level is None

    def execute(self, sql: str, values: Any = ()) -> Any:  # Any: as for Link
        return self._conn.exec_driver_sql(sql, values or None)

    def executemany(self, sql: str, rows: Any) -> object:  # Any: likewise
        several = list(rows)
        return self._conn.exec_driver_sql(sql, several) if several else None


class _Sqlalchemy(_Blocking):
    def __init__(self, conn: Raw) -> None:
        self._conn = conn
        self.database: Database = _database_of(conn)

    @property
    def rings(self) -> bool:  # type: ignore[override]  # as above
        return _rings(self._conn)

    def look(self) -> None:
        """It begins a transaction by itself; see :func:`_must_not_autocommit`."""

    def carry(self, ask: Ask) -> object:
        conn = self._conn
        return _do(conn.connection() if hasattr(conn, "get_bind") else conn, ask)


class _AsyncSqlalchemy(_Awaited):
    def __init__(self, conn: Raw) -> None:
        self._conn = conn
        self.database: Database = _database_of(conn)

    @property
    def rings(self) -> bool:  # type: ignore[override]  # as above
        conn = self._conn
        return _rings(conn.sync_session if hasattr(conn, "sync_session") else conn.sync_connection)

    async def acarry(self, ask: Ask) -> object:
        conn = self._conn
        if hasattr(conn, "get_bind"):
            conn = await conn.connection()
        return await conn.run_sync(_do, ask)
