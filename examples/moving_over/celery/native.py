"""The same in fairlane's own words.

python examples/moving_over/celery/native.py
"""

import fairlane as fl

app = fl.Fairlane("sqlite://")  # in memory; yours is sqlite:///jobs.db


@app.task
def receipt(order: int, to: str) -> str:
    return f"receipt {order}: sent to {to}"


@app.task(retry=fl.Retry(max_attempts=6, base=0.1, factor=1.0))
def charge(order: int, ctx: fl.Context) -> str:
    if ctx.attempt < 3:
        raise OSError("the bank is away")
    return f"charge {order}: paid at run {ctx.attempt}"


@app.task
def remind(to: str) -> str:
    return f"reminder: sent to {to}"


def main():
    jobs = [receipt.enqueue(1, "ann"), receipt.enqueue(2, to="ben"), charge.enqueue(7)]
    jobs.append(remind.using(delay=0.3, expires_in=60).enqueue("ann"))
    unwanted = remind.using(delay=3600).enqueue("ben")
    app.cancel(unwanted)
    for job in jobs:
        print(job.result(timeout=10))


if __name__ == "__main__":
    with app.worker():  # a process of its own: fairlane worker shop:app
        main()
