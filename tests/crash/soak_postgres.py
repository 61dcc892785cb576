"""PostgreSQL under trouble: ``python tests/crash/soak_postgres.py --minutes 10`` (``make soak-postgres MINUTES=10``).

Cells run one after the other, each on a database of its own with the same load: workers, producers that keep jobs
waiting, and a prober that claims as workers do and writes down how long that takes. Of each is told how many jobs
ended, how that compares with the undisturbed cell, how long claims take in the first and in the last fifth, the sizes
of the tables and what is dead in them. What the oracle log finds lost or done twice is a violation: the exit code is 1.
"""

# ruff: noqa: T201  # a program that prints its summary

from __future__ import annotations

import argparse
import contextlib
import math
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[2]))

import psycopg
from field import Field, Process
from tests.pg import pg_ctl, server

from fairlane.testing import invariants
from fairlane.testing.invariants import Mark

WORKERS: Final = 2
SLOTS: Final = 20
TENANTS: Final = 20
CAPPED: Final = "t0"
CAP: Final = 3
LEASE_S: Final = 10.0
DRAIN_S: Final = 600.0
IDLE_CONNECTIONS: Final = 300
READERS: Final = 4
READ_S: Final = 15.0
OVERLOAD: Final = 1.5
TABLES: Final = ("job", "log", "inbox", "lane", "counter", "turn", "life")
KEPT_JOBS: Final = 2_000
SETTINGS: Final = {"max_connections": "500", "shared_preload_libraries": "pg_stat_statements"}

SIZES: Final = """
SELECT relname, pg_table_size(relid), pg_indexes_size(relid), n_live_tup, n_dead_tup, autovacuum_count
FROM pg_stat_user_tables WHERE schemaname = 'fairlane'
"""
KILL_ONE: Final = """
SELECT pg_terminate_backend(pid) FROM (
    SELECT pid FROM pg_stat_activity
    WHERE application_name = 'fairlane' AND datname = %s AND pid <> pg_backend_pid() ORDER BY random() LIMIT 1
) AS one
"""
STATEMENTS: Final = """
SELECT sum(calls) FROM pg_stat_statements JOIN pg_database ON pg_database.oid = dbid WHERE datname = %s
"""


