"""One look at the store for everybody who watches: once a second while somebody does, else every 15 s.

However many people have the dashboard open, the store is asked once; their pages are made from what is in memory here.
The last hour is kept, in a bounded number of buckets (see ``series``). Samples are taken in one thread; a page may ask
for one at once when the latest is old, and waits for the one under way rather than taking another.
"""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from fairlane.app import Fairlane
from fairlane.background import started
from fairlane.dashboard.series import BUCKET_MS, HOUR_MS, Cell, Series, together
from fairlane.domain.inversions import Inversions
from fairlane.domain.jobs import DepthRow, JobRecord, WorkerRecord
from fairlane.domain.policy import Capacities, Policy, QueueRule, TenantRule
from fairlane.domain.sightings import Ending, Sighting
from fairlane.domain.states import State
from fairlane.domain.tiers import TIERS
from fairlane.domain.waits import IncidentRecord, Objectives
from fairlane.errors import FairlaneError
from fairlane.store import MonitorRecord, Store

WATCHED_S: Final = 1.0
IDLE_S: Final = 15.0
STALE_MS: Final = 2_000
"""A page is made from a sample that is younger than this; without anybody who watches, it takes one."""
INVERSIONS_MS: Final = 30_000
COUNTS_MS: Final = 5_000
OVERLAP_MS: Final = 2_000
"""How far back a sample reads again: another process's clock, and commits that came late."""
MOST: Final = 20_000
"""Starts and ends that one sample takes in."""
REMEMBERED: Final = 50_000
MOST_LANES: Final = 50_000
EXPRESS_SHOWN: Final = 200
STOP_S: Final = 5.0

log = logging.getLogger("fairlane.dashboard")


class Bounds:
    """What the jobs of each lane should not wait longer than; worked out once a lane, until something is set.

    Args:
        objectives: What holds.
    """

    def __init__(self, objectives: Objectives) -> None:
        self.objectives = objectives
        self._held: dict[tuple[int, str, str], int | None] = {}

    def __call__(self, tier: int, queue: str, tenant: str) -> int | None:
        """Return the longest wait for jobs of a lane in milliseconds, or None: there is no objective."""
        key = (tier, queue, tenant)
        if key not in self._held:
            if len(self._held) >= MOST_LANES:
                self._held.clear()
            self._held[key] = self.objectives.of(tier, queue, tenant).objective_ms
        return self._held[key]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """What the store held at one instant.

    Attributes:
        at_ms: The instant.
        version: Grows with every sample.
        depth: Waiting and running jobs, by lane.
        counts: Jobs by state; those that have ended may be some seconds older than the rest.
        counts_at_ms: When those were counted.
        express: Jobs that wait in the express lane, in their order.
        bounds: What jobs should not wait longer than.
        inversions: What was last found about starts out of turn; None before the first look.
    """

    at_ms: int
    version: int
    depth: tuple[DepthRow, ...]
    counts: Mapping[State, int]
    counts_at_ms: int
    express: tuple[JobRecord, ...]
    queues: Mapping[str, QueueRule]
    tenants: Mapping[str, TenantRule]
    workers: tuple[WorkerRecord, ...]
    bounds: Bounds
    incidents: tuple[IncidentRecord, ...]
    monitor: MonitorRecord | None
    policy: Policy
    capacities: Capacities
    inversions: Inversions | None = field(default=None, repr=False)

    def of(self, tenant: str | None) -> tuple[DepthRow, ...]:
        """Return the lanes that somebody may see: all, or one tenant's."""
        return self.depth if tenant is None else tuple(row for row in self.depth if row.tenant == tenant)


class Seen:
    """The starts and ends that were taken in before, the latest :data:`REMEMBERED` of them."""

    def __init__(self) -> None:
        self._held: OrderedDict[tuple[int, int], None] = OrderedDict()

    def new(self, seq: int, at_ms: int) -> bool:
        """Return whether this one is new, and remember it."""
        key = (seq, at_ms)
        if key in self._held:
            return False
        self._held[key] = None
        if len(self._held) > REMEMBERED:
            self._held.popitem(last=False)
        return True


