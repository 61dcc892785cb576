"""Figures, inversions, incidents, the record of changes, many at once, simulations, metrics, health."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics_families
from prometheus_client.parser import text_string_to_metric_families

sys.path.insert(0, str(Path(__file__).parent))  # "importlib" mode finds no neighbours by itself

from http_rig import NIL, Web, serving

from fairlane import metrics
from fairlane.errors import ConfigError
from fairlane.http import ops
from fairlane.http.options import HttpOptions
from fairlane.testing import drain


@pytest.fixture
def web() -> Iterator[Web]:
    with serving() as web:
        yield web


def test_depth_equals_the_rows(web):
    for tenant, tier in (("a", "high"), ("a", "low"), ("b", "high")):
        web.put(tenant=tenant, tier=tier)
    web.put(delay=5)
    web.app.claim()
    told = web("GET", "/v1/stats/depth?by=tier")
    assert (told["scheduled"], told["available"], told["running"]) == (1, 2, 1)
    assert sum(row["available"] for row in told["items"]) == 2
    assert set(told["items"][0]) == {"tier", "scheduled", "available", "running", "oldest_at", "oldest_wait_s"}
    assert len(web("GET", "/v1/stats/depth")["items"]) == 4
    for by in ("", "colour", "tier,colour", "tier,,queue"):
        assert web("GET", f"/v1/stats/depth?by={by}", code=422)["code"] == "validation"


def test_waits(web):
    web.put(tenant="a")
    web.clock.advance(seconds=3)
    web.app.claim().ack()
    (row,) = web("GET", "/v1/stats/waits?by=tenant")["items"]
    assert (row["tenant"], row["jobs"], row["p50"]) == ("a", 1, 3.0)
    for window in ("0", "-1", "nan", "inf", "1e9", "x"):
        web("GET", f"/v1/stats/waits?window={window}", code=422)
    assert web.as_token("viewer", tenant="b")("GET", "/v1/stats/waits?by=tier")["items"] == []


def test_inversions(web):
    told = web("GET", "/v1/inversions")
    assert told["unexplained"] == []
    web("GET", "/v1/inversions?window=0", code=422)


def test_incidents(web):
    web.app.tiers["high"].set(objective=5)
    web.put(tenant="acme", tier="high")
    web.clock.advance(seconds=10)
    web.app.monitor()
    (one,) = web("GET", "/v1/incidents")["items"]
    assert (one["tier"], one["tenant"], one["cause"]) == ("high", "acme", "no_worker")
    assert web.as_token("viewer", tenant="globex")("GET", "/v1/incidents")["items"] == []
    viewer = web.as_token("viewer", tenant="acme")
    assert len(viewer("GET", "/v1/incidents?resolved=true")["items"]) == 1
    for asked in ("limit=0", "limit=1001", "resolved=perhaps"):
        viewer("GET", f"/v1/incidents?{asked}", code=422)


def test_workers(web):
    with web.app.worker(concurrency=3):
        (one,) = web("GET", "/v1/workers")["items"]
        assert one["slots"] == 3


def test_audit_pages(web):
    for number in range(5):
        web("PUT", "/v1/queues/q", {"max_running": number, "reason": f"r{number}"})
    told = web("GET", "/v1/audit?limit=2")
    assert [one["why"] for one in told["items"]] == ["r4", "r3"]
    told = web("GET", f"/v1/audit?limit=3&cursor={told['next_cursor']}")
    assert [one["why"] for one in told["items"]] == ["r2", "r1", "r0"]
    assert told["next_cursor"] is None
    for asked in ("limit=0", "cursor=5", "cursor=a-1", "cursor=a99999999999999999999", "target="):
        web("GET", f"/v1/audit?{asked}", code=422)


# ---------------------------------------------------------------- many at once


def test_bulk_with_preview(web):
    for _ in range(3):
        web.put(queue="q")
    web.put(queue="other")
    asked = {"filter": {"queue": "q"}, "action": "cancel", "reason": "wrong"}
    before = web.rows()
    told = web("POST", "/v1/bulk", asked | {"dry_run": True})
    assert (told["count"], len(told["sample"])) == (3, 3)
    assert web.rows() == before
    response = web.raw("POST", "/v1/bulk", asked)
    assert response.status_code == 202
    operation = response.json()
    assert response.headers["location"] == f"/v1/bulk/{operation['id']}"
    web.app.operation(operation["id"]).run()
    told = web("GET", f"/v1/bulk/{operation['id']}")
    assert (told["state"], told["done"], told["progress"], told["by"]) == ("done", 3, 1.0, "local")
    assert len(web("GET", "/v1/jobs?state=available")["items"]) == 1
    assert [one["id"] for one in web("GET", "/v1/bulk")["items"]] == [operation["id"]]
    assert web("POST", f"/v1/bulk/{operation['id']}/cancel", code=409)["code"] == "conflict-state"


def test_an_operation_is_paused_resumed_cancelled(web):
    for _ in range(3):
        web.put(queue="q")
    asked = {"filter": {"queue": "q"}, "action": "cancel", "rate": 1}
    operation = web("POST", "/v1/bulk", asked, code=202)["id"]
    assert web("POST", f"/v1/bulk/{operation}/pause")["state"] == "paused"
    assert web("POST", f"/v1/bulk/{operation}/resume")["state"] == "running"
    assert web("POST", f"/v1/bulk/{operation}/cancel", {"reason": "enough"})["state"] == "cancelled"


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"filter": {}, "action": "cancel"},
        {"filter": {"queue": "q"}, "action": "explode"},
        {"filter": {"queue": "q"}, "action": "boost"},
        {"filter": {"queue": "q"}, "action": "cancel", "tier": "high"},
        {"filter": {"queue": "q"}, "action": "cancel", "rate": 0},
        {"filter": {"queue": "q"}, "action": "cancel", "limit": 0},
        {"filter": {"queue": "q", "state": "completed"}, "action": "cancel"},
        {"filter": {"queue": "q", "state": []}, "action": "cancel"},
        {"filter": {"ids": ["x"]}, "action": "cancel"},
        {"filter": {"colour": "q"}, "action": "cancel"},
    ],
    ids=str,
)
def test_operations_that_cannot_be(web, body):
    web.put(queue="q")
    before = web.rows()
    assert web("POST", "/v1/bulk", body, code=422)["code"] == "validation"
    assert web.rows() == before


def test_no_such_operation(web):
    for method, path in (("GET", ""), ("POST", "/cancel"), ("POST", "/pause"), ("POST", "/resume")):
        assert web(method, f"/v1/bulk/{NIL}{path}", code=404)["code"] == "not-found"
        assert web(method, f"/v1/bulk/x{path}", code=422)["code"] == "validation"


def test_rights_to_operations(web):
    mine = [web.put(queue="q", tenant="acme") for _ in range(2)]
    web.put(queue="q", tenant="globex")
    acme = web.as_token("operator", tenant="acme")
    operation = acme("POST", "/v1/bulk", {"filter": {"queue": "q"}, "action": "cancel"}, code=202)["id"]
    web.app.operation(operation).run()
    assert {one["id"] for one in web("GET", "/v1/jobs?state=cancelled", **admin(web))["items"]} == set(mine)
    globex = web.as_token("admin", tenant="globex")
    globex("GET", f"/v1/bulk/{operation}", code=404)
    globex("POST", f"/v1/bulk/{operation}/pause", code=404)
    assert globex("GET", "/v1/bulk")["items"] == []
    asked = {"filter": {"queue": "q", "tenant": "globex"}, "action": "cancel"}
    acme("POST", "/v1/bulk", asked, code=422)
    assert acme("POST", "/v1/bulk", asked | {"dry_run": True})["count"] == 0
    acme("POST", "/v1/bulk", {"filter": {"queue": "q"}, "action": "discard"}, code=403)


def admin(web: Web) -> dict[str, str]:
    return web.as_token("admin").headers


def test_dead_groups_and_replay(web):
    for _ in range(3):
        web.die()
    (group,) = web("GET", "/v1/dead/groups")["items"]
    assert group["count"] == 3
    response = web.raw("POST", f"/v1/dead/groups/{group['fingerprint']}/replay", {"rate": None, "limit": 2})
    assert response.status_code == 202
    web.app.operation(response.json()["id"]).run()
    assert len(web("GET", "/v1/jobs?state=available")["items"]) == 2
    web("POST", f"/v1/dead/groups/{group['fingerprint']}/replay", {"rate": 0}, code=422)
    web("GET", "/v1/dead/groups?limit=0", code=422)
    body = {"phase": "verify"}  # these jobs have handed nothing over
    told = web("POST", f"/v1/dead/groups/{group['fingerprint']}/replay", body, code=202)
    refused = web.app.operation(told["id"]).run()
    assert (told["action"], refused.done, refused.refused) == ("reverify", 0, 1)
    web("POST", f"/v1/dead/groups/{group['fingerprint']}/replay", body | {"tier": "low"}, code=422)
    told = web("POST", "/v1/dead/groups/nothing/replay", code=202)
    assert told["total"] == 0


# ---------------------------------------------------------------- what if


def test_simulations(web):
    jobs = [{"submit": n, "tenant": f"t{n % 2}", "run": 2, "tier": "high" if n % 3 else "low"} for n in range(20)]
    told = web("POST", "/v1/simulations", {"jobs": jobs, "workers": 1, "policies": ["fair", "fifo"]})
    assert set(told["policies"]) == {"fair", "fifo"}
    assert told["policies"]["fair"]["tiers"]["high"]["p50"] <= told["policies"]["fifo"]["tiers"]["high"]["p50"]

    @web.app.task(name="quick")
    def quick() -> None: ...

    for _ in range(3):
        quick.enqueue()
    drain(web.app)
    assert web("POST", "/v1/simulations", {"workers": 1})["jobs"] == 3


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"jobs": []},
        {"jobs": [{"submit": 0}]},
        {"jobs": [{"submit": -1, "run": 1}]},
        {"jobs": [{"submit": 0, "run": 1}], "policies": []},
        {"jobs": [{"submit": 0, "run": 1}], "policies": ["fair", "fair"], "workers": 1},
        {"jobs": [{"submit": 0, "run": 1}], "workers": 0},
        {"jobs": [{"submit": 0, "run": 1}], "workers": 1, "weights": {"nobody": 2}},
        {"jobs": [{"submit": 0, "run": 1}], "workers": 1, "caps": {"default": 0}},
        {"window": 0},
    ],
    ids=str,
)
def test_simulations_that_cannot_be(web, body):
    assert web("POST", "/v1/simulations", body, code=422)["code"] == "validation"


def test_one_simulation_at_a_time(web):
    web.client.app.state.tally.simulating = 1
    assert web("POST", "/v1/simulations", {"workers": 1}, code=429)["code"] == "rate-limited"


# ---------------------------------------------------------------- health and metrics


def test_health(web):
    web.as_token("viewer")  # closed, and yet
    assert web("GET", "/healthz", Host="whatever")["status"] == "ok"
    assert web("GET", "/readyz")["status"] == "ready"
    web.app.close()
    assert web("GET", "/healthz")["status"] == "ok"
    assert web("GET", "/readyz", code=503)["code"] == "store-unavailable"


def test_a_store_that_says_nothing_is_not_ready(web, monkeypatch):
    """B19: somebody waits for it, and holds the connection for reading."""
    monkeypatch.setattr(ops, "READY_S", 0.01)
    with web.app.owner._reading:
        told = web("GET", "/readyz", code=503)
    assert told["code"] == "store-unavailable"
    assert "has not answered" in told["detail"]
    monkeypatch.undo()
    assert web("GET", "/readyz")["status"] == "ready"


def test_metrics_equal_the_rows_and_are_well_formed(web):
    hostile = 'q"\\\n<b>'
    web.put(queue=hostile, tier="critical", delay=9)
    web.put(queue="mail", tier="high")
    web.clock.advance(seconds=4)
    web.die(task="dies", queue="x", tier="critical")
    web("POST", f"/v1/jobs/{web.put(queue='mail')}/expedite")
    web("GET", "/v1/jobs/nothing", code=422)
    body = web.raw("GET", "/metrics").text
    families = {family.name: family for family in text_string_to_metric_families(body)}
    values = {
        (one.name, *sorted(one.labels.items())): one.value for family in families.values() for one in family.samples
    }
    assert values["fairlane_scheduled_jobs", ("queue", hostile), ("tier", "critical")] == 1
    assert values["fairlane_available_jobs", ("queue", "mail"), ("tier", "high")] == 1
    assert values["fairlane_oldest_available_seconds", ("queue", "mail"), ("tier", "high")] == 4
    assert values[("fairlane_dead_jobs",)] == 1
    assert values[("fairlane_express_in_use",)] == 1
    assert values["fairlane_operations_total", ("operation", "expedite"), ("priority", "true")] == 1
    key = ("fairlane_http_requests_total", ("method", "GET"), ("route", "/v1/jobs/{job_id}"), ("status", "422"))
    assert values[key] == 1
    known = {metric.name.removesuffix("_total") for metric in metrics.METRICS}
    assert set(families) <= known
    units = (
        "_seconds",
        "_total",
        "_jobs",
        "_info",
        "_slots",
        "_starts",
        "_busy",
        "_use",
        "_capacity",
        "_open",
        "workers",
    )
    assert all(metric.name.endswith(units) for metric in metrics.METRICS)


def test_operations_are_counted_with_their_priority(web):
    """T-M27."""
    jobs = [web.put() for _ in range(22)]
    for job_id in jobs[:20]:
        web("POST", f"/v1/jobs/{job_id}/process?priority=true")
    web("POST", f"/v1/jobs/{jobs[20]}/process?priority=true", code=429)
    web("POST", f"/v1/jobs/{jobs[21]}/process")
    body = web.raw("GET", "/metrics").text
    assert 'fairlane_operations_total{operation="process",priority="true"} 20.0' in body
    assert 'fairlane_operations_total{operation="process",priority="false"} 1.0' in body
    assert "fairlane_express_rejected_total 1.0" in body


def test_metrics_stay_small(web):
    """B47: ten thousand tenants and a thousand queues."""
    web.app.enqueue_many(
        web.app.new("t", tenant=f"tenant-{number}", queue=f"queue-{number % 1000}") for number in range(10_000)
    )
    body = web.raw("GET", "/metrics").text
    assert len(body) < 50_000
    assert 'queue="other"' in body
    assert "tenant-" not in body
    counted = sum(
        float(line.rpartition(" ")[2]) for line in body.splitlines() if line.startswith("fairlane_available_jobs{")
    )
    assert counted == 10_000


def test_tenants_are_in_the_metrics_where_the_server_is_told_so():
    with serving(metrics_tenants=1) as web:
        web.put(tenant="acme")
        web.put(tenant="acme")
        web.put(tenant="small")
        body = web.raw("GET", "/metrics").text
    assert 'fairlane_tenant_available_jobs{tenant="acme"} 2.0' in body
    assert 'fairlane_tenant_available_jobs{tenant="other"} 1.0' in body
    assert "small" not in body
    for wrong in (-1, 1_001, True):
        with pytest.raises(ConfigError, match="metrics_tenants"):
            HttpOptions(metrics_tenants=wrong)


def test_metrics_are_openmetrics_where_that_is_asked_for(web):
    web.put()
    told = web.raw("GET", "/metrics", accept="application/openmetrics-text;version=1.0.0,text/plain;q=0.5")
    assert told.headers["content-type"].startswith("application/openmetrics-text; version=1.0.0; charset=utf-8")
    families = {family.name: family for family in openmetrics_families(told.text)}
    assert families["fairlane_available_jobs"].samples[0].value == 1
    plain = web.raw("GET", "/metrics", accept="*/*")
    assert plain.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"


def test_figures_are_read_anew_after_a_while(web):
    web.raw("GET", "/metrics")
    web.put()
    assert "fairlane_available_jobs{" not in web.raw("GET", "/metrics").text, "read at most once in five seconds"
    web.client.app.state.tally.store._read_at -= metrics.FRESH_S
    assert 'fairlane_available_jobs{queue="default",tier="normal"} 1.0' in web.raw("GET", "/metrics").text