class Cell:
    """One run of the load with one kind of trouble.

    Args:
        name: What makes trouble; a key of :data:`TROUBLES`.
        url: A fresh database.
        seconds: How long it goes on before it is drained.
        alter: SQL for the fresh database, for trying out settings.
        usual: Jobs a second without trouble; 0 when that is not known.
        every_s: How often a process is killed or told to end.
    """

    def __init__(
        self, name: str, url: str, *, seconds: float, alter: str = "", usual: float = 0.0, every_s: float = 10.0
    ) -> None:
        self.name = name
        self.seconds = seconds
        self.usual = usual
        self.every_s = every_s
        self.folder = Path(tempfile.mkdtemp(prefix="fairlane-soak-"))
        self.url = url
        self.base = self.url.partition("?")[0].rpartition("/")[2]
        self.done = 0
        self.found: list[str] = []
        self._probes = self.folder / "probes"
        self._probes.touch()
        self._rng = random.Random(7)
        self._workers: list[Process] = []
        with self.connection() as db:
            db.execute("CREATE EXTENSION pg_stat_statements")
            if alter:
                db.execute(alter.encode())

    def connection(self) -> psycopg.Connection[Any]:
        """Open a connection beside fairlane's."""
        return psycopg.connect(self.url, autocommit=True, application_name="soak")

    # ------------------------------------------------------------------ the course of it

    def run(self) -> Mapping[str, Any]:
        """Make trouble, drain, judge; return the figures."""
        self.field = Field(self.folder, url=self.url)
        try:
            with (self.folder / "errors.log").open("ab") as self.field.stderr:
                return self._idle() if self.name == "idle cost" else self._run()
        finally:
            self.field.close()

    def _start(self, role: str, **options: Any) -> Process:
        env = {"FAIRLANE_KEEP_COMPLETED_JOBS": str(KEPT_JOBS)}
        return self.field.run(role, program="load.py", env=env, **options)

    def _worker(self) -> Process:
        return self._start("worker", concurrency=SLOTS, lease=LEASE_S, grace=10.0)

    def _run(self) -> Mapping[str, Any]:
        self.field.app.tenants[CAPPED].set(max_running=CAP)
        rate = self.usual * OVERLOAD if self.name == "overload" else 0.0
        self._workers = [self._worker() for _ in range(WORKERS)]
        feeder = self._start("feed", tenants=TENANTS, rate=rate)
        prober = self._start("probe", path=str(self._probes))
        self.field.until(lambda: self._probes.stat().st_size and len(self.field.lines("end")) > SLOTS, "the first ends")
        began = time.monotonic()
        sizes = [self._sizes()]
        self._make_trouble(began)
        ended = time.monotonic()
        sizes.append(self._sizes())
        for what, process in (("feeder", feeder), ("prober", prober)):
            if process.poll() is not None:
                self.found.append(f"the {what} ended with {process.poll()}")
        self.field.kill9(feeder)
        self._drain()
        self.field.kill9(prober)
        for process in self._workers:
            self.field.term(process)
        for process in self._workers:
            process.wait(60)
        marks = self.field.lines()
        self._judge(marks)
        return self._figures(marks, began, ended, sizes)

    def _make_trouble(self, began: float) -> None:
        steps = TROUBLES[self.name](self)
        try:
            due = began
            while (now := time.monotonic()) < began + self.seconds:
                if now >= due:
                    due = now + next(steps, math.inf)
                time.sleep(0.05)
                self._keep_up()
        finally:
            steps.close()  # type: ignore[attr-defined]  # they are generators

    def _keep_up(self) -> None:
        left = [process for process in self._workers if process.poll() is None]
        self._workers = left + [self._worker() for _ in range(WORKERS - len(left))]

    def _drain(self) -> None:
        until = time.monotonic() + DRAIN_S
        while self.field.states().keys() & {"scheduled", "available", "running"}:
            if time.monotonic() > until:
                self.found.append(f"jobs are left after {DRAIN_S:.0f} s: {self.field.states()}")
                return
            self._keep_up()
            time.sleep(0.1)

    # ------------------------------------------------------------------ trouble: each gives the time to its next step

    def nothing(self) -> Iterator[float]:
        """Disturb nobody."""
        yield from ()

    def pin(self) -> Iterator[float]:
        """Hold a snapshot and a transaction's number from beginning to end."""
        with self.connection() as db:
            db.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
            db.execute("SELECT pg_current_xact_id(), count(*) FROM fairlane.job")
            yield math.inf

    def read(self) -> Iterator[float]:
        """Have long readers, whose snapshots overlap."""
        with contextlib.ExitStack() as stack:
            readers = [stack.enter_context(self.connection()) for _ in range(READERS)]
            while True:
                for db in readers:
                    if db.info.transaction_status:
                        db.execute("COMMIT")
                    db.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
                    db.execute("SELECT count(*) FROM fairlane.job")
                    yield READ_S / READERS
                    self.done += 1

    def kill_backends(self) -> Iterator[float]:
        """Kill one of our connections each second."""
        with self.connection() as db:
            while True:
                self.done += len(db.execute(KILL_ONE, (self.base,)).fetchall())
                yield 1.0

    def restart(self) -> Iterator[float]:
        """Restart the server in order, then as after a crash."""
        yield self.seconds / 3
        for mode in ("fast", "immediate"):
            restart(self.url, mode)
            self.done += 1
            yield self.seconds / 3

    def kill_workers(self) -> Iterator[float]:
        """Kill a worker now and then."""
        while True:
            yield self.every_s
            self.field.kill9(self._rng.choice(self._workers))
            self.done += 1

    def idle_connections(self) -> Iterator[float]:
        """Hold connections that do nothing."""
        with contextlib.ExitStack() as stack:
            for _ in range(IDLE_CONNECTIONS):
                stack.enter_context(self.connection())
                self.done += 1
            yield math.inf

    def overload(self) -> Iterator[float]:
        """Have more come in than can be done, and tell workers to end meanwhile."""
        while True:
            yield self.every_s
            self.field.term(self._workers[0])
            self._workers.append(self._workers.pop(0))
            self.done += 1

    # ------------------------------------------------------------------ an idle worker

    def _idle(self) -> Mapping[str, Any]:
        """Count what a worker asks that has nothing to do."""
        self._workers = [self._worker()]
        with self.connection() as db:
            signs = "SELECT count(*) FROM fairlane.life"
            self.field.until(lambda: db.execute(signs).fetchone() == (1,), "a worker")
            before = db.execute(STATEMENTS, (self.base,)).fetchone()
            commits = "SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = current_database()"
            committed = db.execute(commits).fetchone()
            time.sleep(self.seconds)
            after = db.execute(STATEMENTS, (self.base,)).fetchone()
            committed_after = db.execute(commits).fetchone()
        assert before is not None
        assert after is not None
        assert committed is not None
        assert committed_after is not None
        return {
            "statements a second": round(float(after[0] - before[0]) / self.seconds, 1),
            "transactions a second": round((committed_after[0] - committed[0]) / self.seconds, 1),
        }

    # ------------------------------------------------------------------ figures

    def _sizes(self) -> Mapping[str, Sequence[int]]:
        with self.connection() as db:
            return {name: tuple(rest) for name, *rest in db.execute(SIZES).fetchall() if name in TABLES}

    def _figures(
        self, marks: Sequence[Mark], began: float, ended: float, sizes: Sequence[Mapping[str, Sequence[int]]]
    ) -> Mapping[str, Any]:
        ends = sum(mark.what == "end" and began <= mark.at_ns / 1e9 < ended for mark in marks)
        rate = ends / (ended - began)
        probes = [tuple(map(float, line.split())) for line in self._probes.read_text().splitlines()]
        fifth = (ended - began) / 5
        figures: dict[str, Any] = {
            "jobs done": ends,
            "jobs a second": round(rate),
            "of undisturbed, %": round(100 * rate / self.usual) if self.usual else None,
            "trouble made": self.done,
        }
        for what, start in (("first", began), ("last", ended - fifth)):
            took = [took for at, took in probes if start <= at < start + fifth]
            figures[f"claim p50, ms, {what} fifth"] = _quantile_ms(took, 50)
            figures[f"claim p99, ms, {what} fifth"] = _quantile_ms(took, 99)
            figures[f"claims measured, {what} fifth"] = len(took)
        for name in TABLES:
            (table, indexes, live, dead, vacuums), start = sizes[-1][name], sizes[0][name]
            figures[f"{name}: kB table/indexes"] = (
                f"{start[0] // 1024}/{start[1] // 1024} -> {table // 1024}/{indexes // 1024}"
            )
            figures[f"{name}: rows live/dead, vacuums"] = f"{live}/{dead}, {vacuums}"
        return figures | {"violations": len(self.found)}

    # ------------------------------------------------------------------ the judge

    def _judge(self, marks: Sequence[Mark]) -> None:
        with self.connection() as db:
            stored = {row[0] for row in db.execute("SELECT encode(id, 'hex')::uuid::text FROM fairlane.job")}
        known = stored | invariants.ended_well(marks)
        gone = [job for job in self.field.accepted() if job not in known]
        self.found += [f"I1: job {job} was accepted and is lost" for job in gone]
        self.found += [f"check(): {fault}" for fault in self.field.app.owner.read(lambda store, now_ms: store.check())]
        self.found += invariants.fence_faults(marks)
        most = invariants.most_at_once(marks, lambda mark: CAPPED if mark.tenant == CAPPED else None)
        if most.get(CAPPED, 0) > CAP:
            self.found.append(f"I3: {most[CAPPED]} of tenant {CAPPED} ran at once, {CAP} may")
        self.found += invariants.doubled(marks)[1]


