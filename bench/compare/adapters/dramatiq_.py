"""Dramatiq on Redis; threads in one process."""

from __future__ import annotations

import time
from typing import Any

import dramatiq
from bench.compare import joblog
from bench.compare.adapters.base import Adapter, Place, Task, Tier
from dramatiq.brokers.redis import RedisBroker


class Dramatiq(Adapter):
    """Every queue has a consumer of its own that fetches ahead, so none starves, and none is first."""

    name = "dramatiq"
    packages = ("dramatiq", "redis")
    store = "redis"
    durability = "Redis AOF, flushed every second"
    settings = "a queue a tier, 8 threads for speed; noisy: a queue a tenant"
    slots = 8
    tuned_crash = "heartbeat_timeout 5 s, maintenance at every tenth command"

    def __init__(self, place: Place, scenario: str) -> None:
        super().__init__(place, scenario)
        tuned: dict[str, Any] = (
            {"heartbeat_timeout": 5_000, "maintenance_chance": 100_000} if scenario == "crash-tuned" else {}
        )
        self.broker: Any = RedisBroker(url=place.redis_url, **tuned)  # type: ignore[no-untyped-call]  # half typed
        dramatiq.set_broker(self.broker)
        names = ["t-a", "t-b"] if scenario == "noisy" else ["urgent", "normal", "low"]
        make: Any = dramatiq.actor  # its types know no handler with options
        self.actors: dict[str, Any] = {
            name: make(joblog.job, actor_name=name, queue_name=name, priority=number * 50, broker=self.broker)
            for number, name in enumerate(names)
        }

    def enqueue(self, task: Task) -> None:
        """Store one."""
        name = f"t-{task.tenant}" if self.scenario == "noisy" else Tier(task.tier).name.lower()
        self.actors[name].send(*task.args())

    def work(self, slots: int) -> None:
        """Run a worker's threads."""
        dramatiq.Worker(self.broker, worker_threads=slots).start()
        while True:
            time.sleep(1)


PEERS: dict[str, type[Adapter]] = {"dramatiq": Dramatiq}
