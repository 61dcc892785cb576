"""Makes ``schema_1.sql`` and ``schema_1.json``: a store as the code of schema 1 left it, and what that code said of it.

They were made with the code of commit a31f46b, the last one that knew only ``0001_initial.sql``, and are kept for ever:
every later version must be able to migrate them. To make them again::

    git archive a31f46b src | tar x -C SOME_FOLDER
    PYTHONPATH=SOME_FOLDER/src python tests/migrations/make_fixture.py

The store has jobs in every state, with leases of a worker and of a pulled claim, retries, snoozes, dead jobs,
express jobs, dedup keys, tags, tenants with weights, caps and rates, pauses, a task with limits, an objective, an open
and a resolved incident, a monitor, an audit, and a log that reaches beyond what is stored in tables.
"""

from __future__ import annotations

import json
import sqlite3
import sys
import tempfile
from contextlib import closing
from itertools import count
from pathlib import Path
from typing import Any, Final

from fairlane.domain.jobs import ErrorRecord, NewJob, Settlement, WorkerRecord
from fairlane.domain.lanes import Ask
from fairlane.domain.policy import Capacities, LimitRule, Pause, Policy, QueueRule, Rate, TenantRule
from fairlane.domain.waits import Cause, IncidentRecord, ObjectiveRule, Scope
from fairlane.stores.sqlite.store import SqliteStore, open_sqlite
from fairlane.stores.tables.ground import STORE_EVERY
from fairlane.testing.clock import ManualClock

HERE: Final = Path(__file__).parent
NEXT: Final = 60
"""How many of the next claims the old code is asked for."""


class Maker:
    """A store of the old code, and a clock that it goes by."""

    def __init__(self, path: Path) -> None:
        self.clock = ManualClock()
        self.store: SqliteStore = open_sqlite(
            f"sqlite:///{path}",
            clock=self.clock,
            policy=Policy.fair(ageing_step=30),
            capacities=Capacities(express_capacity=9),
        )
        self._numbers = count(1)

    def do(self, call: str, *args: Any, **options: Any) -> Any:
        """Do one thing in a transaction of its own."""
        with self.store.transaction():
            return getattr(self.store, call)(*args, **options)

    def put(self, **options: Any) -> bytes:
        now_ms = self.clock.now_ms()
        job_id = (now_ms << 80 | 7 << 76 | 0b10 << 62 | next(self._numbers)).to_bytes(16, "big")
        fields = {"task": "t", "queue": "q", "tenant": "a", "args": json.dumps({"to": "ä@b.c"})} | options
        self.do("enqueue", [NewJob(id=job_id, **fields)], now_ms)
        return job_id

    def claim(self, n: int, *, worker: str = "", lease_ms: int = 30_000) -> list[Any]:
        return self.do("claim", Ask("default", n), worker=worker, lease_ms=lease_ms, now_ms=self.clock.now_ms())

    def settle(self, claim: Any, kind: str, **options: Any) -> None:
        one = Settlement(seq=claim.seq, fence=claim.fence, kind=kind, run_us=options.pop("run_us", 40_000), **options)
        assert self.do("settle", [one], self.clock.now_ms()) == [True]


def rules(made: Maker) -> None:
    now = {"by": "ops", "now_ms": made.clock.now_ms()}
    made.do("set_rule", "tenant", "b", TenantRule(weight_milli=3000, max_running=30), **now)
    made.do("set_rule", "tenant", "c", TenantRule(rate=Rate.of(100, 60)), **now)
    made.do("set_rule", "queue", "q", QueueRule(max_running=200, tenant_max_running=60), **now)
    made.do("set_rule", "queue", "shut", QueueRule(pause=Pause("a release", "ops")), **now)
    made.do("set_rule", "limit", "openai", LimitRule(max_running=12, rate=Rate.of(600, 60)), **now)
    made.do(
        "declare_task", "embed", limits=("openai", "smtp:{tenant}"), max_attempts=4, max_crashes=3,
        preemptible=True, now_ms=made.clock.now_ms(),
    )  # fmt: skip
    made.do("set_objective", Scope(2, "q"), ObjectiveRule(objective_ms=90_000, on_breach="boost"), **now)


