"""``/v1/jobs``: every answer and every error of every route. T-M1…T-M7."""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # "importlib" mode finds no neighbours by itself

from http_rig import NIL, Web, serving

import fairlane as fl
from fairlane.testing import drain

STEERS = ("cancel", "retry", "expedite", "process", "verify")
WITH_PRIORITY = ("retry", "process", "verify")


@pytest.fixture
def web() -> Iterator[Web]:
    with serving() as web:
        yield web


# ---------------------------------------------------------------- store


def test_store_a_job(web):
    body = {
        "task": "mail.send", "args": {"to": "ä", "n": 2**63 - 1}, "tenant": "acme", "queue": "mail", "tier": "high",
        "tags": ["x"], "dedup_key": "k", "expires_in": 60, "delay": 5,
    }  # fmt: skip
    response = web.raw("POST", "/v1/jobs", body)
    assert response.status_code == 201
    told = response.json()
    assert response.headers["location"] == f"/v1/jobs/{told['id']}"
    full = web("GET", response.headers["location"])
    assert (full["task"], full["tenant"], full["queue"], full["tier"]) == ("mail.send", "acme", "mail", "high")
    assert full["state"] == "scheduled"
    assert full["args"] == {"to": "ä", "n": 2**63 - 1}
    assert told["created"] is True
    assert full["scheduled_at"].endswith("Z")


def test_a_job_shows_what_it_belongs_to_and_waits_for(web):
    web.put(dedup_key="k")
    web.app.claim()
    behind_key = {"task": "work", "dedup_key": "k", "on_conflict": "successor"}
    told = web("GET", f"/v1/jobs/{web('POST', '/v1/jobs', behind_key, code=201)['id']}")
    assert (told["successor"], told["bundle"]) == (True, None)
    group = web.app.group([web.app.new("a"), web.app.new("a")])
    ids = [str(job.id) for job in group]
    told = web("GET", f"/v1/jobs/{ids[0]}")
    shown = (told["bundle"], told["behind"], told["on_failure"], told["successor"])
    assert shown == (str(group.id), 0, "cancel", False)
    last = web("POST", "/v1/jobs", {"task": "b", "after": ids, "on_failure": "run"}, code=201)
    told = web("GET", f"/v1/jobs/{last['id']}")
    assert (told["bundle"], told["behind"], told["on_failure"], told["reference"]) == (None, 2, "run", None)


def test_a_dedup_key_that_is_held_returns_its_job(web):
    first = web("POST", "/v1/jobs", {"task": "a", "dedup_key": "k"}, code=201)
    again = web("POST", "/v1/jobs", {"task": "a", "dedup_key": "k"}, code=200)
    assert (again["id"], again["created"]) == (first["id"], False)
    told = web("POST", "/v1/jobs", {"task": "a", "dedup_key": "k", "on_conflict": "raise"}, code=409)
    assert told["code"] == "dedup-conflict"


