"""Nobody gets further than they may: every route is walked, so that a new one cannot be forgotten. B44, T-M4."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.routing import iter_route_contexts

sys.path.insert(0, str(Path(__file__).parent))  # "importlib" mode finds no neighbours by itself

from http_rig import ELSEWHERE, NIL, Web, serving

from fairlane.http.guard import SAFE

FREE = {"/login", "/logout"}
"""Changes that need no role: they are about one's own session."""
ASKS_ONLY = {"/v1/simulations"}
"""POST because what is asked is long; nothing changes."""


def routes_of(web: Any) -> list[tuple[str, str]]:
    """Return every (method, path) of an app, however deep its routers are nested."""
    return [(method, route.path) for route in iter_route_contexts(web.routes) for method in route.methods or ()]


def filled(path: str) -> str:
    """Return a route's path with something in its parameters."""
    for name, value in (("{name:path}", "acme"), ("{tier}", "high"), ("{number}", "7")):
        path = path.replace(name, value)
    while "{" in path:
        begin, end = path.index("{"), path.index("}")
        path = path[:begin] + NIL + path[end + 1 :]
    return path


BODIES: dict[str, object] = {
    "/v1/jobs": {"task": "x"},
    "/v1/jobs:batch": {"jobs": [{"task": "x"}]},
    "/v1/leases": {},
    "/v1/bulk": {"filter": {"queue": "q"}, "action": "cancel"},
    "/v1/tokens": {"name": "x"},
    "/v1/tiers/{tier}": {"objective": 5},
    "/v1/jobs/{job_id}/boost": {"tier": "high"},
    **{f"/v1/leases/{{job_id}}/{verb}": {"fence": 1} for verb in ("heartbeat", "ack", "nack", "save")},
}


@pytest.fixture
def web() -> Iterator[Web]:
    with serving(orchestrator="legacy", orchestrator_admin=True) as web:
        yield web


def changing(web: Web) -> list[tuple[str, str]]:
    found = [(method, path) for method, path in routes_of(web.client.app) if method not in SAFE]
    found += [("GET", path) for method, path in routes_of(web.client.app) if method == "GET" and legacy(path)]
    assert len(found) > 45  # a walk that finds nothing would prove nothing
    return sorted(set(found) - {(method, path) for method, path in found if path in FREE})


def legacy(path: str) -> bool:
    return not path.startswith("/v1/") and path.rpartition("/")[2] in {"process", "verify", "retry"}


def test_walk_finds_what_the_specification_names(web):
    paths = {path for _, path in routes_of(web.client.app)}
    for path in (
        "/v1/jobs", "/v1/jobs:batch", "/v1/jobs/{job_id}/expedite", "/v1/leases", "/v1/leases/{job_id}/ack",
        "/v1/queues/{name:path}/pause", "/v1/tiers/{tier}", "/v1/bulk", "/v1/dead/groups/{fingerprint}/replay",
        "/v1/events", "/healthz", "/readyz", "/metrics", "/jobs/{job_id}/process", "/api/v1/jobs/{job_id}/verify",
        "/admin/jobs/retry/failed",
    ):  # fmt: skip
        assert path in paths


def test_no_change_without_a_token(web):
    web.as_token("admin")  # from now on it is closed, on this machine too
    before = web.rows()
    for method, path in changing(web):
        response = web.unknown().raw(method, filled(path), BODIES.get(path, {}))
        assert response.status_code == 401, (method, path, response.text)
        assert response.headers["www-authenticate"].startswith("Bearer")
    assert web.rows() == before


def test_nothing_is_shown_without_a_token(web):
    web.as_token("admin")
    public = {"/healthz", "/readyz", "/health", "/login"}
    for method, path in routes_of(web.client.app):
        if method == "GET" and path not in public and not path.endswith("/static/{name}"):
            response = web.unknown().raw(method, filled(path))
            assert response.status_code == 401, (path, response.text)


@pytest.mark.parametrize("how", ["invented", "malformed", "revoked", "expired", "basic"])
def test_a_token_that_is_not_in_force_opens_nothing(web, how):
    made = web.app.tokens.create("t", role="admin", expires_in=60)
    token = {
        "invented": made.token[:-4] + "AAAA",
        "malformed": "flt_" + "x" * 5000,
        "basic": "dXNlcjpwYXNz",
    }.get(how, made.token)
    scheme = "Basic" if how == "basic" else "Bearer"
    if how == "revoked":
        web.app.tokens.revoke(made.record.id)
    if how == "expired":
        web.clock.advance(seconds=61)
    before = web.rows()
    for method, path in changing(web):
        response = web.raw(method, filled(path), BODIES.get(path, {}), Authorization=f"{scheme} {token}")
        assert response.status_code == 401, (method, path)
    assert web.rows() == before


