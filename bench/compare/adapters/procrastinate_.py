"""Procrastinate with its asynchronous worker."""

from __future__ import annotations

import asyncio
from typing import Any

from bench.compare import joblog
from bench.compare.adapters.base import Adapter, AsyncAdapter, Place, Task, Tier
from procrastinate import App, PsycopgConnector

PRIORITY = {Tier.URGENT: 10, Tier.NORMAL: 0, Tier.LOW: -10}
NAMES = ("kind", "number", "enqueued_ns", "sleep_ms")


class Procrastinate(AsyncAdapter):
    """What a killed worker held stays ``doing`` until a task of the user's own puts it back."""

    name = "procrastinate"
    packages = ("procrastinate", "psycopg")
    store = "postgres"
    durability = "every commit flushed"
    settings = "delete_jobs=always, 20 at once for speed"
    slots = 20
    drain_jobs = 2_000
    bulk = True
    tuned_crash = "heartbeat 1 s, stalled after 5 s, the documented retry of stalled jobs every second"

    def __init__(self, place: Place, scenario: str) -> None:
        super().__init__(place, scenario)
        self.app = App(connector=PsycopgConnector(conninfo=place.postgres_url))
        self.task: Any = self.app.task(name="job", queue="default")(joblog.ajob)

    def setup(self) -> None:
        """Make the schema."""

        async def run() -> None:
            async with self.app.open_async():
                await self.app.schema_manager.apply_schema_async()

        asyncio.run(run())

    async def aopen(self) -> None:
        """Connect."""
        await self.app.open_async()

    async def aenqueue(self, task: Task) -> None:
        """Store one."""
        named = dict(zip(NAMES, task.args(), strict=True))
        await self.task.configure(priority=PRIORITY[task.tier]).defer_async(**named)

    async def aenqueue_many(self, tasks: list[Task]) -> None:
        """Store many in one statement a tier."""
        for tier in {task.tier for task in tasks}:
            named = [dict(zip(NAMES, task.args(), strict=True)) for task in tasks if task.tier == tier]
            await self.task.configure(priority=PRIORITY[tier]).batch_defer_async(*named)

    async def _rescue(self) -> None:
        while True:
            await asyncio.sleep(1)
            for job in await self.app.job_manager.get_stalled_jobs(seconds_since_heartbeat=5):
                await self.app.job_manager.retry_job(job)

    def work(self, slots: int) -> None:
        """Run its worker."""

        async def run() -> None:
            async with self.app.open_async():
                options: dict[str, Any] = {}
                if self.scenario == "crash-tuned":
                    options = {"update_heartbeat_interval": 1, "stalled_worker_timeout": 5}
                    rescue = asyncio.ensure_future(self._rescue())
                    rescue.add_done_callback(lambda ended: ended.result())
                await self.app.run_worker_async(concurrency=slots, delete_jobs="always", **options)

        asyncio.run(run())


PEERS: dict[str, type[Adapter]] = {"procrastinate": Procrastinate}
