"""The same in fairlane's own words; the functions stay as they are.

python examples/moving_over/rq/native.py
"""

import logging

import shop

import fairlane as fl

app = fl.Fairlane("sqlite://")  # in memory; yours is sqlite:///jobs.db
receipt = app.task(queue="mail")(shop.receipt)
charge = app.task(queue="mail", retry=fl.Retry(max_attempts=6, base=0))(shop.charge)
remind = app.task(queue="mail")(shop.remind)


def main():
    jobs = [receipt.enqueue(1, "ann"), receipt.enqueue(2, to="ben"), charge.enqueue(7)]
    jobs.append(remind.using(delay=1, expires_in=60).enqueue("ann"))
    unwanted = remind.using(delay=3600).enqueue("ben")
    app.cancel(unwanted)
    with app.worker(queues=["mail"]):  # a process of its own: fairlane worker native:app -q mail
        for job in jobs:
            print(job.result(timeout=10))


if __name__ == "__main__":
    logging.disable()
    main()
