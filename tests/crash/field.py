"""What the crash tests share: real processes that are killed, stopped and signalled, and a log that judges them.

The log is written by handlers, outside the queue; the queue's own books are only compared with it. :meth:`Field.audit`
is the invariant checker, run at the end of every test.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence, Set
from pathlib import Path
from typing import IO, Any

from fairlane.app import Fairlane
from fairlane.clock import Clock, SystemClock
from fairlane.domain.jobs import JobRecord
from fairlane.store import Store
from fairlane.testing import invariants
from fairlane.testing.invariants import Mark

LONG_S = 40.0
"""Longest wait for an event; only a failing test waits that long."""
HERE = Path(__file__).parent

Process = subprocess.Popen[bytes]


Line = Mark


class Field:
    """A store, its oracle log, and the processes that work on it.

    Args:
        folder: Where the log is.
        durability: As for :class:`Fairlane`.
        clock: Our own clock; that of the processes is told by ``CLOCK``.
        url: The store; None: a file in the folder.
    """

    def __init__(
        self, folder: Path, *, durability: str = "normal", clock: Clock | None = None, url: str | None = None
    ) -> None:
        self.folder = folder
        self.path = folder / "jobs.db"
        self.url = f"sqlite:///{self.path}" if url is None else url
        self.log = folder / "oracle.log"
        self.accepted_file = folder / "accepted.log"
        self.log.touch()
        self.accepted_file.touch()
        self.durability = durability
        self.app = Fairlane(self.url, durability=durability, clock=clock)  # type: ignore[arg-type]
        self.app.owner  # noqa: B018  opens the store, so that no process has to make it
        self.processes: list[Process] = []
        self.killed: list[int] = []
        self.stderr: IO[bytes] | None = None
        """Where processes started from now on write their errors to; None: where we do."""
        self._mine: list[str] = []

    def close(self) -> None:
        for process in self.processes:
            if process.poll() is None:
                process.send_signal(signal.SIGCONT)
                process.kill()
            process.wait()
            for stream in (process.stdin, process.stdout):
                if stream is not None:
                    with contextlib.suppress(BrokenPipeError):
                        stream.close()
        self.app.close()

    # ------------------------------------------------------------------ processes

    def run(
        self,
        role: str,
        *,
        env: Mapping[str, str] | None = None,
        pipe: bool = False,
        inside: Sequence[str] = (),
        program: str = "program.py",
        **options: Any,
    ) -> Process:
        """Start a process; ``inside`` is a command that runs another one, which its arguments name."""
        process = subprocess.Popen(
            [*inside, sys.executable, str(HERE / program), role, json.dumps(options)],
            env=self.environment() | (env or {}),
            cwd=self.folder,
            stdin=subprocess.PIPE if pipe else None,
            stdout=subprocess.PIPE if pipe else None,
            stderr=self.stderr,
        )
        self.processes.append(process)
        return process

    def run_cli(self, *args: str, fail: str | None = None) -> Process:
        """Start a command line on the store; ``fail`` arms a failpoint in it."""
        process = subprocess.Popen(
            [sys.executable, "-m", "fairlane", *args, "--url", self.url],
            env=os.environ | ({} if fail is None else {"FAIRLANE_FAILPOINT": fail}),
            cwd=self.folder,
        )
        self.processes.append(process)
        return process

    def environment(self) -> dict[str, str]:
        """Return the variables that the program needs."""
        mine = {"URL": self.url, "LOG": str(self.log), "ACCEPTED": str(self.accepted_file)}
        return os.environ | mine | {"DURABILITY": self.durability}

    def worker(self, *, fail: str | None = None, **options: Any) -> Process:
        """Start a worker; ``fail`` arms a failpoint in it."""
        return self.run("worker", env=armed(fail), **options)

    def kill9(self, process: Process) -> int:
        """Kill a process and return the instant, in nanoseconds of the monotonic clock."""
        self.killed.append(process.pid)
        at_ns = self.note(process.pid, "kill")
        process.kill()
        process.wait()
        return at_ns

    def died(self, process: Process, seconds: float = LONG_S) -> None:
        """Wait for a process to end by its failpoint."""
        assert process.wait(seconds) == 9
        self.killed.append(process.pid)
        self.note(process.pid, "dies", at_ns=0)  # nobody knows when

    def note(self, pid: int, what: str, at_ns: int | None = None) -> int:
        """Write down what is about to be done to a process, and return when.

        Before it is done: what others start after its death comes behind this line.
        """
        at_ns = time.monotonic_ns() if at_ns is None else at_ns
        with self.log.open("ab", buffering=0) as file:
            file.write(f"- 0 0 {pid} {what} {at_ns} -\n".encode())
        return at_ns

    def pause(self, process: Process) -> None:
        self.note(process.pid, "stop")
        process.send_signal(signal.SIGSTOP)
        self.until(lambda: state_of(process.pid) == "T", "the stop of a process")

    def term(self, process: Process, which: signal.Signals = signal.SIGTERM) -> None:
        self.note(process.pid, "term")
        process.send_signal(which)

    def resume(self, process: Process) -> None:
        self.note(process.pid, "cont")
        process.send_signal(signal.SIGCONT)

    # ------------------------------------------------------------------ jobs

    def enqueue(
        self, task: str, count: int = 1, *, tenant: str = "default", queue: str = "default", **args: Any
    ) -> list[str]:
        jobs = [self.app.enqueue(task, args, tenant=tenant, queue=queue) for _ in range(count)]
        made = [str(job.id) for job in jobs]
        self._mine += made
        return made

    def accepted(self) -> list[str]:
        """Return the jobs whose enqueue has returned, here and in producers."""
        return self._mine + self.accepted_file.read_text().split()

    def states(self) -> dict[str, int]:
        counts = self.app.owner.read(lambda store, now_ms: store.counts())
        return {state.label: count for state, count in counts.items() if count}

    # ------------------------------------------------------------------ the oracle log

    def lines(self, what: str | None = None) -> list[Line]:
        return [line for line in invariants.parse(self.log.read_text()) if what is None or line.what == what]

    def starts(self) -> Counter[str]:
        return Counter(line.job for line in self.lines("start"))

    def ends(self) -> Counter[str]:
        return Counter(line.job for line in self.lines("end"))

    def running(self, *, by: Callable[[Line], str | None] = lambda line: "all") -> dict[str, int]:
        """Return the most runs at one instant, by a name; killed processes run nothing."""
        return invariants.most_at_once(self.lines(), by)

    # ------------------------------------------------------------------ waiting

    def until(self, holds: Callable[[], object], what: str, seconds: float = LONG_S) -> None:
        """Wait until ``holds()``."""
        until = SystemClock().monotonic() + seconds
        while not holds():
            assert SystemClock().monotonic() < until, f"{what} did not come: {self.states()}, {len(self.lines())} lines"
            time.sleep(0.01)

    def until_started(self, count: int, seconds: float = LONG_S) -> list[Line]:
        self.until(lambda: len(self.lines("start")) >= count, f"start {count}", seconds)
        return self.lines("start")

    def until_done(self, seconds: float = LONG_S) -> None:
        """Wait until nothing is live any more."""
        self.until(lambda: not self.states().keys() & {"scheduled", "available", "running"}, "the last end", seconds)

    def finish(self, seconds: float = LONG_S) -> None:
        """Let a fresh worker do what is left, and wait for it."""
        self.worker(concurrency=16)
        self.until_done(seconds)

    # ------------------------------------------------------------------ the invariants

    def audit(
        self, *, crash_budget: int = 1_000, pruned: bool = False, gone: Set[str] = frozenset(), idle: bool = True
    ) -> None:
        """See that nothing is lost, doubled without cause, leaked or in limbo.

        Args:
            crash_budget: Most crashes that a job of the test may have.
            pruned: Whether jobs that ended may have been deleted.
            gone: Jobs that may be missing for another reason, for example a restore of an older backup.
            idle: Whether nothing runs any more.
        """
        if self.path.exists():
            with contextlib.closing(sqlite3.connect(f"file:{self.path}?mode=ro", uri=True)) as db:
                assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        jobs, books, now_ms = self.books()
        lines = self.lines()
        assert books == []
        assert not idle or not [job for job in jobs if job.state.label == "running"], "I2: something still runs"
        assert invariants.lease_faults(jobs, now_ms, sweep_ms=5_000) == []
        assert invariants.budget_faults(jobs, failures=4, crashes=crash_budget) == []
        ended = invariants.ended_well(lines) if pruned else set()
        assert invariants.lost(self.accepted(), jobs, ended | gone) == set(), "I1: accepted jobs are lost"
        assert invariants.fence_faults(lines) == []

    def books(self) -> tuple[list[JobRecord], list[str], int]:
        """Return all jobs, what is wrong with the store's books, and when; in one transaction, so nobody writes."""
        return self.app.owner.call(_books)

    def assert_only_killed_runs_doubled(self, slots: int) -> None:
        """A job runs again only if the process that ran it was killed, which doubles no more than its slots."""
        runs: dict[str, list[Line]] = {}
        for line in self.lines("start"):
            runs.setdefault(line.job, []).append(line)
        doubled: Counter[int] = Counter()
        for job, lines in runs.items():
            assert [line.fence for line in lines] == sorted({line.fence for line in lines}), f"{job}: a fence repeats"
            for line in lines[:-1]:
                assert line.pid in self.killed, f"{job} ran again although its process lived: {lines}"
                doubled[line.pid] += 1
        # What had ended and was not settled yet comes on top of what ran.
        assert all(count <= 2 * slots for count in doubled.values()), doubled


def _books(store: Store, now_ms: int) -> tuple[list[JobRecord], list[str], int]:
    return invariants.all_jobs(store), invariants.book_faults(store, now_ms), now_ms


def state_of(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]


def armed(fail: str | None) -> dict[str, str]:
    """Return the variable that arms a failpoint."""
    return {} if fail is None else {"FAIRLANE_FAILPOINT": fail}


def cpu_ticks(pid: int) -> int:
    """Return the processor time that a process has used, in clock ticks."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return int(fields[11]) + int(fields[12])


def seeded(seed: int) -> random.Random:
    return random.Random(seed)
