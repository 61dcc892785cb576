"""PgQueuer over asyncpg."""

from __future__ import annotations

import asyncio
import datetime as dt
import json
from typing import Any

import asyncpg  # type: ignore[import-untyped]  # it has no types
from bench.compare import joblog
from bench.compare.adapters.base import PLAIN, Adapter, AsyncAdapter, Task, Tier
from pgqueuer import PgQueuer
from pgqueuer.db import AsyncpgDriver, AsyncpgPoolDriver
from pgqueuer.models import Job
from pgqueuer.queries import Queries

PRIORITY = {Tier.URGENT: 10, Tier.NORMAL: 0, Tier.LOW: -10}


class Pgqueuer(AsyncAdapter):
    """Jobs go by priority; tenants are unknown to it."""

    name = "pgqueuer"
    packages = ("pgqueuer", "asyncpg")
    store = "postgres"
    durability = "every commit flushed"
    settings = "asyncpg, uvloop; batch_size 100 for speed, half of the slots elsewhere; together: a pool of 10"
    slots = 100
    drain_jobs = 20_000
    bulk = True
    tuned_crash = "heartbeat_timeout 5 s, dequeue_timeout 1 s"

    def setup(self) -> None:
        """Make the schema."""

        async def run() -> None:
            connection = await asyncpg.connect(self.place.postgres_url)
            await Queries(AsyncpgDriver(connection)).install()
            await connection.close()

        asyncio.run(run())

    async def aopen(self) -> None:
        """Connect."""
        if self.scenario == "together":
            pool = await asyncpg.create_pool(self.place.postgres_url, min_size=10, max_size=10)
            self.queries = Queries(AsyncpgPoolDriver(pool))
        else:
            self.queries = Queries(AsyncpgDriver(await asyncpg.connect(self.place.postgres_url)))

    async def aenqueue(self, task: Task) -> None:
        """Store one."""
        await self.queries.enqueue("job", json.dumps(task.args()).encode(), priority=PRIORITY[task.tier])

    async def aenqueue_many(self, tasks: list[Task]) -> None:
        """Store many in one statement."""
        payloads: list[bytes | None] = [json.dumps(task.args()).encode() for task in tasks]
        await self.queries.enqueue(["job"] * len(tasks), payloads, [PRIORITY[task.tier] for task in tasks])

    def work(self, slots: int) -> None:
        """Run its worker."""
        import uvloop

        options: dict[str, Any] = {"batch_size": slots}
        if self.scenario not in PLAIN:  # it asks for two batches at least
            options = {"max_concurrent_tasks": slots, "batch_size": max(1, slots // 2)}
        if self.scenario == "crash-tuned":
            options |= {"heartbeat_timeout": dt.timedelta(seconds=5), "dequeue_timeout": dt.timedelta(seconds=1)}

        async def run() -> None:
            queue = PgQueuer(AsyncpgDriver(await asyncpg.connect(self.place.postgres_url)))

            @queue.entrypoint("job")
            async def job(one: Job) -> None:
                await joblog.ajob(*json.loads(one.payload or b"[]"))

            await queue.run(**options)

        uvloop.run(run())


PEERS: dict[str, type[Adapter]] = {"pgqueuer": Pgqueuer}