def test_viewers_change_nothing(web):
    web.put(delay=5)
    viewer = web.as_token("viewer")
    before = web.rows()
    for method, path in changing(web):
        response = viewer.raw(method, filled(path), BODIES.get(path, {}))
        assert response.status_code == 403, (method, path, response.text)
    assert without_use(web.rows()) == without_use(before)


def test_viewers_cannot_change_jobs_that_exist(web):
    job_id = web.put()
    viewer = web.as_token("viewer")
    before = web.rows()
    for method, path in changing(web):
        if "{job_id}" in path:
            response = viewer.raw(method, path.replace("{job_id}", job_id), BODIES.get(path, {}))
            assert response.status_code == 403, (method, path, response.text)
    assert without_use(web.rows()) == without_use(before)


@pytest.mark.parametrize("role", ["viewer", "operator", "admin"])
def test_another_tenant_sees_and_touches_nothing(web, role):
    """A job of another tenant looks like one that is not there, and what concerns all tenants is refused."""
    job_id = web.put(tenant="acme", args={"secret": "s3cr3t"})
    other = web.as_token(role, tenant="globex")
    before = web.rows()
    for method, path in routes_of(web.client.app):
        if method not in {"GET", "POST", "PUT", "DELETE"} or path in FREE or not path.startswith(("/v1/", "/jobs/")):
            continue
        if path == "/v1/events":  # a stream; it carries no data
            continue
        target = filled(path.replace("{job_id}", job_id).replace("{id}", job_id))
        body = None if method == "GET" else own_body(path)
        response = other.raw(method, target, body)
        if "{job_id}" in path:
            assert response.status_code in {403, 404}, (method, path, response.text)
            assert role == "viewer" or response.status_code == 404 or "leases" in path, (method, path, response.text)
        assert "s3cr3t" not in response.text, (method, path)
        nowhere = other.raw(method, filled(path), body)
        assert response.status_code == nowhere.status_code, (method, path)
        if "{job_id}" in path:
            assert response.text.replace(job_id, NIL) == nowhere.text, "it cannot be told from one that is not there"
    after = web.rows()
    own = [row for row in after["job"] if row not in before["job"]]
    assert {row for row in own if "acme" in str(row)} == set()
    assert [row for row in before["job"] if row not in after["job"]] == []
    for table in ("rule", "objective", "setting", "schedule"):
        assert after[table] == before[table], table


def own_body(path: str) -> object:
    if path == "/v1/bulk":
        return {"filter": {"queue": "default"}, "action": "cancel"}
    return BODIES.get(path, {})


def without_use(rows: dict[str, Any]) -> dict[str, Any]:
    """Leave out when tokens were used last."""
    return rows | {"token": [row[:8] + row[9:] for row in rows["token"]]}


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://localhost.evil.example"},
        {"Origin": "http://localhost:8080"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
    ids=str,
)
@pytest.mark.parametrize("token", [False, True])
def test_no_change_from_another_sites_page(web, headers, token):
    caller = web.as_token("admin") if token else web
    before = web.rows()
    for method, path in changing(web):
        response = caller.raw(method, filled(path), BODIES.get(path, {}), **headers)
        assert response.status_code == 403, (method, path, response.text)
        response = caller.raw(method, filled(path), b"a=1", content_type="text/plain", **headers)
        assert response.status_code == 403, (method, path, response.text)
    assert web.rows() == before


