"""Runs jobs: claims, attempts, heartbeats, shutdown. See :class:`Worker`.

A handler whose ``timeout`` passes is asked to stop: an ``async def`` one is cancelled, a ``def`` one finds out by
``ctx.should_stop``. A thread cannot be killed, so one that does not look keeps its slot until it returns; the run is a
failure then, whatever it returned. What each way of ending comes to is one table, at the head of ``verdict.py``.

    worker.py     settings in, threads out; start and stop
    loop.py       the dispatcher: settles what ended and claims for free slots, in one transaction
    hands.py      runs attempts: threads.py for ``def`` handlers, aio.py for ``async def`` ones
    attempt.py    one attempt, from a claim to its settlement; saves.py, its progress and checkpoints
    verdict.py    what the store is told of how it ended; records.py, what is kept of an exception
    heartbeat.py  renews leases, and tells those to stop whose lease or time has run out
    notices.py    tells hooks
    shutdown.py   the steps to the end, and signals
    options.py    settings, and the arithmetic of slots
    logs.py       the job's id in log records
"""

from fairlane.worker.logs import JobFilter
from fairlane.worker.worker import Worker

__all__ = ["JobFilter", "Worker"]
