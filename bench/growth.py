"""How the cost of a call grows: with waiting jobs, with tenants, with queues, and with processes that claim.

    python bench/growth.py                                        everything, in Markdown: five to eight minutes
    python bench/growth.py --stores sqlite --only depth tenants
    python bench/growth.py --json build/growth.json --batch 10

Each call is a transaction of its own, of one job unless told otherwise; the store is on a disk and flushes. "processor"
is the time of this process and, with PostgreSQL, of its connections in the server, microseconds a job; "wall" is what
the caller waits, microseconds a call. Medians of rounds, in each of which jobs are stored, claimed and settled, so that
the depth stays what it is. "first claim" is that of a process which has just opened the store. Linux alone tells what
the server's processes use.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

sys.path.insert(0, str(Path(__file__).parent))

import processes
from claim_cost import CLOCK, ROUND, load, new, rounds

from fairlane.bench import machine
from fairlane.domain.jobs import Claim, Settlement
from fairlane.domain.lanes import Ask
from fairlane.store import Store
from fairlane.stores.named import on_server, open_store

TENANTS: Final = 100
JOBS: Final = 20_000
"""Where they are not what grows."""
LEASE_MS: Final = 600_000
SIDE_BY_SIDE: Final = (1, 2, 4, 8)


class Case(NamedTuple):
    """What waits in a store."""

    jobs: int
    tenants: int
    queues: int


AXES: Final = {
    "depth": [Case(jobs, TENANTS, 1) for jobs in (1_000, 10_000, 100_000, 1_000_000)],
    "tenants": [Case(JOBS, tenants, 1) for tenants in (1, 10, 100, 1_000, 10_000)],
    "queues": [Case(JOBS, TENANTS, queues) for queues in (1, 10, 100)],
}
"""What grows, and the steps."""
HEADS: Final = {"depth": "jobs", "tenants": "tenants", "queues": "queues"}
ABOUT: Final = {
    "depth": f"{TENANTS} tenants, one queue.",
    "tenants": f"{JOBS:,} jobs wait in one queue.",
    "queues": f"{JOBS:,} jobs of {TENANTS} tenants wait, each tenant's in every queue.",
    "processes": f"Each enqueues, claims and settles {processes.PORTION} jobs a call as fast as it can.",
}


def opened(url: str) -> Store:
    """Open the store of a URL; a database has its schema by then."""
    return open_store(url, clock=CLOCK, policy=None, capacities=None, durability="full")


def ran_s(pid: int) -> float:
    """Return the processor seconds of another process."""
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e9


def processor(url: str) -> Callable[[], float]:
    """Return what tells the processor seconds so far of this process and of its connections in the server."""
    if not on_server(url):
        return time.process_time
    import psycopg

    with psycopg.connect(url) as db:
        mine = db.execute(
            "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND backend_type = 'client backend'"
            " AND pid <> pg_backend_pid()"
        ).fetchall()
    return lambda: time.process_time() + sum(ran_s(pid) for (pid,) in mine)


def measured(store: Store, spent: Callable[[], float], case: Case, batch: int, repeat: int) -> dict[str, float]:
    """Store, claim and settle jobs in rounds; return the medians of processor and wall time."""
    held: list[list[Claim]] = []
    numbers = iter(range(case.jobs, 2**60))

    def enqueue() -> int:
        many = [new(next(numbers), case.tenants, queues=case.queues) for _ in range(batch)]
        with store.transaction(light=True):
            store.enqueue(many, CLOCK.now_ms())
        store.news()
        return batch

    def claim() -> int:
        with store.transaction():
            got = store.claim(Ask("default", batch), worker="bench", lease_ms=LEASE_MS, now_ms=CLOCK.now_ms())
        store.news()
        held.append(got)
        return len(got)

    def settle() -> int:
        ends = [Settlement(seq=one.seq, fence=one.fence, kind="completed", run_us=30_000) for one in held.pop()]
        with store.transaction():
            done = store.settle(ends, CLOCK.now_ms())
        store.news()
        return sum(done)

    began = time.perf_counter()
    claim()
    figures = {"first_claim_ms": (time.perf_counter() - began) * 1e3}
    settle()
    taken: dict[str, list[tuple[float, float, float]]] = {}
    for _ in range(repeat):
        for call in (enqueue, claim, settle):
            taken.setdefault(call.__name__, []).append(rounds(ROUND, batch, call, spent))
    for name, several in taken.items():
        figures[f"{name}_us"], figures[f"{name}_wall_us"], _ = map(statistics.median, zip(*several, strict=True))
    return {name: round(value, 1) for name, value in figures.items()}


def grown(cases: Sequence[Case], fresh: Callable[[], str], batch: int, repeat: int) -> Iterator[dict[str, Any]]:
    """Measure case after case; a store that only becomes deeper is filled further."""
    url, before = "", Case(0, 0, 0)
    for case in cases:
        if case[1:] != before[1:]:
            url, before = fresh(), Case(0, *case[1:])
        with closing(opened(url)) as store:
            load(store, case.jobs - before.jobs, case.tenants, queues=case.queues)
        before = case
        with closing(opened(url)) as store:
            yield case._asdict() | measured(store, processor(url), case, batch, repeat)


def side_by_side(fresh: Callable[[], str], seconds: float, repeat: int) -> Iterator[dict[str, Any]]:
    """Measure processes on one store."""
    for count in SIDE_BY_SIDE:
        shares = [processes.measure(fresh(), count, seconds, "full") for _ in range(repeat)]
        yield processes.row(count, shares, seconds)


@contextmanager
def places(store: str) -> Generator[Callable[[], str]]:
    """Give what returns the URL of a new store each time it is called."""
    if store == "sqlite":
        with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder:  # a disk, and not a folder in memory
            yield lambda: f"sqlite:///{folder}/{uuid.uuid4().hex}.db"
        return
    import postgres

    with postgres.databases(None) as databases:

        def fresh() -> str:
            url = databases()
            postgres.opened(url).close()
            return url

        yield fresh


# ---------------------------------------------------------------- tables


def table(axis: str, rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Return the lines of a table: of one axis, all stores."""
    if axis == "processes":
        yield "| store | processes | jobs/s together | processor, us a job | a call, p50; p99, ms | spread, % |"
        yield "|---|---|---|---|---|---|"
        for row in rows:
            cells = [row["store"], row["processes"], f"{row['jobs_per_s']:,}", f"{row['cpu_us_a_job']:,.0f}"]
            cells += [f"{row['call_p50_ms']:.3g}; {row['call_p99_ms']:.3g}", row["spread_percent"]]
            yield f"| {' | '.join(map(str, cells))} |"
        return
    yield f"| store | {HEADS[axis]} | enqueue: processor; wall, us | claim | settle | first claim, ms |"
    yield "|---|---|---|---|---|---|"
    for row in rows:
        costs = [f"{row[f'{call}_us']:,.0f}; {row[f'{call}_wall_us']:,.0f}" for call in ("enqueue", "claim", "settle")]
        cells = [row["store"], f"{row[HEADS[axis]]:,}", *costs, f"{row['first_claim_ms']:,.0f}"]
        yield f"| {' | '.join(map(str, cells))} |"


