"""The same on fairlane by its shim: the imports, the connection and the worker's line are other ones, no more.

python examples/moving_over/rq/after.py
"""

import logging
from datetime import timedelta

from shop import charge, receipt, remind

import fairlane as fl
from fairlane.compat.rq import Queue, Retry, Worker

connection = fl.Fairlane("sqlite://")  # in memory; yours is sqlite:///jobs.db
queue = Queue("mail", connection=connection)


def main():
    jobs = [queue.enqueue(receipt, 1, "ann"), queue.enqueue(receipt, 2, to="ben")]
    jobs.append(queue.enqueue(charge, 7, retry=Retry(max=5)))
    jobs.append(queue.enqueue_in(timedelta(seconds=1), remind, "ann", ttl=60))
    unwanted = queue.enqueue_in(timedelta(hours=1), remind, "ben")
    unwanted.cancel()
    worker = Worker([queue], functions=[receipt, charge, remind])  # what a worker elsewhere must be told
    while not all(job.get_status() == "finished" for job in jobs):
        worker.work(burst=True, with_scheduler=True)
    for job in jobs:
        print(job.return_value())


if __name__ == "__main__":
    logging.disable()
    main()
