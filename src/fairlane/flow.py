"""What jobs did since a server began to look: cumulative metrics out of the store's last starts, ends and new jobs.

Each server looks at the whole store, so several tell the same; take the largest, never the sum. They count from their
own start, and what happened between two looks that lie more than :data:`~fairlane.metrics.WINDOW_MS` apart, or beyond
the latest :data:`~fairlane.metrics.MOST_STARTS` of them, is not counted. Of a job that started twice between two looks
the later start counts; a run that failed counts when the job starts again or ends. Attempts are counted when their job
ends, all at once: its row tells how many failed, not when.

New jobs are counted by number, none twice and none left out but those that are gone before the look.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final, TypeVar

from fairlane.domain.sightings import Arrivals, Ending, Sighting
from fairlane.domain.states import State
from fairlane.domain.tiers import Tier
from fairlane.domain.waits import Objectives
from fairlane.metrics import MS, OTHER, Distribution, Facts, Sample

LATE_MS: Final = 10_000
"""How much later than its instant a start or an end may be found: two processes need not commit in order."""
MOST_QUEUES: Final = 20
"""Queues that histograms tell apart, the first ones that are seen; a series must not go over to another name."""
BOUNDS_S: Final = (0.005, 0.05, 0.25, 1.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 900.0, 3_600.0, 21_600.0)
"""Upper bounds of the buckets, in seconds: from a wake-up to six hours, with the default objective among them."""

Labels = TypeVar("Labels", bound=tuple[str, ...])
Key = tuple[str, str]
"""A queue and the name of a tier."""


class Flow:
    """Counts starts and ends, each once; give it every look at the store, in order.

    Attributes:
        after: Where the next look's arrivals begin; None before the first look.
    """

    def __init__(self) -> None:
        self.after: int | None = None
        self._since_ms: int | None = None
        self._seen: dict[tuple[str, int], int] = {}
        self._queues: set[str] = set()
        self._waits: dict[Key, Distribution] = {}
        self._runs: dict[Key, Distribution] = {}
        self._enqueued: Counter[Key] = Counter()
        self._ended: Counter[tuple[str, str, str]] = Counter()
        self._attempts: Counter[tuple[str, str, str]] = Counter()
        self._met: Counter[tuple[str, str]] = Counter()

    def take(self, facts: Facts) -> list[Sample]:
        """Count what is new in a look at the store, and return all counts; the first look only says what is old."""
        horizon_ms = -1 if self._since_ms is None else self._since_ms - LATE_MS
        starts = [one for one in facts.starts if self._is_new("start", one.seq, one.started_ms, horizon_ms)]
        ends = [one for one in facts.ends if self._is_new("end", one.seq, one.finished_ms, horizon_ms)]
        if self._since_ms is not None:
            self._count_starts(starts, facts.objectives)
            self._count_ends(ends)
            self._count_arrivals(facts.arrivals)
        self.after = facts.arrivals.last
        self._since_ms = facts.now_ms
        self._seen = {key: at_ms for key, at_ms in self._seen.items() if at_ms >= facts.now_ms - LATE_MS}
        return self._samples()

    def _is_new(self, what: str, seq: int, at_ms: int | None, horizon_ms: int) -> bool:
        if at_ms is None or at_ms < horizon_ms or self._seen.get((what, seq)) == at_ms:
            return False
        self._seen[what, seq] = at_ms
        return True

    def _key(self, queue: str, tier: int) -> Key:
        if queue not in self._queues:
            if len(self._queues) >= MOST_QUEUES:
                return OTHER, Tier(tier).label
            self._queues.add(queue)
        return queue, Tier(tier).label

    def _count_starts(self, starts: Iterable[Sighting], objectives: Objectives) -> None:
        for one in starts:
            wait_ms = one.wait_ms or 0
            key = self._key(one.queue, one.tier)
            _add(self._waits, key, wait_ms)
            bound_ms = objectives.of(one.tier, one.queue, one.tenant).objective_ms
            if bound_ms is not None:
                self._met[key[1], "true" if wait_ms <= bound_ms else "false"] += 1

    def _count_ends(self, ends: Iterable[Ending]) -> None:
        for one in ends:
            key = self._key(one.queue, one.tier)
            self._ended[*key, State(one.state).label] += 1
            if one.started_ms is not None:
                _add(self._runs, key, one.run_ms)

            self._count_attempts(key, one)

    def _count_attempts(self, key: Key, ended: Ending) -> None:
        results = {"completed": int(ended.state == State.COMPLETED), "failed": ended.failures, "crashed": ended.crashes}
        for result, count in results.items():
            if count:
                self._attempts[*key, result] += count

    def _count_arrivals(self, arrivals: Arrivals) -> None:
        for queue, tier, count in arrivals.counts:
            self._enqueued[self._key(queue, tier)] += count

    def _samples(self) -> list[Sample]:
        told: list[Sample] = [("fairlane_job_wait_seconds", key, held) for key, held in sorted(self._waits.items())]
        told += [("fairlane_job_run_seconds", key, held) for key, held in sorted(self._runs.items())]
        told += counted("fairlane_jobs_enqueued_total", self._enqueued)
        told += counted("fairlane_jobs_finished_total", self._ended)
        told += counted("fairlane_job_attempts_total", self._attempts)
        return told + counted("fairlane_wait_objective_total", self._met)


def counted(name: str, counts: Mapping[Labels, int]) -> list[Sample]:
    """Return a counter's samples."""
    return [(name, key, count) for key, count in sorted(counts.items())]


def _add(held: dict[Key, Distribution], key: Key, value_ms: int) -> None:
    """Put a time into its bucket; a time equal to a bound belongs below it."""
    before = held.get(key) or Distribution((0,) * (len(BOUNDS_S) + 1), 0.0, BOUNDS_S)
    place = bisect_left(BOUNDS_S, value_ms / MS)
    counts = tuple(count + (index == place) for index, count in enumerate(before.counts))
    held[key] = Distribution(counts, before.total + value_ms / MS, BOUNDS_S)
