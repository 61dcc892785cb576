"""A durable round robin by tag: capp-queue's fjall queue on fairlane.

A tag is a tenant, and ``charge="count"`` lets tenants take turns by jobs instead of by worker time. Everything is in
one file: this program lets a process die with work in its hands, and the next one finds every task, also the one that
was being worked on, at its place and in its turn.

    python examples/fair_tags.py
"""

import logging
import os
import subprocess
import sys
import tempfile
from collections import Counter

import fairlane as fl


def queue(folder: str) -> fl.Fairlane:
    app = fl.Fairlane(f"sqlite:///{folder}/tasks.db", policy=fl.Policy.fair(charge="count"))

    @app.task(retry=fl.Retry(max_attempts=3, base=0.05))
    def crawl(url: str, ctx: fl.Context) -> str:
        if url.endswith("/bad"):
            raise OSError("no such page")
        return f"{url} at attempt {ctx.attempt}"

    return app


def push(app: fl.Fairlane, tag: str, *urls: str) -> None:
    app.enqueue_many(app.new("crawl", {"url": f"{tag}/{url}"}, tenant=tag) for url in urls)


def pop(app: fl.Fairlane, count: int) -> list[str]:
    """Take tasks one after the other, and say that each is done."""
    order = []
    for _ in range(count):
        claim = app.claim(tasks=["crawl"])
        assert claim is not None
        order.append(claim.args["url"])
        claim.ack()
    return order


def die_with_a_task(folder: str) -> None:
    """What the other process does: it takes a task and is killed."""
    app = queue(folder)
    claim = app.claim(lease=1)
    assert claim is not None
    print("another process takes", claim.args["url"], "and is killed", flush=True)
    os._exit(1)


def main() -> None:
    logging.disable()
    with tempfile.TemporaryDirectory() as folder:
        app = queue(folder)
        push(app, "big", *map(str, range(6)))
        push(app, "small", "0", "1")
        print("one with much, one with little:", " ".join(pop(app, 4)))
        push(app, "new", "0", "1")
        print("a new tag joins in:", " ".join(pop(app, 3)))
        app.close()

        subprocess.run([sys.executable, __file__, "--die", folder], check=False)
        app = queue(folder)
        counts = {row.tenant: row.waiting + row.running for row in app.depth(by="tenant").rows}
        print("found by the next one, with the task of the dead one:", counts)
        push(app, "broken", "bad")
        with app.worker(concurrency=2):
            jobs = list(app.jobs(limit=100))
            for job in jobs:
                job.join(timeout=20)
        for job in jobs:
            job.refresh()
        crashed = [job for job in jobs if job.crashes]
        print("the task of the dead process:", crashed[0].result(), f"({crashed[0].crashes} crash)")
        dead = [job for job in jobs if job.state == "dead"]
        print("the one that always fails:", dead[0].args["url"], "is dead:", dead[0].reason)
        print("in the end:", dict(sorted(Counter(job.state for job in jobs).items())))
        app.close()


if __name__ == "__main__":
    if sys.argv[1:2] == ["--die"]:
        die_with_a_task(sys.argv[2])
    main()
