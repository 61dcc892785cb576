"""What the tests of the HTTP API share: an app on a store in memory and a clock of its own, and callers of it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

from starlette.testclient import TestClient

import fairlane as fl
from fairlane.http.app import create_app
from fairlane.http.options import HttpOptions
from fairlane.testing import ManualClock

NIL = "0198f0de-0000-7000-8000-000000000001"
LOOPBACK = ("127.0.0.1", 50_000)
ELSEWHERE = ("203.0.113.9", 50_000)


@dataclass
class Web:
    """A server's app, and somebody who calls it."""

    app: fl.Fairlane
    clock: ManualClock
    client: TestClient
    headers: dict[str, str] = field(default_factory=dict)

    def __call__(
        self, method: str, path: str, body: object = None, *, code: int | None = None, **headers: str | None
    ) -> Any:
        """Send a request, hold it to its status, and return its JSON; ``raw`` returns the response."""
        response = self.raw(method, path, body, **headers)
        expected = {"GET": 200, "POST": 200, "PUT": 200, "DELETE": 204}[method] if code is None else code
        assert response.status_code == expected, (response.status_code, response.text)
        assert "x-trace-id" in response.headers
        if response.status_code == 204 or not response.headers["content-type"].startswith("application/"):
            return response.text
        told = response.json()
        if response.status_code >= 400:
            hold_to_problem(response.status_code, response.headers, told, path)
        return told

    def raw(self, method: str, path: str, body: object = None, **headers: str | None) -> Any:
        """Send a request and return the response."""
        sent = self.headers | {name.replace("_", "-"): value for name, value in headers.items() if value is not None}
        left_out = {name.replace("_", "-").lower() for name, value in headers.items() if value is None}
        sent = {name: value for name, value in sent.items() if name.lower() not in left_out}
        content = None
        if body is not None:
            content = body if isinstance(body, bytes) else json.dumps(body).encode()
            if not any(name.lower() == "content-type" for name in sent) and "content-type" not in left_out:
                sent["content-type"] = "application/json"
        return self.client.request(method, path, content=content, headers=sent, follow_redirects=False)

    def as_token(self, role: str, tenant: str | None = None) -> Web:
        """Return a caller with a fresh token."""
        made = self.app.tokens.create(f"{role}s", role=role, tenant=tenant)  # type: ignore[arg-type]
        return Web(self.app, self.clock, self.client, {"Authorization": f"Bearer {made.token}"})

    def unknown(self) -> Web:
        """Return a caller without a token."""
        return Web(self.app, self.clock, self.client)

    def put(self, task: str = "work", **more: Any) -> str:
        """Store a job and return its id."""
        return str(self.app.enqueue(task, more.pop("args", {}), **more).id)

    def die(self, *, task: str = "work", **more: Any) -> str:
        """Store a job and let it die; return its id."""
        job_id = self.put(task, **more)
        claim = self.app.claim()
        assert claim is not None
        assert str(claim.id) == job_id
        claim.dead("bad")
        return job_id

    def rows(self) -> dict[str, Any]:
        """Return everything that is stored of jobs, rules, objectives and operations, to see that nothing changed."""

        def look(store: Any, now_ms: int) -> dict[str, Any]:
            del now_ms
            tables = ("job", "rule", "objective", "operation", "token", "setting", "schedule", "request")
            return {name: store._raw.execute(f"SELECT * FROM {name}").fetchall() for name in tables}

        return self.app.owner.call(look)


def hold_to_problem(status: int, headers: Mapping[str, str], told: Mapping[str, Any], path: str) -> None:
    """Hold an error to its one shape."""
    if "success" in told:
        assert told["success"] is False
        assert isinstance(told["message"], str)
        return
    assert headers["content-type"] == "application/problem+json", path
    assert told["status"] == status
    assert told["type"] == f"urn:fairlane:problem:{told['code']}"
    assert told["title"]
    assert told["detail"]
    assert unquote(told["instance"]) == unquote(path.partition("?")[0])
    assert ("retry_after" in told) == ("retry-after" in headers)


@contextmanager
def serving(client: tuple[str, int] = LOOPBACK, *, root_path: str = "", **options: Any) -> Iterator[Web]:
    """Give a caller of a fresh app, who may do everything while there is no token."""
    clock = ManualClock()
    options.setdefault("open_on_loopback", True)
    options.setdefault("maintenance", False)
    dashboard = options.pop("dashboard", True)
    with fl.Fairlane("sqlite://", clock=clock) as app:
        web = create_app(app, options=HttpOptions(**options), root_path=root_path, dashboard=dashboard)
        with TestClient(web, base_url="http://localhost", client=client) as caller:
            yield Web(app, clock, caller)
