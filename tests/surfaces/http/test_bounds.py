"""What the guard lets through: sizes, depths, kinds, rates; and that every answer is JSON of one shape. B44, T-M5."""

from __future__ import annotations

import gzip
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parent))  # "importlib" mode finds no neighbours by itself

from http_rig import Web, serving

from fairlane.errors import StoreBusy
from fairlane.http.guard import shallow
from fairlane.http.limits import MOST, Buckets


@pytest.fixture
def web() -> Iterator[Web]:
    with serving(max_body_bytes=10_000, orchestrator="post") as web:
        yield web


def test_a_request_that_is_too_large(web):
    before = web.rows()
    told = web("POST", "/v1/jobs", {"task": "a", "args": {"x": "a" * 10_000}}, code=413)
    assert (told["code"], told["max"]) == ("too-large", 10_000)
    assert web.rows() == before


def test_a_request_that_does_not_say_how_large_it_is(web):
    def chunks() -> Iterator[bytes]:
        for _ in range(100):
            yield b" " * 1000

    response = web.client.request("POST", "/v1/jobs", content=chunks(), headers={"content-type": "application/json"})
    assert response.status_code == 413


def test_a_length_that_is_a_lie(web):
    response = web.raw("POST", "/v1/jobs", {"task": "a"}, content_length="99999999999999999999999999")
    assert response.status_code == 413


def test_a_compressed_request_is_not_unpacked(web):
    bomb = gzip.compress(b'{"task": "' + b"a" * 5_000 + b'"}')
    told = web("POST", "/v1/jobs", bomb, code=415, content_encoding="gzip", content_type="application/json")
    assert told["code"] == "media-type"


@pytest.mark.parametrize("bracket", [(b"[", b"]"), (b'{"a":', b"}")])
@pytest.mark.parametrize("depth", [100_000, 65])
def test_json_that_is_too_deep(bracket, depth):
    with serving() as web:
        body = b'{"task": "a", "args": {"x": ' + bracket[0] * depth + b"1" + bracket[1] * depth + b"}}"
        assert web("POST", "/v1/jobs", body, code=413)["code"] == "too-large"
        unclosed = b'{"task": "a", "args": {"x": ' + bracket[0] * depth
        assert web.raw("POST", "/v1/jobs", unclosed).status_code in {400, 413}


def test_json_as_deep_as_it_may_be():
    with serving() as web:
        body = b'{"task": "a", "args": {"x": ' + b"[" * 50 + b"]" * 50 + b"}}"
        web("POST", "/v1/jobs", body, code=201)


@given(st.recursive(st.text() | st.integers(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)))
def test_depth_is_seen_whatever_strings_hold(value):
    import json

    def depth(one: object) -> int:
        if isinstance(one, list):
            return 1 + max(map(depth, one), default=0)
        if isinstance(one, dict):
            return 1 + max(map(depth, one.values()), default=0)
        return 0

    body = json.dumps(value).encode()
    found = depth(value)
    assert shallow(body, max(1, found))
    assert not shallow(b"[" * (2 * found + 3) + body + b"]" * (2 * found + 3), found + 1)


@given(st.binary())
def test_depth_of_anything_is_told_without_an_error(body):
    shallow(body, 3)
    shallow(b'"' + body, 3)


@pytest.mark.parametrize(
    "kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", None, "json"]
)
def test_a_request_that_is_not_said_to_be_json(web, kind):
    """What a form of another site could send without asking first."""
    response = web.raw("POST", "/v1/jobs", b'{"task": "a"}', content_type=kind)
    assert response.status_code == 415
    assert response.json()["code"] == "media-type"


def test_too_many_requests():
    with serving(rate=2.0) as web:
        web("GET", "/v1/jobs")
        viewer, other = web.as_token("viewer"), web.as_token("viewer")
        codes = [viewer.raw("GET", "/v1/jobs").status_code for _ in range(8)]
        assert codes[:4] == [200] * 4
        assert 429 in codes
        response = viewer.raw("GET", "/v1/jobs")
        if response.status_code == 429:
            assert response.json()["code"] == "rate-limited"
            assert int(response.headers["retry-after"]) >= 1
        other("GET", "/v1/jobs")
        codes = [web.unknown().raw("GET", "/v1/jobs").status_code for _ in range(8)]
        assert codes[0] == 401
        assert 429 in codes, "nor may anybody guess tokens faster"


