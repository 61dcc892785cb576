"""Every metric, with its name, unit and labels, and the figures that the store tells at once.

Figures of jobs come from the store, so that every server and restart tells the same, and are looked up at most once in
:data:`FRESH_S`. Labels are bounded: tiers and states are few, queues are the :data:`MOST_QUEUES` with most live jobs
and ``other`` for the rest. There are none by task or job, and by tenant only as many as a server is told to show.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, Literal, NamedTuple

from fairlane.domain.jobs import DepthRow, JobRecord, WorkerRecord
from fairlane.domain.policy import Capacities
from fairlane.domain.sightings import Arrivals, Ending, Sighting, percentile
from fairlane.domain.states import State
from fairlane.domain.tiers import Tier
from fairlane.domain.waits import IncidentRecord, Objectives
from fairlane.store import Store

FRESH_S: Final = 5.0
MOST_QUEUES: Final = 100
OTHER: Final = "other"
WINDOW_MS: Final = 300_000
MOST_STARTS: Final = 5_000
MOST_ARRIVALS: Final = 50_000
"""Jobs that one look counts as new, 50 to 100 ms at most; the next look goes on behind them."""
MOST_TENANTS: Final = 1_000
"""Most tenants that a server can be told to show."""
QUANTILES: Final = (0.5, 0.95, 0.99)
MS: Final = 1_000

Type = Literal["gauge", "counter", "histogram"]


class Metric(NamedTuple):
    """One metric: its name (which ends in its unit), what sort it is, its labels, and what it tells."""

    name: str
    type: Type
    labels: tuple[str, ...]
    help: str


METRICS: Final = (
    Metric("fairlane_scheduled_jobs", "gauge", ("queue", "tier"), "Jobs that wait for a time or for other jobs."),
    Metric("fairlane_available_jobs", "gauge", ("queue", "tier"), "Jobs that may start."),
    Metric("fairlane_running_jobs", "gauge", ("queue", "tier"), "Jobs that run."),
    Metric("fairlane_dead_jobs", "gauge", (), "Dead jobs that are kept."),
    Metric(
        "fairlane_oldest_available_seconds", "gauge", ("queue", "tier"), "How long the oldest available job has waited."
    ),
    Metric(
        "fairlane_recent_wait_seconds",
        "gauge",
        ("tier", "quantile"),
        "Waits of the jobs that started in the last five minutes.",
    ),
    Metric("fairlane_recent_starts", "gauge", ("tier",), "Jobs that started in the last five minutes."),
    Metric(
        "fairlane_job_wait_seconds",
        "histogram",
        ("queue", "tier"),
        "Waits of the jobs that started, since this server looks.",
    ),
    Metric(
        "fairlane_job_run_seconds",
        "histogram",
        ("queue", "tier"),
        "Last runs of the jobs that ended, since this server looks.",
    ),
    Metric(
        "fairlane_jobs_enqueued_total", "counter", ("queue", "tier"), "Jobs that were stored, since this server looks."
    ),
    Metric(
        "fairlane_jobs_finished_total",
        "counter",
        ("queue", "tier", "outcome"),
        "Jobs that ended (completed, dead, cancelled), since this server looks.",
    ),
    Metric(
        "fairlane_job_attempts_total",
        "counter",
        ("queue", "tier", "result"),
        "Attempts (completed, failed, crashed) of the jobs that ended, since this server looks.",
    ),
    Metric(
        "fairlane_wait_objective_total",
        "counter",
        ("tier", "met"),
        "Starts of jobs that have a wait objective, by whether it was met, since this server looks.",
    ),
    Metric("fairlane_express_in_use", "gauge", (), "Express jobs that wait."),
    Metric("fairlane_express_capacity", "gauge", (), "Express jobs that may wait."),
    Metric(
        "fairlane_incidents_open", "gauge", ("tier",), "Queues in which jobs of a tier wait longer than they should."
    ),
    Metric("fairlane_worker_slots", "gauge", ("pool",), "Slots that the workers on record declare."),
    Metric("fairlane_worker_slots_busy", "gauge", ("pool",), "Slots of these workers in which a job runs."),
    Metric("fairlane_workers", "gauge", ("pool",), "Workers on record."),
    Metric(
        "fairlane_tenant_available_jobs", "gauge", ("tenant",), "Jobs that may start, of the tenants with most jobs."
    ),
    Metric("fairlane_tenant_running_jobs", "gauge", ("tenant",), "Jobs that run, likewise."),
    Metric(
        "fairlane_tenant_oldest_available_seconds",
        "gauge",
        ("tenant",),
        "How long the oldest available job has waited, likewise.",
    ),
    Metric(
        "fairlane_http_requests_total", "counter", ("method", "route", "status"), "Requests that this server answered."
    ),
    Metric(
        "fairlane_operations_total",
        "counter",
        ("operation", "priority"),
        "Changes of jobs that this server was asked for and made; priority: as express jobs.",
    ),
    Metric("fairlane_express_rejected_total", "counter", (), "Express requests that this server refused: full."),
    Metric("fairlane_build_info", "gauge", ("version", "backend"), "Always 1."),
)
"""Every metric there is."""
BY_NAME: Final = {metric.name: metric for metric in METRICS}


class Distribution(NamedTuple):
    """A histogram's value: how many fell into each bucket, the last of which has no bound, and what all add up to."""

    counts: tuple[int, ...]
    total: float
    bounds: tuple[float, ...]


Key = tuple[str, ...]
"""The values of a sample's labels."""

Sample = tuple[str, Key, float | Distribution]
"""A metric's name, the values of its labels, and its own."""