@pytest.mark.parametrize(
    ("body", "where"),
    [
        ({}, "#/task"),
        ({"task": ""}, "#/task"),
        ({"task": "x" * 256}, "#/task"),
        ({"task": "ä" * 200}, None),
        ({"task": "a\u0000b"}, None),
        ({"task": 5}, "#/task"),
        ({"task": "a", "args": []}, "#/args"),
        ({"task": "a", "args": {"x": 2**64}}, None),
        ({"task": "a", "args": {"x": "\ud800"}}, None),
        ({"task": "a", "args": {"x": "a" * 300_000}}, None),
        ({"task": "a", "tier": "urgent"}, "#/tier"),
        ({"task": "a", "tier": 0}, "#/tier"),
        ({"task": "a", "tier": True}, "#/tier"),
        ({"task": "a", "tier": "CRITICAL "}, "#/tier"),
        ({"task": "a", "delay": -1}, "#/delay"),
        ({"task": "a", "delay": "5"}, "#/delay"),
        ({"task": "a", "scheduled_at": "tomorrow"}, "#/scheduled_at"),
        ({"task": "a", "scheduled_at": "2027-01-01T00:00:00"}, "#/scheduled_at"),
        ({"task": "a", "delay": 5, "scheduled_at": "2027-01-01T00:00:00Z"}, None),
        ({"task": "a", "expires_in": 0}, None),
        ({"task": "a", "on_conflict": "ignore"}, "#/on_conflict"),
        ({"task": "a", "nonsense": 1}, "#/nonsense"),
        ({"task": "a", "after": [NIL, "x"]}, None),
        ({"task": "a", "a/b~c": 1}, "#/a~1b~0c"),
        ([], "#"),
        ("a", "#"),
        (None, "#"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_a_job_that_breaks_a_rule_is_refused(web, body, where):
    before = web.rows()
    told = web("POST", "/v1/jobs", b"null" if body is None else body, code=422)
    assert told["code"] == "validation"
    if where is not None:
        assert where in [one["pointer"] for one in told["errors"]]
    assert web.rows() == before


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999"])
def test_numbers_that_json_does_not_have_are_refused(web, number):
    sent = f'{{"task": "a", "args": {{"x": {number}}}}}'.encode()
    assert web("POST", "/v1/jobs", sent, code=422)["code"] == "validation"
    web("POST", "/v1/jobs", f'{{"task": "a", "delay": {number}}}'.encode(), code=422)


@pytest.mark.parametrize("body", [b"{", b"", b"\xff\xfe", b'{"task": "a"', b"[" * 40, b'{"task": "\\ud8"}'], ids=repr)
def test_what_is_no_json_is_refused(web, body):
    told = web("POST", "/v1/jobs", body, code=422 if body in {b"", b"["} else 400)
    assert told["code"] in {"bad-request", "validation"}


def test_arguments_are_checked_where_the_task_is_known(web):
    @web.app.task
    def add(a: int, b: int) -> int:
        return a + b

    web("POST", "/v1/jobs", {"task": add.name, "args": {"a": 1, "b": 2}}, code=201)
    told = web("POST", "/v1/jobs", {"task": add.name, "args": {"a": "x", "b": 2}}, code=422)
    assert "a" in told["detail"]


def test_a_full_queue(web):
    web.app.queues["q"].set(max_waiting=1)
    web("POST", "/v1/jobs", {"task": "a", "queue": "q"}, code=201)
    response = web.raw("POST", "/v1/jobs", {"task": "a", "queue": "q"})
    told = response.json()
    assert (response.status_code, told["code"], told["current"], told["max"]) == (429, "queue-full", 1, 1)
    assert int(response.headers["retry-after"]) >= 1


# ---------------------------------------------------------------- idempotency


def test_a_request_with_a_key_is_carried_out_once(web):
    sent = {"Idempotency-Key": '"abc"'}
    first = web.raw("POST", "/v1/jobs", {"task": "a"}, **sent)
    assert first.status_code == 201
    for _ in range(3):
        again = web.raw("POST", "/v1/jobs", {"task": "a"}, **sent)
        assert again.status_code == 200
        assert again.json() == first.json()
        assert again.headers["idempotent-replayed"] == "true"
    assert len(web("GET", "/v1/jobs")["items"]) == 1


def test_a_key_with_another_request_is_refused(web):
    web("POST", "/v1/jobs", {"task": "a"}, code=201, idempotency_key="k")
    before = web.rows()
    assert web("POST", "/v1/jobs", {"task": "b"}, code=422, idempotency_key="k")["code"] == "idempotency-mismatch"
    told = web("POST", "/v1/jobs:batch", {"jobs": [{"task": "a"}]}, code=422, idempotency_key="k")
    assert told["code"] == "idempotency-mismatch"
    web("POST", "/v1/jobs", {"task": "b"}, code=422, idempotency_key="")
    web("POST", "/v1/jobs", {"task": "b"}, code=422, idempotency_key="k" * 256)
    assert web.rows() == before


def test_a_key_belongs_to_its_token_for_a_day(web):
    a, b = web.as_token("operator"), web.as_token("operator")
    first = a("POST", "/v1/jobs", {"task": "a"}, code=201, idempotency_key="k")
    assert b("POST", "/v1/jobs", {"task": "a"}, code=201, idempotency_key="k")["id"] != first["id"]
    web.clock.advance(seconds=86_399)
    a("POST", "/v1/jobs", {"task": "a"}, code=200, idempotency_key="k")
    web.clock.advance(seconds=2)
    a("POST", "/v1/jobs", {"task": "a"}, code=201, idempotency_key="k")
    for number in range(4):  # each new one takes old ones along
        a("POST", "/v1/jobs", {"task": "a"}, code=201, idempotency_key=f"n{number}")
    keys = [row[1] for row in web.rows()["request"]]
    assert sorted(keys) == ["k", "n0", "n1", "n2", "n3"]


def test_a_refused_request_is_not_remembered(web):
    web.app.queues["q"].set(max_waiting=0)
    web("POST", "/v1/jobs", {"task": "a", "queue": "q"}, code=429, idempotency_key="k")
    web.app.queues["q"].set(max_waiting=None)
    web("POST", "/v1/jobs", {"task": "a", "queue": "q"}, code=201, idempotency_key="k")


def test_requests_with_one_key_at_once_make_one_job(web):
    codes: list[int] = []
    start = threading.Barrier(8)

    def send() -> None:
        start.wait()
        codes.append(web.raw("POST", "/v1/jobs", {"task": "a"}, idempotency_key="k").status_code)

    threads = [threading.Thread(target=send) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(codes) == [200] * 7 + [201]
    assert len(web("GET", "/v1/jobs")["items"]) == 1


# ---------------------------------------------------------------- batches


def test_a_batch_is_stored_whole_or_not_at_all(web):
    told = web("POST", "/v1/jobs:batch", {"jobs": [{"task": "a"}, {"task": "b", "tier": "low"}]}, code=201)
    assert [(one["task"], one["tier"]) for one in told["items"]] == [("a", "normal"), ("b", "low")]
    before = web.rows()
    told = web("POST", "/v1/jobs:batch", {"jobs": [{"task": "a"}, {"task": "b", "args": {"x": 2**70}}]}, code=422)
    assert "jobs[1]" in told["detail"]
    web("POST", "/v1/jobs:batch", {"jobs": [{"task": "a"}, {"task": "b", "tier": "x"}]}, code=422)
    web("POST", "/v1/jobs:batch", {"jobs": []}, code=422)
    web("POST", "/v1/jobs:batch", {"jobs": [{"task": "a"}] * 1001}, code=422)
    web("POST", "/v1/jobs:batch", {"jobs": [{"task": "a", "expedite": True}] * 21}, code=429)
    assert web.rows() == before


def test_a_batch_that_makes_nothing_new_says_so(web):
    web("POST", "/v1/jobs", {"task": "a", "dedup_key": "k"}, code=201)
    told = web("POST", "/v1/jobs:batch", {"jobs": [{"task": "a", "dedup_key": "k"}]}, code=200)
    assert [one["created"] for one in told["items"]] == [False]


# ---------------------------------------------------------------- look


def test_pages_go_on_without_gaps(web):
    ids = [web.put(f"t{number}") for number in range(7)]
    seen: list[str] = []
    path = "/v1/jobs?limit=3"
    while True:
        told = web("GET", path)
        seen += [one["id"] for one in told["items"]]
        if told["next_cursor"] is None:
            break
        path = f"/v1/jobs?limit=3&cursor={told['next_cursor']}"
    assert seen == ids[::-1]


def test_filters(web):
    web.put("a", tenant="wxyz", queue="q", tier="high", tags=["t"], dedup_key="d")
    web.put("b", delay=5)
    for asked in ("tenant=wxyz", "queue=q", "tier=high", "task=a", "tag=t", "dedup_key=d", "q=XYZ", "state=available"):
        assert [one["task"] for one in web("GET", f"/v1/jobs?{asked}")["items"]] == ["a"], asked
    assert len(web("GET", "/v1/jobs?state=available,scheduled")["items"]) == 2
    assert len(web("GET", "/v1/jobs?state=available&state=scheduled")["items"]) == 2
    assert web("GET", "/v1/jobs?state=dead")["items"] == []


def test_a_list_is_counted_when_asked_for(web):
    web.app.enqueue_many(web.app.new("a", tenant="acme" if number % 2 else "globex") for number in range(20_010))
    assert "count" not in web("GET", "/v1/jobs")
    assert web("GET", "/v1/jobs?count=true&limit=1")["count"] == {"value": 10_000, "capped": True}
    assert web("GET", "/v1/jobs?count=true&limit=1&tenant=nobody")["count"] == {"value": 0, "capped": False}
    other = web.as_token("viewer", tenant="initech")
    assert other("GET", "/v1/jobs?count=true&tenant=acme")["count"] == {"value": 0, "capped": False}
    assert web.as_token("viewer", tenant="acme")("GET", "/v1/jobs?count=true")["count"]["capped"] is True


@pytest.mark.parametrize(
    "asked",
    [
        "limit=0", "limit=501", "limit=-1", "limit=1000000000", "limit=x", "tier=5", "state=lost", "cursor=nonsense",
        "tenant=", f"queue={'x' * 256}", "cursor=czk5OTk5OTk5OTk5OTk5OTk5OTk5OTk5OTk5OTk5", "state=",
    ],
)  # fmt: skip
def test_lists_that_cannot_be(web, asked):
    assert web("GET", f"/v1/jobs?{asked}", code=422)["code"] == "validation"


@pytest.mark.parametrize("path", ["/v1/jobs?tennant=acme", "/v1/jobs?tenant=acme&Limit=1", "/v1/workers?x="])
def test_a_parameter_that_the_address_does_not_know_is_refused(web, path):
    """Left out in silence, a filter that is misspelt would answer with the jobs of all tenants."""
    told = web("GET", path, code=422)
    assert told["code"] == "validation"
    assert told["errors"][0]["pointer"] in {"query.tennant", "query.Limit", "query.x"}
    assert "there is no such parameter" in told["errors"][0]["detail"]


@pytest.mark.parametrize("what", ["", "/attempts", "/explain", "/result"])
def test_looking_at_no_job(web, what):
    assert web("GET", f"/v1/jobs/{NIL}{what}", code=404)["code"] == "not-found"
    assert web("GET", f"/v1/jobs/12{what}", code=422)["code"] == "validation"
    for odd in ("..%2f..%2fetc%2fpasswd", "%00", "%ff", "a" * 2000):
        assert web.raw("GET", f"/v1/jobs/{odd}{what}").status_code in {404, 422}


def test_attempts_explain_and_result(web):
    @web.app.task(name="boom", retry=fl.Retry(max_attempts=1))
    def boom() -> None:
        raise ValueError("bad")

    @web.app.task(name="fine")
    def fine() -> dict[str, int]:
        return {"n": 5}

    dead, done = web.put("boom"), web.put("fine")
    assert web("GET", f"/v1/jobs/{done}/explain")["cause"]
    response = web.raw("GET", f"/v1/jobs/{done}/result")
    assert response.status_code == 202
    assert response.headers["retry-after"]
    drain(web.app)
    (attempt,) = web("GET", f"/v1/jobs/{dead}/attempts")["items"]
    assert (attempt["type"], attempt["message"]) == ("ValueError", "bad")
    told = web("GET", f"/v1/jobs/{done}/result")
    assert (told["state"], told["result"]) == ("completed", {"n": 5})
    assert web("GET", f"/v1/jobs/{dead}/result")["state"] == "dead"


def test_waiting_for_a_result(web):
    job_id = web.put()
    claim = web.app.claim()
    assert claim is not None
    told: list[object] = []
    thread = threading.Thread(target=lambda: told.append(web("GET", f"/v1/jobs/{job_id}/result?wait=15")))
    thread.start()
    claim.ack([1, 2])
    thread.join(15)
    assert told[0]["result"] == [1, 2]
    web("GET", f"/v1/jobs/{job_id}/result?wait=61", code=422)
    web("GET", f"/v1/jobs/{job_id}/result?wait=nan", code=422)


def test_secrets_are_put_out_of_sight():
    from fairlane.service import Redaction

    with serving(redaction=Redaction(["*.password", "card.*"])) as web:
        job_id = web.put(args={"user": "a", "db": [{"password": "p"}], "card": {"number": "4111"}})
        shown = web("GET", f"/v1/jobs/{job_id}")["args"]
        assert shown == {"user": "a", "db": [{"password": "[redacted]"}], "card": {"number": "[redacted]"}}
        (lease,) = web("POST", "/v1/leases", {})["items"]
        assert lease["args"]["card"] == {"number": "4111"}, "who runs a job needs its arguments"


# ---------------------------------------------------------------- steer


@pytest.mark.parametrize("verb", STEERS)
def test_steering_no_job(web, verb):
    assert web("POST", f"/v1/jobs/{NIL}/{verb}", code=404)["code"] == "not-found"
    assert web("POST", f"/v1/jobs/nonsense/{verb}", code=422)["code"] == "validation"
    web("POST", f"/v1/jobs/{NIL}/{verb}", {"reason": "x" * 1025}, code=422)
    web("POST", f"/v1/jobs/{NIL}/{verb}", {"what": 1}, code=422)


@pytest.mark.parametrize("verb", STEERS)
def test_steering_a_job_in_the_wrong_state(web, verb):
    job_id = web.put()
    claim = web.app.claim()
    assert claim is not None
    claim.ack()
    before = web.rows()
    for query in ("", "?priority=true") if verb in WITH_PRIORITY else ("",):
        told = web("POST", f"/v1/jobs/{job_id}/{verb}{query}", code=409)
        assert (told["code"], told["state"]) == ("conflict-state", "completed")
    assert web.rows() == before


def test_cancel_and_its_record(web):
    operator = web.as_token("operator")
    job_id = web.put()
    assert operator("POST", f"/v1/jobs/{job_id}/cancel", {"reason": "no longer needed"})["state"] == "cancelled"
    (row,) = operator("GET", f"/v1/audit?target={job_id}")["items"]
    assert (row["what"], row["why"]) == ("cancel", "no longer needed")
    assert row["by"].startswith("token:")
    assert row["by"].endswith(":operators")


def test_retry(web):
    job_id = web.die()
    assert web("POST", f"/v1/jobs/{job_id}/retry", {"reason": "fixed"})["state"] == "available"
    assert web("GET", "/v1/audit")["items"][0]["why"] == "fixed"
    web("POST", f"/v1/jobs/{job_id}/retry", code=409)
    web("POST", f"/v1/jobs/{job_id}/retry?priority=true", code=409)


def test_express_jumps_the_line(web):
    """T-M1: with ``priority=true`` a job runs next although a thousand wait; without it does not."""
    web.app.enqueue_many(web.app.new("n") for _ in range(1000))
    plain, urgent = web.put("plain"), web.put("urgent")
    web("POST", f"/v1/jobs/{plain}/process")
    told = web("POST", f"/v1/jobs/{urgent}/process?priority=true")
    assert told["express"] is True
    (lease,) = web("POST", "/v1/leases", {})["items"]
    assert lease["id"] == urgent
    (lease,) = web("POST", "/v1/leases", {})["items"]
    assert lease["id"] != plain


@pytest.mark.parametrize("verb", ["expedite", "process?priority=true"])
def test_a_full_express_lane_changes_nothing(web, verb):
    """T-M2, T-M3."""
    jobs = [web.put() for _ in range(21)]
    for job_id in jobs[:20]:
        web("POST", f"/v1/jobs/{job_id}/{verb}")
    dead = web.put("dies", tier="critical")
    claim = web.app.claim(tasks=["dies"])
    assert claim is not None
    claim.dead("bad")
    before = web.rows()
    refusals = [f"/v1/jobs/{jobs[20]}/{verb}", f"/v1/jobs/{dead}/retry?priority=true"]
    refusals.append(f"/v1/jobs/{dead}/process?priority=true")
    for path in refusals:
        response = web.raw("POST", path)
        told = response.json()
        assert (response.status_code, told["code"], told["current"], told["max"]) == (429, "express-full", 20, 20)
        assert int(response.headers["retry-after"]) == told["retry_after"]
    assert web.rows() == before
    assert web.app.claim() is not None
    web("POST", f"/v1/jobs/{jobs[20]}/{verb}")


def test_boost_and_set_tier(web):
    job_id = web.put()
    assert web("POST", f"/v1/jobs/{job_id}/boost", {"tier": "high"})["outcome"] == "boosted"
    told = web("POST", f"/v1/jobs/{job_id}/boost", {"tier": "low"})
    assert (told["outcome"], told["tier"]) == ("not_higher", "high")
    assert web("POST", f"/v1/jobs/{job_id}/boost", {"tier": "low", "lower": True})["tier"] == "low"
    web("POST", f"/v1/jobs/{job_id}/boost", {"tier": 1}, code=422)
    web("POST", f"/v1/jobs/{job_id}/boost", {}, code=422)
    web("POST", f"/v1/jobs/{NIL}/boost", {"tier": "high"}, code=404)


# ---------------------------------------------------------------- confined to a tenant


def test_a_confined_token_stores_for_its_own_tenant(web):
    acme = web.as_token("operator", tenant="acme")
    assert acme("POST", "/v1/jobs", {"task": "a"}, code=201)["tenant"] == "acme"
    before = web.rows()
    assert acme("POST", "/v1/jobs", {"task": "a", "tenant": "globex"}, code=403)["code"] == "forbidden"
    assert [row[1:] for row in web.rows()["job"]] == [row[1:] for row in before["job"]]


@pytest.mark.parametrize("on_conflict", ["return", "raise", "replace", "successor"])
def test_a_confined_token_meets_no_other_tenants_dedup_key(web, on_conflict):
    theirs = web.put(tenant="globex", dedup_key="k")
    acme = web.as_token("operator", tenant="acme")
    before = web.rows()["job"]
    told = acme("POST", "/v1/jobs", {"task": "a", "dedup_key": "k", "on_conflict": on_conflict}, code=409)
    assert theirs not in str(told)
    assert web.rows()["job"] == before


def test_a_confined_token_waits_for_no_other_tenants_job(web):
    theirs = web.put(tenant="globex")
    acme = web.as_token("operator", tenant="acme")
    acme("POST", "/v1/jobs", {"task": "a", "after": [theirs]}, code=404)
    mine = acme("POST", "/v1/jobs", {"task": "a"}, code=201)["id"]
    assert acme("POST", "/v1/jobs", {"task": "a", "after": [mine]}, code=201)["state"] == "scheduled"


def test_a_confined_token_sees_its_own_jobs_and_figures(web):
    web.put(tenant="acme")
    web.put(tenant="globex")
    acme = web.as_token("viewer", tenant="acme")
    assert [one["tenant"] for one in acme("GET", "/v1/jobs")["items"]] == ["acme"]
    assert acme("GET", "/v1/jobs?tenant=globex")["items"] == []
    assert acme("GET", "/v1/stats/depth")["available"] == 1
    assert [one["name"] for one in acme("GET", "/v1/tenants")["items"]] == ["acme"]
    (queue,) = acme("GET", "/v1/queues")["items"]
    assert queue["available"] == 1
    for path in ("/v1/inversions", "/v1/workers", "/v1/audit", "/v1/tenants/globex", "/v1/dead/groups", "/metrics"):
        acme("GET", path, code=403)


# ---------------------------------------------------------------- traces


def test_a_trace_id_comes_back_and_goes_into_the_job(web):
    """T-M7."""
    trace_id = "0af7651916cd43dd8448eb211c80319c"
    response = web.raw("POST", "/v1/jobs", {"task": "a"}, x_trace_id=trace_id, x_request_id="req-1")
    assert response.headers["x-trace-id"] == trace_id
    assert response.headers["x-request-id"] == "req-1"
    assert trace_id in web("GET", f"/v1/jobs/{response.json()['id']}")["trace"]
    parent = f"00-{'ab' * 16}-{'cd' * 8}-01"
    response = web.raw("POST", "/v1/jobs", {"task": "a"}, traceparent=parent)
    assert web("GET", f"/v1/jobs/{response.json()['id']}")["trace"] == parent


@pytest.mark.parametrize("bad", ["", "xyz", "0" * 32, "g" * 32, "a" * 33, "a b"])
def test_a_bad_trace_id_is_replaced(web, bad):
    response = web.raw("GET", "/v1/jobs", x_trace_id=bad, x_request_id="a b\t")
    found = response.headers["x-trace-id"]
    assert len(found) == 32
    assert found != bad
    assert int(found, 16)
    assert response.headers["x-request-id"] == found


def test_a_requests_trace_stands_in_the_jobs_log_lines(web):
    """T-M7."""
    from fairlane.worker import JobFilter

    trace_id = "0af7651916cd43dd8448eb211c80319c"
    seen: list[str] = []

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            seen.append(f"{record.getMessage()} {record.job_trace}")  # type: ignore[attr-defined]

    logger = logging.getLogger("of.a.task")
    handler = Handler()
    handler.addFilter(JobFilter())
    logger.addHandler(handler)

    @web.app.task(name="speaks")
    def speaks() -> None:
        logger.warning("hello")

    try:
        web("POST", "/v1/jobs", {"task": "speaks"}, code=201, x_trace_id=trace_id)
        drain(web.app)
    finally:
        logger.removeHandler(handler)
    (line,) = seen
    assert line.startswith("hello 00-" + trace_id)
