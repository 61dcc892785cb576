"""Oban for Python; it needs Python 3.12, so it is imported only where it is used."""

from __future__ import annotations

import asyncio
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

from bench.compare import joblog
from bench.compare.adapters.base import Adapter, AsyncAdapter, Task, Tier

PRIORITY = {Tier.URGENT: 0, Tier.NORMAL: 4, Tier.LOW: 9}


class ObanQueue(AsyncAdapter):
    """Jobs go by priority; what a killed worker held is rescued by age."""

    name = "oban"
    packages = ("oban", "psycopg")
    store = "postgres"
    durability = "every commit flushed"
    settings = "20 at once for speed"
    slots = 20
    bulk = True
    tuned_crash = "lifeline every second, rescue_after 5 s"

    @classmethod
    def missing(cls, root: Path) -> str:
        """Say so on an older Python."""
        version = f"{sys.version_info.major}.{sys.version_info.minor}"
        return "" if sys.version_info >= (3, 12) else f"oban needs Python 3.12, this is {version}"

    def _job(self) -> Any:  # Any: what the decorator makes of the class
        worker = import_module("oban").worker

        @worker(queue="default", max_attempts=5)
        class BenchJob:
            async def process(self, job: Any) -> None:
                await joblog.ajob(*job.args["a"])

        return BenchJob

    def setup(self) -> None:
        """Make the schema."""
        oban: Any = import_module("oban").Oban
        install: Any = import_module("oban.schema").install

        async def run() -> None:
            pool = await oban.create_pool(dsn=self.place.postgres_url)
            await install(pool)
            await pool.close()

        asyncio.run(run())

    async def aopen(self) -> None:
        """Connect."""
        oban: Any = import_module("oban").Oban

        self.oban: Any = oban(pool=await oban.create_pool(dsn=self.place.postgres_url))
        self.job = self._job()

    def _new(self, task: Task) -> Any:
        return self.job.new({"a": task.args()}, priority=PRIORITY[task.tier])

    async def aenqueue(self, task: Task) -> None:
        """Store one."""
        await self.oban.enqueue(self._new(task))

    async def aenqueue_many(self, tasks: list[Task]) -> None:
        """Store many in one statement."""
        await self.oban.enqueue_many([self._new(task) for task in tasks])

    def work(self, slots: int) -> None:
        """Run it with one queue."""
        oban: Any = import_module("oban").Oban

        async def run() -> None:
            pool = await oban.create_pool(dsn=self.place.postgres_url)
            self._job()
            tuned = self.scenario == "crash-tuned"
            more: Any = {"lifeline": {"interval": 1.0, "rescue_after": 5.0}} if tuned else {}
            async with oban(pool=pool, queues={"default": slots}, **more):
                await asyncio.Event().wait()

        asyncio.run(run())


PEERS: dict[str, type[Adapter]] = {"oban": ObanQueue}
