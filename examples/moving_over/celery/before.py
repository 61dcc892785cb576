"""Receipts, a payment that fails twice, a reminder for later: on Celery, with its broker in memory.

python examples/moving_over/celery/before.py    # needs celery
"""

from celery import Celery
from celery.contrib.testing.worker import start_worker

app = Celery("shop", broker="memory://", backend="cache+memory://")


@app.task
def receipt(order, to):
    return f"receipt {order}: sent to {to}"


@app.task(bind=True, max_retries=5)
def charge(self, order):
    if self.request.retries < 2:
        raise self.retry(exc=OSError("the bank is away"), countdown=0.1)
    return f"charge {order}: paid at run {self.request.retries + 1}"


@app.task
def remind(to):
    return f"reminder: sent to {to}"


def main():
    results = [receipt.delay(1, "ann"), receipt.delay(2, to="ben"), charge.delay(7)]
    results.append(remind.apply_async(args=["ann"], countdown=0.3, expires=60))
    unwanted = remind.apply_async(args=["ben"], countdown=3600)
    unwanted.revoke()
    for result in results:
        print(result.get(timeout=10))


if __name__ == "__main__":
    with start_worker(app, perform_ping_check=False):
        main()
