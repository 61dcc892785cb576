"""What is measured, a question a file."""

from __future__ import annotations

from typing import Final

from bench.compare.scenarios import aged, crash, drain, enqueue, flood, latency, noisy, starve
from bench.compare.scenarios.base import Scenario

SCENARIOS: Final[dict[str, Scenario]] = {
    one.name: one
    for one in (
        *enqueue.SCENARIOS,
        *drain.SCENARIOS,
        *latency.SCENARIOS,
        flood.SCENARIO,
        aged.SCENARIO,
        noisy.SCENARIO,
        starve.SCENARIO,
        *crash.SCENARIOS,
    )
}
"""Every scenario, by the name that ``--only`` takes, in the order of the report."""
