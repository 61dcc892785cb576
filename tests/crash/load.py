"""What loads a store in the soak: ``python load.py ROLE [JSON options]``, with the tasks and the logs of program.py."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import fairlane as fl

sys.path.insert(0, str(Path(__file__).parent))

from program import accepted, app, worker, write

from fairlane.domain.jobs import Claim, Settlement
from fairlane.domain.lanes import Ask
from fairlane.store import Store

TOGETHER = 50
PROBED = 2
EVERY_S = 0.05


def feed(tenants: int, waiting: int = 1_000, rate: float = 0.0) -> None:
    """Enqueue for ever.

    Args:
        tenants: How many tenants the jobs have.
        waiting: Enqueue no more than about so many before they run; when ``rate`` is not given.
        rate: How many to enqueue a second, whatever waits.
    """
    began, given = time.monotonic(), 0
    while True:
        with contextlib.suppress(fl.FairlaneError):
            if rate:
                ahead_s = given / rate - (time.monotonic() - began)
                time.sleep(max(0.0, ahead_s))
            elif _available() >= waiting:
                time.sleep(0.02)
                continue
            jobs = app.enqueue_many([app.new("nap", {}, tenant=f"t{(given + n) % tenants}") for n in range(TOGETHER)])
            for job in jobs:
                accepted(job)
            for n in range(5):  # some come one by one
                accepted(app.enqueue("nap", {}, tenant=f"t{(given + n) % tenants}"))
            given += TOGETHER + 5


def _available() -> int:
    counts = app.owner.read(lambda store, now_ms: store.counts())
    return sum(count for state, count in counts.items() if state.label == "available")


def probe(path: str) -> None:
    """Claim and end some jobs again and again, and write down when, and how long the transaction took.

    It works for a worker that is alive, as the others are; the time is that of a claim of theirs.
    """
    name = f"probe-{os.getpid()}"
    app.owner.store.presence(name)
    held: Sequence[Claim] = ()

    def turn(store: Store, now_ms: int) -> Sequence[Claim]:
        ends = [Settlement(seq=one.seq, fence=one.fence, kind="completed", run_us=1_000) for one in held]
        store.settle(ends, now_ms)
        return store.claim(Ask("default", PROBED), worker=name, lease_ms=10_000, now_ms=now_ms)

    with Path(path).open("a", buffering=1) as times:
        while True:
            for claim in held:
                write(str(claim.uuid), claim.attempt, claim.fence, "end", claim.start.lane.tenant)
            began = time.monotonic()
            try:
                held = app.owner.call(turn)
            except fl.FairlaneError:
                time.sleep(0.1)
                continue
            times.write(f"{began:.6f} {time.monotonic() - began:.6f}\n")
            for claim in held:
                write(str(claim.uuid), claim.attempt, claim.fence, "start", claim.start.lane.tenant)
            time.sleep(EVERY_S)


ROLES: dict[str, Any] = {"feed": feed, "probe": probe, "worker": worker}

if __name__ == "__main__":
    ROLES[sys.argv[1]](**json.loads(sys.argv[2] if len(sys.argv) > 2 else "{}"))
