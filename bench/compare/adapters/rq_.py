"""RQ; one job at a time in a worker process, so several processes for several slots."""

from __future__ import annotations

import logging
from typing import Any

import redis
import rq
from bench.compare import joblog
from bench.compare.adapters.base import Adapter, Place, Task, Tier
from rq.worker import RoundRobinWorker, SimpleWorker

QUEUES = {Tier.URGENT: "urgent", Tier.NORMAL: "normal", Tier.LOW: "low"}


class Fair(RoundRobinWorker, SimpleWorker):
    """Takes from its queues in turn, without a fork a job."""


class Rq(Adapter):
    """Tiers are queues that a worker reads in order; a tenant would be a queue that every worker knows."""

    name = "rq"
    packages = ("rq", "redis")
    store = "redis"
    durability = "Redis AOF, flushed every second"
    settings = "SimpleWorker (no fork a job), result_ttl=0; noisy: a queue a tenant, RoundRobinWorker"
    drain_jobs = 2_000
    bulk = True
    tuned_crash = "Retry(3), job_timeout 5 s, maintenance every 5 s, worker_ttl=20"

    def __init__(self, place: Place, scenario: str) -> None:
        super().__init__(place, scenario)
        self.redis = redis.Redis.from_url(place.redis_url)
        names = ["t-a", "t-b"] if scenario == "noisy" else list(QUEUES.values())
        self.queues = {name: rq.Queue(name, connection=self.redis) for name in names}
        self.options: dict[str, Any] = {"result_ttl": 0}
        if scenario == "crash-tuned":
            self.options |= {"retry": rq.Retry(max=3)}

    def _queue(self, task: Task) -> str:
        return f"t-{task.tenant}" if self.scenario == "noisy" else QUEUES[task.tier]

    def enqueue(self, task: Task) -> None:
        """Store one."""
        limit: dict[str, Any] = {"job_timeout": 5} if self.scenario == "crash-tuned" else {}
        self.queues[self._queue(task)].enqueue(joblog.job, args=task.args(), **self.options, **limit)

    def enqueue_many(self, tasks: list[Task]) -> None:
        """Store many in one pipeline."""
        limit: dict[str, Any] = {"timeout": 5} if self.scenario == "crash-tuned" else {}
        by_queue: dict[str, list[Any]] = {}
        for task in tasks:
            data = rq.Queue.prepare_data(joblog.job, args=task.args(), **self.options, **limit)
            by_queue.setdefault(self._queue(task), []).append(data)
        for name, many in by_queue.items():
            self.queues[name].enqueue_many(many)

    def work(self, slots: int) -> None:
        """Run one worker."""
        logging.getLogger("rq.worker").setLevel(logging.ERROR)
        kind = Fair if self.scenario == "noisy" else SimpleWorker
        tuned = self.scenario == "crash-tuned"
        more: dict[str, Any] = (
            {"maintenance_interval": 5, "job_monitoring_interval": 5, "worker_ttl": 20} if tuned else {}
        )
        kind(list(self.queues.values()), connection=self.redis, **more).work(logging_level="ERROR")

    @classmethod
    def processes(cls, total: int) -> tuple[int, int]:
        """One job a process."""
        return total, 1


PEERS: dict[str, type[Adapter]] = {"rq": Rq}