def markdown(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return all tables."""
    lines: list[str] = []
    for axis, about in ABOUT.items():
        if mine := [row for row in rows if row["axis"] == axis]:
            lines += [f"### {axis}", "", about, "", *table(axis, mine), ""]
    return "\n".join(lines)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stores", nargs="+", choices=["sqlite", "postgres"], default=["sqlite", "postgres"])
    parser.add_argument("--only", nargs="+", choices=list(ABOUT), default=list(ABOUT), help="what grows")
    parser.add_argument("--most", type=int, default=1_000_000, help="leave out stores with more jobs or tenants")
    parser.add_argument("--batch", type=int, default=1, help="jobs a call")
    parser.add_argument("--repeat", type=int, default=3, help="rounds")
    parser.add_argument("--seconds", type=float, default=3.0, help="how long processes work side by side")
    parser.add_argument("--json", type=Path, help="where the figures go, beside the tables on the screen")
    options = parser.parse_args()
    rows: list[dict[str, Any]] = []
    for store in options.stores:
        with places(store) as fresh:
            for axis in options.only:
                cases = [case for case in AXES.get(axis, []) if max(case.jobs, case.tenants) <= options.most]
                found = (
                    side_by_side(fresh, options.seconds, options.repeat)
                    if axis == "processes"
                    else grown(cases, fresh, options.batch, options.repeat)
                )
                for row in found:
                    rows.append({"store": store, "axis": axis, **row})
                    print(json.dumps(rows[-1]), file=sys.stderr, flush=True)
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        told = {"machine": machine(Path.cwd()), "batch": options.batch, "rows": rows}
        options.json.write_text(json.dumps(told, indent=1) + "\n")
    print(markdown(rows))


if __name__ == "__main__":
    main()
