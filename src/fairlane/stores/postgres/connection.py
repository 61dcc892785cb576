"""Connections to PostgreSQL: the URL, how they are opened, and what its errors mean."""

from __future__ import annotations

import re
import select
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from functools import cache
from typing import Any, Final, NamedTuple
from urllib.parse import unquote

import psycopg
from psycopg.adapt import AdaptersMap, Dumper
from psycopg.conninfo import conninfo_to_dict
from psycopg.pq import TransactionStatus
from psycopg.types.numeric import Int8Dumper

from fairlane.errors import ConfigError, StoreBusy, StoreError, StoreFull
from fairlane.settings import without_password
from fairlane.store import Conflict
from fairlane.stores._queries import queries
from fairlane.stores.tables.ground import Values

CONNECT_S: Final = 10
BUSY_MS: Final = 10_000
"""How long a transaction waits for the gate."""
PLANS: Final = {
    "enable_seqscan": 0,
    "enable_bitmapscan": 0,
    "enable_mergejoin": 0,
    "jit": 0,
    "max_parallel_workers_per_gather": 0,
}
"""Settings of our own connections. Plans are kept: one made while a table is empty must be good when it is full, so
what has an index is found by it, in its order."""
IDLE_MS: Final = 15_000
"""How long one may stand still between two statements: a process that is stopped there holds the gate."""
QUIET_S: Final = 3
"""After how long without a word each end of a connection asks whether the other is there."""
ASK_S: Final = 2
"""How long it waits for an answer before it asks again."""
ASKS: Final = 3
GONE_MS: Final = (QUIET_S + ASKS * ASK_S) * 1_000
"""How long the other end may be silent. Below :data:`BUSY_MS`: whoever waits for the gate that a host held when it was
cut off gets it yet."""
MAX_SCHEMA: Final = 63
_SCHEMA: Final = re.compile(r"[a-z_][a-z0-9_]*")
_FULL: Final = frozenset({"53100", "58030"})  # disk full, I/O error
_BUSY: Final = frozenset({"55P03", "57014"})  # lock not available, a statement's time is over
_ENDED: Final = frozenset({"57P01", "57P02", "57P03", "57P05", "08000", "08003", "08006", "08P01"})
"""Shutdown, crash, idle for too long, no connection; the last is what PgBouncer says of all of them."""
_OF_POOLER: Final = "unsupported startup parameter"
_READ_ONLY: Final = "25006"
_CONFLICT: Final = frozenset({"40001", "40P01"})  # serialization failure, deadlock


class Address(NamedTuple):
    """Where a store is.

    Attributes:
        url: What libpq is given.
        schema: The schema that the tables are in.
        pooled: Whether a transaction pooler stands between: no prepared statements, no LISTEN.
    """

    url: str
    schema: str
    pooled: bool

    def __repr__(self) -> str:
        """Return it for people, who need not see a password."""
        return f"Address(url={without_password(self.url)!r}, schema={self.schema!r}, pooled={self.pooled})"


_OURS: Final = frozenset({"schema", "pooled"})
_UNIQUE: Final = "23505"  # of a lane, a dedup key: somebody else has made or taken it in the meantime


def address_of(url: str) -> Address:
    """Return what a ``postgresql:`` URL names; ``schema=`` and ``pooled=`` in it are ours, all else is libpq's.

    Raises:
        ConfigError: It is no such URL.

    Example:
        >>> address_of("postgresql://db.example/app?schema=jobs&pooled=yes&connect_timeout=3")
        Address(url='postgresql://db.example/app?connect_timeout=3', schema='jobs', pooled=True)
    """
    scheme, separator, _ = url.partition("://")
    if scheme not in {"postgresql", "postgres"} or not separator:
        raise ConfigError(f"{scheme!r} is not postgresql")  # the rest may hold a password
    place, _, query = url.partition("?")
    given = query.split("&") if query else []  # what is not ours stays as it is written: libpq has its own rules
    ours = {name: unquote(value) for name, _, value in (one.partition("=") for one in given) if name in _OURS}
    schema = ours.get("schema", "fairlane")
    if not _SCHEMA.fullmatch(schema) or len(schema) > MAX_SCHEMA or schema.startswith("pg_"):
        raise ConfigError(
            f"schema {schema!r} is not a name of lower-case letters, digits and _ of at most {MAX_SCHEMA} characters "
            "that begins with no digit and not with pg_"
        )
    pooled = ours.get("pooled", "no")
    if pooled not in {"yes", "no"}:
        raise ConfigError(f"pooled={pooled!r} is not one of yes, no")
    rest = "&".join(one for one in given if one.partition("=")[0] not in _OURS)
    return Address(place + ("?" + rest if rest else ""), schema, pooled == "yes")


