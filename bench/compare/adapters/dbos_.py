"""DBOS: a job is a workflow of one function."""

from __future__ import annotations

import time

from bench.compare import joblog
from bench.compare.adapters.base import Adapter, Place, Task
from dbos import DBOS, DBOSClient, DBOSConfig


@DBOS.workflow(name="job")
def job(kind: int, number: int, enqueued_ns: int, sleep_ms: int) -> None:
    """Run the job."""
    joblog.job(kind, number, enqueued_ns, sleep_ms)


class Dbos(Adapter):
    """Its queues are polled; its strength is workflows, which are not measured here."""

    name = "dbos"
    packages = ("dbos", "psycopg")
    store = "postgres"
    durability = "every commit flushed"
    settings = "polling_interval_sec=0.05 (default 1), worker_concurrency 20 for speed"
    slots = 20
    drain_jobs = 1_000
    tiers = False

    def __init__(self, place: Place, scenario: str) -> None:
        super().__init__(place, scenario)
        self.config = DBOSConfig(
            name="bench", system_database_url=place.postgres_url, log_level="ERROR", enable_otlp=False
        )

    def _launch(self, slots: int) -> None:
        DBOS(config=self.config)
        DBOS.launch()
        DBOS.register_queue("q", worker_concurrency=slots, polling_interval_sec=0.05, on_conflict="always_update")

    def setup(self) -> None:
        """Make the schema."""
        self._launch(4)
        DBOS.destroy()

    def open(self) -> None:
        """Connect."""
        self.client = DBOSClient(system_database_url=self.place.postgres_url)

    def enqueue(self, task: Task) -> None:
        """Store one."""
        self.client.enqueue({"workflow_name": "job", "queue_name": "q"}, *task.args())

    def work(self, slots: int) -> None:
        """Run workflows."""
        self._launch(slots)
        while True:
            time.sleep(1)


PEERS: dict[str, type[Adapter]] = {"dbos": Dbos}