TROUBLES: Final[Mapping[str, Callable[[Cell], Iterator[float]]]] = {
    "undisturbed": Cell.nothing,
    "pinned": Cell.pin,
    "long readers": Cell.read,
    "killed backends": Cell.kill_backends,
    "restarts": Cell.restart,
    "killed workers": Cell.kill_workers,
    "idle connections": Cell.idle_connections,
    "overload": Cell.overload,
    "idle cost": Cell.nothing,
}


def restart(url: str, mode: str) -> None:
    """Restart the server of a URL; ``immediate``: as after a crash."""
    with psycopg.connect(url) as db:
        row = db.execute("SELECT current_setting('data_directory')").fetchone()
    assert row is not None
    pg_ctl(Path(row[0]), "-m", mode, "restart")


def _quantile_ms(took: Sequence[float], percent: int) -> float | None:
    if len(took) < 2:
        return None
    return round(statistics.quantiles(took, n=100)[percent - 1] * 1e3, 1)


def soak(names: Sequence[str], *, seconds: float, alter: str = "", every_s: float = 10.0) -> list[Cell]:
    """Run cells one after the other, each so long, and print what they say."""
    cells: list[Cell] = []
    usual = 0.0
    with server(**SETTINGS) as started:
        urls = [started.database() for _ in names]  # now: a restart ends the connection that makes them
        for name, url in zip(names, urls, strict=True):
            cell = Cell(name, url, seconds=seconds, alter=alter, usual=usual, every_s=every_s)
            cells.append(cell)
            figures = cell.run()
            if name == "undisturbed":
                usual = figures["jobs a second"]
            print(f"== {name}")
            for what, value in figures.items():
                print(f"{what:<44}{value!s:>30}")
            for fault in cell.found[:20]:
                print("VIOLATION", fault)
            if cell.found:
                print(f"the logs of the handlers and what the processes wrote are in {cell.folder}")
            else:
                shutil.rmtree(cell.folder)
            sys.stdout.flush()
    return cells


def main() -> int:
    """Run it from the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--minutes", type=float, default=10.0, help="all cells together, without their ends")
    parser.add_argument("--cells", default=",".join(TROUBLES), help="which, with commas between: %(default)s")
    parser.add_argument("--alter", type=Path, help="a file of SQL that is run on each fresh database")
    given = parser.parse_args()
    names = given.cells.split(",")
    unknown = [name for name in names if name not in TROUBLES]
    if unknown:
        parser.error(f"there is no cell {unknown[0]!r}; there are: {', '.join(TROUBLES)}")
    cells = soak(names, seconds=given.minutes * 60 / len(names), alter=given.alter.read_text() if given.alter else "")
    return 1 if any(cell.found for cell in cells) else 0


if __name__ == "__main__":
    with contextlib.suppress(subprocess.TimeoutExpired):
        sys.exit(main())
