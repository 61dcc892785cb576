"""Inversions: a less urgent job was started while a more urgent one, by effective tier, waited.

They are worked out from the jobs' rows when somebody asks, so that a claim pays nothing for them. What a row does not
say (whether a gate was closed just then, how many slots of a queue a worker had free) counts in favour of a rule: a
start stays unexplained only when nothing that is set, declared or changed in the window can explain it.

Cost: O(n log n) in the starts looked at, times the groups (queue and task) that waited, both bounded.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, Literal, get_args
from uuid import UUID

import msgspec

from fairlane.domain.jobs import WorkerRecord
from fairlane.domain.lanes import Rule
from fairlane.domain.policy import Policy, QueueRule, TaskRule, TenantRule
from fairlane.domain.sightings import Sighting, Steered
from fairlane.domain.tiers import TIERS, Tier, effective_tier

Why = Literal[
    "turn", "guarantee", "urgent share", "reserve", "limit", "worker's queues", "express", "arrival", "unexplained"
]
WHYS: Final[tuple[Why, ...]] = get_args(Why)
"""What explains a start; ``arrival`` is policy ``fifo``, which knows no tiers."""

_BY_RULE: Final[Mapping[Rule, Why]] = MappingProxyType({"risen": "guarantee", "express": "express", "fifo": "arrival"})
AGE_GAP_MS: Final = 10_000
SHOWN: Final = 100
MOST_GROUPS: Final = 64
MOST_STEPS: Final = 200_000
"""Starts times groups that are looked at."""


class Inversion(msgspec.Struct, frozen=True, kw_only=True):
    """A start, and the more urgent job that waited.

    Attributes:
        why: What explains it.
        started: The job that was started, 16 bytes.
        waiting: The job that waited.
        started_tier: Effective tier of the one at that instant, and of the other.
        waiting_tier: See above.
        at_ms: When.
    """

    why: Why
    started: bytes
    waiting: bytes
    started_tier: Tier
    waiting_tier: Tier
    at_ms: int


class AgePair(msgspec.Struct, frozen=True, kw_only=True):
    """A job that has waited much longer than a more urgent one, both waiting still.

    Attributes:
        less_urgent: The id of the one that has waited longer, as bytes, and ``less_urgent_tier`` its tier.
        more_urgent: The id of the more urgent one, and ``more_urgent_tier`` its tier.
        longer_ms: How much longer, in milliseconds.
    """

    less_urgent: bytes
    less_urgent_tier: Tier
    more_urgent: bytes
    more_urgent_tier: Tier
    longer_ms: int


class Inversions(msgspec.Struct, frozen=True, kw_only=True):
    """The inversions among the latest starts.

    Attributes:
        since_ms: From when on starts were looked at.
        at_ms: Up to when.
        starts: How many starts were looked at.
        more: Whether there were more starts, lanes or groups than fit.
        counts: How many starts were inversions, by what explains them.
        unexplained: Those that nothing explains, the latest first, at most :data:`SHOWN`.
        aged: Lanes whose first job has waited over 10 s longer than a more urgent job, the longest first, at most
            :data:`SHOWN`. Plain waiting makes such pairs too: turns and tiers are meant to.
        aged_lanes: How many lanes that are.
    """

    since_ms: int
    at_ms: int
    starts: int
    more: bool
    counts: dict[Why, int]
    unexplained: tuple[Inversion, ...]
    aged: tuple[AgePair, ...]
    aged_lanes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What is set and declared, to judge starts by."""

    policy: Policy
    queues: Mapping[str, QueueRule] = field(default_factory=dict[str, QueueRule])
    tasks: Mapping[str, TaskRule] = field(default_factory=dict[str, TaskRule])
    tenants: Mapping[str, TenantRule] = field(default_factory=dict[str, TenantRule])
    workers: Sequence[WorkerRecord] = ()
    steered: Steered = field(default_factory=Steered)

    def pool(self, queue: str) -> str:
        """Return the pool of a queue."""
        rule = self.queues.get(queue)
        return QueueRule().pool if rule is None else rule.pool

    def gated(self, one: Sighting) -> bool:
        """Return whether something may have closed the way to a job: a pause, cap or rate, now or in the window."""
        changed = self.steered.changes
        queue, task, tenant = self.queues.get(one.queue), self.tasks.get(one.task), self.tenants.get(one.tenant)
        if queue is not None and (queue.pause or queue.max_running is not None or queue.tenant_max_running is not None):
            return True
        if tenant is not None and (tenant.pause or tenant.max_running is not None or tenant.rate):
            return True
        if task is not None and (task.pause or task.limits):  # a handler may be told to wait for any named limit
            return True
        named = {("set queue", one.queue), ("set task", one.task), ("set tenant", one.tenant)}
        return self.steered.more or not changed.isdisjoint(named)