@pytest.mark.parametrize("host", ["evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "", "evil:80"])
@pytest.mark.parametrize("token", [False, True])
def test_no_answer_under_a_name_that_is_not_ours(web, host, token):
    """DNS rebinding: a page of evil.example whose name leads to this machine sends its own name."""
    caller = web.as_token("admin") if token else web
    before = web.rows()
    for method, path in routes_of(web.client.app):
        if path != "/healthz":
            response = caller.raw(method, filled(path), None if method in SAFE else BODIES.get(path, {}), Host=host)
            assert response.status_code == 421, (method, path, response.text)
    assert web.rows() == before


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:1234", "127.0.0.1:80", "[::1]:8440", "10.1.2.3"])
def test_answers_under_its_own_names(web, host):
    assert web("GET", "/v1/jobs", Host=host)["items"] == []


def test_own_pages_may_change(web):
    sent = {"Origin": "http://localhost", "Sec-Fetch-Site": "same-origin"}
    web("POST", "/v1/jobs", {"task": "x"}, code=201, **sent)


def test_get_changes_nothing():
    """T-M4: a crawler changes nothing."""
    with serving(orchestrator="post", orchestrator_admin=True) as web:
        job_id, dead = web.put(), web.put("dies")
        for claim in web.app.claim_many(2):
            (claim.dead if str(claim.id) == dead else claim.release)(*(["bad"] if str(claim.id) == dead else []))
        before = web.rows()
        for method in ("GET", "HEAD", "OPTIONS"):
            for _, path in routes_of(web.client.app):
                if path not in {"/v1/events", "/events"}:
                    for one in (job_id, dead):
                        web.raw(method, filled(path.replace("{job_id}", one).replace("{id}", one)))
        assert web.rows() == before


# ---------------------------------------------------------------- open, and closed


def test_open_to_this_machine_only_while_there_is_no_token(web):
    web("GET", "/v1/jobs")
    made = web.app.tokens.create("first")
    web("GET", "/v1/jobs", code=401)
    web.app.tokens.revoke(made.record.id)
    web("GET", "/v1/jobs", code=401)


@pytest.mark.parametrize("header", ["X-Forwarded-For", "Forwarded", "X-Real-IP", "Via", "X-Forwarded-Host"])
def test_not_open_to_whoever_comes_through_a_proxy(web, header):
    web("GET", "/v1/jobs", code=401, **{header: "127.0.0.1"})


def test_not_open_to_other_machines():
    with serving(ELSEWHERE) as web:
        web("GET", "/v1/jobs", code=401)
        web.as_token("viewer")("GET", "/v1/jobs")


def test_closed_where_nobody_opened_it():
    with serving(open_on_loopback=False) as web:
        web("GET", "/v1/jobs", code=401)
        web("POST", "/v1/jobs", {"task": "x"}, code=401)


def test_read_only_makes_viewers_of_all():
    with serving(read_only=True) as web:
        admin = web.as_token("admin")
        for method, path in changing_of(web):
            assert admin.raw(method, filled(path), BODIES.get(path, {})).status_code == 403, path
        admin("GET", "/v1/jobs")


def changing_of(web: Web) -> list[tuple[str, str]]:
    return [(m, p) for m, p in routes_of(web.client.app) if m not in SAFE and p not in FREE]


def test_every_answer_keeps_browsers_in_bounds(web):
    web.as_token("viewer")
    for path in ("/v1/jobs", "/healthz", "/nothing", "/login", "/"):
        headers = web.raw("GET", path).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["x-frame-options"] == "DENY"
        assert "no-store" in headers["cache-control"]


# ---------------------------------------------------------------- browsers


def test_log_in_and_out(web):
    made = web.app.tokens.create("me", role="operator")
    page = web.raw("GET", "/jobs?x=1", accept="text/html")
    assert page.status_code == 303
    assert page.headers["location"] == "/login?next=/jobs%3Fx%3D1"
    form = {"content_type": "application/x-www-form-urlencoded", "Origin": "http://localhost"}
    wrong = web.raw("POST", "/login?next=/jobs", b"token=flt_no_aaaaaaaaaaaaaaaaaaaa", **form)
    assert wrong.status_code == 401
    assert "set-cookie" not in wrong.headers
    entered = web.raw("POST", "/login?next=//evil.example", f"token={made.token}".encode(), **form)
    assert entered.status_code == 303
    assert entered.headers["location"] == "/"
    cookie = entered.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert made.token not in cookie
    assert web("GET", "/v1/jobs")["items"] == []  # the client keeps the cookie
    web("POST", "/v1/jobs", {"task": "x"}, code=403)  # a cookie alone does not show where a change comes from
    web("POST", "/v1/jobs", {"task": "x"}, code=201, Origin="http://localhost")
    web("POST", "/v1/jobs", {"task": "x"}, code=403, Origin="https://evil.example")
    web("PUT", "/v1/tenants/a", {"weight": 2}, code=403, Origin="http://localhost")  # an operator's session
    secret = web.client.cookies["fairlane_session"]
    assert web.raw("POST", "/logout", Origin="http://localhost").status_code == 303
    web("GET", "/v1/jobs", code=401, Cookie=f"fairlane_session={secret}")


@pytest.mark.parametrize("end", ["revoke", "expire", "time"])
def test_a_session_ends_with_its_token(web, end):
    made = web.app.tokens.create("me", expires_in=3600)
    secret = web.app.tokens.log_in(made.record)
    web("GET", "/v1/jobs", Cookie=f"fairlane_session={secret}")
    if end == "revoke":
        web.app.tokens.revoke(made.record.id)
    else:
        web.clock.advance(seconds=3601 if end == "expire" else 13 * 3600)
    web("GET", "/v1/jobs", code=401, Cookie=f"fairlane_session={secret}")


def test_admin_routes_need_a_token_also_where_it_is_open(web):
    web.put()
    for path in ("/admin/jobs/retry/failed", "/admin/jobs/requeue/created"):
        told = web("POST", path, code=403)
        assert told["success"] is False
    web.as_token("admin")("POST", "/admin/jobs/retry/failed")
