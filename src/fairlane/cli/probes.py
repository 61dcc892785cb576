"""What an orchestrator asks a worker process: whether it lives, and whether it works."""

from __future__ import annotations

import json
import socket
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final, Self

from fairlane.errors import ConfigError
from fairlane.worker import Worker

ASK_S: Final = 5.0
"""Longest time that a client may take to ask."""
POLL_S: Final = 0.1


class Probes:
    """A small HTTP server beside a worker: ``/healthz`` and ``/readyz``, by GET and HEAD. It changes nothing.

    Use it with ``with``; leaving it twice is safe. It listens on all addresses, for probes come from outside.

    Args:
        worker: The worker that is asked about.
        port: Where to listen; 0: any that is free.

    Attributes:
        port: Where it listens.

    Raises:
        ConfigError: It cannot listen there.
    """

    def __init__(self, worker: Worker, port: int) -> None:
        class Handler(BaseHTTPRequestHandler):
            timeout = ASK_S

            def do_GET(self) -> None:
                status, told = answer_to(self.path.partition("?")[0], worker)
                body = json.dumps(told).encode() + b"\n"
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(body)

            do_HEAD = do_GET

            def log_message(self, format: str, *args: object) -> None:
                """Say nothing: probes come every few seconds."""

        both = socket.has_dualstack_ipv6()
        try:
            listening = socket.create_server(
                ("", port), family=socket.AF_INET6 if both else socket.AF_INET, dualstack_ipv6=both
            )
        except OSError as error:
            raise ConfigError(f"cannot listen for probes at port {port}: {error.strerror}") from error
        self.port: int = listening.getsockname()[1]
        self._server = ThreadingHTTPServer(("", self.port), Handler, bind_and_activate=False)
        self._server.socket.close()
        self._server.socket = listening
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(POLL_S,), name="fairlane-probes", daemon=True
        )

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def answer_to(path: str, worker: Worker) -> tuple[int, dict[str, str]]:
    """Return the status and the body for a path.

    ``/healthz`` is 200 as long as the process answers at all: a worker whose store is away tries again by itself, and a
    restart would help nobody. ``/readyz`` is 503 until it claims jobs, and while its store fails.
    """
    if path == "/healthz":
        return 200, {"status": "ok"}
    if path == "/readyz":
        return (200, {"status": "ready"}) if worker.healthy else (503, {"status": "not ready"})
    return 404, {"status": "there are /healthz and /readyz"}
