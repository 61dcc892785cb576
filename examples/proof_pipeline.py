"""A proving pipeline: six kinds of work that other systems finish, checked until they are done.

Each block of a chain goes through five stages; every four blocks are aggregated. A stage hands its work over, gets a
reference, and asks for it again and again: a task with a verify phase. STAGES says how many attempts and checks it has,
and how many may run at once. One block is express at every stage: it is final before those that came first.

    python examples/proof_pipeline.py --blocks 12 --speed 600
"""

import argparse
import logging
import threading
import time
from collections import Counter, namedtuple

from rich.console import Console
from rich.table import Table

import fairlane as fl

# Seconds: between checks, that handing over takes, that the other system takes. At once: runs of the process phase.
Stage = namedtuple("Stage", "attempts checks every at_once handing takes")
STAGES = {
    "Snos": Stage(attempts=1, checks=1, every=1, at_once=5, handing=30, takes=0),
    "Proving": Stage(attempts=1, checks=900, every=30, at_once=10, handing=5, takes=90),
    "ProofRegistration": Stage(attempts=2, checks=300, every=300, at_once=10, handing=5, takes=300),
    "DA": Stage(attempts=1, checks=3, every=60, at_once=10, handing=5, takes=60),
    "StateUpdate": Stage(attempts=3, checks=10, every=60, at_once=1, handing=10, takes=120),
    "Aggregator": Stage(attempts=1, checks=900, every=30, at_once=10, handing=5, takes=60),
}
NEXT = dict(zip(list(STAGES)[:4], list(STAGES)[1:5], strict=True))

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--blocks", type=int, default=12, help="how many blocks, 1 or more")
parser.add_argument("--speed", type=float, default=600, help="how much faster than the real waits, above 0")
options = parser.parse_args()
app = fl.Fairlane("sqlite://")
began: dict[str, float] = {}  # this, and the next two, stand for the provers and the chain
at_once, most = Counter[str](), Counter[str]()
lock = threading.Lock()


def hand_over(ctx: fl.Context, block: int, urgent: bool) -> str:
    with lock:
        at_once[ctx.task] += 1
        most[ctx.task] = max(most[ctx.task], at_once[ctx.task])
    time.sleep(STAGES[ctx.task].handing / options.speed)
    with lock:
        at_once[ctx.task] -= 1
    reference = f"{ctx.task}-{block}-{ctx.attempt}"
    began[reference] = time.monotonic()
    return reference


def check(ctx: fl.Context, reference: str, block: int, urgent: bool) -> fl.Verified[str] | fl.Pending | fl.Rejected:
    if time.monotonic() - began[reference] < STAGES[ctx.task].takes / options.speed:
        return fl.Pending()
    if reference in {"ProofRegistration-0-1", "ProofRegistration-5-1"}:  # so that some are
        return fl.Rejected("the proof does not fit the block")
    if ctx.task in NEXT:
        send(NEXT[ctx.task], block, urgent)
    return fl.Verified(f"{reference} is final")


def send(stage: str, block: int, urgent: bool) -> None:
    """Enqueue a stage of a block; a check that is repeated finds the job by its key."""
    app.enqueue(stage, {"block": block, "urgent": urgent}, dedup_key=f"{stage}:{block}", expedite=urgent)


def show(jobs: list[fl.Job]) -> None:
    table = Table("stage", "jobs", "completed", "attempts", "checks", "rejected", "at once")
    for name in STAGES:
        mine = [job for job in jobs if job.task == name]
        rejected = sum(error.type == "Rejected" for job in mine for error in job.errors)
        attempts, checks = sum(job.failures + 1 for job in mine), sum(job.checks for job in mine)
        completed = sum(job.state == "completed" for job in mine)
        table.add_row(name, *map(str, (len(mine), completed, attempts, checks, rejected, most[name])))
    final = sorted((job for job in jobs if job.task == "StateUpdate"), key=lambda job: job.record.finished_at_ms or 0)
    place = [job.args["urgent"] for job in final].index(True) + 1
    Console(width=100).print(table, f"The express block was sent last and is final as number {place} of {len(final)}.")


if __name__ == "__main__":
    logging.basicConfig(level=logging.ERROR)
    for name, stage in STAGES.items():
        app.limits[name].set(max_running=stage.at_once)
        retry = fl.Retry(max_attempts=stage.attempts, base=60 / options.speed)
        task = app.task(name=name, retry=retry, limits=[name])(hand_over)
        task.verify(every=stage.every / options.speed, max_checks=stage.checks, limits=[])(check)
    for block in range(options.blocks):
        send("Snos", block, urgent=block == options.blocks - 1)
    for first in range(0, options.blocks, 4):
        send("Aggregator", first, urgent=False)
    with app, app.worker(concurrency=32):
        total = 5 * options.blocks + -(-options.blocks // 4)
        while len(jobs := list(app.jobs(limit=1_000))) < total or not all(job.ended for job in jobs):
            time.sleep(0.05)
        show(jobs)
