"""Celery on Redis, prefork."""

from __future__ import annotations

import os
from typing import Any

from bench.compare import joblog
from bench.compare.adapters.base import PLAIN, Adapter, Place, Task, Tier
from celery import Celery  # type: ignore[import-untyped]  # it has no types

PRIORITY = {Tier.URGENT: 0, Tier.NORMAL: 3, Tier.LOW: 9}


class CeleryQueue(Adapter):
    """A worker has one strategy over its queues: priorities, or turns."""

    name = "celery"
    packages = ("celery", "kombu", "redis")
    store = "redis"
    durability = "Redis AOF, flushed every second"
    settings = (
        "ignore_result; for speed acks early and fetches 64 ahead, else acks_late and prefetch 1 with the priority"
        " strategy; noisy: a queue a tenant, in turn; crash: defaults"
    )
    drain_jobs = 3_000
    tuned_crash = "acks_late, prefetch 1, visibility_timeout 10 s, unacked_restore_interval 1, throttle 1"

    def __init__(self, place: Place, scenario: str) -> None:
        super().__init__(place, scenario)
        self.app: Any = Celery("bench", broker=place.redis_url)  # Any: Celery has no types
        conf = self.app.conf
        conf.update(broker_connection_retry_on_startup=True, worker_redirect_stdouts=False, task_ignore_result=True)
        options: dict[str, Any] = {}
        if scenario in PLAIN:
            conf.worker_prefetch_multiplier = 64
        elif scenario != "crash":
            conf.update(task_acks_late=True, worker_prefetch_multiplier=1, task_reject_on_worker_lost=True)
        if scenario not in {"noisy", "crash"}:
            options |= {"queue_order_strategy": "priority", "priority_steps": [0, 3, 6, 9]}
        if scenario == "crash-tuned":
            options |= {"visibility_timeout": 10, "unacked_restore_interval": 1, "unacked_restore_throttle": 1}
        conf.broker_transport_options = options
        self.task: Any = self.app.task(name="job")(joblog.job)

    def enqueue(self, task: Task) -> None:
        """Store one."""
        queue = f"t-{task.tenant}" if self.scenario == "noisy" else "celery"
        self.task.apply_async(args=task.args(), priority=PRIORITY[task.tier], queue=queue)

    def work(self, slots: int) -> None:
        """Run a worker with so many child processes."""
        queues = ["-Q", "t-a,t-b"] if self.scenario == "noisy" else []
        name = f"w{os.getpid()}@h"
        quick = ["--without-gossip", "--without-mingle"]
        self.app.worker_main(["worker", "-c", str(slots), "-l", "ERROR", "-n", name, *queues, *quick])


PEERS: dict[str, type[Adapter]] = {"celery": CeleryQueue}
