"""Receipts, a payment that fails twice, a reminder for later: on RQ.

REDIS_URL=unix:///path/to/redis.sock python examples/moving_over/rq/before.py    # needs rq and a Redis
"""

import logging
import os
from datetime import timedelta

from redis import Redis
from rq import Queue, Retry, SimpleWorker
from shop import charge, receipt, remind

connection = Redis.from_url(os.environ.get("REDIS_URL", "redis://"))
queue = Queue("mail", connection=connection)


def main():
    jobs = [queue.enqueue(receipt, 1, "ann"), queue.enqueue(receipt, 2, to="ben")]
    jobs.append(queue.enqueue(charge, 7, retry=Retry(max=5)))
    jobs.append(queue.enqueue_in(timedelta(seconds=1), remind, "ann", ttl=60))
    unwanted = queue.enqueue_in(timedelta(hours=1), remind, "ben")
    unwanted.cancel()
    worker = SimpleWorker([queue], connection=connection)
    while not all(job.get_status() == "finished" for job in jobs):
        worker.work(burst=True, with_scheduler=True, logging_level="CRITICAL")
    for job in jobs:
        print(job.return_value())


if __name__ == "__main__":
    logging.disable()
    main()
