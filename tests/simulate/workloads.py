"""Workloads that the gates and scenarios share, and a way to look at each with the command line:

python tests/simulate/workloads.py burst burst.csv.gz && fairlane simulate burst.csv.gz --workers 10 --tau 1
"""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from fairlane.simulate.traces import Trace, TraceJob, read, write

SECOND_US = 1_000_000
CRITICAL, HIGH, NORMAL, LOW, BACKGROUND = range(5)


def traces_folder() -> Path | None:
    """Where the real traces lie: $FAIRLANE_TRACES, or shared/traces beside the repository; None if they do not."""
    named = os.environ.get("FAIRLANE_TRACES")
    folder = Path(named) if named else Path(__file__).parents[3] / "shared" / "traces"
    return folder if (folder / "google2011.csv.gz").is_file() else None


def real(name: str) -> Trace:
    folder = traces_folder()
    if folder is None:
        raise FileNotFoundError("no traces: set FAIRLANE_TRACES")
    return read(folder / f"{name}.csv.gz")


def job(at_s: float, tenant: object, tier: int, run_s: float = 1.0, queue: str = "q") -> TraceJob:
    return TraceJob(round(at_s * SECOND_US), str(tenant), queue, tier, round(run_s * SECOND_US))


def arrivals(rng: random.Random, rate: float, start_s: float, end_s: float) -> Iterator[float]:
    """Poisson arrivals."""
    at_s = start_s
    while (at_s := at_s + rng.expovariate(rate)) < end_s:
        yield at_s


def burst(urgent: float = 0.6, total: float = 1.3, seed: int = 1) -> Trace:
    """SPEC 11: jobs of 1 s for 10 workers and 20 tenants, of which tenant 0 has 60 % of the arrivals.

    From 300 to 2,100 s ``total`` times what the workers can do arrives, ``urgent`` of it CRITICAL (a fifth) or HIGH;
    before and after the load is 0.7. The draws are those of the prototype, one for one: its figures hang on them.
    """
    rng = random.Random(seed)
    jobs = []
    for start_s, end_s, load in ((0, 300, 0.7), (300, 2100, total), (2100, 9000, 0.7)):
        chance = urgent / load if load > 0.75 else 0.2
        for at_s in arrivals(rng, 10 * load, start_s, end_s):
            if rng.random() < chance:
                tier = CRITICAL if rng.random() < 0.2 else HIGH
            else:
                tier = rng.choice((NORMAL, NORMAL, LOW, BACKGROUND))
            jobs.append(job(at_s, 0 if rng.random() < 0.6 else rng.randrange(1, 20), tier))
    return Trace.of("burst", jobs)


def abuse() -> Trace:
    """google2011, where the heaviest tenant marks all its jobs CRITICAL."""
    trace = real("google2011")
    heaviest = trace.heaviest()
    jobs = (each._replace(tier=CRITICAL) if each.tenant == heaviest else each for each in trace.jobs)
    return Trace.of("abuse", jobs)


def endless_critical(seconds: float = 900, load: float = 1.1, workers: int = 10, seed: int = 1) -> Trace:
    """More CRITICAL work than the workers can do, from so many tenants that no urgent share holds it back; a few others
    want a little in HIGH and BACKGROUND.
    """
    rng = random.Random(seed)
    jobs = [job(at_s, f"critical-{rng.randrange(20)}", CRITICAL) for at_s in arrivals(rng, workers * load, 0, seconds)]
    for number in range(3):
        jobs += [job(at_s, f"high-{number}", HIGH) for at_s in arrivals(rng, 0.1, 0, seconds / 2)]
        jobs += [job(at_s, f"background-{number}", BACKGROUND) for at_s in arrivals(rng, 0.1, 0, seconds / 2)]
    return Trace.of("endless-critical", jobs)


def new_tenants(seconds: float = 1200, load: float = 1.1, workers: int = 10, seed: int = 1) -> Trace:
    """A stream of tenants that have never been seen, each with one job, beside one that has had work all along."""
    rng = random.Random(seed)
    jobs = [job(at_s, f"new-{number}", NORMAL) for number, at_s in enumerate(arrivals(rng, workers * load, 0, seconds))]
    jobs += [job(at_s, "resident", NORMAL) for at_s in arrivals(rng, 0.5, 0, seconds)]
    return Trace.of("new-tenants", jobs)


def split(names: int, seconds: float = 1200, load: float = 0.9, workers: int = 10, seed: int = 1) -> Trace:
    """One customer wants as much as there is and spreads it over many names; ten others want little."""
    rng = random.Random(seed)
    jobs = [job(at_s, f"split-{rng.randrange(names)}", NORMAL) for at_s in arrivals(rng, workers * load, 0, seconds)]
    for number in range(10):
        jobs += [
            job(at_s, f"other-{number}", HIGH if rng.random() < 0.2 else NORMAL)
            for at_s in arrivals(rng, workers * 0.04, 0, seconds)
        ]
    return Trace.of(f"split-{names}", jobs)


def flood(jobs: int = 5000, seconds: float = 400, seed: int = 1) -> Trace:
    """One tenant drops everything it has at once, another sends a job every two seconds."""
    rng = random.Random(seed)
    made = [job(1, "flood", NORMAL, rng.expovariate(1)) for _ in range(jobs)]
    made += [job(2 + at_s, "trickle", NORMAL, rng.expovariate(1)) for at_s in arrivals(rng, 0.5, 0, seconds)]
    return Trace.of("flood", made)


def aged_backlog(backlog: int = 6000, seconds: float = 300, seed: int = 1) -> Trace:
    """A backlog of BACKGROUND work that has waited for long; then urgent work comes, at half of what 10 workers do."""
    rng = random.Random(seed)
    jobs = [job(0, "old", BACKGROUND) for _ in range(backlog)]
    jobs += [
        job(at_s, f"urgent-{rng.randrange(5)}", CRITICAL if rng.random() < 0.5 else HIGH)
        for at_s in arrivals(rng, 5, 240, 240 + seconds)
    ]
    return Trace.of("aged-backlog", jobs)


WORKLOADS: dict[str, Callable[[], Trace]] = {
    "burst": burst,
    "abuse": abuse,
    "endless-critical": endless_critical,
    "new-tenants": new_tenants,
    "split-1": lambda: split(1),
    "split-50": lambda: split(50),
    "flood": flood,
    "aged-backlog": aged_backlog,
}


if __name__ == "__main__":
    if len(sys.argv) != 3 or sys.argv[1] not in WORKLOADS:
        sys.exit(f"usage: python {sys.argv[0]} {{{','.join(WORKLOADS)}}} OUT.csv[.gz]")
    write(WORKLOADS[sys.argv[1]](), sys.argv[2])
