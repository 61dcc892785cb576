"""A proxy in front of a server that cuts a connection in the instant after a commit: done, and nobody is told.

A COMMIT, or a statement that stores new jobs and commits itself.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from pathlib import Path

PORT = 5432
ENQUEUE = b"WITH look AS MATERIALIZED"
"""How the statements begin that store new jobs at once."""


class Proxy:
    """Passes connections on; :meth:`cut_next_commit` arms it.

    Args:
        server: The folder of the server's socket.
        folder: Where its own socket is made.
        port: The server's port.
    """

    def __init__(self, server: str, folder: Path, port: int = PORT) -> None:
        self._server = f"{server}/.s.PGSQL.{port}"
        self._listening = socket.socket(socket.AF_UNIX)
        self._listening.bind(f"{folder}/.s.PGSQL.{PORT}")
        self._listening.listen()
        self._left = 0
        self.cut = 0
        self.accepts = True
        self._open: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def cut_next_commit(self, times: int = 1) -> None:
        """Let the next commits through and keep their answers."""
        self._left, self.cut = times, 0

    def close(self) -> None:
        """Close everything."""
        self._listening.close()
        _end(*self._open)
        for one in self._open:
            one.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listening.accept()
            except OSError:
                return
            if not self.accepts:
                client.close()
                continue
            server = socket.socket(socket.AF_UNIX)
            server.connect(self._server)
            self._open += [client, server]
            threading.Thread(target=self._pass_on, args=(client, server), daemon=True).start()

    def _pass_on(self, client: socket.socket, server: socket.socket) -> None:
        """Pass on what the client says; what the server says goes on in a thread of its own."""
        commits: set[bytes] = set()  # names of prepared statements
        muted = threading.Event()
        threading.Thread(target=self._answer, args=(server, client, muted), daemon=True).start()
        reading = client.makefile("rb")
        with contextlib.suppress(OSError, struct.error):
            size = reading.read(4)  # of the first message, which has no kind
            server.sendall(size + reading.read(struct.unpack("!i", size)[0] - 4))
            committing = False
            while kind := reading.read(1):
                size = reading.read(4)
                body = reading.read(struct.unpack("!i", size)[0] - 4)
                if kind == b"P":
                    name, sql = body.split(b"\0")[:2]
                    (commits.add if sql == b"COMMIT" or sql.startswith(ENQUEUE) else commits.discard)(name)
                committing |= kind == b"B" and body.split(b"\0")[1] in commits
                committing |= kind == b"Q" and body == b"COMMIT\0"
                if kind in b"SQ":
                    if committing and self._left:
                        self._left -= 1
                        muted.set()
                    committing = False
                server.sendall(kind + size + body)
        _end(client, server)

    def _answer(self, server: socket.socket, client: socket.socket, muted: threading.Event) -> None:
        told = b""
        with contextlib.suppress(OSError):
            while part := server.recv(65_536):
                if not muted.is_set():
                    client.sendall(part)
                    continue
                told = (told + part)[-6:]
                if told == IDLE:  # it has committed
                    self.cut += 1
                    break
        _end(client, server)


IDLE = b"Z\0\0\0\5I"
"""How a server says that it is ready, and in no transaction."""


def _end(*sockets: socket.socket) -> None:
    for one in sockets:
        with contextlib.suppress(OSError):
            one.shutdown(socket.SHUT_RDWR)
