"""What the tests of the worker share: a store on a real file, tasks, jobs, and waits for events instead of sleeps."""

from __future__ import annotations

import contextlib
import random
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

from fairlane.clock import Clock, SystemClock
from fairlane.domain.jobs import Claim, JobRecord, NewJob
from fairlane.domain.lanes import LaneKey, Place, Start
from fairlane.domain.retries import Retry
from fairlane.domain.states import State
from fairlane.errors import StoreError
from fairlane.hooks import Hooks
from fairlane.owner import Owner
from fairlane.registry import Registry
from fairlane.store import Store
from fairlane.stores.sqlite.store import open_sqlite
from fairlane.tasks import Task
from fairlane.worker import Worker

LONG_S = 10.0
"""Longest wait for an event; only a failing test waits that long."""
AT_ONCE = Retry(base=0.0, jitter=0.0)


class Flaky:
    """A store whose methods fail when told to: ``faults["settle"] = StoreError("…")``; None as a fault lets them be.

    ``gates["transaction"]`` is an event that transactions wait for.
    """

    def __init__(self, store: Store, faults: dict[str, Exception], gates: dict[str, threading.Event]) -> None:
        self._store = store
        self._faults = faults
        self._gates = gates
        self.calls: dict[str, int] = {}

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._store, name)
        if not callable(value):
            return value

        def call(*args: Any, **kwargs: Any) -> Any:
            self.calls[name] = self.calls.get(name, 0) + 1
            gate = self._gates.get(name)
            if gate is not None:
                gate.wait(LONG_S)
            fault = self._faults.get(name)
            if fault is not None:
                raise fault
            return value(*args, **kwargs)

        return call

    def transaction(self, *, light: bool = False) -> AbstractContextManager[None]:
        return self._transaction(light=light)

    @contextlib.contextmanager
    def _transaction(self, *, light: bool) -> Iterator[None]:
        gate = self._gates.get("transaction")
        if gate is not None:
            gate.wait(LONG_S)
        with self._store.transaction(light=light):
            yield
            fault = self._faults.get("commit")
            if fault is not None:
                raise fault

    def sibling(self) -> Any:
        other = self._store.sibling()
        return None if other is None else Flaky(other, self._faults, self._gates)


class Rig:
    """One store with tasks and workers on it."""

    def __init__(self, folder: Path | None, clock: Clock | None = None) -> None:
        self.clock = SystemClock() if clock is None else clock
        self.url = "sqlite://" if folder is None else f"sqlite:///{folder}/jobs.db"
        self.faults: dict[str, Exception] = {}
        self.gates: dict[str, threading.Event] = {}
        self.stores: list[Flaky] = []
        self.registry = Registry()
        self.hooks = Hooks()
        self.workers: list[Worker] = []
        self.owners: list[Owner] = []
        self.owner = self.new_owner()

    def new_owner(self) -> Owner:
        """Another process would have an owner of its own; so may a second worker here."""

        def opened() -> Any:
            store = Flaky(open_sqlite(self.url, clock=self.clock, durability="normal"), self.faults, self.gates)
            self.stores.append(store)
            return store

        owner = Owner(opened, self.clock)
        self.owners.append(owner)
        return owner

    def close(self) -> None:
        self.faults.clear()
        for gate in self.gates.values():
            gate.set()
        for worker in self.workers:
            worker.request_stop(at_once=True)
        for worker in self.workers:
            worker.stop()
        for owner in self.owners:
            owner.close()

    # ------------------------------------------------------------------ tasks and jobs

    def task(self, fn: Callable[..., Any] | None = None, **options: Any) -> Any:
        if fn is None:
            return partial(self.task, **options)
        self.registry.add(Task(fn, **options))
        return fn

    def hold(self) -> tuple[bytes, Worker, threading.Event]:
        """Let a worker run a job that lasts until the event is set."""
        running, go = threading.Event(), threading.Event()

        @self.task
        def hold() -> None:
            running.set()
            assert go.wait(LONG_S)

        job, worker = self.enqueue("hold"), self.worker()
        worker.start()
        assert running.wait(LONG_S)
        return job, worker, go

    def enqueue(self, task: str, args: str = "{}", **fields: Any) -> bytes:
        return self.enqueue_many([NewJob(id=uuid4().bytes, task=task, args=args, **fields)])[0]

    def enqueue_many(self, jobs: Sequence[NewJob]) -> list[bytes]:
        return [one.id for one in self.owner.call(lambda store, now_ms: store.enqueue(jobs, now_ms))]

    def get(self, job_id: bytes) -> JobRecord:
        record = self.owner.read(lambda store, now_ms: store.get(job_id))
        assert record is not None
        return record

    def counts(self) -> dict[State, int]:
        return {state: count for state, count in self.owner.read(lambda store, now_ms: store.counts()).items() if count}

    def until(self, holds: Callable[[], object], what: str = "it") -> None:
        """Wait until ``holds()``: looked at after each commit and every few milliseconds."""
        pause = threading.Event()
        until = SystemClock().monotonic() + LONG_S
        while not holds():
            assert SystemClock().monotonic() < until, f"{what} did not come"
            pause.wait(0.003)

    def until_state(self, job_id: bytes, *states: State) -> JobRecord:
        self.until(lambda: self.get(job_id).state in states, f"state {states}, it is {self.get(job_id)};")
        return self.get(job_id)

    # ------------------------------------------------------------------ workers

    def worker(self, owner: Owner | None = None, **options: Any) -> Worker:
        options = {"concurrency": 4, "hooks": self.hooks, "rng": random.Random(7)} | options
        worker = Worker(self.owner if owner is None else owner, self.registry, **options)
        self.workers.append(worker)
        return worker

    def drain(self, **options: Any) -> Worker:
        """Run a worker until nothing is left to do."""
        worker = self.worker(**options)
        worker.start(until_idle=True)
        assert worker.join(LONG_S)
        return worker


def make_claim(**fields: Any) -> Claim:
    """Return a claim that no store has given."""
    lane = LaneKey("default", fields.pop("task", "t"), fields.pop("tenant", "acme"), fields.pop("tier", 2))
    start = Start(lane, Place(1_000, 1), None, "shared", 1_000_000, 4_000)
    plain: dict[str, Any] = {
        "seq": 1,
        "id": uuid4().bytes,
        "fence": 5,
        "attempt": 1,
        "failures": 0,
        "crashes": 0,
        "checks": 0,
        "phase": "process",
        "args": "{}",
        "checkpoint": None,
        "arrival_ms": 1_000,
        "available_at_ms": 1_000,
        "started_at_ms": 1_000,
        "deadline_ms": 31_000,
        "trace": None,
        "start": start,
    }
    return Claim(**(plain | fields))


BUSTED = StoreError("the store is out of order")
