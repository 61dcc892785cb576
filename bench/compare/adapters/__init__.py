"""The queues that are compared, each in a file of its own."""

from __future__ import annotations

import importlib
from typing import Final

from bench.compare.adapters.base import Adapter

ADAPTERS: Final = {
    "fairlane": "fairlane_",
    "fairlane-normal": "fairlane_",
    "fairlane-postgres": "fairlane_",
    "fairlane-strict": "fairlane_",
    "fairlane-postgres-strict": "fairlane_",
    "huey": "huey_",
    "taskiq": "taskiq_",
    "bullmq": "bullmq_",
    "rq": "rq_",
    "dramatiq": "dramatiq_",
    "celery": "celery_",
    "pgqueuer": "pgqueuer_",
    "awa": "awa_",
    "oban": "oban_",
    "procrastinate": "procrastinate_",
    "dbos": "dbos_",
}
"""The module that holds each, by its name on the command line."""


def adapter(name: str) -> type[Adapter]:
    """Return the adapter of a queue; importing it imports the queue.

    Raises:
        ImportError: The queue is not installed.
    """
    module = importlib.import_module(f"bench.compare.adapters.{ADAPTERS[name]}")
    found: dict[str, type[Adapter]] = module.PEERS
    return found[name]
