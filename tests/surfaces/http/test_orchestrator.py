"""The orchestrator's routes: addresses, envelope, messages and statuses, and what is mended. T-M3…T-M6, T-M20."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # "importlib" mode finds no neighbours by itself

from http_rig import NIL, Web, serving

import fairlane as fl

BASES = ("/jobs", "/api/v1/jobs")
VERBS = (("process", "processing"), ("verify", "verification"), ("retry", "retry"))


@pytest.fixture
def web() -> Iterator[Web]:
    with serving(orchestrator="post", orchestrator_admin=True) as web:
        yield web


def in_verify(web: Web, *, timed_out: bool = False) -> str:
    """Return a job whose work waits for a check, or one that died for want of further checks."""

    @web.app.task(name="prove", retry=fl.Retry(max_attempts=2))
    def prove() -> str: ...

    @prove.verify(every=30, max_checks=1)
    def check(reference: str) -> object: ...

    job_id = str(prove.enqueue().id)
    claim = web.app.claim(tasks=["prove"])
    assert claim is not None
    claim.ack("ext")
    if timed_out:
        web.clock.advance(seconds=31)
        claim = web.app.claim()
        assert claim is not None
        claim.pending()
    return job_id


@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize("priority", [True, False])
def test_messages(web, base, priority):
    jobs = {"process": web.put(), "verify": in_verify(web), "retry": web.die(task="dies", tier="critical")}
    for verb, word in VERBS:
        told = web("POST", f"{base}/{jobs[verb]}/{verb}?priority={str(priority).lower()}")
        how = "PRIORITY" if priority else "normal"
        assert told["success"] is True
        assert told["message"] == f"Job with id {jobs[verb]} queued for {how} {word}"
        assert web.app.get(jobs[verb]).express is priority


@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize("verb", [verb for verb, _ in VERBS])
def test_statuses(web, base, verb):
    """T-M6."""
    assert web("POST", f"{base}/{NIL}/{verb}", code=404)["success"] is False
    web("POST", f"{base}/nonsense/{verb}", code=400)
    web("POST", f"{base}/{NIL}/{verb}?priority=perhaps", code=400)
    done = web.put()
    claim = web.app.claim()
    assert claim is not None
    claim.ack()
    before = web.rows()
    web("POST", f"{base}/{done}/{verb}", code=409)
    web("POST", f"{base}/{done}/{verb}?priority=true", code=409)
    web("GET", f"{base}/{done}/{verb}", code=405)
    assert web.rows() == before


def test_a_full_lane_changes_nothing(web):
    """T-M3: both lanes, each with its own places."""
    ready = [web.put() for _ in range(21)]
    checks = in_verify(web)
    for job_id in ready[:20]:
        web("POST", f"/jobs/{job_id}/process?priority=true")
    before = web.rows()
    response = web.raw("POST", f"/jobs/{ready[20]}/process?priority=true")
    assert response.status_code == 429
    assert response.json()["message"] == (
        "Priority queue is full (current: 20, max: 20). Please try again later or use normal queue."
    )
    assert int(response.headers["retry-after"]) >= 1
    assert web.rows() == before
    web("POST", f"/jobs/{checks}/verify?priority=true")


def test_retry_is_for_failed_jobs_alone(web):
    """T-M17, as in the original; with ``priority`` too."""
    waiting = web.put()
    for query in ("", "?priority=true"):
        before = web.rows()
        web("POST", f"/jobs/{waiting}/retry{query}", code=409)
        assert web.rows() == before


@pytest.mark.parametrize("base", BASES)
def test_lists(web, base):
    dead = web.die()
    waiting = web.put("mail.send", tags=["block:7"])
    checks = in_verify(web)
    told = web("GET", base)
    assert told["success"] is True
    assert {"job_type": "mail.send", "id": waiting, "status": "Created"} in told["data"]["jobs"]
    for status, job_id in (
        ("Failed", dead),
        ("Created", waiting),
        ("PendingVerification", checks),
        ("pending_retry", None),
    ):
        found = [one["id"] for one in web("GET", f"{base}?status={status}")["data"]["jobs"]]
        assert found == ([] if job_id is None else [job_id]), status
    web("GET", f"{base}?status=Lost", code=400)
    assert [one["id"] for one in web("GET", f"{base}/block/7/status")["data"]["jobs"]] == [waiting]
    assert web("GET", f"{base}/block/8/status")["data"]["jobs"] == []
    web("GET", f"{base}/block/x/status", code=400)


def test_every_answer_is_json(web):
    """T-M5: also what is not there."""
    for method, path, code in (
        ("GET", "/api/v1/nothing", 404),
        ("DELETE", "/jobs", 405),
        ("POST", "/admin/nothing", 404),
    ):
        assert web(method, path, code=code)["success"] is False
    assert web("GET", "/health") == {"success": True, "data": "UP"}
    for gone in ("/batches", "/blocks"):
        web("GET", gone, code=404)
    web("POST", "/admin/batches/close-open", code=404)


def test_get_makes_changes_only_in_legacy():
    with serving(orchestrator="legacy") as web:
        job_id = web.put()
        told = web("GET", f"/jobs/{job_id}/process?priority=true")
        assert told["message"].endswith("PRIORITY processing")
        web("GET", f"/jobs/{job_id}/process?priority=true", code=403, Origin="https://evil.example")
        web("GET", f"/jobs/{job_id}/process?priority=true", code=403, Sec_Fetch_Site="cross-site")
        web("POST", "/admin/jobs/retry/failed", code=404)


def test_the_routes_are_there_only_when_asked_for():
    with serving() as web:
        web.put()
        assert "success" not in web.raw("POST", f"/api/v1/jobs/{NIL}/process").text


def test_browsers_get_the_dashboards_page(web):
    page = web.raw("GET", "/jobs", accept="text/html,*/*")
    assert page.status_code == 200
    assert page.headers["content-type"].startswith("text/html")


# ---------------------------------------------------------------- for admins


def test_admin_routes_heal_and_find_nothing_the_second_time(web):
    """T-M20."""
    admin = web.as_token("admin")
    failed = web.die(task="a")
    other = web.die(task="b")
    timed_out = in_verify(web, timed_out=True)
    told = admin("POST", "/admin/jobs/retry/failed?job_type=a")["data"]
    assert (told["success_count"], told["successful_job_ids"]) == (1, [failed])
    told = admin("POST", "/admin/jobs/retry/failed")["data"]
    assert told["successful_job_ids"] == [other]
    told = admin("POST", "/admin/jobs/reverify/verification-timeout")["data"]
    assert told["successful_job_ids"] == [timed_out]
    claim = web.app.claim(lease=1, tasks=["a"])
    assert claim is not None
    web.clock.advance(seconds=2)
    told = admin("POST", "/admin/jobs/requeue/created")["data"]
    assert told["successful_job_ids"] == [failed]
    for route in ("retry/failed", "reverify/verification-timeout", "requeue/created", "requeue/pending-verification"):
        before = web.rows()["job"]
        told = admin("POST", f"/admin/jobs/{route}")["data"]
        assert told == {"success_count": 0, "successful_job_ids": [], "failed_count": 0, "failed_job_ids": []}
        assert web.rows()["job"] == before


@pytest.mark.parametrize("role", ["viewer", "operator"])
def test_admin_routes_are_for_admins(web, role):
    web.die()
    caller = web.as_token(role)
    before = web.rows()["job"]
    for route in ("retry/failed", "reverify/verification-timeout", "requeue/created", "requeue/pending-verification"):
        caller("POST", f"/admin/jobs/{route}", code=403)
        web.as_token("admin", tenant="acme")("POST", f"/admin/jobs/{route}", code=403)
    assert web.rows()["job"] == before
