"""huey with SqliteHuey; consumer threads that poll."""

from __future__ import annotations

from typing import Any

from bench.compare import joblog
from bench.compare.adapters.base import Adapter, Place, Task, Tier
from huey import SqliteHuey  # type: ignore[import-untyped]  # it has no types

PRIORITY = {Tier.URGENT: 100, Tier.NORMAL: 50, Tier.LOW: 1}


class Huey(Adapter):
    """A row is deleted before its job runs: what was running when a worker is killed is gone."""

    name = "huey"
    packages = ("huey",)
    store = "sqlite"
    durability = "every commit flushed (fsync=True)"
    settings = "fsync=True, results=False, threads that poll every 5 to 20 ms, 1 for speed"
    drain_jobs = 10_000

    def __init__(self, place: Place, scenario: str) -> None:
        super().__init__(place, scenario)
        self.huey: Any = SqliteHuey(filename=str(place.folder / "huey.db"), fsync=True, results=False, utc=True)
        self.task: Any = self.huey.task()(joblog.job)  # Any: huey has no types

    def enqueue(self, task: Task) -> None:
        """Store one."""
        self.huey.enqueue(self.task.s(*task.args(), priority=PRIORITY[task.tier]))

    def work(self, slots: int) -> None:
        """Run a consumer."""
        self.huey.create_consumer(
            workers=slots, worker_type="thread", periodic=False, initial_delay=0.005, max_delay=0.02, backoff=1.1
        ).run()


PEERS: dict[str, type[Adapter]] = {"huey": Huey}
