"""One queue under measurement: a fresh store, producers, workers that are killed, and the log of what ran."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import IO, Any, Final

from bench.compare import agent, joblog
from bench.compare.adapters.base import Adapter, Batch
from bench.compare.joblog import END, START, Event
from bench.compare.place import REPOSITORY, ROOT
from bench.compare.servers import Servers

WARM: Final = 9
"""The kind of jobs that only show that every worker process is there."""
START_S: Final = 40.0


class Trouble(Exception):
    """A queue did not do what was asked; the measurement is given up and the reason shown."""


class Producer:
    """A process that stores jobs.

    Args:
        command: How it is started.
        environment: Where data and log are.
        errors: Where it complains.
    """

    def __init__(self, command: list[str], environment: dict[str, str], errors: IO[bytes]) -> None:
        self.process = subprocess.Popen(
            command, cwd=REPOSITORY, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors
        )
        self._read()

    def _read(self) -> dict[str, Any]:  # Any: JSON
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise Trouble("the producer ended")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise Trouble(answer["error"])
        return answer

    def ask(self, op: str, batch: Batch, **options: float) -> None:
        """Begin something; :meth:`answer` waits for it."""
        assert self.process.stdin is not None
        self.process.stdin.write((json.dumps({"op": op, "batch": asdict(batch), **options}) + "\n").encode())
        self.process.stdin.flush()

    def answer(self) -> tuple[int, float]:
        """Wait, and return how many jobs were stored in how many seconds."""
        told = self._read()
        return int(told["jobs"]), told["ns"] / 1e9

    def do(self, op: str, batch: Batch, **options: float) -> tuple[int, float]:
        """Do something to its end."""
        self.ask(op, batch, **options)
        return self.answer()

    def close(self) -> None:
        """End it."""
        with contextlib.suppress(OSError):
            self.process.communicate(timeout=5)
        with contextlib.suppress(ProcessLookupError):
            self.process.kill()
        self.process.wait()


class System:
    """A queue with an empty store.

    Args:
        kind: Its adapter.
        scenario: What is measured.
        servers: What runs.
        folder: A folder for this measurement alone.
        quick: Whether counts are small.
    """

    def __init__(self, kind: type[Adapter], scenario: str, servers: Servers, folder: Path, *, quick: bool) -> None:
        self.kind = kind
        self.scenario = scenario
        self.servers = servers
        self.quick = quick
        self.log = folder / "log"
        self.log.mkdir(parents=True)
        (folder / "data").mkdir()
        self._errors = (folder / "errors.txt").open("wb")
        self._folder = folder
        self._producers: list[Producer] = []
        self._workers: list[subprocess.Popen[bytes]] = []
        self._environment = {
            **os.environ,
            joblog.FOLDER: str(self.log),
            agent.FOLDER: str(folder / "data"),
            agent.REDIS: servers.redis.url if servers.redis else "",
            agent.POSTGRES: servers.postgres.url if servers.postgres else "",
        }
        if kind.store == "redis" and servers.redis:
            servers.redis.empty()
        elif kind.store == "postgres" and servers.postgres:
            servers.postgres.empty()
        self._setup()

    def _command(self, role: str, slots: int = 1) -> list[str]:
        return self.kind.command(ROOT, role, self.scenario, slots)

    def _setup(self) -> None:
        done = subprocess.run(
            self._command("setup"),
            cwd=REPOSITORY,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=self._errors,
            stderr=self._errors,
            check=False,
            timeout=60,
        )
        if done.returncode:
            raise Trouble(f"the store could not be made: {self.complaint()}")

    def complaint(self) -> str:
        """Return the last line that its processes complained with."""
        self._errors.flush()
        lines = (self._folder / "errors.txt").read_text(errors="replace").strip().splitlines()
        return lines[-1][:300] if lines else "it said nothing"

    # ---------------------------------------------------------------- processes

    def producer(self) -> Producer:
        """Start one."""
        one = Producer(self._command("produce"), self._environment, self._errors)
        self._producers.append(one)
        return one

    def work(self, slots: int, processes: int = 1) -> None:
        """Start workers."""
        for _ in range(processes):
            self._workers.append(
                subprocess.Popen(
                    self._command("work", slots),
                    cwd=REPOSITORY,
                    env=self._environment,
                    stdin=subprocess.DEVNULL,
                    stdout=self._errors,
                    stderr=self._errors,
                    start_new_session=True,
                )
            )

    def work_total(self, total: int) -> int:
        """Start workers for so many jobs at once in all; return how many processes they are."""
        processes, slots = self.kind.processes(total)
        self.work(slots, processes)
        return processes

    def warm(self, producer: Producer, processes: int) -> None:
        """Wait until jobs have run in every worker process, and nothing waits."""
        until = time.monotonic() + START_S
        sent = 0
        while len(joblog.files(self.log)) < processes:
            if time.monotonic() > until:
                raise Trouble(f"the worker did not start: {self.complaint()}")
            self._check()
            producer.do("one_by_one", Batch(WARM, 4 * processes, first=sent, sleep_ms=1))
            sent += 4 * processes
            time.sleep(0.2)
        self.wait(lambda: len(self.ends(WARM)) >= sent, START_S)

    def kill(self) -> int:
        """Kill every worker process at once; return when, in nanoseconds."""
        for process in self._workers:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
        at = joblog.now()
        for process in self._workers:
            process.wait()
        self._workers.clear()
        return at

    def _check(self) -> None:
        if self._workers and all(process.poll() is not None for process in self._workers):
            raise Trouble(f"the worker ended: {self.complaint()}")

    def wait(self, holds: Callable[[], bool], limit_s: float) -> bool:
        """Wait until something holds; return whether it came within the limit."""
        until = time.monotonic() + limit_s
        while not holds():
            if time.monotonic() > until:
                return False
            self._check()
            time.sleep(0.02)
        return True

    def close(self) -> None:
        """End everything and remove the data."""
        self.kill()
        for producer in self._producers:
            producer.close()
        self._errors.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    # ---------------------------------------------------------------- the log

    def count(self) -> int:
        """Return how many records there are: cheap, for waiting."""
        return joblog.count(self.log)

    def ends(self, kind: int) -> list[Event]:
        """Return the ends of jobs of a kind."""
        return [event for event in joblog.read(self.log) if event.event == END and event.kind == kind]

    def starts(self, kind: int) -> list[Event]:
        """Return the starts of jobs that sleep, of a kind."""
        return [event for event in joblog.read(self.log) if event.event == START and event.kind == kind]
