"""The same in fairlane's own words.

python examples/moving_over/procrastinate/native.py
"""

import logging

import fairlane as fl

app = fl.Fairlane("sqlite://")  # in memory; yours is sqlite:///jobs.db
app.queues["mail"].set(tenant_max_running=1)  # one mail at a time to each customer
said = []


@app.task(queue="mail")
def receipt(order: int, to: str) -> None:
    said.append(f"receipt {order}: sent to {to}")


@app.task(retry=fl.Retry(max_attempts=6, base=0, on=(OSError,)))
def charge(order: int, ctx: fl.Context) -> None:
    if ctx.attempt < 3:
        raise OSError("the bank is away")
    said.append(f"charge {order}: paid at run {ctx.attempt}")


@app.task
def remind(to: str) -> None:
    said.append(f"reminder: sent to {to}")


def main():
    jobs = [receipt.using(tenant="ann").enqueue(order, "ann") for order in (1, 2)]
    jobs.append(charge.enqueue(7))
    jobs.append(remind.using(delay=1, dedup_key="reminder").enqueue("ann"))
    try:
        remind.using(dedup_key="reminder", on_conflict="raise").enqueue("ann")
    except fl.DedupConflict:
        said.append("a second reminder: not stored")
    with app.worker():  # a process of its own: fairlane worker shop:app
        for job in jobs:
            job.join(timeout=10)
    print("\n".join(sorted(said)))


if __name__ == "__main__":
    logging.disable()
    main()
