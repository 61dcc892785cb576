"""Queues, tasks, tenants, limits, tiers, the store: GET, PUT, pauses, entity tags."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # "importlib" mode finds no neighbours by itself

from http_rig import Web, serving

KINDS = ("queue", "task", "tenant", "limit")
NAMES = ("mail", "a b/c", "ä ö", "50%", "..")


@pytest.fixture
def web() -> Iterator[Web]:
    with serving() as web:
        yield web


def quoted(name: str) -> str:
    from urllib.parse import quote

    return quote(name, safe="").replace(".", "%2E")


@pytest.mark.parametrize("name", NAMES)
def test_set_and_show(web, name):
    path = f"/v1/queues/{quoted(name)}"
    if name == "..":
        assert web.raw("GET", path).status_code in {200, 404}
        return
    told = web("PUT", path, {"max_running": 5, "reason": "slow provider"})
    assert (told["name"], told["max_running"]) == (name, 5)
    web("PUT", path, {"max_waiting": 9})
    told = web("GET", path)
    assert (told["max_running"], told["max_waiting"]) == (5, 9), "what is not named stays"
    assert web("PUT", path, {"max_running": None})["max_running"] is None
    (row, *_) = web("GET", f"/v1/audit?target={quoted(name)}&limit=3")["items"][::-1]
    assert row["why"] == "slow provider"


def test_every_kind_has_its_fields(web):
    assert web("PUT", "/v1/tenants/acme", {"weight": 2.5, "rate": 100, "per": 60})["burst"] == 10
    assert web("PUT", "/v1/limits/openai", {"max_running": 3, "rate": 10})["rate"] == 10
    assert web("PUT", "/v1/queues/q", {"pool": "gpu", "tenant_max_running": 2})["pool"] == "gpu"
    web("PUT", "/v1/tasks/t", {"max_running": 3}, code=405)
    for kind in KINDS:
        assert {"name", "pause"} <= web("GET", f"/v1/{kind}s/x").keys()
    assert [one["name"] for one in web("GET", "/v1/tenants")["items"]] == ["acme"]


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("tenants/a", {"weight": 0}),
        ("tenants/a", {"weight": "2"}),
        ("tenants/a", {"weight": 1e7}),
        ("tenants/a", {"max_running": -1}),
        ("tenants/a", {"max_running": 1.5}),
        ("tenants/a", {"max_running": True}),
        ("tenants/a", {"rate": 0}),
        ("tenants/a", {"per": 5}),
        ("tenants/a", {"rate": None, "per": 5}),
        ("tenants/a", {"pool": "x"}),
        ("queues/a", {"weight": 2}),
        ("queues/a", {"pool": ""}),
        ("queues/a", {"pool": None}),
        ("queues/" + "a" * 256, {"max_running": 1}),
        ("queues/%00", {"max_running": 1}),
        ("limits/a", {"max_running": 2**63}),
        ("limits/a", {"reason": "x" * 1025}),
        ("tiers/high", {"objective": 0}),
        ("tiers/high", {"on_breach": "shout"}),
        ("tiers/urgent", {"objective": 5}),
        ("settings", {"policy": "lifo"}),
        ("settings", {"express_capacity": 0}),
    ],
    ids=str,
)
def test_what_cannot_be_set(web, path, body):
    before = web.rows()
    assert web("PUT", f"/v1/{path}", body, code=422)["code"] == "validation"
    assert web.rows() == before


@pytest.mark.parametrize("kind", KINDS)
def test_pause_and_resume(web, kind):
    path = f"/v1/{kind}s/x/pause"
    told = web("PUT", path, {"reason": "provider is down"})
    assert told["pause"] == {"reason": "provider is down", "by": "local", "until": None}
    assert web("PUT", path)["pause"]["reason"] == ""
    until = "2040-01-01T00:00:00Z"
    assert web("PUT", path, {"until": until})["pause"]["until"].startswith("2040-01-01T00:00:00")
    web("PUT", path, {"until": "2001-01-01T00:00:00Z"}, code=422)
    web("PUT", path, {"until": "2040-01-01T00:00:00"}, code=422)
    web("DELETE", path)
    web("DELETE", path)
    assert web("GET", f"/v1/{kind}s/x")["pause"] is None


def test_a_paused_queue_starts_nothing(web):
    web.put(queue="q")
    web("PUT", "/v1/queues/q/pause")
    assert web("POST", "/v1/leases", {})["items"] == []
    web("DELETE", "/v1/queues/q/pause")
    assert len(web("POST", "/v1/leases", {})["items"]) == 1


@pytest.mark.parametrize("path", ["/v1/queues/q", "/v1/tenants/t", "/v1/limits/l", "/v1/tiers/high"])
def test_a_change_does_not_undo_another_ones(web, path):
    field = "objective" if "tiers" in path else "max_running"
    seen = web.raw("GET", path).headers["etag"]
    assert seen.startswith('"')
    first = web.raw("PUT", path, {field: 5}, If_Match=seen)
    assert first.status_code == 200
    before = web.rows()
    assert web("PUT", path, {field: 6}, code=412, If_Match=seen)["code"] == "precondition"
    assert web("PUT", path, {field: 6}, code=412, If_Match='W/"x"')["code"] == "precondition"
    assert web.rows() == before
    assert first.headers["etag"] == web.raw("GET", path).headers["etag"] != seen
    web("PUT", path, {field: 6}, If_Match=first.headers["etag"])
    web("PUT", path, {field: 7}, If_Match="*")


@pytest.mark.parametrize("method", ["PUT", "DELETE"])
def test_a_pause_does_not_undo_another_ones_change(web, method):
    seen = web.raw("GET", "/v1/queues/q").headers["etag"]
    web("PUT", "/v1/queues/q", {"max_running": 1})
    before = web.rows()
    web(method, "/v1/queues/q/pause", code=412, If_Match=seen)
    assert web.rows() == before


def test_tiers(web):
    told = web("PUT", "/v1/tiers/high", {"objective": 30, "on_breach": "boost", "reason": "promised"})
    assert (told["tier"], told["objective"], told["on_breach"]) == ("high", 30, "boost")
    told = web("PUT", "/v1/tiers/high", {"objective": 5, "queue": "mail"})
    assert told["objective"] == 30
    assert told["overrides"] == [{"queue": "mail", "tenant": None, "objective": 5, "on_breach": "boost"}]
    assert [one["tier"] for one in web("GET", "/v1/tiers")["items"]] == [
        "critical", "high", "normal", "low", "background",
    ]  # fmt: skip
    assert web("PUT", "/v1/tiers/high", {"objective": None})["objective"] is None


def test_the_store(web):
    assert web("GET", "/v1/settings")["express_capacity"] == 20
    told = web("PUT", "/v1/settings", {"express_capacity": 3, "reason": "too many"})
    assert (told["express_capacity"], told["policy"]["kind"]) == (3, "fair")
    assert web("PUT", "/v1/settings", {"policy": "strict"})["policy"]["kind"] == "strict"
    assert web("GET", "/v1/settings")["express_capacity"] == 3


def test_who_may_set_and_pause(web):
    operator, admin = web.as_token("operator"), web.as_token("admin")
    own, other = web.as_token("operator", tenant="acme"), web.as_token("admin", tenant="acme")
    operator("PUT", "/v1/queues/q", {"max_running": 1}, code=403)
    operator("PUT", "/v1/queues/q/pause")
    admin("PUT", "/v1/queues/q", {"max_running": 1})
    own("PUT", "/v1/tenants/acme/pause", {"reason": "ours"})
    own("PUT", "/v1/tenants/globex/pause", code=403)
    own("PUT", "/v1/queues/q/pause", code=403)
    for path in ("queues/q", "tenants/acme", "limits/l", "tiers/high", "settings"):
        other("PUT", f"/v1/{path}", {}, code=403)


# ---------------------------------------------------------------- tokens


def test_tokens(web):
    admin = web.as_token("admin")
    made = admin("POST", "/v1/tokens", {"name": "ci", "role": "operator", "tenant": "acme", "expires_in": 60}, code=201)
    secret = made["token"]
    assert web.raw("GET", "/v1/jobs", Authorization=f"Bearer {secret}").status_code == 200
    listed = admin("GET", "/v1/tokens")
    assert secret not in str(listed)
    assert "digest" not in str(listed)
    (one,) = [one for one in listed["items"] if one["name"] == "ci"]
    assert one["used_at"] is not None
    admin("DELETE", f"/v1/tokens/{made['id']}", code=200)
    assert web.raw("GET", "/v1/jobs", Authorization=f"Bearer {secret}").status_code == 401
    admin("DELETE", "/v1/tokens/nothing", code=404)
    admin("POST", "/v1/tokens", {"name": "", "role": "operator"}, code=422)
    admin("POST", "/v1/tokens", {"name": "x", "role": "root"}, code=422)
    for caller in (web.as_token("operator"), web.as_token("admin", tenant="acme")):
        caller("POST", "/v1/tokens", {"name": "x", "role": "admin"}, code=403)
        caller("GET", "/v1/tokens", code=403)
        caller("DELETE", f"/v1/tokens/{made['id']}", code=403)
