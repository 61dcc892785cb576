"""The cumulative metrics at `/metrics`: what Prometheus gets, read by its own parser."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

sys.path.insert(0, str(Path(__file__).parent))  # "importlib" mode finds no neighbours by itself

from http_rig import Web, serving


@pytest.fixture
def web() -> Iterator[Web]:
    with serving() as web:
        yield web


def scrape(web: Web) -> dict[tuple[str, ...], float]:
    """Return every sample that a look of now gives, by name and labels."""
    web.client.app.state.tally.store.look_anew()
    body = web.raw("GET", "/metrics").text
    return {
        (one.name, *(f"{name}={value}" for name, value in sorted(one.labels.items()))): one.value
        for family in text_string_to_metric_families(body)
        for one in family.samples
    }


def test_waits_and_runs_are_histograms_by_queue_and_tier(web: Web) -> None:
    """T-B15: depth, oldest age, and how long jobs waited and ran."""
    scrape(web)
    web.put(queue="mail", tier="high")
    web.put(queue="mail", tier="high")
    web.clock.advance(seconds=90)
    claim = web.app.claim()
    assert claim is not None
    web.clock.advance(seconds=2)
    claim.ack()
    told = scrape(web)
    where = ("queue=mail", "tier=high")
    assert told["fairlane_available_jobs", *where] == 1
    assert told["fairlane_oldest_available_seconds", *where] == 92
    assert told["fairlane_job_wait_seconds_bucket", "le=60.0", *where] == 0
    assert told["fairlane_job_wait_seconds_bucket", "le=120.0", *where] == 1
    assert told["fairlane_job_wait_seconds_bucket", "le=+Inf", *where] == 1
    assert (told["fairlane_job_wait_seconds_sum", *where], told["fairlane_job_wait_seconds_count", *where]) == (90, 1)
    assert told["fairlane_job_run_seconds_sum", *where] == 2
    assert told["fairlane_jobs_finished_total", "outcome=completed", *where] == 1
    assert told["fairlane_wait_objective_total", "met=true", "tier=high"] == 1
    assert scrape(web)["fairlane_job_wait_seconds_count", *where] == 1, "the same start is counted once"