class _Waiting:
    """Jobs that waited at an instant which goes back in time: the oldest of each heap's jobs."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Sighting]] = []

    def add(self, one: Sighting) -> None:
        heapq.heappush(self._heap, (one.arrival_ms, one.seq, one))

    def oldest(self, at_ms: int) -> Sighting | None:
        """Return the one that arrived first of those available before ``at_ms``; no later call asks for a later one."""
        heap = self._heap
        while heap and heap[0][2].available_ms >= at_ms:
            heapq.heappop(heap)
        return heap[0][2] if heap else None


Key = tuple[str, str, int, bool]
"""Queue, task, tier, and whether the jobs may have been held back by a gate."""


class _Sweep:
    """Goes back in time over the starts, with what waited at each."""

    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        self.policy = setting.policy
        self.all: dict[Key, _Waiting] = {}
        self.by_tenant: dict[tuple[str, Key], _Waiting] = {}
        self.groups: set[tuple[str, str]] = set()
        self.more = False
        self._workers = {worker.id: worker for worker in setting.workers}
        self._slots = {worker.pool for worker in setting.workers if worker.slots}
        self._moved = {target for what, target in setting.steered.changes if not what.startswith("set ")} | {
            target for what, target in setting.steered.changes if what == "set tier"
        }

    def waits(self, one: Sighting) -> None:
        """Let a job wait at every instant before the one that was looked at last."""
        if one.express or (self._moved and str(UUID(bytes=one.id)) in self._moved):
            return
        group = one.queue, one.task
        if group not in self.groups:
            if len(self.groups) == MOST_GROUPS:
                self.more = True
                return
            self.groups.add(group)
        key = one.queue, one.task, one.tier, self.setting.gated(one)
        self.all.setdefault(key, _Waiting()).add(one)
        self.by_tenant.setdefault((one.tenant, key), _Waiting()).add(one)

    def level(self, one: Sighting, at_ms: int) -> int:
        policy = self.policy
        waited = at_ms - one.arrival_ms
        return effective_tier(one.tier, waited, step_ms=policy.ageing_step_ms, ceiling=policy.ageing_ceiling)

    def judge(self, start: Sighting) -> Inversion | None:
        """Return the inversion that a start was, if it was one, under the weakest of what explains it."""
        at_ms = start.started_ms
        assert at_ms is not None, "only starts are judged"
        mine = self.level(start, at_ms)
        if mine == Tier.CRITICAL:
            return None
        worst: Inversion | None = None
        for other in self._urgent(start, mine, at_ms):
            found = Inversion(
                why=self._why(start, other),
                started=start.id,
                waiting=other.id,
                started_tier=Tier(mine),
                waiting_tier=Tier(self.level(other, at_ms)),
                at_ms=at_ms,
            )
            if worst is None or _strength(found) > _strength(worst):
                worst = found
        return worst

    def _urgent(self, start: Sighting, mine: int, at_ms: int) -> Iterator[Sighting]:
        """Yield the more urgent jobs: the oldest of each group and tier, of all tenants and of the start's own."""
        pool = self.setting.pool(start.queue)
        for queue, task in self.groups:
            if self.setting.pool(queue) != pool:
                continue
            for tier in TIERS:
                for gated in (False, True):
                    key = queue, task, int(tier), gated
                    for heap in (self.all.get(key), self.by_tenant.get((start.tenant, key))):
                        other = None if heap is None else heap.oldest(at_ms)
                        if other is not None and self.level(other, at_ms) < mine:
                            yield other

    def _why(self, start: Sighting, other: Sighting) -> Why:
        """Return what explains that ``start`` was started while ``other`` waited."""
        by_rule = "arrival" if self.policy.kind == "fifo" else _BY_RULE.get(start.rule or "shared")
        if by_rule is not None:
            return by_rule
        if not self._could_run(start, other):
            return "worker's queues"
        if self.setting.gated(other):
            return "limit"
        if self.policy.kind == "fair" and other.tier <= Tier.HIGH:  # rule 3 would have started it within the share
            return "urgent share" if self.setting.pool(other.queue) in self._slots else "unexplained"
        return self._between(start, other)

    def _between(self, start: Sighting, other: Sighting) -> Why:
        """Return what explains it between shared jobs, or under ``strict``."""
        if self.policy.kind == "fair" and other.tenant != start.tenant:
            return "turn"
        if other.tier > start.tier and start.worker:
            return "reserve"  # slots that are kept ask for the base tier
        if self.policy.kind == "strict" and other.tier <= Tier.HIGH and start.worker:
            return "urgent share"  # slots kept by reserve are not for tenants beyond it
        return "unexplained"

    def _could_run(self, start: Sighting, other: Sighting) -> bool:
        """Return whether who started the one could surely have run the other: had a slot for it and knew it."""
        if (start.queue, start.task) == (other.queue, other.task):
            return True
        worker = self._workers.get(start.worker or "")
        if worker is None or (worker.tasks is not None and other.task not in worker.tasks):
            return False
        return worker.queues is None or start.queue == other.queue


