"""Watching over waits: objectives, who waits longest, why, incidents, and who watches."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from fairlane.domain.fairness import ASKED_MS
from fairlane.domain.lanes import LaneKey
from fairlane.domain.limits import filled
from fairlane.domain.policy import QueueRule
from fairlane.domain.turns import Lane
from fairlane.domain.waits import (
    GateFacts,
    IncidentRecord,
    ObjectiveRule,
    Objectives,
    Scope,
    Standing,
    Waiter,
    WaitingLane,
    gate_facts,
    since_ms,
)
from fairlane.store import NOBODY, MonitorRecord
from fairlane.stores._mirror import encode
from fairlane.stores._queries import named
from fairlane.stores.tables.ground import Db
from fairlane.stores.tables.writing import Writing

OBJECTIVES_ALL: Final = named("objectives_all")
OBJECTIVE_PUT: Final = named("objective_put")
OBJECTIVE_DELETE: Final = named("objective_delete")
MONITOR_GET: Final = named("monitor_get")
MONITOR_TAKE: Final = named("monitor_take")
MONITOR_DROP: Final = named("monitor_drop")
WATCHED_LANES: Final = named("watched_lanes")
WATCHED_HEADS: Final = named("watched_heads")
WATCHED_EXPRESS: Final = named("watched_express")
RUNNING_BY_WORKER: Final = named("running_by_worker")
INCIDENTS_OPEN: Final = named("incidents_open")
INCIDENTS_ALL: Final = named("incidents_all")
INCIDENT_INSERT: Final = named("incident_insert")
INCIDENT_UPDATE: Final = named("incident_update")
INCIDENT_PRUNE: Final = named("incident_prune")

HEADS: Final = 8
"""First jobs of a lane that are looked at: one that came back stands before others that have waited longer."""
KEPT_INCIDENTS: Final = 1_000

_Row = tuple[Any, ...]  # Any: the database's own types


class Watching(Writing):
    """What a monitor asks and writes."""

    # ------------------------------------------------------------------ objectives

    def objectives(self) -> Objectives:
        """Return what is set about waits; see the protocol."""
        with self.reading("read the wait objectives") as db:
            rows = db.execute(OBJECTIVES_ALL).fetchall()
        return Objectives(
            {
                Scope(tier, queue or None, tenant or None): msgspec.json.decode(body, type=ObjectiveRule)
                for tier, queue, tenant, body in rows
            }
        )

    def set_objective(self, scope: Scope, rule: ObjectiveRule | None, *, by: str, now_ms: int) -> None:
        """Set or unset what holds for a scope; see the protocol."""
        where = {"tier": int(scope.tier), "queue": scope.queue or "", "tenant": scope.tenant or ""}
        body = "" if rule is None else encode(rule).decode()
        if rule is None:
            self._x(OBJECTIVE_DELETE, where)
        else:
            self._x(OBJECTIVE_PUT, {**where, "body": body, "by": by, "now_ms": now_ms})
        self._audit(by, "set objective", encode(list(where.values())).decode(), body, now_ms)

    # ------------------------------------------------------------------ who watches

    def monitor(self) -> MonitorRecord | None:
        """Return who watches over waits; see the protocol."""
        with self.reading("read who watches") as db:
            row = db.execute(MONITOR_GET).fetchone()
        return None if row is None else MonitorRecord(*row)

    def watch(self, monitor: str, *, lease_ms: int, now_ms: int, sinks: str = "[]") -> bool:
        """Watch over waits, or go on; see the protocol."""
        held = self.monitor()
        left_ms = 0 if held is None else held.until_ms - now_ms
        if held is not None and held.holder != monitor and 0 < left_ms <= lease_ms:
            return False  # more than a lease ahead: a clock has stepped back, and nobody would take over for long
        if held is None or held.holder != monitor or not lease_ms / 2 < left_ms <= lease_ms or held.sinks != sinks:
            self._x(MONITOR_TAKE, {"holder": monitor, "until_ms": now_ms + lease_ms, "now_ms": now_ms, "sinks": sinks})
        return True

    def unwatch(self, monitor: str) -> None:
        """Watch no more; see the protocol."""
        self._x(MONITOR_DROP, {"holder": monitor})

    # ------------------------------------------------------------------ who waits, and why

    def notice(self, now_ms: int) -> None:
        """Make due jobs available and cancel expired ones; see the protocol."""
        timer_ms = self._probe()[2]
        if timer_ms is not None and timer_ms <= now_ms:
            self._notice_due(now_ms)

    def waiting(
        self, objectives: Objectives, *, apart: Mapping[bytes, LaneKey] = NOBODY, now_ms: int
    ) -> list[WaitingLane]:
        """Return the lanes with jobs that may have waited too long; see the protocol."""
        with self.snapshot("look who waits") as db:
            return self._waiting(db, objectives, apart, now_ms)

    def _waiting(
        self, db: Db, objectives: Objectives, apart: Mapping[bytes, LaneKey], now_ms: int
    ) -> list[WaitingLane]:
        tiers = objectives.tiers()
        left_out = Counter(apart.values())
        express: dict[int, list[Waiter]] = {}
        keys: dict[int, tuple[LaneKey, int, int | None]] = {}
        for lane, queue, task, tenant, tier, job, *times in db.execute(WATCHED_EXPRESS).fetchall():
            if tier in tiers:
                keys[lane] = LaneKey(queue, task, tenant, tier), 0, None
                express.setdefault(lane, []).append(Waiter(job, since_ms(*times), express=True))
        for lane, queue, task, tenant, tier, available, head_ms in db.execute(
            WATCHED_LANES, {"tiers": sum(1 << tier for tier in tiers)}
        ).fetchall():
            keys[lane] = LaneKey(queue, task, tenant, tier), available, head_ms
        found: list[WaitingLane] = []
        for lane, (key, available, head_ms) in keys.items():
            calm_ms = objectives.of(key.tier, key.queue, key.tenant).calm_ms
            if calm_ms is None:
                continue
            waiters = express.get(lane, [])
            count = available + len(waiters)
            if head_ms is not None and now_ms - head_ms > calm_ms:
                rows = db.execute(WATCHED_HEADS, {"lane": lane, "most": HEADS + len(apart)}).fetchall()
                waiters = waiters + [Waiter(job, since_ms(*times)) for job, *times in rows]
            here = sorted((one for one in waiters if one.id not in apart), key=lambda one: one.since_ms)
            if here and now_ms - here[0].since_ms > calm_ms:
                found.append(WaitingLane(key, key.tier, count - left_out[key], tuple(here)))
        return found

    def busy(self) -> dict[str, int]:
        """Return how many jobs each worker runs; see the protocol."""
        with self.reading("count running jobs") as db:
            return dict(db.execute(RUNNING_BY_WORKER).fetchall())

    def standing(self, lane: LaneKey, now_ms: int) -> Standing:
        """Return what may hold up the jobs of a lane; see the protocol."""
        rule = self.rule("queue", lane.queue)
        pool_name = rule.pool if isinstance(rule, QueueRule) else QueueRule().pool
        scheduler = self._live().scheduler
        pool = scheduler.pools.get(pool_name)
        asked_ms = [] if pool is None else [pool.asked_all_ms, pool.asked_ms.get(lane.queue)]
        serving = [
            worker
            for worker in self.workers()
            if worker.pool == pool_name and (worker.queues is None or lane.queue in worker.queues)
        ]
        knowing = [worker for worker in serving if worker.tasks is None or lane.task in worker.tasks]
        runs = self.busy()
        held = scheduler.lanes.get(lane)
        return Standing(
            gates=() if held is None else self._gates(held, now_ms),
            pool=pool_name,
            serving=len(serving),
            knowing=len(knowing),
            slots=sum(worker.slots for worker in knowing),
            running=sum(runs.get(worker.id, 0) for worker in knowing),
            asked=any(at_ms is not None and now_ms - at_ms <= ASKED_MS for at_ms in asked_ms),
        )

    def _gates(self, lane: Lane, now_ms: int) -> tuple[GateFacts, ...]:
        queue, task, tenant = lane.group.queue, lane.group.task, lane.turn.tenant
        limits = self._live().scheduler.limits
        keys = [limit.key for limit in lane.group.limits]
        keys += [filled(template, tenant.name) for template in lane.group.templates]
        running = tenant.by_queue.get(queue.name, 0)
        return (
            gate_facts("queue", queue.name, queue, now_ms),
            gate_facts("task", task.name, task, now_ms),
            gate_facts("tenant", tenant.name, tenant, now_ms),
            GateFacts("tenant in queue", tenant.name, None, running, queue.rule.tenant_max_running),
            *(gate_facts("limit", key, limits[key], now_ms) for key in keys if key in limits),
        )

    # ------------------------------------------------------------------ incidents

    def incidents(self) -> list[IncidentRecord]:
        """Return the open incidents; see the protocol."""
        with self.reading("read incidents") as db:
            return [_incident_of(row) for row in db.execute(INCIDENTS_OPEN).fetchall()]

    def past_incidents(self, *, limit: int) -> list[IncidentRecord]:
        """Return the latest incidents; see the protocol."""
        with self.reading("read incidents") as db:
            return [_incident_of(row) for row in db.execute(INCIDENTS_ALL, {"most": limit}).fetchall()]

    def put_incident(self, incident: IncidentRecord) -> IncidentRecord | None:
        """Raise, change or resolve an incident; see the protocol."""
        values = msgspec.structs.asdict(incident) | {
            "causes": encode(incident.causes).decode(),
            "escalated": encode([job.hex() for job in incident.escalated]).decode(),
        }
        new = incident.id == 0
        row = self._x(INCIDENT_INSERT if new else INCIDENT_UPDATE, values).fetchone()
        if row is None:
            return None
        if new:
            self._x(INCIDENT_PRUNE, {"id": row[0], "kept": KEPT_INCIDENTS})
        return msgspec.structs.replace(incident, id=row[0])


_COLUMNS: Final = (
    "id", "queue", "tier", "job", "task", "tenant", "since_ms", "objective_ms", "count", "causes", "on_breach",
    "escalated", "note", "opened_at_ms", "seen_at_ms", "notified_at_ms", "notices", "resolved_at_ms",
)  # fmt: skip


def _incident_of(row: _Row) -> IncidentRecord:
    """Return an incident from a row of the ``incidents_…`` queries."""
    values = dict(zip(_COLUMNS, row, strict=True))
    values["causes"] = msgspec.json.decode(values["causes"])
    values["job"], escalated = bytes(values["job"]), msgspec.json.decode(values["escalated"], type=list[str])
    values["escalated"] = [bytes.fromhex(job) for job in escalated]
    return msgspec.convert(values, IncidentRecord, builtin_types=(bytes,))
