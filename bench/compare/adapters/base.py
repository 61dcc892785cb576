"""What a queue must offer to be measured."""

from __future__ import annotations

import importlib.metadata
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import ClassVar, Literal, NamedTuple

from bench.compare.joblog import now

Kind = Literal["sqlite", "redis", "postgres"]
PLAIN = ("enqueue", "together", "producers", "bulk", "drain1", "drain2", "latency")
"""Scenarios that ask for no order: settings for mere speed are right there."""


class Tier(IntEnum):
    """How urgent a job is; every adapter says what that is in its queue."""

    URGENT = 0
    NORMAL = 1
    LOW = 2


class Task(NamedTuple):
    """A job to be enqueued."""

    kind: int
    number: int
    sleep_ms: int
    tier: Tier
    tenant: str

    def args(self) -> tuple[int, int, int, int]:
        """Return what the handler is called with; now is when it counts as enqueued."""
        return self.kind, self.number, now(), self.sleep_ms


@dataclass(frozen=True)
class Batch:
    """Jobs that differ in their number alone; the form in which producers are told."""

    kind: int
    count: int
    first: int = 0
    sleep_ms: int = 0
    tier: Tier = Tier.NORMAL
    tenant: str = "a"

    def tasks(self) -> Iterator[Task]:
        """Return the jobs, one after the other."""
        for number in range(self.first, self.first + self.count):
            yield Task(self.kind, number, self.sleep_ms, self.tier, self.tenant)


@dataclass(frozen=True)
class Place:
    """Where a queue may keep its data: a folder for files, and the servers of this run ("" where there is none)."""

    folder: Path
    redis_url: str
    postgres_url: str


class Adapter:
    """One queue; an instance lives in a producer or in a worker process.

    Args:
        place: Where its data is.
        scenario: Which scenario it is for: settings may differ, and ``settings`` says how.
    """

    name: ClassVar[str]
    packages: ClassVar[tuple[str, ...]]
    store: ClassVar[Kind]
    durability: ClassVar[str]
    """What survives a cut of the power, in a few words: stated beside every figure."""
    settings: ClassVar[str]
    """What differs from the queue's defaults."""
    slots: ClassVar[int] = 1
    """Jobs at once in a worker process when mere speed is asked for: where the queue is fastest."""
    drain_jobs: ClassVar[int] = 5_000
    """Jobs of a drain; more for the fast, so that it lasts long enough."""
    bulk: ClassVar[bool] = False
    tiers: ClassVar[bool] = True
    ages: ClassVar[bool] = False
    """Whether waiting raises a job."""
    tuned_crash: ClassVar[str] = ""
    """Settings for a quick recovery after a crash; "": there are none, or the defaults are meant to be."""
    only: ClassVar[tuple[str, ...]] = ()
    """The scenarios it is measured in; () for all."""

    def __init__(self, place: Place, scenario: str) -> None:
        self.place = place
        self.scenario = scenario

    def setup(self) -> None:
        """Make what an empty store needs, once."""

    def open(self) -> None:
        """Become a producer."""

    def enqueue(self, task: Task) -> None:
        """Store one job; on return it is stored."""
        raise NotImplementedError

    def enqueue_many(self, tasks: list[Task]) -> None:
        """Store many in one call; asked only where ``bulk``."""
        raise NotImplementedError

    def work(self, slots: int) -> None:
        """Run jobs, so many at once, until killed."""
        raise NotImplementedError

    def close(self) -> None:
        """Let go of what a producer holds."""

    # ---------------------------------------------------------------- what the driver asks

    @classmethod
    def processes(cls, total: int) -> tuple[int, int]:
        """Return how many worker processes, and how many slots each, are ``total`` jobs at once."""
        return 1, total

    @classmethod
    def command(cls, root: Path, role: str, scenario: str, slots: int) -> list[str]:
        """Return how a process of a role (``setup``, ``produce``, ``work``) is started."""
        return [sys.executable, "-m", "bench.compare.agent", cls.name, role, scenario, str(slots)]

    @classmethod
    def missing(cls, root: Path) -> str:
        """Return why it cannot run here, or ""."""
        return ""

    @classmethod
    def versions(cls, root: Path) -> dict[str, str]:
        """Return the versions of what is measured."""
        return {package: importlib.metadata.version(package) for package in cls.packages}


class AsyncAdapter(Adapter):
    """A queue whose calls are coroutines; the agent runs them in one loop."""

    async def aopen(self) -> None:
        """As :meth:`Adapter.open`."""

    async def aenqueue(self, task: Task) -> None:
        """As :meth:`Adapter.enqueue`."""
        raise NotImplementedError

    async def aenqueue_many(self, tasks: list[Task]) -> None:
        """As :meth:`Adapter.enqueue_many`."""
        raise NotImplementedError