def test_buckets_are_bounded_and_fill_again():
    buckets = Buckets(1.0)
    for number in range(MOST + 10):
        assert buckets.wait_s(str(number), 0.0) == 0.0
    assert len(buckets._held) == MOST
    assert [buckets.wait_s("x", 5.0) for _ in range(3)] == [0.0, 0.0, 1.0]
    assert buckets.wait_s("x", 5.5) == 0.5
    assert buckets.wait_s("x", 6.0) == 0.0


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "PATCH", "DELETE", "TRACE", "BREW"])
def test_addresses_and_methods_that_are_not_there(web, method):
    """T-M5: every answer is JSON."""
    response = web.raw(method, "/v1/nothing", None)
    assert response.status_code == 404
    assert response.json()["code"] == "not-found"
    response = web.raw(method, "/v1/stats/depth", None)
    if method != "GET":
        assert response.status_code == 405
        assert response.json()["code"] == "method-not-allowed"
        assert response.headers["allow"] == "GET"


def test_a_store_that_is_busy(web, monkeypatch):
    def refuse(*args: object, **options: object) -> None:
        raise StoreBusy("another program holds it")

    monkeypatch.setattr(type(web.app.owner.store), "jobs", refuse)
    response = web.raw("GET", "/v1/jobs")
    assert (response.status_code, response.json()["code"]) == (503, "overloaded")
    assert response.headers["retry-after"] == "1"
    assert web("GET", "/jobs", code=503)["success"] is False


@pytest.mark.parametrize("path", ["/v1/jobs", "/jobs"])
def test_a_fault_inside_tells_nothing(web, monkeypatch, caplog, path):
    def fail(*args: object, **options: object) -> None:
        raise RuntimeError("secret detail")

    monkeypatch.setattr(type(web.app.owner.store), "jobs", fail)
    response = web.raw("GET", path)
    assert response.status_code == 500
    assert "secret" not in response.text
    assert response.json()["code"] == "internal"
    assert "request_crashed" in caplog.text
    assert response.headers["x-trace-id"] in caplog.text


def test_a_tokens_store_that_does_not_answer_lets_nobody_in(web, monkeypatch):
    def refuse(*args: object, **options: object) -> None:
        raise StoreBusy("another program holds it")

    viewer = web.as_token("viewer")
    monkeypatch.setattr(type(web.app.owner.store), "token", refuse)
    viewer("GET", "/v1/jobs", code=503)


def test_under_a_prefix():
    """Served by a proxy under a prefix, and mounted into another app."""
    from starlette.applications import Starlette
    from starlette.routing import Mount
    from starlette.testclient import TestClient

    from fairlane.http.app import create_app

    with serving(root_path="/tools/fairlane") as web:
        for prefix in ("/tools/fairlane", ""):
            response = web.raw("POST", f"{prefix}/v1/jobs", {"task": "a"})
            assert response.status_code == 201
            assert response.headers["location"].startswith("/tools/fairlane/v1/jobs/")
        web.as_token("viewer")
        page = web.raw("GET", "/tools/fairlane/jobs", accept="text/html")
        assert page.headers["location"] == "/tools/fairlane/login?next=/jobs"
        outer = Starlette(routes=[Mount("/ops", create_app(web.app))])
        made = web.app.tokens.create("t", role="operator")
        caller = TestClient(outer, base_url="http://localhost")
        headers = {"Authorization": f"Bearer {made.token}"}
        assert caller.get("/ops/v1/jobs").status_code == 401
        response = caller.post("/ops/v1/jobs", json={"task": "a"}, headers=headers)
        assert response.headers["location"].startswith("/ops/v1/jobs/")
        assert caller.get(response.headers["location"], headers=headers).status_code == 200
        assert caller.get("/ops/v1/queues/a", headers=headers).status_code == 200


def test_stored_text_is_data_wherever_it_is_shown(web):
    """B45: it comes as JSON that no browser takes for a page, also in errors."""
    hostile = "\"'><img src=x onerror=alert(1)></script>\x1b[2J"
    job_id = web.put(hostile, tenant=hostile, queue=hostile, tags=[hostile], dedup_key=hostile, args={hostile: hostile})
    claim = web.app.claim()
    claim.nack(hostile)
    paths = [f"/v1/jobs/{job_id}", "/v1/jobs", f"/v1/jobs/{job_id}/attempts", "/v1/stats/depth", "/v1/tenants", "/jobs"]
    for path in paths:
        response = web.raw("GET", path)
        assert response.headers["content-type"] == "application/json"
        assert response.headers["x-content-type-options"] == "nosniff"
        assert hostile in strings_of(response.json()), path
    response = web.raw("GET", "/v1/jobs?cursor=" + "%3Cscript%3E")
    assert response.headers["content-type"] == "application/problem+json"


def strings_of(value: object) -> set[str]:
    """Return every text in a JSON value."""
    if isinstance(value, str):
        return {value}
    if isinstance(value, dict):
        return set(value) | {text for item in value.values() for text in strings_of(item)}
    return {text for item in value for text in strings_of(item)} if isinstance(value, list) else set()
