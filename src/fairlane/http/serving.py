"""Running the HTTP surface with uvicorn: closed unless it may be open, patient with nobody, gone when asked to stop."""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
from types import FrameType
from typing import Any, Final, cast

import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.h11_impl import H11Protocol

from fairlane.app import Fairlane
from fairlane.errors import ConfigError
from fairlane.http.app import end_streams
from fairlane.http.options import is_loopback

log = logging.getLogger("fairlane.http")

HEAD_S: Final = 10.0
"""How long a connection may take to send the head of its first request."""
KEEP_ALIVE_S: Final = 15
MOST_CONNECTIONS: Final = 1_000
GRACE_S: Final = 10
MAX_HEAD_BYTES: Final = 32 * 1024


class Patient(H11Protocol):
    """Closes connections whose first request does not come: uvicorn itself would wait for ever (slowloris)."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as in uvicorn
        """Begin to wait for the first request."""
        super().connection_made(transport)
        self._begun = False
        self._head_timer = self.loop.call_later(HEAD_S, self._too_slow)

    def handle_events(self) -> None:
        """Note that a request has come."""
        super().handle_events()
        self._begun = self._begun or cast("object", self.cycle) is not None

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no more."""
        self._head_timer.cancel()
        super().connection_lost(exc)

    def _too_slow(self) -> None:
        if not self._begun and not self.transport.is_closing():
            self.transport.close()


class Server(uvicorn.Server):
    """Ends live streams before it waits for connections to end."""

    def __init__(self, config: uvicorn.Config, web: FastAPI) -> None:
        super().__init__(config)
        self._web = web

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop."""
        end_streams(self._web)
        await super().shutdown(sockets)


def check_host(app: Fairlane, host: str) -> None:
    """See that nobody but this machine reaches a server that has no token.

    Raises:
        ConfigError: The address can be reached from elsewhere, and no token is in force.
    """
    if is_loopback(host):
        return
    now_ms = app.clock.now_ms()
    if not any(token.valid(now_ms) for token in app.tokens.list()):
        raise ConfigError(
            f"{host} can be reached from other machines, and the store has no access token: make one with "
            "`fairlane token create NAME --role admin`, or listen to 127.0.0.1"
        )


def listening(host: str, port: int) -> socket.socket:
    """Return a socket that listens.

    Raises:
        ConfigError: The address is not there or not free.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio sends at once (TCP_NODELAY) only on sockets that say they are TCP; on others each answer takes 40 ms more
    sock = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((host, port))
        sock.listen(2048)
    except OSError as error:
        sock.close()
        raise ConfigError(f"cannot listen on {host} port {port}: {error.strerror or error}") from error
    sock.set_inheritable(False)
    return sock


def address_of(sock: socket.socket, root_path: str = "") -> str:
    """Return where a listening socket is reached, as people write it."""
    host, port = sock.getsockname()[:2]
    shown = f"[{host}]" if ":" in host else host
    return f"http://{shown}:{port}{root_path.rstrip('/')}/"


def make_server(web: FastAPI, *, log_level: str = "warning") -> Server:
    """Return the server of an app that :func:`fairlane.http.app.create_app` made."""
    config = uvicorn.Config(
        web,
        http=Patient,
        ws="none",
        lifespan="on",
        proxy_headers=False,  # who connects is who connects: nobody may say that he is at this machine
        server_header=False,
        access_log=False,
        log_config=None,
        log_level=log_level,
        limit_concurrency=MOST_CONNECTIONS,
        timeout_keep_alive=KEEP_ALIVE_S,
        timeout_graceful_shutdown=GRACE_S,
        h11_max_incomplete_event_size=MAX_HEAD_BYTES,
    )
    return Server(config, web)


def serve(web: FastAPI, sock: socket.socket, *, log_level: str = "warning") -> None:
    """Serve until SIGTERM or SIGINT; in the main thread.

    Raises:
        ConfigError: The app did not start; its log says why.
    """
    server = make_server(web, log_level=log_level)

    def stop(number: int, frame: FrameType | None) -> None:
        """Do nothing: uvicorn has stopped by then and gives the signal to whoever was there before it."""
        del number, frame

    before: dict[Any, Any] = {}
    for number in (signal.SIGTERM, signal.SIGINT):
        before[number] = signal.signal(number, stop)
    try:
        server.run(sockets=[sock])
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    if not server.started:
        raise ConfigError("the server did not start; the log says why")