class Sampler:
    """Takes samples. :meth:`start` and :meth:`stop` are safe to call twice; after ``stop`` nothing runs.

    Args:
        app: The application whose store is watched.
    """

    def __init__(self, app: Fairlane) -> None:
        self._app = app
        self._lock = threading.Lock()  # guards what follows
        self._sampling = threading.Lock()  # one sample at a time
        self._wake = threading.Condition(self._lock)
        self._series = Series()
        self._latest: Sample | None = None
        self._since_ms: int | None = None
        self._starts, self._ends = Seen(), Seen()
        self._inversions: tuple[int, Inversions] | None = None
        self._counts: tuple[int, dict[State, int]] | None = None
        self._watchers = 0
        self._heard: dict[int, Callable[[int], None]] = {}
        self._next = 0
        self._thread: threading.Thread | None = None
        self._stopping = False
        self._spoiled = False
        self.error: str | None = None

    # ------------------------------------------------------------------ life

    def start(self) -> None:
        """Begin to take samples in a thread."""
        with self._lock:
            if self._thread is not None:
                return
            self._stopping = False
            self._thread = started(self._run, "fairlane-sampler")

    def stop(self) -> None:
        """End the thread."""
        with self._lock:
            self._stopping = True
            thread, self._thread = self._thread, None
            self._wake.notify_all()
        if thread is not None and thread is not threading.current_thread():
            thread.join(STOP_S)

    @contextmanager
    def watch(self, heard: Callable[[int], None]) -> Generator[None]:
        """Take a sample every second while inside, and call ``heard`` with the version of each, from any thread."""
        with self._lock:
            number = self._next = self._next + 1
            self._heard[number] = heard
            self._watchers += 1
            self._wake.notify_all()
        try:
            yield
        finally:
            with self._lock:
                del self._heard[number]
                self._watchers -= 1

    @property
    def held(self) -> Sample | None:
        """The latest sample, however old, or None."""
        return self._latest

    @property
    def watchers(self) -> int:
        """How many watch."""
        with self._lock:
            return self._watchers

    def _run(self) -> None:
        while True:
            try:
                self.sample()
                self.look_for_inversions()
            except FairlaneError as error:  # the next one may do better; pages say since when they are stale
                log.warning("sample_failed error=%s", error)
            except Exception:
                log.exception("sample_failed")
            with self._lock:
                if self._over():
                    return
                before = self._watchers
                wait_s = WATCHED_S if before else IDLE_S
                self._wake.wait_for(lambda: self._over() or (not before and self._watchers > 0), wait_s)  # noqa: B023
                if self._over():
                    return

    def _over(self) -> bool:
        return self._stopping

    # ------------------------------------------------------------------ samples

    def latest(self) -> Sample:
        """Return the latest sample; takes one when there is none that is fresh enough.

        Raises:
            StoreError: There is none, and the store cannot be read.
        """
        return self.fresh or self.sample(unless_fresh=True)

    @property
    def fresh(self) -> Sample | None:
        """The latest sample, if nothing has changed that a page would be wrong about; or None."""
        sample = self._latest
        if sample is None or self._spoiled or abs(self._app.clock.now_ms() - sample.at_ms) >= STALE_MS:
            return None
        return sample

    def spoil(self) -> None:
        """Let the next page take a new sample: somebody has just changed something, and looks for it there."""
        self._spoiled = True

    def sample(self, *, unless_fresh: bool = False) -> Sample:
        """Take a sample.

        Args:
            unless_fresh: Take none when, by the time it is our turn, another caller has.

        Raises:
            StoreError: The store cannot be read.
        """
        with self._sampling:
            if unless_fresh and (held := self.fresh) is not None:
                return held
            self._spoiled = False  # before the look: what is changed during it spoils it again
            try:
                sample, starts, ends = self._app.owner.read(self._look)
            except FairlaneError as error:
                self.error = str(error)
                raise
            self.error = None
            with self._lock:
                self._take_in(sample, starts, ends)
                self._latest = sample
                heard = tuple(self._heard.values())
            for tell in heard:
                try:
                    tell(sample.version)
                except Exception:
                    log.exception("listener_failed")
            return sample

    def _look(self, store: Store, now_ms: int) -> tuple[Sample, list[Sighting], list[Ending]]:
        """Read all that a sample holds; only what is new since the last one is read of starts and ends."""
        since_ms = now_ms - HOUR_MS if self._since_ms is None else max(self._since_ms, now_ms - HOUR_MS) - OVERLAP_MS
        starts = store.starts(since_ms, limit=MOST)
        ends = store.ends(since_ms, limit=MOST)
        depth = tuple(store.depth(now_ms))
        policy, capacities = store.settings()
        counted_ms, counts = self._count(store, depth, now_ms)
        return (
            Sample(
                at_ms=now_ms,
                version=1 if self._latest is None else self._latest.version + 1,
                depth=depth,
                counts=counts,
                counts_at_ms=counted_ms,
                express=tuple(store.express(limit=EXPRESS_SHOWN)),
                queues={name: rule for name, rule in store.rules("queue").items() if isinstance(rule, QueueRule)},
                tenants={name: rule for name, rule in store.rules("tenant").items() if isinstance(rule, TenantRule)},
                workers=tuple(store.workers()),
                bounds=self._bounds_of(store.objectives()),
                incidents=tuple(store.incidents()),
                monitor=store.monitor(),
                policy=policy,
                capacities=capacities,
                inversions=None if self._inversions is None else self._inversions[1],
            ),
            starts,
            ends,
        )

    def _bounds_of(self, objectives: Objectives) -> Bounds:
        if self._latest is None or self._latest.bounds.objectives.rules != objectives.rules:
            return Bounds(objectives)
        return self._latest.bounds

    def _count(self, store: Store, depth: Iterable[DepthRow], now_ms: int) -> tuple[int, dict[State, int]]:
        """Return the jobs by state: live ones from the lanes, ended ones counted anew every few seconds."""
        if self._counts is None or abs(now_ms - self._counts[0]) >= COUNTS_MS:
            self._counts = (now_ms, store.counts())
        counted_ms, counts = self._counts
        live = dict.fromkeys((State.SCHEDULED, State.AVAILABLE, State.RUNNING), 0)
        for row in depth:
            live[State.SCHEDULED] += row.scheduled
            live[State.AVAILABLE] += row.available
            live[State.RUNNING] += row.running
        return counted_ms, {**counts, **live}

    def look_for_inversions(self) -> Inversions:
        """Return the inversions of the last quarter of an hour, looked for at most every half minute.

        It may take a second after thousands of starts: pages take what the thread found, and only the one that is
        about nothing else waits for it.
        """
        now_ms = self._app.clock.now_ms()
        held = self._inversions
        if held is None or abs(now_ms - held[0]) >= INVERSIONS_MS:
            held = self._inversions = (now_ms, self._app.inversions(window=900.0))
        return held[1]

    def _take_in(self, sample: Sample, starts: list[Sighting], ends: list[Ending]) -> None:
        now_ms = sample.at_ms
        if self._since_ms is None:
            self._series.at(now_ms - HOUR_MS + BUCKET_MS, now_ms)
        self._since_ms = now_ms
        bucket = self._series.at(now_ms, now_ms)
        for start in sorted(starts, key=lambda one: one.started_ms or 0):
            self._started(start, sample.bounds, now_ms)
        for end in reversed(ends):
            self._ended(end, now_ms)
        if bucket is not None:
            waiting = dict.fromkeys(range(len(TIERS)), 0)
            oldest = dict.fromkeys(range(len(TIERS)), 0)
            for row in sample.depth:
                waiting[row.tier] += row.available
                if row.oldest_arrival_ms is not None:
                    oldest[row.tier] = max(oldest[row.tier], now_ms - row.oldest_arrival_ms)
            bucket.waiting, bucket.oldest_ms = waiting, oldest

    def _started(self, start: Sighting, bounds: Bounds, now_ms: int) -> None:
        at_ms, wait_ms = start.started_ms, start.wait_ms
        if at_ms is None or wait_ms is None or not self._starts.new(start.seq, at_ms):
            return
        bucket = self._series.at(at_ms, now_ms)
        if bucket is None:
            return
        most_ms = bounds(start.tier, start.queue, start.tenant)
        for cell in bucket.of(start.tier, start.queue, start.tenant):
            cell.started += 1
            cell.waits.add(wait_ms)
            cell.risen += start.rule == "risen"
            if most_ms is not None:
                cell.judged += 1
                cell.met += wait_ms <= most_ms

    def _ended(self, end: Ending, now_ms: int) -> None:
        if not self._ends.new(end.seq, end.finished_ms):
            return
        bucket = self._series.at(end.finished_ms, now_ms)
        if bucket is not None:
            for cell in bucket.of(end.tier, end.queue, end.tenant):
                cell.run_ms += end.run_ms
                cell.completed += end.state == State.COMPLETED
                cell.dead += end.state == State.DEAD
                cell.cancelled += end.state == State.CANCELLED

    # ------------------------------------------------------------------ what was seen

    def lanes(self, window_ms: int, now_ms: int) -> dict[tuple[int, str], Cell]:
        """Return what happened in the last ``window_ms``, by tier and queue."""
        with self._lock:
            found: dict[tuple[int, str], list[Cell]] = {}
            for bucket in self._series.since(now_ms - window_ms):
                for key, cell in bucket.lanes.items():
                    found.setdefault(key, []).append(cell)
            return {key: together(cells) for key, cells in found.items()}

    def tenants(self, window_ms: int, now_ms: int) -> dict[str, Cell]:
        """Return what happened in the last ``window_ms``, by tenant."""
        with self._lock:
            found: dict[str, list[Cell]] = {}
            for bucket in self._series.since(now_ms - window_ms):
                for name, cell in bucket.tenants.items():
                    found.setdefault(name, []).append(cell)
            return {name: together(cells) for name, cells in found.items()}

    def history(self, *, every: int = 2, queue: str | None = None) -> list[Point]:
        """Return the last hour as points for a chart, oldest first.

        Args:
            every: How many buckets one point takes together.
            queue: Only starts, ends and waits of this queue.
        """
        with self._lock:
            buckets = list(self._series.buckets)
            points: list[Point] = []
            for first in range(len(buckets) % every, len(buckets), every):
                some = buckets[first : first + every]
                by_tier: dict[int, list[Cell]] = {}
                for bucket in some:
                    for (tier, name), cell in bucket.lanes.items():
                        if queue is None or name == queue:
                            by_tier.setdefault(tier, []).append(cell)
                cells = {tier: together(held) for tier, held in by_tier.items()}
                points.append(Point(some[0].at_ms, every * BUCKET_MS, cells, some[-1].waiting, some[-1].oldest_ms))
            return points

    def of_tenant(self, tenant: str, *, every: int = 2) -> list[Point]:
        """Return one tenant's last hour as points for a chart; its tiers are taken together, under number 0."""
        with self._lock:
            buckets = list(self._series.buckets)
            return [
                Point(
                    buckets[first].at_ms,
                    every * BUCKET_MS,
                    {0: together(b.tenants[tenant] for b in buckets[first : first + every] if tenant in b.tenants)},
                    {},
                    {},
                )
                for first in range(len(buckets) % every, len(buckets), every)
            ]


@dataclass(frozen=True, slots=True)
class Point:
    """A point of a chart: a stretch of time and what happened in it, by tier."""

    at_ms: int
    ms: int
    cells: Mapping[int, Cell]
    waiting: Mapping[int, int]
    oldest_ms: Mapping[int, int]

    @property
    def all(self) -> Cell:
        """All tiers together."""
        return together(self.cells.values())
