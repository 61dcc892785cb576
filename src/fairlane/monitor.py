"""Watching over waits: one bounded pass, safe to repeat, that works when no worker is alive.

A pass finds the jobs that wait longer than their objective, raises one incident for each queue and tier, tells it,
boosts or expedites where the objective says so, tells it again every 15 minutes, and resolves it. Any number of
monitors may run, one in every worker and server and ``fairlane monitor``: one of them at a time holds the right to,
for 20 s at a time, and when it is gone another takes over.

What is told is stored before it is sent: a monitor that is killed in between loses that notice, and never doubles it.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple
from uuid import UUID, uuid4

import msgspec

from fairlane.alerts import Alert, Alerts, mild
from fairlane.clock import SystemClock
from fairlane.domain.states import State
from fairlane.domain.tiers import Tier
from fairlane.domain.waits import (
    Breach,
    EventKind,
    IncidentRecord,
    Late,
    Objectives,
    Waiter,
    WaitingLane,
    breaches,
    causes,
    next_incident,
    since_ms,
    to_escalate,
)
from fairlane.errors import CapacityError, FairlaneError, IllegalMove, JobNotFound
from fairlane.faces import Steps, read, run, write
from fairlane.owner import Owner
from fairlane.store import Store

log = logging.getLogger("fairlane.monitor")

WATCH_EVERY_S: Final = 5.0
LEASE_MS: Final = 20_000
RESCUE_MOST: Final = 100
BY: Final = "monitor"
MINUTE_S: Final = 60


class Event(NamedTuple):
    """Something to tell: an incident was raised, goes on, or is over."""

    kind: EventKind
    incident: IncidentRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class Pass:
    """What one pass found and did.

    Attributes:
        at_ms: Its instant, in milliseconds UTC.
        active: Whether it held the right to act; else another monitor does, and it only looked.
        holder: The id of the monitor that holds the right.
        incidents: The open incidents after it, oldest first.
        events: What it told.
        escalated: Jobs that it boosted or expedited.
        rescued: Jobs that it took back from workers that are gone.
    """

    at_ms: int
    active: bool
    holder: str
    incidents: tuple[IncidentRecord, ...] = ()
    events: tuple[Event, ...] = ()
    escalated: int = 0
    rescued: int = 0


class _Scan(NamedTuple):
    """What waits too long, and which escalated jobs still wait."""

    found: dict[tuple[str, int], Breach]
    still: frozenset[bytes]
    open: bool


class _Begun(NamedTuple):
    """How a pass begins: what it is so far, what is set about waits, and which incidents are open."""

    done: Pass
    objectives: Objectives
    open: Sequence[IncidentRecord]


class Monitor:
    """Watches over the waits of one store, in one process.

    Args:
        owner: Owner of the store.
        alerts: Where events are told; None tells nobody.
        name: How its id begins, for people; the rest is new in every process.
    """

    def __init__(self, owner: Owner, alerts: Alerts | None = None, *, name: str = "") -> None:
        self.owner = owner
        self.opened = True
        self._alerts = alerts
        self._name = f"{name}-{uuid4().hex}" if name else uuid4().hex
        self._clock = SystemClock()
        self._last_pass: float | None = None
        self._users = 0

    @property
    def id(self) -> str:
        """Its id; another in a forked child."""
        return f"{self._name}-{os.getpid()}"

    # ------------------------------------------------------------------ a pass

    def look(self, *, rescue: bool = True) -> Pass:
        """Make a pass in this thread and tell what there is to tell.

        Args:
            rescue: Whether to take back the jobs of lost workers first, which workers do by themselves.

        Raises:
            StoreError: The store could not do it; nothing was told, and the next pass begins anew.
        """
        return run(self, self.steps(rescue=rescue))

    def steps(self, *, rescue: bool = True) -> Steps[Pass]:
        """Make a pass: the body of both faces."""
        self._last_pass = self._clock.monotonic()
        begun, objectives, open_now = yield from write(lambda store, now_ms: self._begin(store, now_ms, rescue=rescue))
        if not begun.active:
            return begun
        scan = yield from read(lambda store, now_ms: _scan(store, objectives, open_now, now_ms))
        if not scan.found and not scan.open:
            return begun
        done = yield from write(lambda store, now_ms: self._act(store, scan, begun, now_ms))
        for event in done.events:
            self._tell(event)
        return done

    def _begin(self, store: Store, now_ms: int, *, rescue: bool) -> _Begun:
        """Take or keep the watch, and return with it what is to be looked for: one transaction less for every pass."""
        active = store.watch(self.id, lease_ms=LEASE_MS, now_ms=now_ms, sinks=self._sinks())
        if not active:
            held = store.monitor()
            holder = held.holder if held else ""
            done = Pass(at_ms=now_ms, active=False, holder=holder, incidents=tuple(store.incidents()))
            return _Begun(done, Objectives({}), ())
        rescued = store.rescue(now_ms, limit=RESCUE_MOST) if rescue else 0
        store.notice(now_ms)
        begun = Pass(at_ms=now_ms, active=True, holder=self.id, rescued=rescued)
        return _Begun(begun, store.objectives(), store.incidents())

    def _act(self, store: Store, scan: _Scan, begun: Pass, now_ms: int) -> Pass:
        """Raise, change and resolve incidents, and escalate: all of it in one transaction."""
        if not store.watch(self.id, lease_ms=LEASE_MS, now_ms=now_ms, sinks=self._sinks()):
            return replace(begun, active=False, incidents=tuple(store.incidents()))
        held = {(incident.queue, incident.tier): incident for incident in store.incidents()}
        events: list[Event] = []
        escalated = 0
        for key in sorted(held.keys() | scan.found.keys()):
            breach, incident = scan.found.get(key), held.get(key)
            if breach is not None and incident is None and not (breach.over and _waits(store, breach.oldest.id)):
                continue  # it started since the look
            why = () if breach is None else causes(breach.lane, store.standing(breach.lane, now_ms), now_ms)
            new, kind = next_incident(_pruned(incident, scan.still), breach, why, now_ms)
            if new is None:
                continue
            if breach is not None and new.resolved_at_ms is None:
                before = len(new.escalated)
                new = _escalate(store, new, breach, now_ms)
                escalated += len(new.escalated) - before
            stored = store.put_incident(new)
            if stored is not None and kind is not None:
                events.append(Event(kind, stored))
        return replace(
            begun, at_ms=now_ms, incidents=tuple(store.incidents()), events=tuple(events), escalated=escalated
        )

    # ------------------------------------------------------------------ in a maintenance thread

    def tick(self) -> int:
        """Make a pass unless this process has just made one; the workers of a process share their monitor."""
        now = self._clock.monotonic()
        if self._last_pass is None or now - self._last_pass >= WATCH_EVERY_S / 2:
            self.look(rescue=False)
        return 0

    def join(self) -> Round:
        """Return the pass for one maintenance thread."""
        self._users += 1
        return Round(self)

    def leave(self) -> None:
        """A maintenance thread ends; after the last one another process may watch at once."""
        self._users -= 1
        if self._users <= 0:
            self.release()

    def release(self) -> None:
        """Let another monitor take over at once; safe to call twice, and raises nothing."""
        if self._last_pass is None:
            return
        self._last_pass = None
        try:
            self.owner.call(lambda store, _: store.unwatch(self.id))
        except FairlaneError as error:  # its time runs out by itself
            log.info("monitor_not_released error=%r", error)

    # ------------------------------------------------------------------ telling

    def _sinks(self) -> str:
        """Return how the sinks do, for others to see in the store."""
        if self._alerts is None:
            return "[]"
        told = [{"name": one.name, "healthy": one.healthy, "error": one.error} for one in self._alerts.health()]
        return msgspec.json.encode(told).decode()

    def _tell(self, event: Event) -> None:
        if self._alerts is not None:
            self._alerts.send(alert_of(event))


class Round:
    """A monitor's pass in one maintenance thread; see :class:`fairlane.maintenance.Upkeep`."""

    name = "watch"
    every_s = WATCH_EVERY_S

    def __init__(self, monitor: Monitor) -> None:
        self._monitor = monitor

    def work(self) -> int:
        """Make the pass."""
        return self._monitor.tick()

    def close(self) -> None:
        """The thread ends."""
        self._monitor.leave()