class _Number(Int8Dumper):
    """Every number goes out as a bigint: a statement whose types change from call to call is prepared anew."""


class _Truth(Dumper):
    """Truth values are numbers in our tables, as on SQLite."""

    oid = Int8Dumper.oid

    def dump(self, obj: bool) -> bytes:
        """Return it as a number."""
        return b"1" if obj else b"0"


def _adapters() -> AdaptersMap:
    adapters = AdaptersMap(psycopg.adapters)
    adapters.register_dumper(int, _Number)
    adapters.register_dumper(bool, _Truth)
    return adapters


ADAPTERS: Final = _adapters()


def in_schema(sql: str, schema: str) -> bytes:
    """Return a statement for another schema than the one that the files name."""
    return (sql if schema == "fairlane" else re.sub(r"\bfairlane\.", f"{schema}.", sql)).encode()


class Texts(dict[str, bytes]):
    """The statements of one schema by name, each made when it is first asked for."""

    def __init__(self, schema: str) -> None:
        super().__init__()
        self._schema = schema

    def __missing__(self, name: str) -> bytes:
        """Make it."""
        text = self[name] = in_schema(queries("postgres")[name], self._schema)
        return text


@cache
def texts(schema: str) -> Mapping[str, bytes]:
    """Return the statements of a schema by name."""
    return Texts(schema)


class Statements:
    """A connection whose statements are called by the names of their files."""

    __slots__ = ("_sql", "raw")

    def __init__(self, raw: psycopg.Connection[Any], schema: str) -> None:
        self.raw = raw
        self._sql = texts(schema)

    def text(self, name: str) -> bytes:
        """Return the statement of that name."""
        return self._sql[name]

    def execute(self, name: str, values: Values = ()) -> psycopg.Cursor[Any]:  # Any: the database's own types
        """Run the statement of that name."""
        return self.raw.execute(self._sql[name], values)

    def executemany(self, name: str, rows: Iterable[Values]) -> None:
        """Run the statement of that name for each of the rows."""
        with self.raw.cursor() as cursor:
            cursor.executemany(self._sql[name], rows)


def watched(address: Address, **settings: int) -> dict[str, Any]:  # Any: what psycopg takes
    """Return arguments for libpq by which each end of a connection finds out that the other is gone.

    Without them a host that was cut off is believed in for two hours: by its server, which keeps the locks of its
    transactions, the gate among them, and by a process that waits for an answer. What the URL says goes before.

    Args:
        address: Where the store is. A pooler takes no settings of a session: its own must do what is asked for here.
        settings: More settings of the session.

    Example:
        >>> watched(Address("postgresql://db.example/app?keepalives_idle=60", "fairlane", pooled=True))
        {'keepalives_interval': 2, 'keepalives_count': 3, 'tcp_user_timeout': 9000, 'connect_timeout': 10,
         'application_name': 'fairlane'}
    """
    given = conninfo_to_dict(address.url)
    both = {
        "keepalives_idle": QUIET_S,
        "keepalives_interval": ASK_S,
        "keepalives_count": ASKS,
        "tcp_user_timeout": GONE_MS,
    }
    always = {**both, "connect_timeout": CONNECT_S, "application_name": "fairlane"}
    ours: dict[str, Any] = {name: value for name, value in always.items() if name not in given}
    if not address.pooled:
        its = {name if name.startswith("tcp") else f"tcp_{name}": value for name, value in both.items()} | settings
        ours["options"] = " ".join(
            [*(f"-c {name}={value}" for name, value in its.items()), str(given.get("options") or _usual_options())]
        )
    return ours


