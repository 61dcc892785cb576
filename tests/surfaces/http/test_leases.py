"""``/v1/leases``: workers in other languages."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # "importlib" mode finds no neighbours by itself

from http_rig import NIL, Web, serving

import fairlane as fl

ENDS = ("ack", "nack", "save", "heartbeat")


@pytest.fixture
def web() -> Iterator[Web]:
    with serving() as web:
        yield web


def claimed(web: Web, **more: object) -> dict[str, Any]:
    (lease,) = web("POST", "/v1/leases", more)["items"]
    return lease


def test_claim_work_and_ack(web):
    job_id = web.put("add", args={"a": 1, "n": 2**60}, tenant="acme", tier="high")
    lease = claimed(web, lease=10)
    assert (lease["id"], lease["task"], lease["tenant"], lease["tier"]) == (job_id, "add", "acme", "high")
    assert lease["args"] == {"a": 1, "n": 2**60}
    assert web("POST", "/v1/leases", {})["items"] == []
    web.clock.advance(seconds=8)
    beat = web("POST", f"/v1/leases/{job_id}/heartbeat", {"fence": lease["fence"], "lease": 10})
    assert beat["asked"] is None
    web.clock.advance(seconds=8)
    web(
        "POST",
        f"/v1/leases/{job_id}/save",
        {"fence": lease["fence"], "checkpoint": {"at": 3}, "progress": 0.5},
        code=204,
    )
    job = web("GET", f"/v1/jobs/{job_id}")
    assert (job["checkpoint"], job["progress"]["share"]) == ({"at": 3}, 0.5)
    web("POST", f"/v1/leases/{job_id}/ack", {"fence": lease["fence"], "result": [1, None]}, code=204)
    job = web("GET", f"/v1/jobs/{job_id}")
    assert (job["state"], job["result"]) == ("completed", [1, None])


def test_queues_tasks_and_pools(web):
    web.put("a", queue="x")
    web.put("b", queue="y")
    assert web("POST", "/v1/leases", {"tasks": ["other"]})["items"] == []
    assert claimed(web, queues=["y"])["task"] == "b"
    assert claimed(web, tasks=["a"])["task"] == "a"
    web.app.queues["z"].set(pool="gpu")
    assert web("POST", "/v1/leases", {"queues": ["x", "z"]}, code=422)["code"] == "validation"
    assert len(web("POST", "/v1/leases", {"max": 5})["items"]) == 0


@pytest.mark.parametrize(
    "body",
    [
        {"queues": []}, {"queues": "x"}, {"max": 0}, {"max": 101}, {"wait": 61}, {"wait": -1}, {"lease": 0},
        {"lease": 86_401}, {"lease": True}, {"what": 1}, {"tasks": [""]},
    ],
    ids=str,
)  # fmt: skip
def test_claims_that_cannot_be(web, body):
    web.put()
    assert web("POST", "/v1/leases", body, code=422)["code"] == "validation"
    assert claimed(web)


def test_waiting_for_a_job(web):
    told: list[Any] = []
    thread = threading.Thread(target=lambda: told.append(web("POST", "/v1/leases", {"wait": 15})))
    thread.start()
    job_id = web.put()
    thread.join(15)
    assert [one["id"] for one in told[0]["items"]] == [job_id]


def test_a_lease_that_ran_out_is_lost(web):
    job_id = web.put()
    lease = claimed(web, lease=1)
    web.clock.advance(seconds=2)
    web.app.rescue()
    before = web.rows()
    for verb in ENDS:
        told = (
            web("POST", f"/v1/leases/{job_id}/{verb}", {"fence": lease["fence"], "progress": 0.5}, code=409)
            if (verb == "save")
            else web("POST", f"/v1/leases/{job_id}/{verb}", {"fence": lease["fence"]}, code=409)
        )
        assert told["code"] == "lease-lost"
    assert web.rows() == before
    again = claimed(web)
    assert again["fence"] > lease["fence"]
    assert again["attempt"] == 2
    assert web("POST", f"/v1/leases/{job_id}/ack", {"fence": lease["fence"]}, code=409)["code"] == "lease-lost"
    web("POST", f"/v1/leases/{job_id}/ack", {"fence": again["fence"]}, code=204)
    assert web("POST", f"/v1/leases/{job_id}/ack", {"fence": again["fence"]}, code=409)["code"] == "lease-lost"


def test_a_heartbeat_takes_nothing_of_a_long_lease_away(web):
    job_id = web.put()
    lease = claimed(web, lease=600)
    path, fence = f"/v1/leases/{job_id}/heartbeat", lease["fence"]
    web.clock.advance(seconds=100)
    assert web("POST", path, {"fence": fence})["lease_expires_at"] == lease["lease_expires_at"]
    web.clock.advance(seconds=490)
    late = web("POST", path, {"fence": fence})["lease_expires_at"]
    assert datetime.fromisoformat(late) - datetime.fromisoformat(lease["lease_expires_at"]) == timedelta(seconds=20)
    shorter = web("POST", path, {"fence": fence, "lease": 5})["lease_expires_at"]
    assert datetime.fromisoformat(late) - datetime.fromisoformat(shorter) == timedelta(seconds=25)


@pytest.mark.parametrize("verb", ENDS)
def test_errors_of_each_call(web, verb):
    job_id = web.put()
    lease = claimed(web)
    before = web.rows()
    assert web(
        "POST", f"/v1/leases/{NIL}/{verb}", {"fence": 1, "progress": 0.1} if verb == "save" else {"fence": 1}, code=404
    )
    web("POST", f"/v1/leases/x/{verb}", {"fence": 1}, code=422)
    for fence in (None, "1", -1, 1.5, True, 2**63):
        web("POST", f"/v1/leases/{job_id}/{verb}", {"fence": fence}, code=422)
    web("POST", f"/v1/leases/{job_id}/{verb}", {}, code=422)
    wrong = {"fence": lease["fence"] + 1} | ({"progress": 0.1} if verb == "save" else {})
    assert web("POST", f"/v1/leases/{job_id}/{verb}", wrong, code=409)["code"] == "lease-lost"
    assert web.rows() == before


@pytest.mark.parametrize(
    ("verb", "body", "state"),
    [
        ("nack", {"error": "bad"}, "scheduled"),
        ("nack", {"error": "bad", "retry_in": 0}, "available"),
        ("nack", {"error": "bad", "outcome": "dead"}, "dead"),
        ("nack", {"outcome": "snoozed", "retry_in": 5}, "scheduled"),
        ("nack", {"outcome": "released"}, "available"),
        ("ack", {"outcome": "cancelled", "reason": "asked"}, "cancelled"),
    ],
    ids=str,
)
def test_how_a_run_may_end(web, verb, body, state):
    job_id = web.put()
    lease = claimed(web)
    web("POST", f"/v1/leases/{job_id}/{verb}", {"fence": lease["fence"], **body}, code=204)
    job = web("GET", f"/v1/jobs/{job_id}")
    assert job["state"] == state
    assert job["failures"] == (1 if "error" in body else 0)


def test_a_result_that_is_too_large_is_no_reason_to_lose_the_run(web):
    job_id = web.put()
    lease = claimed(web)
    web("POST", f"/v1/leases/{job_id}/ack", {"fence": lease["fence"], "result": "x" * 300_000}, code=204)
    told = web("GET", f"/v1/jobs/{job_id}/result")
    assert (told["state"], told["stored"]) == ("completed", False)


def test_a_checkpoint_that_cannot_be_stored(web):
    job_id = web.put()
    lease = claimed(web)
    path = f"/v1/leases/{job_id}/save"
    assert web("POST", path, {"fence": lease["fence"], "checkpoint": "x" * 300_000}, code=422)["code"] == "validation"
    web("POST", path, {"fence": lease["fence"], "progress": 1.5}, code=422)


def test_being_asked_to_stop(web):
    job_id = web.put()
    lease = claimed(web)
    web("POST", f"/v1/jobs/{job_id}/cancel")
    assert web("POST", f"/v1/leases/{job_id}/heartbeat", {"fence": lease["fence"]})["asked"] == "cancel"
    web("POST", f"/v1/leases/{job_id}/ack", {"fence": lease["fence"], "outcome": "cancelled"}, code=204)
    assert web("GET", f"/v1/jobs/{job_id}")["state"] == "cancelled"


def test_two_phases(web):
    @web.app.task(name="prove", retry=fl.Retry(max_attempts=2, base=0.001, jitter=0))
    def prove() -> str:
        return "never called here"

    @prove.verify(every=30, max_checks=3)
    def check(reference: str) -> object:
        return fl.Pending()

    job_id = str(prove.enqueue().id)
    lease = claimed(web)
    web("POST", f"/v1/leases/{job_id}/ack", {"fence": lease["fence"], "result": "ext-7"}, code=204)
    assert web("GET", f"/v1/jobs/{job_id}")["phase"] == "verify"
    assert web("POST", "/v1/leases", {})["items"] == []
    told = web("POST", f"/v1/jobs/{job_id}/verify?priority=true")
    assert told["express"] is True
    lease = claimed(web)
    assert (lease["phase"], lease["reference"]) == ("verify", "ext-7")
    web("POST", f"/v1/leases/{job_id}/nack", {"fence": lease["fence"], "outcome": "pending"}, code=204)
    web("POST", f"/v1/jobs/{job_id}/process", code=409)
    web.clock.advance(seconds=31)
    lease = claimed(web)
    web("POST", f"/v1/leases/{job_id}/nack", {"fence": lease["fence"], "outcome": "rejected", "error": "no"}, code=204)
    assert web("GET", f"/v1/jobs/{job_id}")["phase"] == "process"
    web.clock.advance(seconds=31)
    lease = claimed(web)
    told = web("POST", f"/v1/leases/{job_id}/nack", {"fence": lease["fence"], "outcome": "pending"}, code=409)
    assert told["code"] == "conflict-state"


def test_confined_and_looking_tokens_run_nothing(web):
    web.put(tenant="acme")
    before = web.rows()["job"]
    web.as_token("operator", tenant="acme")("POST", "/v1/leases", {}, code=403)
    web.as_token("viewer")("POST", "/v1/leases", {}, code=403)
    assert web.rows()["job"] == before
