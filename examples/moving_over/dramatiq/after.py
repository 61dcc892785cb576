"""The same on fairlane by its shim: the imports, the broker and the start of the worker are other lines, no more.

python examples/moving_over/dramatiq/after.py
"""

import logging
from collections import Counter

from fairlane.compat import dramatiq

broker = dramatiq.FairlaneBroker("sqlite://")  # in memory; yours is sqlite:///jobs.db
dramatiq.set_broker(broker)
runs = Counter()


@dramatiq.actor(store_results=True, queue_name="mail")
def receipt(order, to):
    return f"receipt {order}: sent to {to}"


@dramatiq.actor(store_results=True, max_retries=5, min_backoff=100, max_backoff=200)
def charge(order):
    runs[order] += 1
    if runs[order] < 3:
        raise OSError("the bank is away")
    return f"charge {order}: paid at run {runs[order]}"


@dramatiq.actor(store_results=True, max_age=60_000)
def remind(to):
    return f"reminder: sent to {to}"


def main():
    messages = [receipt.send(1, "ann"), receipt.send(2, to="ben"), charge.send(7)]
    messages.append(remind.send_with_options(args=("ann",), delay=300))
    for message in messages:
        print(message.get_result(block=True, timeout=10_000))


if __name__ == "__main__":
    logging.disable()
    with broker.fairlane.worker():  # a process of its own: fairlane worker shop:broker.fairlane
        main()