def _usual_options() -> str:
    """Return the options that libpq takes from ``PGOPTIONS`` or the file of ``PGSERVICE`` where nobody gives it any."""
    usual = {one.keyword: one.val for one in psycopg.pq.Conninfo.get_defaults()}
    return (usual.get(b"options") or b"").decode()


def connect(address: Address) -> psycopg.Connection[Any]:
    """Open a connection with our settings.

    Raises:
        ConfigError: A pooler answers, and the URL does not say so.
        StoreError: The server cannot be reached, or refuses.
    """
    with translated("connect to the database"):
        try:
            return psycopg.Connection[Any].connect(
                address.url,
                autocommit=True,
                client_encoding="utf8",
                prepare_threshold=None if address.pooled else 2,
                context=_Context(),
                **watched(address, lock_timeout=BUSY_MS, idle_in_transaction_session_timeout=IDLE_MS, **PLANS),
            )
        except psycopg.OperationalError as error:
            if not address.pooled and _OF_POOLER in str(error):
                raise ConfigError(f"a pooler answers: say pooled=yes in {without_password(address.url)!r}") from error
            raise


class _Context:
    """What psycopg takes adapters from."""

    adapters = ADAPTERS
    connection = None


def lost(error: BaseException) -> bool:
    """Return whether an error tells that the connection has ended, whatever else was to come of it."""
    code = error.sqlstate if isinstance(error, psycopg.OperationalError) else ""
    return code is None or code in _ENDED


def read_only(error: BaseException) -> bool:
    """Return whether an error, or its cause, tells that the server takes no changes: it is a standby by now, or full.

    The connection is of no use then: it stays so when the server takes changes again, or another one does.
    """
    return any(isinstance(one, psycopg.Error) and one.sqlstate == _READ_ONLY for one in (error, error.__cause__))


def ended(raw: psycopg.Connection[Any] | psycopg.AsyncConnection[Any]) -> bool:
    """Return whether a connection has ended while nobody used it, as far as this machine knows: nothing is sent.

    A server that was asked nothing says nothing but that it ends the connection.
    """
    if raw.closed:
        return True
    if raw.info.transaction_status != TransactionStatus.IDLE:
        return False
    unread = select.poll()
    unread.register(raw.fileno(), select.POLLIN)
    return bool(unread.poll(0))


def alive(db: Statements | None, address: Address) -> Statements:
    """Return a connection that has not ended: the one that there is, or a new one."""
    if db is not None and not ended(db.raw):
        return db
    if db is not None:
        db.raw.close()
    return Statements(connect(address), address.schema)


@contextmanager
def translated(doing: str) -> Generator[None]:
    """Turn PostgreSQL's errors into ours, with the cause chained."""
    try:
        yield
    except psycopg.Error as error:
        raise_translated(error, doing)


def raise_translated(error: BaseException, doing: str, *, only_ours: bool = False) -> None:
    """Raise our error for one of PostgreSQL's, with the cause chained; any other is raised as it is.

    Args:
        error: What was caught.
        doing: What the message says was being done.
        only_ours: Return instead when it is not PostgreSQL's: its own raise goes on.
    """
    if not isinstance(error, psycopg.Error):
        if only_ours:
            return
        raise error
    code = error.sqlstate or ""
    message = f"could not {doing}: {str(error).strip()} ({code or type(error).__name__})"
    if code in _BUSY:
        raise StoreBusy(message) from error
    met = code == _UNIQUE and (error.diag.table_name == "lane" or error.diag.constraint_name == "job_dedup")
    if code in _CONFLICT or met:
        raise Conflict(message) from error
    if code in _FULL:
        raise StoreFull(message) from error
    raise StoreError(message) from error
