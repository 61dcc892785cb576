"""The HTTP API and the dashboard over a PostgreSQL store: routes, pages, live events; `fairlane server` and `dev`."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from starlette.testclient import TestClient

sys.path.insert(0, str(Path(__file__).parent))  # "importlib" mode finds no neighbours by itself
sys.path.insert(0, str(Path(__file__).parent / "dashboard"))

from cli_rig import Cli, end
from dash_rig import HERE, PAGES, World, crawl, fill

import fairlane as fl
from fairlane.http.app import create_app
from fairlane.http.options import HttpOptions
from fairlane.http.serving import address_of, listening, make_server
from fairlane.testing.clock import ManualClock

pytestmark = [pytest.mark.postgres, pytest.mark.timeout(60)]


SECRET = "s3same"


@pytest.fixture
def world(database: str) -> Iterator[World]:
    """A server on a store with something of everything in it."""
    clock = ManualClock()
    with fl.Fairlane(database.replace("@", f":{SECRET}@", 1), clock=clock) as app:  # which this server does not ask for
        fill(app, clock)
        web = create_app(app, options=HttpOptions(open_on_loopback=True, maintenance=False, rate=None))
        with TestClient(web, client=HERE, base_url="http://127.0.0.1") as client:
            yield World(app, clock, client, web.state.dashboard)


def asked(world: World, method: str, path: str, body: object = None, *, code: int = 200) -> Any:
    answer = world.client.request(method, path, json=body)
    assert answer.status_code == code, (path, answer.status_code, answer.text)
    return answer.json() if answer.headers.get("content-type", "").startswith("application/json") else answer.text


def test_every_page_is_there(world: World):
    for path in PAGES:
        assert "</html>" in world.get(path), path
    walked = {path: text for path, _, text in crawl(world)}
    assert len(walked) > 40
    assert any(path.startswith("/jobs/") for path in walked)
    assert ":***@" in walked["/"], "the store is named"
    assert not [path for path, text in walked.items() if SECRET in text]


def test_forms_change_the_store(world: World):
    job = world.app.enqueue("x", tenant="acme", tier="low")
    assert str(job.id) in world.get(f"/jobs/{job.id}")
    admin = world.as_("admin")
    assert "is high now" in admin.follow(admin.post(f"/jobs/{job.id}", action="boost", tier="high", reason="they pay"))
    assert job.refresh().tier is fl.Tier.HIGH


def lease_of(lease: dict[str, Any]) -> str:
    return f"/v1/leases/{lease['id']}"


def test_the_main_routes(world: World):
    made = asked(world, "POST", "/v1/jobs", {"task": "send", "args": {"to": "x"}, "tenant": "acme"}, code=201)
    job = f"/v1/jobs/{made['id']}"
    assert asked(world, "GET", job)["state"] == "available"
    assert asked(world, "GET", f"{job}/explain")["state"] == "available"
    assert asked(world, "GET", f"{job}/attempts")["items"] == []
    asked(world, "POST", "/v1/jobs:batch", {"jobs": [{"task": "send"}, {"task": "send", "delay": 60}]}, code=201)
    page = asked(world, "GET", "/v1/jobs?limit=3")
    assert len(page["items"]) == 3
    assert asked(world, "GET", f"/v1/jobs?limit=3&cursor={page['next_cursor']}")["items"][0] not in page["items"]
    asked(world, "POST", f"{job}/boost", {"tier": "critical"})
    asked(world, "POST", f"{job}/expedite", {"reason": "now"})
    (lease,) = asked(world, "POST", "/v1/leases", {"queues": ["default"], "lease": 30})["items"]
    assert lease["id"] == made["id"]
    held = {"fence": lease["fence"]}
    asked(world, "POST", f"{lease_of(lease)}/heartbeat", held)
    asked(world, "POST", f"{lease_of(lease)}/ack", held | {"result": 5}, code=204)
    assert asked(world, "GET", f"{job}/result")["result"] == 5
    asked(world, "POST", f"{job}/cancel", code=409)
    asked(world, "GET", "/v1/jobs/0198f0de-0000-7000-8000-000000000001", code=404)


def test_rules_and_figures(world: World):
    asked(world, "PUT", "/v1/tenants/acme", {"weight": 4})
    assert asked(world, "GET", "/v1/tenants/acme")["weight"] == 4
    asked(world, "PUT", "/v1/queues/mail/pause", {"reason": "why"})
    asked(world, "DELETE", "/v1/queues/mail/pause", code=204)
    for path in ("depth", "waits"):
        assert asked(world, "GET", f"/v1/stats/{path}")["items"]
    for path in ("inversions", "incidents", "dead/groups", "workers", "audit", "tokens", "settings", "tiers", "bulk"):
        assert SECRET not in str(asked(world, "GET", f"/v1/{path}"))
    assert 'fairlane_build_info{backend="postgresql"' in asked(world, "GET", "/metrics")
    assert asked(world, "GET", "/readyz") == {"status": "ready"}


class Running:
    """A server in a thread of its own: live events need a real one."""

    def __init__(self, app: fl.Fairlane) -> None:
        self._sock = listening("127.0.0.1", 0)
        self.url = address_of(self._sock).rstrip("/")
        self._server = make_server(create_app(app, options=HttpOptions(open_on_loopback=True, maintenance=False)))
        self._server.install_signal_handlers = lambda: None  # type: ignore[method-assign]
        self._thread = threading.Thread(target=self._server.run, kwargs={"sockets": [self._sock]})
        self._thread.start()

    def stop(self) -> None:
        self._server.should_exit = True
        self._thread.join(15)
        assert not self._thread.is_alive()


def event(lines: Iterator[str]) -> dict[str, str]:
    """Return the next event of a stream."""
    told: dict[str, str] = {}
    for line in lines:
        if line and not line.startswith(":"):
            name, _, value = line.partition(": ")
            told[name] = value
        elif told:
            return told
    return told


def test_changes_of_other_processes_are_told(database: str):
    with fl.Fairlane(database) as app, fl.Fairlane(database) as other:
        running = Running(app)
        try:
            with httpx2.stream("GET", f"{running.url}/v1/events", timeout=15) as stream:
                lines = stream.iter_lines()
                assert event(lines)["event"] == "hello"
                other.enqueue("x")
                told = event(lines)
                assert (told["event"], told["data"]) == ("change", '{"news": ["work"]}')
        finally:
            running.stop()


def test_a_server_process_and_a_worker_beside_it(database: str, tmp_path: Path):
    """`fairlane dev` starts both; a job that comes over HTTP runs; a signal ends all."""
    cli = Cli(tmp_path)
    cli.url = database
    with listening("127.0.0.1", 0) as free:
        port = free.getsockname()[1]
    process = cli.start("dev", "tasksapp:app", "--port", port)
    pause = threading.Event()
    for _ in range(500):
        try:
            made = httpx2.post(f"http://127.0.0.1:{port}/v1/jobs", json={"task": "send", "args": {"to": "x"}}).json()
            break
        except httpx2.TransportError:
            pause.wait(0.03)
    told = httpx2.get(f"http://127.0.0.1:{port}/v1/jobs/{made['id']}/result?wait=15", timeout=20).json()
    assert told["result"] == "sent to x"
    end(process, sig=signal.SIGTERM)
    with cli.app() as app:
        assert app.owner.read(lambda store, _: store.workers()) == []


def test_a_server_needs_a_schema(empty: str, tmp_path: Path):
    cli = Cli(tmp_path)
    cli.url = empty
    assert "run `fairlane migrate`" in cli.process("server", "--port", "0", code=1)[1]
