"""A large store, quickly: rows put in with plain SQL as the store itself would leave them, and checked by it.

Half of the jobs wait, half have ended over the last day (one in a thousand is dead); the tenants are of very different
sizes, as tenants are. Used by the benches of what people look at.
"""

from __future__ import annotations

import json
import random
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from fairlane.clock import SystemClock
from fairlane.domain.states import State
from fairlane.stores.sqlite.store import open_sqlite

QUEUES = ("mail", "embed", "render", "export")
TIER_SHARES = (1, 5, 50, 24, 20)
DAY_MS = 86_400_000
BATCH = 20_000
ERRORS = ("TimeoutError", "ConnectionError", "ValueError", "KeyError")


def build(path: Path, *, waiting: int, ended: int, tenants: int, seed: int = 1) -> None:
    """Write a store with so many jobs; returns when its own books are right.

    Args:
        path: The file; must not exist.
        waiting: Jobs that wait; one in fifty is scheduled.
        ended: Jobs that have ended.
        tenants: How many tenants; their sizes fall as 1 / rank.
        seed: Of the draws.
    """
    clock = SystemClock()
    store = open_sqlite(f"sqlite:///{path}", clock=clock, durability="normal")
    now_ms = clock.now_ms()
    with store.transaction():  # one of each task, so that the tables hold what code declares
        for queue in QUEUES:
            store.declare_task(f"{queue}.run", limits=(), max_attempts=4, max_crashes=3, now_ms=now_ms)
    store.close()
    db = sqlite3.connect(path, isolation_level=None)
    db.execute("PRAGMA synchronous=off")
    db.execute("PRAGMA cache_size=-262144")
    rng = random.Random(seed)
    lanes = _lanes(db, tenants)
    picked = _picker(rng, tenants)
    total = waiting + ended
    ids = _ids(now_ms - DAY_MS, DAY_MS // max(1, total), rng)
    rows: list[tuple[object, ...]] = []
    for number in range(total):
        rows.append(_row(number, ids, lanes, picked, rng, now_ms, ended=number < ended, of=total))
        if len(rows) >= BATCH or number == total - 1:
            _insert(db, rows)
            rows.clear()
    db.execute(
        "UPDATE lane SET"
        " available = (SELECT count(*) FROM job WHERE job.lane = lane.id AND state = 1 AND express IS NULL),"
        " scheduled = (SELECT count(*) FROM job WHERE job.lane = lane.id AND state = 0)"
        if total < 50_000
        else "UPDATE lane SET available = coalesce(n.a, 0), scheduled = coalesce(n.s, 0) FROM"
        " (SELECT lane, sum(state = 1) AS a, sum(state = 0) AS s FROM job GROUP BY lane) AS n WHERE n.lane = lane.id"
    )
    db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    db.close()
    store = open_sqlite(f"sqlite:///{path}", clock=clock, durability="normal")
    try:
        wrong = store.check()
        if wrong:
            raise SystemExit(f"the store that was built is wrong: {wrong[:3]}")
    finally:
        store.close()


def _lanes(db: sqlite3.Connection, tenants: int) -> dict[tuple[int, int, int], int]:
    lanes: dict[tuple[int, int, int], int] = {}
    rows: list[tuple[object, ...]] = []
    for tenant in range(tenants):
        for queue, name in enumerate(QUEUES):
            for tier in range(5):
                lanes[tenant, queue, tier] = len(lanes) + 1
                rows.append((len(lanes), name, f"{name}.run", f"tenant-{tenant:04}", tier))
    db.execute("BEGIN")
    db.executemany("INSERT INTO lane (id, queue, task, tenant, tier) VALUES (?, ?, ?, ?, ?)", rows)
    db.execute("COMMIT")
    return lanes


def _picker(rng: random.Random, tenants: int) -> Iterator[tuple[int, int, int]]:
    weights = [1 / (rank + 1) for rank in range(tenants)]
    while True:
        yield from zip(
            rng.choices(range(tenants), weights, k=BATCH),
            rng.choices(range(len(QUEUES)), k=BATCH),
            rng.choices(range(5), TIER_SHARES, k=BATCH),
            strict=True,
        )


def _ids(first_ms: int, step_ms: int, rng: random.Random) -> Iterator[bytes]:
    at_ms = first_ms
    while True:
        yield (
            at_ms.to_bytes(6) + (0x7000 | rng.getrandbits(12)).to_bytes(2) + (2 << 62 | rng.getrandbits(62)).to_bytes(8)
        )
        at_ms += step_ms


def _row(
    number: int,
    ids: Iterator[bytes],
    lanes: dict[tuple[int, int, int], int],
    picked: Iterator[tuple[int, int, int]],
    rng: random.Random,
    now_ms: int,
    *,
    ended: bool,
    of: int,
) -> tuple[object, ...]:
    lane = lanes[next(picked)]
    at_ms = now_ms - DAY_MS + DAY_MS * number // of
    args = json.dumps({"to": f"user-{number}@example.org", "template": "welcome", "n": number})
    if not ended:
        later = number % 50 == 0
        due_ms = now_ms + 3_600_000 + number
        return (
            next(ids), lane, State.SCHEDULED if later else State.AVAILABLE, due_ms if later else at_ms,
            due_ms if later else None, 0, None, at_ms, due_ms if later else at_ms, None if later else at_ms,
            None, None, None, None, None, None, args,
        )  # fmt: skip
    finished_ms = now_ms - DAY_MS + round(DAY_MS * (number / of) * 2)
    finished_ms = min(finished_ms, now_ms - 1)
    run_ms = max(1, round(rng.lognormvariate(6, 1)))
    started_ms = finished_ms - run_ms
    at_ms = min(at_ms, started_ms - round(rng.expovariate(1 / 4_000)))
    dead = number % 1_000 == 0
    kind = ERRORS[number // 1_000 % len(ERRORS)]
    error = [{"attempt": 4, "at_ms": finished_ms, "kind": "failure", "type": kind, "message": "it did not answer"}]
    return (
        next(ids), lane, State.DEAD if dead else State.COMPLETED, at_ms, None, 1, 3, at_ms, at_ms, at_ms, started_ms,
        finished_ms, "worker-1", f"{kind}: it did not answer" if dead else None, json.dumps(error) if dead else None,
        None if dead else '{"ok":true}', args,
    )  # fmt: skip


def _insert(db: sqlite3.Connection, rows: list[tuple[object, ...]]) -> None:
    db.execute("BEGIN")
    db.executemany(
        "INSERT INTO job (id, lane, state, arrival_ms, timer_ms, fence, rule, enqueued_at_ms, scheduled_at_ms,"
        " available_at_ms, started_at_ms, finished_at_ms, worker, fingerprint, errors, result, args)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        rows,
    )
    db.execute("COMMIT")
