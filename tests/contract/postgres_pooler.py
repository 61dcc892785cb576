"""A transaction pooler: each transaction of a client goes to another connection of the server than the one before.

What poolers in this mode do not keep is not kept here: settings of a session, prepared statements, LISTEN, locks.
"""

from __future__ import annotations

import contextlib
import queue
import socket
import struct
import threading
from pathlib import Path
from typing import BinaryIO

PORT = 5432
IDLE = b"I"


class Pooler:
    """Stands before a server until it is closed.

    Args:
        server: The folder of the server's socket.
        port: The server's port.
        folder: Where its own socket is made.
        size: How many connections to the server it shares among its clients.
    """

    def __init__(self, server: str, port: int, folder: Path, size: int = 24) -> None:
        self._server = f"{server}/.s.PGSQL.{port}"
        self._size = size
        self._pools: dict[bytes, queue.Queue[Backend]] = {}
        self._greetings: dict[bytes, bytes] = {}
        self._lock = threading.Lock()
        self._listening = socket.socket(socket.AF_UNIX)
        self._listening.bind(f"{folder}/.s.PGSQL.{PORT}")
        self._listening.listen(64)
        self._open: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self._backends: list[Backend] = []
        self.transactions = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """Close everything."""
        for one in (self._listening, *self._open):
            _close(one)
        for thread in self._threads:
            thread.join()
        for backend in self._backends:
            backend.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listening.accept()
            except OSError:
                return
            self._open.append(client)
            self._threads.append(threading.Thread(target=self._serve, args=(client,), daemon=True))
            self._threads[-1].start()

    def _pool(self, startup: bytes) -> queue.Queue[Backend]:
        with self._lock:
            if startup not in self._pools:
                pool: queue.Queue[Backend] = queue.Queue()
                for _ in range(self._size):
                    self._backends.append(Backend(self._server, startup))
                    pool.put(self._backends[-1])
                self._pools[startup] = pool
                self._greetings[startup] = self._backends[-1].greeting
            return self._pools[startup]

    def _serve(self, client: socket.socket) -> None:
        with contextlib.suppress(OSError, EOFError), client.makefile("rb") as reading:
            startup = _body(reading)
            if startup is None or struct.unpack("!i", startup[:4])[0] >> 16 != 3:
                return  # a request to cancel
            pool = self._pool(startup)
            client.sendall(self._greetings[startup])
            while kind := reading.read(1):
                if kind == b"X":
                    return
                backend = pool.get()
                self.transactions += 1
                try:
                    backend.transaction(kind, reading, client)
                finally:
                    backend.end()
                    pool.put(backend)
        _close(client)


class Backend:
    """A connection to the server, made anew when a client leaves it inside a transaction."""

    def __init__(self, server: str, startup: bytes) -> None:
        self._path, self._startup = server, startup
        self._thread: threading.Thread | None = None
        self._turn = threading.Condition()
        self._over = threading.Event()
        self._asked = 0
        self._copying = self._synced = False
        self._connect()

    def _connect(self) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.connect(self._path)
        self._reading = self._socket.makefile("rb")
        self._socket.sendall(struct.pack("!i", len(self._startup) + 4) + self._startup)
        self.greeting = b""
        self.state = b""
        while self.state != IDLE:
            self.greeting += self._answer()

    def _answer(self) -> bytes:
        kind = self._reading.read(1)
        body = _body(self._reading)
        if not kind or body is None:
            raise EOFError
        if kind == b"Z":
            self.state = body
        return kind + struct.pack("!i", len(body) + 4) + body

    def transaction(self, kind: bytes, reading: BinaryIO, client: socket.socket) -> None:
        """Pass a transaction on: from a client's first word until the server says that it is in none."""
        self.state = b""
        self._over.clear()
        self._asked, self._copying, self._synced = 0, False, False
        thread = self._thread = threading.Thread(target=self._answers, args=(client,), daemon=True)
        thread.start()
        while True:
            body = _body(reading)
            if body is None:
                raise EOFError
            asks = kind in b"QS" and not (self._copying and kind == b"S")
            with self._turn:
                self._copying = self._copying and kind not in b"cf"
                self._asked += asks
                self._synced = kind == b"S" if asks else self._synced
            self._socket.sendall(kind + struct.pack("!i", len(body) + 4) + body)
            if asks or kind in b"cf":
                with self._turn:  # then the client has the word, or it is over
                    self._turn.wait_for(lambda: self._asked == 0 or self._copying or self._over.is_set())
                if self._over.is_set():
                    thread.join()
                    return
            kind = reading.read(1)
            if not kind:
                raise EOFError

    def _answers(self, client: socket.socket) -> None:
        with contextlib.suppress(OSError, EOFError):
            while not self._over.is_set():
                part = self._answer()
                client.sendall(part)
                with self._turn:
                    if part[:1] == b"G":  # the server does not heed the word that came with the question
                        self._copying = True
                        self._asked -= self._synced
                    if part[:1] == b"Z":
                        self._asked -= 1
                        if self._asked == 0 and self.state == IDLE:
                            self._over.set()
                    self._turn.notify_all()
        with self._turn:
            self._over.set()
            self._turn.notify_all()

    def end(self) -> None:
        """Make it fit for another client."""
        if self.state == IDLE:
            self._socket.sendall(b"Q" + struct.pack("!i", 16) + b"DISCARD ALL\0")
            self.state = b""
            while self.state != IDLE:
                self._answer()
            return
        self.close()
        self._connect()

    def close(self) -> None:
        """Let go of the server."""
        _close(self._socket)
        if self._thread is not None:
            self._thread.join()
        self._reading.close()


def _close(one: socket.socket) -> None:
    with contextlib.suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)
    one.close()


def _body(reading: BinaryIO) -> bytes | None:
    size = reading.read(4)
    return reading.read(struct.unpack("!i", size)[0] - 4) if size else None
