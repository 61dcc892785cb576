"""fairlane itself, in its stores and settings; all promises and turns on."""

from __future__ import annotations

from typing import ClassVar, Literal

from bench.compare import joblog
from bench.compare.adapters.base import PLAIN, Adapter, Kind, Place, Task, Tier

import fairlane as fl
from fairlane.domain.jobs import NewJob

TIERS = {Tier.URGENT: fl.Tier.HIGH, Tier.NORMAL: fl.Tier.NORMAL, Tier.LOW: fl.Tier.LOW}
AGEING_S = 1.0
"""In the scenarios whose question is ageing; a minute, the default, elsewhere."""


class Sqlite(Adapter):
    """A file, flushed at every commit."""

    name = "fairlane"
    packages = ("fairlane",)
    store: ClassVar[Kind] = "sqlite"
    durability = "every commit flushed"
    settings = "defaults; ageing_step=1 in starve and aged; 100 slots for speed"
    slots = 100
    drain_jobs = 20_000
    bulk = True
    ages = True
    flushes: ClassVar[Literal["full", "normal"]] = "full"
    policy: ClassVar[Literal["fair", "strict"]] = "fair"

    def __init__(self, place: Place, scenario: str) -> None:
        super().__init__(place, scenario)
        step = AGEING_S if scenario in {"starve", "aged"} and self.policy == "fair" else 60.0
        self.named = fl.Policy.named(self.policy, ageing_step=step)
        self.app = fl.Fairlane(self.url(), durability=self.flushes, policy=self.named)
        self.task = self.app.task(name="job")(joblog.ajob)
        self.known = {
            (tier, tenant): self.task.using(tier=TIERS[tier], tenant=tenant) for tier in Tier for tenant in "ab"
        }

    def url(self) -> str:
        """Return where the store is."""
        return f"sqlite:///{self.place.folder}/jobs.db"

    def setup(self) -> None:
        """Make the file."""
        self.app.depth()
        self.app.close()

    def open(self) -> None:
        """Open the store."""
        self.app.depth()

    def new(self, task: Task) -> NewJob:
        """Return a job for ``enqueue_many``."""
        return self.known[task.tier, task.tenant].new(*task.args())

    def enqueue(self, task: Task) -> None:
        """Store one."""
        self.known[task.tier, task.tenant].enqueue(*task.args())

    async def aenqueue(self, task: Task) -> None:
        """Store one from a coroutine."""
        await self.known[task.tier, task.tenant].aenqueue(*task.args())

    def enqueue_many(self, tasks: list[Task]) -> None:
        """Store many in one transaction."""
        self.app.enqueue_many([self.new(task) for task in tasks])

    def work(self, slots: int) -> None:
        """Run a worker."""
        self.app.run_worker(concurrency=slots)

    def close(self) -> None:
        """Close the store."""
        self.app.close()


class Normal(Sqlite):
    """A file that is not flushed at each commit."""

    name = "fairlane-normal"
    durability = "commits not flushed; none lost by a kill"
    settings = 'durability="normal"; else as fairlane'
    flushes = "normal"
    only = tuple(one for one in PLAIN if one != "producers")


class Strict(Sqlite):
    """The policy that knows tiers alone; what ``fair`` is measured against."""

    name = "fairlane-strict"
    settings = 'policy="strict"; nothing rises within the time'
    policy = "strict"
    only = ("starve",)


class Postgres(Sqlite):
    """A PostgreSQL database."""

    name = "fairlane-postgres"
    store = "postgres"

    def url(self) -> str:
        """Return the database."""
        return self.place.postgres_url

    def setup(self) -> None:
        """Make the schema."""
        from fairlane.clock import SystemClock
        from fairlane.stores.postgres.store import open_postgres

        open_postgres(self.url(), clock=SystemClock(), policy=self.named, migrate=True).close()


class PostgresStrict(Postgres):
    """As :class:`Strict`."""

    name = "fairlane-postgres-strict"
    settings = 'policy="strict"; nothing rises within the time'
    policy = "strict"
    only = ("starve",)


PEERS: dict[str, type[Adapter]] = {one.name: one for one in (Sqlite, Normal, Strict, Postgres, PostgresStrict)}
