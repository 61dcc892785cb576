"""A PgBouncer of the tests' own, in transaction mode, before a server."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path
from typing import Final

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict
from tests.pg import Server, until

FOUND: Final = shutil.which("pgbouncer", path=f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/usr/local/sbin")
needed: Final = pytest.mark.skipif(FOUND is None, reason="there is no program pgbouncer (Debian's package has it)")

# What docs/guides/postgres.md recommends, and what tests need to do without passwords.
SETTINGS: Final = """\
[databases]
* = host={server} port={port} user=postgres

[pgbouncer]
pool_mode = transaction
default_pool_size = {size}
max_client_conn = 500
listen_addr =
listen_port = {port}
unix_socket_dir = {folder}
auth_type = any
"""


class PgBouncer:
    """Stands before a server until it is closed.

    Args:
        server: The server.
        size: How many connections to a database it shares among its clients.
        host: Where the server is, when that is not known to itself: behind a proxy.
    """

    def __init__(self, server: Server, size: int, host: str | Path = "") -> None:
        parts = conninfo_to_dict(server.url)
        self._port = int(str(parts.get("port", 5432)))
        ((data,),) = server.run("SHOW data_directory")
        self._user = Path(data).owner() if os.geteuid() == 0 else None  # who may get at the server's socket
        self.folder = Path(tempfile.mkdtemp(prefix="fairlane-pgbouncer-"))
        if self._user is not None:
            shutil.chown(self.folder, self._user)
        settings = SETTINGS.format(server=host or parts["host"], port=self._port, size=size, folder=self.folder)
        self._settings = self.folder / "pgbouncer.ini"
        self._settings.write_text(settings)
        self._settings.chmod(0o644)
        self._log = self.folder / "log"
        self.start()

    def start(self) -> None:
        """Start it, and wait until it answers."""
        assert FOUND is not None
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [FOUND, str(self._settings)], user=self._user, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        until(self._answers, "an answer of pgbouncer")

    def _answers(self) -> bool:
        assert self._process.poll() is None, self._log.read_text()
        try:
            psycopg.connect(self.url_of("pgbouncer"), autocommit=True, prepare_threshold=None).close()
        except psycopg.OperationalError:
            return False
        return True

    def stop(self, how: signal.Signals = signal.SIGTERM) -> None:
        """Stop it, whatever its clients are doing."""
        self._process.send_signal(how)
        self._process.wait()

    def url_of(self, database: str) -> str:
        """Return the URL of a database behind it, for a client of any kind."""
        return f"postgresql://postgres@/{database}?host={self.folder}&port={self._port}"

    def pooled(self, direct: str) -> str:
        """Return the URL of a store behind it whose database has another URL."""
        return f"{self.url_of(str(conninfo_to_dict(direct)['dbname']))}&pooled=yes"

    def close(self) -> None:
        """Stop it, and remove what it needed."""
        if self._process.poll() is None:
            self.stop()
        shutil.rmtree(self.folder)
