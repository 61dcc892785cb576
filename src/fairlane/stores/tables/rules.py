"""What is set and declared: policy and capacities, rules, tasks, workers."""

from __future__ import annotations

from typing import Final

import msgspec

from fairlane.domain.jobs import WorkerRecord
from fairlane.domain.phases import Verification
from fairlane.domain.policy import Capacities, Policy, QueueRule, TaskRule
from fairlane.errors import ConfigError
from fairlane.store import AnyRule, RuleKind
from fairlane.stores._mirror import RULE_TYPES, encode
from fairlane.stores._queries import named
from fairlane.stores.tables.ground import SETTINGS, Ground

SETTING_PUT: Final = named("setting_put")
RULE_GET: Final = named("rule_get")
RULE_PUT: Final = named("rule_put")
TASK_GET: Final = named("task_get")
TASK_PUT: Final = named("task_put")
WORKER_PUT: Final = named("worker_put")
WORKER_DELETE: Final = named("worker_delete")
WORKERS: Final = named("workers_all")
AUDIT_PUT: Final = named("audit_put")


class Rules(Ground):
    """Settings and rules."""

    # ------------------------------------------------------------------ policy and capacities

    def settings(self) -> tuple[Policy, Capacities]:
        """Return the policy and capacities of the store."""
        with self.reading("read the settings") as db:
            return self._settings(db)

    def configure(self, policy: Policy, capacities: Capacities, *, by: str, now_ms: int) -> None:
        """Change them for everybody; every process loads its state anew."""
        for name, value in (("policy", policy), ("capacities", capacities)):
            self._x(SETTING_PUT, {"name": name, "value": encode(value).decode()})
        self._audit(by, "configure", "store", encode([policy, capacities]).decode(), now_ms)
        self._events.insert(0, ("c",))
        self._fresh.add("work")
        self._mirror = None

    def _agree(self, policy: Policy | None, capacities: Capacities | None) -> None:
        """Write the settings of a new store, or see that an existing one has those that were asked for.

        Raises:
            ConfigError: The store was created with others.
        """
        if not self._x(SETTINGS).fetchall():
            for name, value in (("policy", policy or Policy()), ("capacities", capacities or Capacities())):
                self._x(SETTING_PUT, {"name": name, "value": encode(value).decode()})
            return
        have_policy, have_capacities = self._settings(self._db)
        for name, asked, have in (("policy", policy, have_policy), ("capacities", capacities, have_capacities)):
            if asked is not None and asked != have:
                raise ConfigError(
                    f"{self.url} has the {name} {have}, not {asked}: leave it out, or change it with configure"
                )

    def _audit(self, by: str, what: str, target: str, reason: str, now_ms: int) -> None:
        values = {"at_ms": now_ms, "by": by, "what": what, "target": target, "reason": reason, "why": self._why}
        self._x(AUDIT_PUT, values)

    # ------------------------------------------------------------------ rules

    def rule(self, kind: RuleKind, name: str) -> AnyRule:
        """Return what is set for one queue, task, tenant or limit."""
        with self.reading("read a rule") as db:
            row = db.execute(RULE_GET, {"kind": kind, "name": name}).fetchone()
            rule: AnyRule = RULE_TYPES[kind]() if row is None else msgspec.json.decode(row[0], type=RULE_TYPES[kind])
            if isinstance(rule, TaskRule):
                declared = db.execute(TASK_GET, {"name": name}).fetchone()
                if declared is not None:
                    rule = TaskRule(rule.pause, tuple(msgspec.json.decode(declared[0], type=list[str])))
        return rule

    def rules(self, kind: RuleKind) -> dict[str, AnyRule]:
        """Return everything that is set for one kind."""
        with self.reading("read the rules") as db:
            return {name: rule for found, name, rule in sorted(self._all_rules(db), key=_name) if found == kind}

    def set_rule(self, kind: RuleKind, name: str, rule: AnyRule, *, by: str, now_ms: int) -> None:
        """Set what holds for one queue, task, tenant or limit."""
        if isinstance(rule, TaskRule):
            known = self.rule("task", name)
            assert isinstance(known, TaskRule)
            rule = TaskRule(rule.pause, known.limits)
        body = msgspec.to_builtins(rule)
        values = {"kind": kind, "name": name, "body": encode(body).decode(), "by": by, "now_ms": now_ms}
        self._guarded = None
        self._x(RULE_PUT, {**values, "guarded": getattr(rule, "max_waiting", None) is not None})
        self._audit(by, f"set {kind}", name, encode(body).decode(), now_ms)
        self._emit(("r", kind, name, body), "work")

    def declare_task(
        self,
        name: str,
        *,
        limits: tuple[str, ...],
        max_attempts: int,
        max_crashes: int,
        now_ms: int,
        preemptible: bool = False,
        verify: Verification | None = None,
    ) -> None:
        """Record what the code says about a task."""
        how = None if verify is None else encode(verify).decode()
        new = (encode(list(limits)).decode(), max_attempts, max_crashes, int(preemptible), how)
        old = self._x(TASK_GET, {"name": name}).fetchone()
        if old == new:
            return
        names = ("limits", "max_attempts", "max_crashes", "preemptible", "verify")
        self._x(TASK_PUT, {"name": name, **dict(zip(names, new, strict=True))})
        if old is None or old[0] != new[0]:
            self._emit(("r", "task", name, msgspec.to_builtins(self.rule("task", name))), "work")

    def verification(self, task: str) -> Verification | None:
        """Return how a task's work is checked."""
        with self.reading("read a task") as db:
            row = db.execute(TASK_GET, {"name": task}).fetchone()
        return None if row is None or row[-1] is None else msgspec.json.decode(row[-1], type=Verification)

    # ------------------------------------------------------------------ workers

    def register(self, worker: WorkerRecord, now_ms: int) -> None:
        """Record a worker."""
        for name in worker.queues or ():
            rule = self.rule("queue", name)
            assert isinstance(rule, QueueRule)
            if rule.pool != worker.pool:
                raise ConfigError(
                    f"a worker of pool {worker.pool!r} cannot serve queue {name!r}, which is in pool {rule.pool!r}"
                )
        self._x(
            WORKER_PUT,
            {
                "id": worker.id,
                "pool": worker.pool,
                "queues": None if worker.queues is None else encode(list(worker.queues)).decode(),
                "tasks": None if worker.tasks is None else encode(list(worker.tasks)).decode(),
                "slots": worker.slots,
                "host": worker.host,
                "pid": worker.pid,
                "now_ms": now_ms,
                "queue_slots": None if worker.queue_slots is None else encode(list(worker.queue_slots)).decode(),
            },
        )
        self._workers_changed(worker.pool)

    def unregister(self, worker: str, now_ms: int) -> None:
        """Forget a worker."""
        row = self._x(WORKER_DELETE, {"id": worker}).fetchone()
        if row is not None:
            self._workers_changed(row[0])

    def _workers_changed(self, pool: str) -> None:
        slots, queues = {name: (slots, queues) for name, slots, queues in self._declared(self._db)}.get(
            pool, (0, frozenset())
        )
        self._emit(("w", pool, slots, None if queues is None else sorted(queues)), "work")

    def workers(self) -> list[WorkerRecord]:
        """Return the workers on record."""
        with self.reading("read the workers") as db:
            rows = db.execute(WORKERS).fetchall()
        return [
            WorkerRecord(
                id=id_,
                pool=pool,
                queues=_names(queues),
                tasks=_names(tasks),
                slots=slots,
                host=host,
                pid=pid,
                started_at_ms=started_at_ms,
                queue_slots=None if own is None else tuple(msgspec.json.decode(own, type=list[int])),
            )
            for id_, pool, queues, tasks, slots, host, pid, started_at_ms, own in rows
        ]


def _names(body: str | None) -> tuple[str, ...] | None:
    return None if body is None else tuple(msgspec.json.decode(body, type=list[str]))


def _name(item: tuple[str, str, AnyRule]) -> str:
    return item[1]
