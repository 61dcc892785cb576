"""What fairlane keeps in memory: an idle worker, a process that claims from a long backlog; and on disk, the backlog.

    python bench/memory.py
    python bench/memory.py --jobs 1000000 --tenants 10000

Each figure is from a process of its own: resident memory as Linux counts it (``VmRSS``), after a garbage collection.
A process that claims holds the heads of lanes, so what it needs grows with tenants and not with jobs.
"""

from __future__ import annotations

import argparse
import gc
import multiprocessing
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).parent))

from claim_cost import load

import fairlane as fl
from fairlane.clock import SystemClock
from fairlane.domain.lanes import Ask
from fairlane.stores.sqlite.store import open_sqlite

CLOCK: Final = SystemClock()
READY_S: Final = 30


def resident_kib() -> int:
    """Return the resident memory of this process."""
    gc.collect()
    (line,) = (line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmRSS"))
    return int(line.split()[1])


def imported(told: Any, _: str) -> None:  # Any: a Connection
    """Tell what a process needs that has imported fairlane."""
    told.send(resident_kib())


def idle_worker(told: Any, url: str) -> None:  # Any: likewise
    """Tell what a process needs whose worker has run a job and is idle."""
    ran = threading.Event()
    with fl.Fairlane(url) as app:

        @app.task
        def one() -> None:
            ran.set()

        worker = threading.Thread(target=lambda: app.run_worker(until_idle=False, signals=False), daemon=True)
        worker.start()
        one.enqueue()
        if not ran.wait(READY_S):
            raise TimeoutError("the worker did not start")
        told.send(resident_kib())


def claiming(told: Any, url: str) -> None:  # Any: likewise
    """Tell what a process needs that has claimed."""
    store = open_sqlite(url, clock=CLOCK)
    before = resident_kib()
    with store.transaction():
        store.claim(Ask("default", 10), worker="w", lease_ms=60_000, now_ms=CLOCK.now_ms())
    told.send(resident_kib() - before)
    store.close()


def ask(target: Any, url: str) -> int:  # Any: one of the functions above
    """Return what a process of its own tells."""
    spawn = multiprocessing.get_context("spawn")
    got, told = spawn.Pipe(duplex=False)
    process = spawn.Process(target=target, args=(told, url), daemon=True)
    process.start()
    kib: int = got.recv()
    process.terminate()
    process.join()
    return kib


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, nargs="+", default=[10_000, 100_000, 1_000_000])
    parser.add_argument("--tenants", type=int, nargs="+", default=[100, 10_000])
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        print(f"a process that has imported fairlane: {ask(imported, '') / 1024:.1f} MiB")
        print(f"with an idle worker: {ask(idle_worker, f'sqlite:///{folder}/idle.db') / 1024:.1f} MiB")
        for jobs in options.jobs:
            for tenants in options.tenants:
                path = Path(folder) / f"{jobs}-{tenants}.db"
                store = open_sqlite(f"sqlite:///{path}", clock=CLOCK, durability="normal")
                load(store, jobs, tenants)
                store.close()
                kib = ask(claiming, f"sqlite:///{path}")
                print(
                    f"jobs={jobs} tenants={tenants} claiming_mib={kib / 1024:.1f} bytes_a_job={kib * 1024 / jobs:.0f} "
                    f"file_bytes_a_job={path.stat().st_size / jobs:.0f}",
                    flush=True,
                )
                path.unlink()


if __name__ == "__main__":
    main()
