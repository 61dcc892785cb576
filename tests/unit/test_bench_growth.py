"""The tables of bench/growth.py, and that it measures what it says; how long anything takes is not looked at."""

from __future__ import annotations

from pathlib import Path

from bench import growth
from bench.growth import Case

COSTS = {
    f"{call}_{what}": value
    for number, call in enumerate(("enqueue", "claim", "settle"), 1)
    for what, value in (("us", number * 100.4), ("wall_us", number * 1_000.0))
}


def test_a_table_has_processor_and_wall_time_of_each_call() -> None:
    row = {"axis": "depth", "store": "sqlite", "jobs": 100_000, "tenants": 100, "queues": 1, "first_claim_ms": 20.4}
    assert growth.markdown([row | COSTS]).splitlines() == [
        "### depth",
        "",
        "100 tenants, one queue.",
        "",
        "| store | jobs | enqueue: processor; wall, us | claim | settle | first claim, ms |",
        "|---|---|---|---|---|---|",
        "| sqlite | 100,000 | 100; 1,000 | 201; 2,000 | 301; 3,000 | 20 |",
    ]


def test_a_table_of_processes_has_their_rate_together() -> None:
    row = {"store": "postgres", "processes": 4, "jobs_per_s": 2_080, "cpu_us_a_job": 440.6, "spread_percent": 1.4}
    row |= {"call_p50_ms": 5.9, "call_p99_ms": 17.04}
    assert list(growth.table("processes", [row]))[-1] == "| postgres | 4 | 2,080 | 441 | 5.9; 17 | 1.4 |"


def test_a_store_that_only_becomes_deeper_is_filled_further(tmp_path: Path) -> None:
    urls: list[str] = []

    def fresh() -> str:
        urls.append(f"sqlite:///{tmp_path}/{len(urls)}.db")
        return urls[-1]

    cases = [Case(600, 2, 1), Case(700, 2, 1), Case(600, 3, 2)]
    rows = list(growth.grown(cases, fresh, batch=100, repeat=1))
    assert [(row["jobs"], row["tenants"], row["queues"]) for row in rows] == cases
    assert len(urls) == 2
    assert all(row[f"{call}_us"] > 0 for row in rows for call in ("enqueue", "claim", "settle"))
    # A round ends as many as it stores; each first claim, of the same size, comes on top.
    depths: list[int] = []
    for url in urls:
        store = growth.opened(url)
        depths.append(sum(row.available for row in store.depth(growth.CLOCK.now_ms())))
        store.close()
    assert depths == [500, 500]