class Facts(NamedTuple):
    """What the store says for the metrics, all of one instant."""

    now_ms: int
    lanes: Sequence[DepthRow]
    counts: Mapping[State, int]
    starts: Sequence[Sighting]
    ends: Sequence[Ending]
    arrivals: Arrivals
    objectives: Objectives
    express: Sequence[JobRecord]
    capacities: Capacities
    incidents: Sequence[IncidentRecord]
    workers: Sequence[WorkerRecord]
    busy: Mapping[str, int]


def facts_of(store: Store, now_ms: int, *, after: int | None = None) -> Facts:
    """Read what the metrics are made of.

    Args:
        store: Is asked.
        now_ms: The instant.
        after: Where the look before ended, by ``arrivals.last``; None: there was none.
    """
    capacities = store.settings()[1]
    return Facts(
        now_ms=now_ms,
        lanes=store.depth(now_ms),
        counts=store.counts(),
        starts=store.starts(now_ms - WINDOW_MS, limit=MOST_STARTS),
        ends=store.ends(now_ms - WINDOW_MS, limit=MOST_STARTS),
        arrivals=store.arrivals(after, limit=MOST_ARRIVALS),
        objectives=store.objectives(),
        express=store.express(limit=capacities.express_capacity),
        capacities=capacities,
        incidents=store.incidents(),
        workers=store.workers(),
        busy=store.busy(),
    )


def samples(facts: Facts, *, tenants: int = 0) -> list[Sample]:
    """Return the figures of jobs, and those of as many tenants as are asked for, the ones with most live jobs."""
    told = [*_by_queue(facts), *_recent(facts.starts), *_by_pool(facts), *_by_tenant(facts, tenants)]
    told.append(("fairlane_dead_jobs", (), facts.counts.get(State.DEAD, 0)))
    told.append(("fairlane_express_in_use", (), len(facts.express)))
    told.append(("fairlane_express_capacity", (), facts.capacities.express_capacity))
    incidents = Counter(incident.tier for incident in facts.incidents)
    return told + [("fairlane_incidents_open", (tier.label,), incidents[tier]) for tier in Tier]


def _by_pool(facts: Facts) -> list[Sample]:
    workers, slots, busy = Counter[str](), Counter[str](), Counter[str]()
    for worker in facts.workers:
        workers[worker.pool] += 1
        slots[worker.pool] += worker.slots
        busy[worker.pool] += facts.busy.get(worker.id, 0)
    told = (("fairlane_worker_slots", slots), ("fairlane_worker_slots_busy", busy), ("fairlane_workers", workers))
    return [(name, (pool,), count) for name, counts in told for pool, count in sorted(counts.items())]


class _Summed:
    """Lanes taken together."""

    __slots__ = ("available", "oldest_ms", "running", "scheduled")

    def __init__(self) -> None:
        self.scheduled = self.available = self.running = 0
        self.oldest_ms: int | None = None

    def add(self, lane: DepthRow) -> None:
        self.scheduled += lane.scheduled
        self.available += lane.available
        self.running += lane.running
        if lane.oldest_arrival_ms is not None and lane.available:
            self.oldest_ms = (
                lane.oldest_arrival_ms if self.oldest_ms is None else min(self.oldest_ms, lane.oldest_arrival_ms)
            )


def _summed(lanes: Iterable[DepthRow], key: Callable[[DepthRow], Key]) -> dict[Key, _Summed]:
    sums: dict[Key, _Summed] = {}
    for lane in lanes:
        sums.setdefault(key(lane), _Summed()).add(lane)
    return dict(sorted(sums.items()))


def _most(lanes: Iterable[DepthRow], name: Callable[[DepthRow], str], most: int) -> set[str]:
    """Return the names with most live jobs."""
    live: Counter[str] = Counter()
    for lane in lanes:
        live[name(lane)] += lane.scheduled + lane.available + lane.running
    return {found for found, _ in live.most_common(most)}


def _told(sums: Mapping[Key, _Summed], states: Iterable[str], prefix: str, now_ms: int) -> list[Sample]:
    told: list[Sample] = [
        (f"{prefix}{state}_jobs", key, getattr(held, state)) for state in states for key, held in sums.items()
    ]
    return told + [
        (f"{prefix}oldest_available_seconds", key, max(0, now_ms - held.oldest_ms) / MS)
        for key, held in sums.items()
        if held.oldest_ms is not None
    ]


def _by_queue(facts: Facts) -> list[Sample]:
    known = _most(facts.lanes, lambda lane: lane.queue, MOST_QUEUES)
    sums = _summed(facts.lanes, lambda lane: (lane.queue if lane.queue in known else OTHER, Tier(lane.tier).label))
    return _told(sums, ("scheduled", "available", "running"), "fairlane_", facts.now_ms)


def _by_tenant(facts: Facts, tenants: int) -> list[Sample]:
    if not tenants:
        return []
    known = _most(facts.lanes, lambda lane: lane.tenant, tenants)
    sums = _summed(facts.lanes, lambda lane: (lane.tenant if lane.tenant in known else OTHER,))
    return _told(sums, ("available", "running"), "fairlane_tenant_", facts.now_ms)


def _recent(starts: Iterable[Sighting]) -> list[Sample]:
    waits: dict[int, list[int]] = {}
    for one in starts:
        if one.wait_ms is not None:
            waits.setdefault(one.tier, []).append(one.wait_ms)
    told: list[Sample] = []
    for tier, found in sorted(waits.items()):
        found.sort()
        told += [
            ("fairlane_recent_wait_seconds", (Tier(tier).label, f"{share:g}"), percentile(found, share) / MS)
            for share in QUANTILES
        ]
    told += [("fairlane_recent_starts", (tier.label,), len(waits.get(tier, ()))) for tier in Tier]
    return told
