"""A content agency: roles that work side by side, rejections that are done again at once, an alert on a backlog.

Each role is a queue with its own number of hands. A reviewer sends every third draft back: its writer does it again at
CRITICAL, before everything else, and it is reviewed again as urgently. The alert comes while work waits, also when
nobody is there to do it.

    python examples/content_agency.py
"""

import logging
import threading
import time
from collections import Counter

import fairlane as fl

HANDS = {"strategist": 1, "writer": 3, "editor": 2, "reviewer": 2, "publisher": 1}
NEXT = dict(zip(list(HANDS), list(HANDS)[1:], strict=False))
ARTICLES = 9

app = fl.Fairlane("sqlite://")
now, most = Counter[str](), Counter[str]()
lock = threading.Lock()
log: list[str] = []


def hand_on(role: str, article: int, version: int, tier: fl.Tier, client: str) -> None:
    """Enqueue the next step; one of a name is enough, however often a step runs."""
    key = f"{role}:{article}:{version}"
    args = {"article": article, "version": version}
    app.enqueue(role, args, queue=role, tier=tier, tenant=client, dedup_key=key)


def step(ctx: fl.Context, article: int, version: int) -> str:
    role = ctx.task
    with lock:
        now[role] += 1
        most[role] = max(most[role], now[role])
    time.sleep(0.05 if role == "writer" else 0.01)
    with lock:
        now[role] -= 1
        log.append(f"{role}:{article}:{version}:{ctx.tier.label}")
    if role == "reviewer" and article % 3 == 0 and version == 1:
        hand_on("writer", article, 2, fl.Tier.CRITICAL, ctx.tenant)
        return "rejected"
    if role in NEXT:
        hand_on(NEXT[role], article, version, ctx.tier, ctx.tenant)
    return "done"


class Pager:
    """Where alerts go beside the log and app.incidents(): a list stands for your own."""

    name = "pager"

    def __init__(self) -> None:
        self.got: list[fl.Alert] = []
        self.came = threading.Event()

    def send(self, alert: fl.Alert) -> None:
        self.got.append(alert)
        self.came.set()


def main() -> None:
    logging.disable()
    for role in HANDS:
        app.task(name=role, queue=role)(step)
    shown = Pager()
    app.alerts.add(shown)
    app.tiers[fl.Tier.HIGH].set(objective=1)  # seconds; two minutes in the agency

    urgent = app.enqueue("writer", {"article": 100, "version": 1}, queue="writer", tier="high", tenant="late")
    monitor = app.maintenance()  # nobody works yet: the watch over waits needs no worker
    monitor.start()
    shown.came.wait(20)
    monitor.stop()
    print("alert while nobody works:", shown.got[0].title)

    for article in range(ARTICLES):
        hand_on("strategist", article, 1, fl.Tier.NORMAL, f"client {article % 3}")
    with app.worker(concurrency=sum(HANDS.values()), queues=HANDS):
        urgent.join(timeout=20)
        while sum(line.startswith("publisher") for line in log) < ARTICLES + 1:
            time.sleep(0.02)
    print("at once, at most:", ", ".join(f"{role} {most[role]} of {hands}" for role, hands in HANDS.items()))
    again = sorted(line.split(":")[1] for line in log if line.startswith("writer") and line.endswith("2:critical"))
    print("sent back and written again at critical:", ", ".join(again))
    print("published:", sum(line.startswith("publisher") for line in log), "of", ARTICLES + 1)


if __name__ == "__main__":
    main()