# ---------------------------------------------------------------- looking


def _scan(store: Store, objectives: Objectives, open_now: Sequence[IncidentRecord], now_ms: int) -> _Scan:
    """Find what waits too long. Jobs that an incident boosted still count under the tier that they had."""
    moved: list[WaitingLane] = []
    still: set[bytes] = set()
    for incident in open_now:
        for job_id in incident.escalated:
            record = store.get(job_id)
            if record is None or record.state is not State.AVAILABLE or record.available_at_ms is None:
                continue
            still.add(job_id)
            if record.tier != incident.tier:
                since = since_ms(record.arrival_ms, record.available_at_ms, record.started_at_ms)
                moved.append(WaitingLane(record.lane, incident.tier, 1, (Waiter(job_id, since),)))
    apart = {lane.oldest[0].id: lane.lane for lane in moved}
    lanes = store.waiting(objectives, apart=apart, now_ms=now_ms)
    return _Scan(breaches([*lanes, *moved], objectives, now_ms), frozenset(still), bool(open_now))


def _waits(store: Store, job_id: bytes) -> bool:
    record = store.get(job_id)
    return record is not None and record.state is State.AVAILABLE


def _pruned(incident: IncidentRecord | None, still: frozenset[bytes]) -> IncidentRecord | None:
    """Return an incident without the escalated jobs that wait no more."""
    if incident is None or still.issuperset(incident.escalated):
        return incident
    return msgspec.structs.replace(incident, escalated=tuple(job for job in incident.escalated if job in still))


