"""Everything at once, for minutes: ``python tests/crash/soak.py --minutes 10`` (``make soak MINUTES=10``).

Producers enqueue with all options, workers run tasks that succeed, fail, snooze, block, give way and end their own
process; meanwhile processes are killed, stopped, continued and told to end, jobs are cancelled, retried and pruned, a
foreign program locks the file, and the wall clock is set. Then everything is drained and judged by the oracle log. The
summary goes to standard output; the exit code is 1 when anything was violated.
"""

# ruff: noqa: T201  # a program that prints its summary

from __future__ import annotations

import argparse
import contextlib
import json
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from field import Field, Process
from set_clock import SetClock, put

from fairlane.domain.jobs import JobRecord
from fairlane.domain.states import State
from fairlane.errors import FairlaneError
from fairlane.testing import invariants
from fairlane.testing.invariants import Mark

WORKERS = 3
PRODUCERS = 2
LEASE_S = 2.0
STOP_S = (0.2, 3.5)
"""Some stops are longer than a lease."""
DRAIN_S = 120.0
QUEUE_MOST, TENANT_MOST, SHARED_MOST = 2, 3, 5
WAITING_MOST = 400


class Soak:
    """One run.

    Args:
        folder: Where the store and the log are.
        seconds: How long it goes on before it is drained.
        seed: Of all that is drawn here.
    """

    def __init__(self, folder: Path, *, seconds: float, seed: int) -> None:
        self._clock_file = folder / "clock"
        put(self._clock_file, 0.0)
        self.field = Field(folder, clock=SetClock(str(self._clock_file)))
        self._env = {"CLOCK": str(self._clock_file)}
        self._seconds = seconds
        self._rng = random.Random(seed)
        self._shift_s = 0.0
        self._workers: list[Process] = []
        self._producers: list[Process] = []
        self._stopped: dict[Process, float] = {}
        self._asked: set[str] = set()
        self.done: Counter[str] = Counter()
        self.found: list[str] = []

    # ------------------------------------------------------------------ the course of it

    def run(self) -> int:
        """Make trouble, drain, judge, and print; return the exit code."""
        try:
            with (self.field.folder / "errors.log").open("ab") as self.field.stderr:
                return self._run()
        finally:
            self.field.close()

    def _run(self) -> int:
        self._set_limits()
        until = time.monotonic() + self._seconds
        while time.monotonic() < until:
            self._keep_up()
            self._trouble()
            time.sleep(self._rng.uniform(0.02, 0.25))
        self._drain()
        self._judge()
        return 1 if self.found else 0

    def _set_limits(self) -> None:
        app = self.field.app
        app.queues["narrow"].set(max_running=QUEUE_MOST, max_waiting=WAITING_MOST)
        app.queues["default"].set(max_waiting=WAITING_MOST)
        app.tenants["a"].set(max_running=TENANT_MOST)
        app.limits["shared"].set(max_running=SHARED_MOST)

    def _worker(self) -> Process:
        return self.field.run("worker", env=self._env, concurrency=4, lease=LEASE_S, grace=8.0)

    def _producer(self) -> Process:
        return self.field.run("mixer", env=self._env, seed=self._rng.randrange(10**6))

    def _keep_up(self) -> None:
        """Start anew what has ended, and continue what was stopped for long enough."""
        now = time.monotonic()
        for process in [one for one, until in self._stopped.items() if until <= now]:
            del self._stopped[process]
            self.field.resume(process)
        for members, make, most in (
            (self._workers, self._worker, WORKERS),
            (self._producers, self._producer, PRODUCERS),
        ):
            members[:] = [process for process in members if process.poll() is None]
            members.extend(make() for _ in range(most - len(members)))

    def _trouble(self) -> None:
        troubles: dict[str, tuple[float, Callable[[], object]]] = {
            "kill": (4, lambda: self._kill(self._rng.choice(self._workers))),
            "kill a producer": (1, lambda: self._kill(self._rng.choice(self._producers))),
            "stop": (3, self._stop),
            "term": (2, self._term),
            "cancel": (6, self._cancel),
            "retry": (3, self._retry),
            "prune": (2, self._prune),
            "lock": (1, self._lock),
            "clock": (1, self._set_clock),
            "nothing": (6, lambda: None),
        }
        (name,) = self._rng.choices(list(troubles), [weight for weight, _ in troubles.values()])
        with contextlib.suppress(FairlaneError):  # a job moved on meanwhile, or the store is held
            if troubles[name][1]() is not False:
                self.done[name] += 1

    # ------------------------------------------------------------------ trouble

    def _kill(self, process: Process) -> None:
        self._stopped.pop(process, None)
        self.field.kill9(process)

    def _stop(self) -> bool:
        process = self._rng.choice(self._workers)
        if process in self._stopped or process.poll() is not None:
            return False
        self.field.note(process.pid, "stop")
        process.send_signal(signal.SIGSTOP)
        self._stopped[process] = time.monotonic() + self._rng.uniform(*STOP_S)
        return True

    def _term(self) -> bool:
        process = self._rng.choice(self._workers)
        if process in self._stopped or process.poll() is not None:
            return False
        self._workers.remove(process)
        self.field.term(process)
        return True

    def _cancel(self) -> bool:
        jobs = self.field.app.jobs(state=self._rng.choice(["available", "running", "scheduled"]), limit=20).jobs
        if jobs:
            self.field.app.cancel(self._rng.choice(jobs).id)
        return bool(jobs)

    def _retry(self) -> bool:
        jobs = self.field.app.jobs(state="dead", limit=20).jobs
        if jobs:
            job = self._rng.choice(jobs).id
            self.field.app.retry(job)
            self._asked.add(str(job))
        return bool(jobs)

    def _prune(self) -> None:
        keep = {State.COMPLETED: 500}
        self.field.app.owner.call(
            lambda store, now_ms: store.prune(
                now_ms, keep_ms=keep, surplus=store.surplus(keep=1_000, limit=500), limit=500
            )
        )

    def _lock(self) -> None:
        db = sqlite3.connect(self.field.path, isolation_level=None, timeout=0.1)
        with contextlib.closing(db), contextlib.suppress(sqlite3.OperationalError):
            db.execute("BEGIN IMMEDIATE")
            time.sleep(self._rng.uniform(0.05, 0.5))
            db.execute("ROLLBACK")

    def _set_clock(self) -> None:
        self._shift_s += self._rng.choice([3600.0, -3600.0, 5.0, -5.0, 60.0, -60.0])
        put(self._clock_file, self._shift_s)

    # ------------------------------------------------------------------ the end

    def _drain(self) -> None:
        for process in self._stopped:
            self.field.resume(process)
        for process in self._producers:
            self.field.kill9(process)
        for process in self._workers:
            self.field.term(process)
        for process in self.field.processes:
            if process.poll() is None:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(20)
        until = time.monotonic() + DRAIN_S
        while self.field.states().keys() & {"scheduled", "available", "running"}:
            if time.monotonic() > until:
                self.found.append(f"jobs are left after {DRAIN_S:.0f} s: {self.field.states()}")
                return
            self._workers[:] = [process for process in self._workers if process.poll() is None]
            self._workers.extend(self._worker() for _ in range(WORKERS - len(self._workers)))
            time.sleep(0.05)

    def _judge(self) -> None:
        marks = self.field.lines()
        jobs, books, _ = self.field.books()
        accepted = set(self.field.accepted())
        self.found += [f"books: {fault}" for fault in books]
        gone = invariants.lost(accepted, jobs, invariants.ended_well(marks))
        self.found += [f"I1: job {job} was accepted and is lost" for job in sorted(gone)]
        self.found += invariants.fence_faults(marks)
        self.found += invariants.made_up(marks, [job for job in jobs if job.phase == "process"])
        self.found += invariants.crash_faults(marks, jobs)
        self.found += self._over_limits(marks)
        self.found += self._wrong_deaths(jobs)
        causes, unexplained = invariants.doubled(marks, self._asked)
        self.found += unexplained
        self._print(accepted, jobs, marks, causes, lost=len(gone), unexplained=len(unexplained))

    def _over_limits(self, marks: list[Mark]) -> list[str]:
        limits: list[tuple[str, int, Callable[[Mark], str | None]]] = [
            ("queue narrow", QUEUE_MOST, lambda mark: "x" if "/narrow/" in mark.tenant else None),
            ("tenant a", TENANT_MOST, lambda mark: "x" if mark.tenant.split("/")[0] == "a" else None),
            ("limit shared", SHARED_MOST, lambda mark: "x" if mark.tenant.endswith("/mixed") else None),
        ]
        most = [(what, allowed, invariants.most_at_once(marks, by).get("x", 0)) for what, allowed, by in limits]
        self.done.update({f"most at once of {what} ({allowed})": found for what, allowed, found in most})
        return [f"I3: {found} ran at once of {what}, {allowed} may" for what, allowed, found in most if found > allowed]

    def _wrong_deaths(self, jobs: list[JobRecord]) -> list[str]:
        """Return the jobs that died although nothing in them is made to."""
        return [
            f"I4: job {job.uuid} of {job.task} is dead: {job.reason}"
            for job in jobs
            if job.state is State.DEAD and job.task not in {"poison", "leaves"}
        ]

    def _print(
        self,
        accepted: set[str],
        jobs: list[JobRecord],
        marks: list[Mark],
        causes: Counter[str],
        *,
        lost: int,
        unexplained: int,
    ) -> None:
        states = Counter(job.state.label for job in jobs)
        whats = Counter(mark.what for mark in marks)
        rows: list[tuple[str, object]] = [
            ("jobs accepted", len(accepted)),
            ("runs", whats["start"]),
            ("completed (log)", len(invariants.ended_well(marks))),
            *((f"stored as {state}", count) for state, count in sorted(states.items())),
            *sorted(self.done.items()),
            ("processes that ended themselves", whats["dies"]),
            ("crashes on record", sum(job.crashes for job in jobs)),
            *((f"ran again: {cause}", count) for cause, count in sorted(causes.items())),
            ("ran again: unexplained", unexplained),
            ("losses", lost),
            ("violations", len(self.found)),
        ]
        for name, value in rows:
            print(f"{name:<48}{value:>10}")
        for fault in self.found[:50]:
            print("VIOLATION", fault)


def main() -> int:
    """Run it from the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=None, help="of all that is drawn; a new one each time by default")
    parser.add_argument("--keep", type=Path, default=None, help="a folder for the store and the log, which stay")
    given = parser.parse_args()
    seed = given.seed if given.seed is not None else random.SystemRandom().randrange(10**6)
    print(json.dumps({"minutes": given.minutes, "seed": seed}), flush=True)
    folder = Path(tempfile.mkdtemp()) if given.keep is None else given.keep
    folder.mkdir(parents=True, exist_ok=True)
    code = Soak(folder, seconds=given.minutes * 60, seed=seed).run()
    if given.keep is None and code == 0:
        shutil.rmtree(folder)
    else:
        print(f"the store, the log of the handlers and what the processes wrote are in {folder}")
    return code


if __name__ == "__main__":
    sys.exit(main())
