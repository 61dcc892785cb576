"""awa: a Rust core with Python handlers, on PostgreSQL."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import dataclass
from typing import Any

import awa
import psycopg
from awa.bridge import insert_job_sync
from bench.compare import joblog
from bench.compare.adapters.base import PLAIN, Adapter, Task, Tier

PRIORITY = {Tier.URGENT: 1, Tier.NORMAL: 2, Tier.LOW: 4}


@dataclass
class Args:
    """What its jobs carry."""

    kind: int
    number: int
    enqueued_ns: int
    sleep_ms: int


class Awa(Adapter):
    """Jobs go by priority, and waiting raises it."""

    name = "awa"
    packages = ("awa-pg",)
    store = "postgres"
    durability = "every commit flushed"
    settings = "single enqueue by its psycopg bridge; uvloop, 256 at once and no deadline for speed; starve, aged: 1 s"
    slots = 256
    drain_jobs = 20_000
    bulk = True
    ages = True
    tuned_crash = "heartbeat 0.5 s, stale after 2 s"

    def setup(self) -> None:
        """Make the schema."""

        async def run() -> None:
            client: Any = awa.AsyncClient(self.place.postgres_url)
            await client.migrate()
            await client.install_queue_storage()
            await client.close()

        asyncio.run(run())

    def open(self) -> None:
        """Connect; the bridge's connections are made when they are used, one a thread."""
        self.client: Any = awa.Client(self.place.postgres_url, max_connections=2)
        self.local = threading.local()

    def enqueue(self, task: Task) -> None:
        """Store one."""
        if not hasattr(self.local, "connection"):
            self.local.connection = psycopg.connect(self.place.postgres_url, autocommit=True)
        insert_job_sync(self.local.connection, Args(*task.args()), kind="job", priority=PRIORITY[task.tier])

    def enqueue_many(self, tasks: list[Task]) -> None:
        """Store many by COPY."""
        for tier in {task.tier for task in tasks}:
            jobs = [Args(*task.args()) for task in tasks if task.tier == tier]
            self.client.enqueue_many_copy(jobs, kind="job", priority=PRIORITY[tier])

    def work(self, slots: int) -> None:
        """Run its worker."""
        import uvloop

        queue: dict[str, Any] = {"name": "default", "max_workers": slots}
        more: dict[str, Any] = {}
        if self.scenario in PLAIN:
            queue["deadline_duration_ms"] = 0
        if self.scenario in {"starve", "aged"}:
            queue["priority_aging_interval_ms"] = 1_000
        if self.scenario == "crash-tuned":
            more = {
                "heartbeat_interval_ms": 500,
                "heartbeat_staleness_ms": 2_000,
                "heartbeat_rescue_interval_ms": 500,
                "leader_election_interval_ms": 500,
            }

        async def run() -> None:
            client: Any = awa.AsyncClient(self.place.postgres_url, max_connections=10)

            @client.task(Args, kind="job", queue="default")  # type: ignore[untyped-decorator]  # a client of Rust
            async def job(one: Any) -> None:
                args = one.args
                await joblog.ajob(args.kind, args.number, args.enqueued_ns, args.sleep_ms)

            await client.start([queue], **more)
            await asyncio.Event().wait()

        uvloop.run(run())


PEERS: dict[str, type[Adapter]] = {"awa": Awa}