# ---------------------------------------------------------------- escalating


def _escalate(store: Store, incident: IncidentRecord, breach: Breach, now_ms: int) -> IncidentRecord:
    """Boost or expedite the jobs that wait too long; what stands in the way is noted, and tried in the next pass."""
    done = list(incident.escalated)
    note = ""
    full: set[str] = set()
    for late in to_escalate(breach, done):
        if late.lane.tenant in full:
            continue
        try:
            _raise(store, late, breach.tier, now_ms)
        except CapacityError as error:
            note = str(error)
            full.add(late.lane.tenant)
        except (IllegalMove, JobNotFound):  # it started, or was cancelled, since the look
            continue
        else:
            done.append(late.waiter.id)
    return msgspec.structs.replace(incident, escalated=tuple(done), note=note)


def _raise(store: Store, late: Late, tier: int, now_ms: int) -> None:
    waited_s = (now_ms - late.waiter.since_ms) / 1000
    reason = f"waited {waited_s:.0f} s; the objective is {late.objective.objective:g} s"
    if late.objective.on_breach == "expedite":
        store.expedite(late.waiter.id, reason=reason, by=BY, now_ms=now_ms)
    else:
        store.boost(late.waiter.id, tier - 1, by=BY, reason=reason, now_ms=now_ms)


# ---------------------------------------------------------------- telling


def alert_of(event: Event) -> Alert:
    """Return an event in words."""
    incident = event.incident
    queue, tier = mild(incident.queue), Tier(incident.tier).label
    facts: dict[str, str | int | float] = {
        "incident": incident.id,
        "queue": mild(incident.queue),
        "tier": tier,
        "job": str(UUID(bytes=incident.job)),
        "task": mild(incident.task),
        "tenant": mild(incident.tenant),
        "wait_s": round(incident.wait_ms / 1000, 1),
        "objective_s": incident.objective_ms / 1000,
        "count": incident.count,
        "cause": incident.cause,
    }
    key = f"incident:{incident.id}:{incident.notices}"
    if event.kind == "resolved":
        lasted = _span(((incident.resolved_at_ms or 0) - incident.opened_at_ms) / 1000)
        return Alert(
            key=key,
            event="wait_resolved",
            title=f"Resolved: {tier} jobs of queue {queue} start in time again",
            text=f"Incident {incident.id} was open for {lasted}.",
            level="good",
            facts={"incident": incident.id, "queue": queue, "tier": tier},
        )
    waits = _span(incident.wait_ms / 1000)
    title = f"{tier} jobs of queue {queue} wait: {waits}, objective {_span(incident.objective_ms / 1000)}"
    lines = [
        f"{incident.count:,} waiting, cause: {incident.cause}",
        *(mild(cause.text) for cause in incident.causes),
        f"longest: job {facts['job']}, task {facts['task']}, tenant {facts['tenant']}, {waits}",
    ]
    if incident.escalated:
        lines.append(f"{incident.on_breach}: {len(incident.escalated)} jobs")
    if incident.note:
        lines.append(f"{incident.on_breach} not possible: {mild(incident.note)}")
    again = event.kind == "again"
    if again:
        lines.append(f"incident {incident.id}, open for {_span((incident.seen_at_ms - incident.opened_at_ms) / 1000)}")
    return Alert(
        key=key,
        event="wait_again" if again else "wait_raised",
        title=f"Still: {title}" if again else title,
        text="\n".join(lines),
        facts=facts,
    )


def _span(seconds: float) -> str:
    """Return a time as people say it.

    Example:
        >>> _span(45.4), _span(125), _span(7_260)
        ('45 s', '2 min 5 s', '2 h 1 min')
    """
    whole = round(seconds)
    if whole < MINUTE_S:
        return f"{whole} s"
    if whole < MINUTE_S * MINUTE_S:
        return f"{whole // MINUTE_S} min {whole % MINUTE_S} s"
    return f"{whole // MINUTE_S**2} h {whole % MINUTE_S**2 // MINUTE_S} min"
