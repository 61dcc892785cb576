"""Writes ``docs/reference/metrics.md`` from where metrics are defined: run it after a change of one.

A test holds the page equal to what this gives.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from fairlane import metrics
from fairlane.domain.tiers import Tier
from fairlane.flow import BOUNDS_S, MOST_QUEUES
from fairlane.metrics import METRICS

PAGE: Final = Path(__file__).parent / "reference" / "metrics.md"
HEAD: Final = """# Metrics

<!-- Written by docs/gen_metrics.py from fairlane/metrics.py; change that, then run it. -->

`fairlane server` tells these at `/metrics`, in Prometheus' text format or as OpenMetrics. How to scrape them, what to
alert on, and what each does not count: [metrics and tracing](../guides/metrics-and-tracing.md).

| metric | type | labels | meaning |
|---|---|---|---|
"""


def render() -> str:
    """Return the page."""
    return HEAD + "\n".join(_rows()) + "\n" + _tail()


def _rows() -> Iterator[str]:
    for metric in METRICS:
        labels = ", ".join(f"`{label}`" for label in metric.labels)
        yield f"| `{metric.name}` | {metric.type} | {labels} | {metric.help.removesuffix('.')} |"


def _tail() -> str:
    queues = f"the {metrics.MOST_QUEUES} with most live jobs (in counters and histograms the first {MOST_QUEUES} seen)"
    tenants = f"as many as `fairlane server --metrics-tenants` says, none by default, {metrics.MOST_TENANTS:,} at most"
    bounds = ", ".join(f"{bound:g}" for bound in BOUNDS_S)
    return f"""
| label | values |
|---|---|
| `queue` | {queues}, and `{metrics.OTHER}` |
| `tier` | {", ".join(f"`{tier.label}`" for tier in Tier)} |
| `quantile` | {", ".join(f"`{share:g}`" for share in metrics.QUANTILES)} |
| `outcome` | `completed`, `dead`, `cancelled` |
| `result` | `completed`, `failed`, `crashed` |
| `met` | `true`, `false` |
| `tenant` | {tenants}, and `{metrics.OTHER}` |
| `pool` | pools with workers |

Buckets of the histograms, in seconds: {bounds}.
"""


if __name__ == "__main__":
    PAGE.write_text(render(), encoding="utf-8")
