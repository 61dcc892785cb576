"""The OpenAPI document is current, complete, and true: schemathesis sends what it allows and holds answers to it."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode
from schemathesis.checks import (
    content_type_conformance,
    not_a_server_error,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

sys.path.insert(0, str(Path(__file__).parent))  # "importlib" mode finds no neighbours by itself

from http_rig import Web, serving

import fairlane as fl
from fairlane.http.app import create_app
from fairlane.http.openapi import exported
from fairlane.http.options import HttpOptions

FILE = Path(__file__).parents[3] / "docs" / "reference" / "openapi.json"
CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]
FOUR = ("queues", "tasks", "tenants", "limits")
STEERS = ("cancel", "retry", "expedite", "boost", "process", "verify")
NAMED = [
    ("post", "/v1/jobs"), ("post", "/v1/jobs:batch"), ("get", "/v1/jobs"), ("get", "/v1/jobs/{job_id}"),
    ("get", "/v1/jobs/{job_id}/explain"), ("get", "/v1/jobs/{job_id}/attempts"), ("get", "/v1/jobs/{job_id}/result"),
    *(("post", f"/v1/jobs/{{job_id}}/{verb}") for verb in STEERS),
    ("post", "/v1/leases"), *(("post", f"/v1/leases/{{job_id}}/{v}") for v in ("heartbeat", "ack", "nack", "save")),
    *((method, f"/v1/{kind}/{{name}}") for kind in ("queues", "tenants", "limits") for method in ("get", "put")),
    *((method, f"/v1/{kind}/{{name}}/pause") for kind in FOUR for method in ("put", "delete")),
    ("get", "/v1/tasks/{name}"), ("get", "/v1/tiers/{tier}"), ("put", "/v1/tiers/{tier}"),
    ("get", "/v1/stats/depth"), ("get", "/v1/stats/waits"), ("get", "/v1/inversions"), ("get", "/v1/incidents"),
    ("get", "/v1/dead/groups"), ("post", "/v1/dead/groups/{fingerprint}/replay"), ("post", "/v1/bulk"),
    ("get", "/v1/bulk/{operation_id}"), ("post", "/v1/simulations"), ("get", "/v1/events"), ("get", "/healthz"),
    ("get", "/readyz"), ("get", "/metrics"),
]  # fmt: skip


def the_document() -> dict[str, object]:
    return json.loads(FILE.read_text("utf-8"))


def test_the_file_is_current():
    """Written by ``fairlane export-openapi --output docs/reference/openapi.json``."""
    assert FILE.read_text("utf-8") == exported()


@pytest.mark.parametrize(("method", "path"), NAMED)
def test_every_route_of_the_specification_is_described(method, path):
    operation = the_document()["paths"][path][method]
    assert operation["summary"]
    assert operation["description"]
    if path != "/healthz":
        assert operation["responses"]["503"]["content"]["application/problem+json"]


def test_it_is_of_version_3_1_and_each_operation_has_a_name_of_its_own():
    told = the_document()
    assert told["openapi"].startswith("3.1")
    names = [one["operationId"] for path in told["paths"].values() for one in path.values()]
    assert len(set(names)) == len(names)


def test_the_running_app_gives_the_same(web):
    told = web("GET", "/v1/openapi.json")
    assert told["paths"].keys() == the_document()["paths"].keys()


@pytest.fixture
def web() -> Iterator[Web]:
    with serving(dashboard=False) as web:
        yield web


# ---------------------------------------------------------------- what it allows is sent


@pytest.fixture(scope="module")
def sending() -> Iterator[dict[str, str]]:
    """Give what authorises a request, once the API is there."""
    with fl.Fairlane("sqlite://") as app:
        yield {"Authorization": f"Bearer {app.tokens.create('all', role='admin').token}", "app": app}


@pytest.fixture(scope="module")
def api(sending: dict[str, Any]) -> Any:
    """Return the API's own description of itself, as it runs."""
    app: fl.Fairlane = sending.pop("app")
    for _ in range(3):
        app.enqueue("work")
    options = HttpOptions(hosts=["testserver"], maintenance=False, rate=None)
    web = create_app(app, options=options, dashboard=False)
    found = schemathesis.openapi.from_asgi("/v1/openapi.json", web, headers=sending)
    return found.exclude(path="/v1/events")


OPERATIONS = [
    (method.upper(), path)
    for path, methods in the_document()["paths"].items()
    for method in methods
    if path != "/v1/events"  # a stream
]


@pytest.mark.slow
@pytest.mark.timeout(120)
@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE], ids=["allowed", "not allowed"])
@pytest.mark.parametrize(("method", "path"), OPERATIONS)
def test_answers_are_as_described(api, sending, method, path, mode):
    operation = api[path][method]
    some = settings(
        max_examples=10,
        deadline=None,
        database=None,
        phases=(Phase.generate,),
        suppress_health_check=list(HealthCheck),
        derandomize=True,
    )

    @some
    @given(case=operation.as_strategy(generation_mode=mode))
    def send(case: Any) -> None:
        for place in (case.body, case.query):
            if isinstance(place, dict) and isinstance(place.get("wait"), int | float):
                place["wait"] = 0  # there is nothing to wait for
        response = case.call(headers={**(case.headers or {}), **sending})
        case.validate_response(response, checks=CHECKS)

    try:
        send()
    except Unsatisfiable:
        pytest.skip("nothing can be wrong about it")
