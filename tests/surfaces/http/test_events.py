"""``/v1/events``: news to those who listen, where they left off. The server is a real one."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # "importlib" mode finds no neighbours by itself

import httpx2
from http_rig import serving

import fairlane as fl
from fairlane.http import events
from fairlane.http.app import create_app
from fairlane.http.options import HttpOptions
from fairlane.http.serving import Server, address_of, listening, make_server


class Running:
    """A server in a thread of its own."""

    def __init__(self, app: fl.Fairlane) -> None:
        self.app = app
        web = create_app(app, options=HttpOptions(open_on_loopback=True, maintenance=False))
        self.sock = listening("127.0.0.1", 0)
        self.url = address_of(self.sock).rstrip("/")
        self.server: Server = make_server(web)
        self.server.install_signal_handlers = lambda: None  # type: ignore[method-assign]
        self.thread = threading.Thread(target=self.server.run, kwargs={"sockets": [self.sock]})
        self.thread.start()

    def stop(self) -> None:
        self.server.should_exit = True
        self.thread.join(15)
        assert not self.thread.is_alive()


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    with fl.Fairlane(f"sqlite:///{tmp_path}/jobs.db") as app:
        made = Running(app)
        try:
            yield made
        finally:
            made.stop()


def heard(lines: Iterator[str]) -> dict[str, str]:
    """Return the next event of a stream."""
    event: dict[str, str] = {}
    for line in lines:
        if line.startswith(":"):
            event["comment"] = line
        elif line:
            name, _, value = line.partition(": ")
            event[name] = value
        elif event:
            return event
    return event


def listen(running: Running, **headers: str) -> Any:
    return httpx2.stream("GET", f"{running.url}/v1/events", headers=headers, timeout=15)


def test_changes_are_told_also_of_other_processes(running):
    with listen(running) as stream:
        lines = stream.iter_lines()
        assert stream.headers["content-type"].startswith("text/event-stream")
        assert heard(lines)["event"] == "hello"
        running.app.enqueue("a")
        told = heard(lines)
        assert (told["event"], told["data"]) == ("change", '{"news": ["work"]}')
        with fl.Fairlane(running.app.url) as other:  # as another process does
            other.enqueue("b")
        assert heard(lines)["event"] == "change"


def test_a_listener_goes_on_where_it_left_off(running):
    with listen(running) as stream:
        first = heard(stream.iter_lines())
    running.app.enqueue("a")
    running.app.claim().ack()
    with listen(running, **{"Last-Event-ID": first["id"]}) as stream:
        lines = stream.iter_lines()
        assert heard(lines)["event"] == "hello"
        told: set[str] = set()
        while "end" not in str(told):
            told.add(heard(lines)["data"])
    with listen(running, **{"Last-Event-ID": "other-7"}) as stream:
        assert heard(stream.iter_lines())["event"] == "reset"


def test_a_server_that_stops_ends_its_streams(running):
    with listen(running) as stream:
        lines = stream.iter_lines()
        heard(lines)
        running.stop()
        assert heard(lines) == {}


def test_a_quiet_stream_says_that_it_lives_until_its_token_ends(running, monkeypatch):
    monkeypatch.setattr(events, "BEAT_S", 0.02)
    made = running.app.tokens.create("t")
    with listen(running, Authorization=f"Bearer {made.token}") as stream:
        lines = stream.iter_lines()
        heard(lines)
        assert heard(lines)["comment"].startswith(":")
        running.app.tokens.revoke(made.record.id)
        while heard(lines):
            pass


def test_there_are_only_so_many_listeners():
    with serving() as web:
        web.client.app.state.hub.listeners = events.MOST_LISTENERS
        assert web("GET", "/v1/events", code=503)["code"] == "overloaded"


def test_a_connection_that_sends_nothing_is_closed(running, monkeypatch):
    """Slowloris: a head that never ends, and a body that never comes."""
    import socket

    from fairlane.http import serving as module

    monkeypatch.setattr(module, "HEAD_S", 0.05)
    host, port = running.sock.getsockname()[:2]
    with socket.create_connection((host, port), timeout=15) as slow:
        slow.sendall(b"GET /v1/jobs HTTP/1.1\r\nHost: localh")
        assert slow.recv(1000) == b""
    assert httpx2.get(f"{running.url}/healthz").status_code == 200


def test_a_body_that_does_not_come(tmp_path):
    import socket

    with fl.Fairlane(f"sqlite:///{tmp_path}/jobs.db") as app:
        web = create_app(app, options=HttpOptions(open_on_loopback=True, maintenance=False, body_timeout=0.05))
        sock = listening("127.0.0.1", 0)
        server = make_server(web)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [sock]})
        thread.start()
        try:
            with socket.create_connection(sock.getsockname()[:2], timeout=15) as slow:
                head = b"POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                slow.sendall(head + b"Content-Length: 100\r\n\r\n{")
                assert b"408" in slow.recv(1000).partition(b"\r\n")[0]
        finally:
            server.should_exit = True
            thread.join(15)
