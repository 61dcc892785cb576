"""taskiq over a Redis stream, whose messages are acknowledged."""

from __future__ import annotations

import asyncio
from typing import Any

from bench.compare import joblog
from bench.compare.adapters.base import Adapter, AsyncAdapter, Place, Task
from taskiq.api import run_receiver_task
from taskiq_redis import RedisStreamBroker


class Taskiq(AsyncAdapter):
    """It knows neither tiers nor tenants."""

    name = "taskiq"
    packages = ("taskiq", "taskiq-redis", "redis")
    store = "redis"
    durability = "Redis AOF, flushed every second"
    settings = "RedisStreamBroker, uvloop, 100 tasks at once for speed"
    slots = 100
    drain_jobs = 10_000
    tiers = False

    def __init__(self, place: Place, scenario: str) -> None:
        super().__init__(place, scenario)
        self.broker = RedisStreamBroker(place.redis_url)
        self.task: Any = self.broker.register_task(joblog.ajob, task_name="job")

    async def aopen(self) -> None:
        """Connect."""
        await self.broker.startup()

    async def aenqueue(self, task: Task) -> None:
        """Store one."""
        await self.task.kiq(*task.args())

    def work(self, slots: int) -> None:
        """Run a receiver."""
        import uvloop

        self.broker.is_worker_process = True

        async def run() -> None:
            await run_receiver_task(self.broker, max_async_tasks=slots, run_startup=True)
            await asyncio.Event().wait()

        uvloop.run(run())


PEERS: dict[str, type[Adapter]] = {"taskiq": Taskiq}