def _strength(one: Inversion) -> tuple[bool, int]:
    """Sort what was found for one start: what is unexplained first, then the widest gap."""
    return one.why == "unexplained", one.started_tier - one.waiting_tier


def inversions(
    starts: Sequence[Sighting], heads: Collection[Sighting], setting: Setting, *, since_ms: int, now_ms: int, more: bool
) -> Inversions:
    """Return the inversions among starts.

    Args:
        starts: What started, in any order.
        heads: What waits: the ends of each lane.
        setting: What is set.
        since_ms: From when on ``starts`` are told.
        now_ms: The instant.
        more: Whether there are more starts or lanes than these.
    """
    if setting.steered.configured_ms is not None:  # what started before it was chosen by another policy
        since_ms = max(since_ms, setting.steered.configured_ms + 1)
    sweep = _Sweep(setting)
    for one in heads:
        sweep.waits(one)
    ordered = [one for one in starts if one.started_ms is not None and one.started_ms >= since_ms]
    ordered.sort(key=lambda one: one.started_ms or 0, reverse=True)
    counts: dict[Why, int] = dict.fromkeys(WHYS, 0)
    unexplained: list[Inversion] = []
    looked, steps, at = 0, 0, 0
    while at < len(ordered) and steps < MOST_STEPS:
        end = at
        while end < len(ordered) and ordered[end].started_ms == ordered[at].started_ms:
            end += 1
        for one in ordered[at:end]:
            found = sweep.judge(one)
            if found is not None:
                counts[found.why] += 1
                if found.why == "unexplained" and len(unexplained) < SHOWN:
                    unexplained.append(found)
        for one in ordered[at:end]:  # what started at this instant waited before it
            sweep.waits(one)
        looked += end - at
        steps += (end - at) * max(1, len(sweep.groups))
        at = end
    pairs = aged_pairs(heads)
    return Inversions(
        since_ms=since_ms if looked == len(ordered) or not ordered else ordered[looked - 1].started_ms or since_ms,
        at_ms=now_ms,
        starts=looked,
        more=sweep.more or looked < len(ordered) or more,
        counts=counts,
        unexplained=tuple(unexplained),
        aged=tuple(pairs[:SHOWN]),
        aged_lanes=len(pairs),
    )


def aged_pairs(waiting: Collection[Sighting], *, gap_ms: int = AGE_GAP_MS) -> list[AgePair]:
    """Return, for each job that has waited over ``gap_ms`` longer than a more urgent one, the pair with the widest gap.

    The widest gap first. O(n log n): for each tier only the latest arrival of the more urgent ones matters.

    Source:
        ``detect_priority_inversion`` of the system that fairlane follows, which compared every pair (T-O9).

    Example:
        >>> old = Sighting(1, b"o", "q", "t", "a", 4, 0, 0, False, False)
        >>> new = Sighting(2, b"n", "q", "t", "b", 0, 60_000, 60_000, False, False)
        >>> [(pair.less_urgent, pair.more_urgent, pair.longer_ms) for pair in aged_pairs([old, new])]
        [(b'o', b'n', 60000)]
    """
    latest: list[Sighting | None] = [None] * len(TIERS)
    for one in waiting:
        best = latest[one.tier]
        if best is None or one.arrival_ms > best.arrival_ms:
            latest[one.tier] = one
    above: list[Sighting | None] = [None]
    for best in latest[:-1]:
        before = above[-1]
        above.append(before if best is None or (before is not None and before.arrival_ms >= best.arrival_ms) else best)
    oldest: dict[tuple[str, str, str, int], Sighting] = {}
    for one in waiting:
        lane = one.queue, one.task, one.tenant, one.tier
        if lane not in oldest or one.arrival_ms < oldest[lane].arrival_ms:
            oldest[lane] = one
    pairs: list[AgePair] = []
    for one in oldest.values():
        urgent = above[one.tier]
        if urgent is not None and urgent.arrival_ms - one.arrival_ms > gap_ms:
            pairs.append(
                AgePair(
                    less_urgent=one.id,
                    less_urgent_tier=Tier(one.tier),
                    more_urgent=urgent.id,
                    more_urgent_tier=Tier(urgent.tier),
                    longer_ms=urgent.arrival_ms - one.arrival_ms,
                )
            )
    pairs.sort(key=lambda pair: -pair.longer_ms)
    return pairs
