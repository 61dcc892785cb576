"""How long the simulator takes for 50,000 jobs, in processor seconds, by policy: median of three runs, and the range.

python bench/simulate_speed.py
python bench/simulate_speed.py --jobs 200000 --json
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time

from fairlane.domain.policy import Policy
from fairlane.simulate.engine import simulate
from fairlane.simulate.report import statistics as figures
from fairlane.simulate.traces import sample

SLOTS = 400
RUNS = 3


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=50_000)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    trace = sample(jobs=options.jobs, tenants=200, seconds=3600, slots=SLOTS, utilisation=0.95)
    rows: dict[str, list[float]] = {}
    for name in ("fair", "strict", "fifo"):
        for _ in range(RUNS):
            before = time.process_time()
            outcome = simulate(trace, Policy.named(name), SLOTS)
            figures(list(outcome.runs()), workers=SLOTS, span_s=trace.span_s)
            rows.setdefault(name, []).append(time.process_time() - before)
        if not options.json:
            median = statistics.median(rows[name])
            print(f"{name}: {median:.2f} s ({min(rows[name]):.2f} to {max(rows[name]):.2f}), {options.jobs} jobs")
    if options.json:
        json.dump({"jobs": options.jobs, "slots": SLOTS, "seconds": rows}, sys.stdout, indent=1)


if __name__ == "__main__":
    main()