def history(made: Maker) -> None:
    """Run jobs of all tenants until the state was stored in tables, then go on: turns, means, rates, a log."""
    for n in range(STORE_EVERY // 2 + 90):
        made.put(
            tenant="abcd"[n % 4], task=("t", "embed")[n % 3 == 0], tier=n % 5, tags=("x", "y") if n % 9 == 0 else ()
        )
        made.clock.advance(ms=150)
        if n % 2:
            for claim in made.claim(2, worker="w-1"):
                made.settle(claim, "completed", result=json.dumps("done"), run_us=20_000 + 7_000 * (n % 11))


def ends(made: Maker) -> None:
    """Let runs end in every way."""
    now_ms = made.clock.now_ms()
    error = ErrorRecord(1, now_ms, "failure", "ValueError", "bad", "Traceback …", "w-1")
    hows: list[tuple[str, dict[str, Any]]] = [
        ("retry", {"delay_ms": 60_000, "error": error}),
        ("retry", {"delay_ms": 1_000, "error": error}),
        ("snoozed", {"delay_ms": 90_000}),
        ("released", {}),
        ("released", {"preempted": True}),
        ("crashed", {"error": ErrorRecord(1, now_ms, "crash", "WorkerLost", "gone", worker="w-0")}),
        ("dead", {"error": error, "reason": "no use"}),
        ("dead", {"error": error, "reason": "no use"}),
        ("cancelled", {"reason": "not needed"}),
    ]
    claims = made.claim(len(hows), worker="w-1")
    assert len(claims) == len(hows)
    for claim, (kind, options) in zip(claims, hows, strict=True):
        made.settle(claim, kind, **options)
    made.claim(4, worker="w-1")[0]
    made.claim(2)  # pulled: nobody renews them
    running = made.store._raw.execute("SELECT seq, fence FROM job WHERE state = 2").fetchall()
    made.do("save", *running[0], progress='[0.5, "half"]', checkpoint='{"next": 3}')


def waiting(made: Maker) -> None:
    """Leave jobs that wait for all kinds of reasons."""
    now_ms = made.clock.now_ms()
    made.put(tenant="d", delay_ms=3_600_000)
    made.put(tenant="d", expires_at_ms=now_ms + 7_200_000)
    made.put(queue="shut")
    made.put(queue="other", dedup_key="mail:42", trace="00-abc-def-01")
    made.put(tenant="b", express=True)
    steered = [made.put(tenant="e", tier=4) for _ in range(4)]
    made.do("expedite", steered[0], reason="asked for", by="ops", now_ms=now_ms)
    made.do("boost", steered[1], 1, by="ops", now_ms=now_ms)
    made.do("cancel", steered[2], reason="by hand", now_ms=now_ms)
    cause = Cause("paused", "the queue is paused")
    common: dict[str, Any] = {
        "task": "t", "tenant": "a", "since_ms": now_ms, "objective_ms": 1_000, "count": 3, "causes": (cause,),
        "on_breach": "alert", "opened_at_ms": now_ms, "seen_at_ms": now_ms, "notified_at_ms": now_ms,
    }  # fmt: skip
    over = made.do("put_incident", IncidentRecord(queue="old", tier=1, job=steered[2], **common))
    made.do("put_incident", type(over)(**{**_fields(over), "resolved_at_ms": now_ms}))
    made.do("put_incident", IncidentRecord(queue="shut", tier=2, job=steered[3], **common))
    made.do("watch", "monitor-1", lease_ms=30_000, now_ms=now_ms)


def _fields(struct: Any) -> dict[str, Any]:
    return {name: getattr(struct, name) for name in struct.__struct_fields__}


def told(made: Maker) -> dict[str, Any]:
    """Return what the old code says of the store."""
    store, now_ms = made.store, made.clock.now_ms()
    scheduler = store._live().scheduler
    return {
        "now_ms": now_ms,
        "counts": {state.label: count for state, count in store.counts().items()},
        "next": [record.id.hex() for record in store.peek(Ask("default", NEXT), now_ms)],
        "turns": {
            f"{name}/{tenant}": list(turn.facts())
            for name, pool in scheduler.pools.items()
            for tenant, turn in pool.turns.items()
        },
        "pools": {name: list(pool.facts()) for name, pool in scheduler.pools.items()},
        "means": {"/".join(key): list(mean) for key, mean in scheduler.means.items()},
        "gates": {
            key: [gate.tat, gate.held_until_ms] for key, gate in [*scheduler.limits.items(), *scheduler.tenants.items()]
        },
    }


def main() -> None:
    from fairlane.stores._migrate import migrations

    if [step.name for step in migrations("sqlite")] != ["0001_initial.sql"]:
        sys.exit("this is not the code of schema 1: see the head of this file")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "jobs.db"
        made = Maker(path)
        rules(made)
        worker = WorkerRecord(id="w-1", pool="default", queues=None, slots=8, host="h", pid=1, queue_slots=None)
        made.do("register", worker, made.clock.now_ms())
        history(made)
        for tenant in "abcd":
            for n in range(16):
                made.put(tenant=tenant, task=("t", "embed")[n % 2], tier=n % 5)
        ends(made)
        made.clock.advance(seconds=2)
        waiting(made)
        with made.store.transaction():
            facts = told(made)
        made.store.close()
        (HERE / "schema_1.json").write_text(json.dumps(facts, indent=1) + "\n", "utf-8")
        with closing(sqlite3.connect(path)) as db:
            pragmas = [f"PRAGMA {name}={db.execute(f'PRAGMA {name}').fetchone()[0]};" for name in PRAGMAS]
            (HERE / "schema_1.sql").write_text("\n".join([*db.iterdump(), *pragmas]) + "\n", "utf-8")


PRAGMAS: Final = ("application_id", "user_version")

if __name__ == "__main__":
    main()
