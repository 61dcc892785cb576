"""The same on fairlane by its shim: the import, the broker and the start of the worker are other lines, no more.

python examples/moving_over/celery/after.py
"""

from fairlane.compat.celery import Celery

app = Celery("shop", broker="sqlite://")  # in memory; yours is sqlite:///jobs.db


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
    with app.fairlane.worker():  # a process of its own: fairlane worker shop:app.fairlane
        main()
