"""What the dashboard's pages cost on a large store, in milliseconds of the server's time.

    python bench/dashboard.py                                    1,000,000 waiting, 1,000,000 ended, 500 tenants
    python bench/dashboard.py --waiting 100000 --ended 100000
    python bench/dashboard.py --file big.db                      kept and used again

``first`` is the page's first answer of a fresh server, which takes a sample of the store where there is none yet; the
others are asked for again and again. The pages go through the whole of the HTTP surface, guard included, in this
process (``time.perf_counter``); ``cpu_ms`` is the processor time of the whole process meanwhile, sampler included: what
a machine that has nothing else to do would take; ``kib`` is what a browser without anything in its cache transfers,
packed, with all that the page loads. The goal is a median below 150 ms.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import platform
import re
import sqlite3
import statistics
import tempfile
import time
from pathlib import Path

from _big_store import build
from starlette.testclient import TestClient

import fairlane as fl
from fairlane.http.app import create_app
from fairlane.http.options import HttpOptions

GOAL_MS = 150
PAGES = {
    "overview": "/",
    "jobs": "/jobs",
    "jobs, available": "/jobs?q=state:available",
    "jobs, running": "/jobs?q=state:running",
    "jobs, dead": "/jobs?q=state:dead",
    "jobs, large tenant": "/jobs?q=tenant:tenant-0000",
    "jobs, small tenant": "/jobs?q=tenant:tenant-0450",
    "jobs, nobody's": "/jobs?q=tenant:nobody",
    "jobs, words": "/jobs?q=nothing-like-it",
    "tenants": "/tenants",
    "tenant": "/tenant?name=tenant-0000",
    "queues": "/queues",
    "queue": "/queue?name=mail",
    "in flight": "/inflight",
    "dead": "/dead",
    "confirm": "/bulk/new?action=cancel&of=all&q=tenant:tenant-0000",
    "operations": "/bulk",
    "schedules": "/schedules",
    "workers": "/workers",
    "fairness": "/fairness",
    "audit": "/audit",
    "settings": "/settings",
}


def timed(client: TestClient, path: str) -> tuple[float, float, str]:
    start, cpu = time.perf_counter(), time.process_time()
    answer = client.get(path)
    spent_ms, cpu_ms = (time.perf_counter() - start) * 1000, (time.process_time() - cpu) * 1000
    if answer.status_code != 200:
        raise SystemExit(f"{path}: {answer.status_code} {answer.text[:300]}")
    return spent_ms, cpu_ms, answer.text


def transfer(client: TestClient, page: str) -> float:
    """Return how many KiB a browser transfers for a page, packed."""
    total = len(gzip.compress(page.encode(), 6))
    for address in set(re.findall(r'(?:src|href)="([^"]*/static/[^"]*)"', page)):
        answer = client.get(address, headers={"Accept-Encoding": "gzip"})
        total += int(answer.headers["content-length"])
    return total / 1024


def measure(path: Path, calls: int) -> dict[str, dict[str, float]]:
    figures: dict[str, dict[str, float]] = {}
    app = fl.Fairlane(f"sqlite:///{path}", durability="normal")
    web = create_app(app, options=HttpOptions(open_on_loopback=True, maintenance=False, rate=None))
    with TestClient(web, client=("127.0.0.1", 1), base_url="http://127.0.0.1") as client:
        job = str(app.jobs(state="available", limit=1)[0].id)
        for name, address in {**PAGES, "job": f"/jobs/{job}"}.items():
            first_ms, _, page = timed(client, address)
            spent, cpu, _ = zip(*(timed(client, address) for _ in range(calls)), strict=True)
            figures[name] = {
                "first_ms": round(first_ms, 1),
                "median_ms": round(statistics.median(spent), 1),
                "max_ms": round(max(spent), 1),
                "cpu_ms": round(statistics.median(cpu), 1),
                "kib": round(transfer(client, page), 1),
            }
            print(f"{name:20} " + "  ".join(f"{key} {value:8.1f}" for key, value in figures[name].items()), flush=True)
        sampler = web.state.dashboard.sampler
        spent = []
        for _ in range(calls):
            start = time.perf_counter()
            sampler.sample()
            spent.append((time.perf_counter() - start) * 1000)
        figures["a sample"] = {"median_ms": round(statistics.median(spent), 1), "max_ms": round(max(spent), 1)}
        print(f"{'a sample':20} {figures['a sample']}")
    app.close()
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--waiting", type=int, default=1_000_000)
    parser.add_argument("--ended", type=int, default=1_000_000)
    parser.add_argument("--tenants", type=int, default=500)
    parser.add_argument("--calls", type=int, default=11)
    parser.add_argument("--file", type=Path, help="where the store is, or is made and kept")
    parser.add_argument("--json", type=Path, help="write the figures there")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = asked.file or Path(folder) / "big.db"
        if not path.exists():
            sizes = f"{asked.waiting:,} waiting, {asked.ended:,} ended, {asked.tenants} tenants"
            print(f"making {path}: {sizes}", flush=True)
            build(path, waiting=asked.waiting, ended=asked.ended, tenants=asked.tenants)
        figures = measure(path, asked.calls)
    slow = [name for name, told in figures.items() if name != "a sample" and told["median_ms"] > GOAL_MS]
    heavy = [name for name, told in figures.items() if told.get("kib", 0) > 60]
    print(f"slower than {GOAL_MS} ms: {slow or 'none'}; heavier than 60 KiB: {heavy or 'none'}")
    if asked.json:
        machine = {"cpus": os.cpu_count(), "python": platform.python_version(), "sqlite": sqlite3.sqlite_version}
        sizes = {"waiting": asked.waiting, "ended": asked.ended, "tenants": asked.tenants}
        asked.json.write_text(json.dumps({"machine": machine, **sizes, "pages": figures}, indent=2) + "\n")


if __name__ == "__main__":
    main()
