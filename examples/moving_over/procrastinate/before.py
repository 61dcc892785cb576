"""Receipts under a lock, a payment that fails twice, a reminder for later: on Procrastinate, its jobs in memory.

python examples/moving_over/procrastinate/before.py    # needs procrastinate
"""

import logging
import time

from procrastinate import App, RetryStrategy
from procrastinate.exceptions import AlreadyEnqueued
from procrastinate.testing import InMemoryConnector

app = App(connector=InMemoryConnector())
said = []


@app.task(queue="mail", name="receipt")
def receipt(order, to):
    said.append(f"receipt {order}: sent to {to}")


@app.task(name="charge", pass_context=True, retry=RetryStrategy(max_attempts=5, retry_exceptions={OSError}))
def charge(context, order):
    if context.job.attempts < 2:
        raise OSError("the bank is away")
    said.append(f"charge {order}: paid at run {context.job.attempts + 1}")


@app.task(name="remind", queueing_lock="reminder")
def remind(to):
    said.append(f"reminder: sent to {to}")


def main():
    receipt.configure(lock="ann").defer(order=1, to="ann")
    receipt.configure(lock="ann").defer(order=2, to="ann")
    charge.defer(order=7)
    remind.configure(schedule_in={"seconds": 1}).defer(to="ann")
    try:
        remind.defer(to="ann")
    except AlreadyEnqueued:
        said.append("a second reminder: not stored")
    while len(said) < 5:
        app.run_worker(wait=False, install_signal_handlers=False)
        time.sleep(0.05)
    print("\n".join(sorted(said)))


if __name__ == "__main__":
    logging.disable()
    with app.open():
        main()
