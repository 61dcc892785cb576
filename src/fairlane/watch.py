"""The client's part of watching over waits: objectives by tier, incidents, a monitor's pass, alerts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any, Final
from uuid import UUID

from fairlane import maintenance
from fairlane.alerts import Alert, Alerts, AppriseSink, InAppSink, LogSink, scheme_of, teller
from fairlane.client import Client
from fairlane.clock import Clock
from fairlane.domain.checks import whole
from fairlane.domain.tiers import Tier
from fairlane.domain.waits import Cause, CauseKind, IncidentRecord, OnBreach
from fairlane.faces import Steps, later, read, twin
from fairlane.instants import aware
from fairlane.monitor import Monitor
from fairlane.owner import Owner
from fairlane.rules import Tiers
from fairlane.settings import Settings

MAX_INCIDENTS: Final = 1_000
_UNITS: Final = {"wait": "wait_s", "objective": "objective_s"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Incident:
    """Jobs of one queue and tier that wait longer than they should.

    Attributes:
        id: Its number.
        job_id: The job that has waited longest, with its ``task`` and ``tenant``.
        wait: How long that job had waited at ``seen_at``, in seconds.
        objective: What it should not have waited longer than, in seconds.
        count: How many jobs wait in lanes (queue, task, tenant, tier) with one that waits too long.
        cause: The foremost cause: ``paused``, ``cap``, ``rate`` (or a handler's wait), ``no_worker``, ``busy``, or
            ``turn`` (workers have other jobs first).
        causes: All of them, with a sentence each.
        on_breach: What is done about it.
        escalated: Jobs that were boosted or expedited for it and still wait.
        note: What stood in the way of that, such as a full express lane; else empty.
        opened_at: When it was raised.
        seen_at: When it was last looked at.
        notified_at: When it was last told.
        resolved_at: When it was over; None while it is open.
    """

    id: int
    queue: str
    tier: Tier
    job_id: UUID
    task: str
    tenant: str
    wait: float
    objective: float
    count: int
    cause: CauseKind
    causes: tuple[Cause, ...]
    on_breach: OnBreach
    escalated: tuple[UUID, ...]
    note: str
    opened_at: datetime
    seen_at: datetime
    notified_at: datetime
    resolved_at: datetime | None

    @staticmethod
    def of(record: IncidentRecord) -> Incident:
        """Return a stored incident as it is shown."""
        return Incident(
            id=record.id,
            queue=record.queue,
            tier=Tier(record.tier),
            job_id=UUID(bytes=record.job),
            task=record.task,
            tenant=record.tenant,
            wait=record.wait_ms / 1000,
            objective=record.objective_ms / 1000,
            count=record.count,
            cause=record.cause,
            causes=record.causes,
            on_breach=record.on_breach,
            escalated=tuple(UUID(bytes=job) for job in record.escalated),
            note=record.note,
            opened_at=aware(record.opened_at_ms),
            seen_at=aware(record.seen_at_ms),
            notified_at=aware(record.notified_at_ms),
            resolved_at=aware(record.resolved_at_ms),
        )

    def shown(self) -> dict[str, Any]:  # Any: ready for JSON
        """Return it ready for JSON: instants as ISO 8601, times in seconds, the tier and the job by name."""
        told: dict[str, Any] = {name: getattr(self, name) for name in self.__slots__}
        for name, value in told.items():
            if isinstance(value, datetime):
                told[name] = value.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        return {_UNITS.get(name, name): value for name, value in told.items()} | {
            "tier": self.tier.label,
            "job_id": str(self.job_id),
            "causes": [{"kind": cause.kind, "text": cause.text} for cause in self.causes],
            "escalated": [str(job) for job in self.escalated],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched:
    """What a monitor's pass found and did.

    Attributes:
        at: Its instant, UTC.
        active: Whether it acted; False when another monitor holds the right to, and this one only looked.
        holder: The id of the monitor that holds it.
        incidents: The open incidents after it, oldest first.
        raised: Incidents that it raised; ``again`` those it told again, ``resolved`` those that are over.
        escalated: Jobs that it boosted or expedited.
        rescued: Jobs that it took back from workers that are gone.
    """

    at: datetime
    active: bool
    holder: str
    incidents: tuple[Incident, ...]
    raised: tuple[Incident, ...]
    again: tuple[Incident, ...]
    resolved: tuple[Incident, ...]
    escalated: int
    rescued: int


class WatchingClient(Client):
    """A client that watches over waits, and lets its workers do so.

    Attributes:
        tiers: How long jobs may wait, by tier: ``app.tiers[fl.Tier.HIGH].set(objective=120, on_breach="boost")``.
    """

    settings: Settings

    def __init__(self, open_owner: Callable[[], Owner], clock: Clock) -> None:
        super().__init__(lambda: self._begin_to_watch(open_owner()), clock)
        self.tiers = Tiers(self)
        self._monitor: Monitor | None = None

    def _begin_to_watch(self, owner: Owner) -> Owner:
        self._monitor = Monitor(owner, self.alerts)
        maintenance.also(owner, self._monitor.join)
        owner.mourn(teller(self._send, self.settings["alert_dead"]))
        return owner

    def _send(self, alert: Alert) -> None:
        self.alerts.send(alert)

    @cached_property
    def alerts(self) -> Alerts:
        """Where alerts go: the log, the store, the Apprise URLs of the setting ``alerts``, and what you add."""
        seen: dict[str, int] = {}
        sinks: list[AppriseSink] = []
        for url in self.settings["alerts"]:
            scheme = scheme_of(url)
            seen[scheme] = seen.get(scheme, 0) + 1
            sinks.append(AppriseSink(url, seen[scheme]))
        return Alerts([LogSink(), InAppSink(), *sinks])

    @twin
    def incidents(self, *, resolved: bool = False, limit: int = 100) -> Steps[list[Incident]]:
        """Return the open incidents, oldest first.

        Args:
            resolved: Whether to return the latest incidents instead, those that are over too, newest first.
            limit: Most incidents, 1 to 1,000.

        Raises:
            InvalidValue: ``limit`` is out of range.
        """
        whole("limit", limit, least=1, most=MAX_INCIDENTS)
        records = yield from read(
            lambda store, _: store.past_incidents(limit=limit) if resolved else store.incidents()[:limit]
        )
        return [Incident.of(record) for record in records]

    aincidents = later(incidents)

    @twin
    def monitor(self) -> Steps[Watched]:
        """Make one pass over the waits: raise, tell, escalate, resolve. Workers and ``fairlane monitor`` do so too.

        One monitor acts at a time, for 20 s from its last pass; while another one does, this pass only looks. Alerts
        are sent in the background: ``app.alerts.drain(10)`` waits for them.
        """
        yield from read(lambda store, _: None)  # opens the store
        assert self._monitor is not None
        done = yield from self._monitor.steps()
        told: dict[str, list[Incident]] = {"raised": [], "again": [], "resolved": []}
        for event in done.events:
            told[event.kind].append(Incident.of(event.incident))
        return Watched(
            at=aware(done.at_ms),
            active=done.active,
            holder=done.holder,
            incidents=tuple(Incident.of(record) for record in done.incidents),
            raised=tuple(told["raised"]),
            again=tuple(told["again"]),
            resolved=tuple(told["resolved"]),
            escalated=done.escalated,
            rescued=done.rescued,
        )

    amonitor = later(monitor)

    def close(self) -> None:
        """Let another monitor take over, send what alerts there are, and close the store; safe to call twice."""
        owner = self._owner
        if owner is not None:
            maintenance.also(owner, None)
        if self._monitor is not None:
            self._monitor.release()
        if "alerts" in self.__dict__:
            self.alerts.close()
        super().close()
