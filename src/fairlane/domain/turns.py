"""Tenants in a pool and the heaps that answer "whose turn is it" in O(log n).

Heaps are lazy: an entry that no longer tells the truth is dropped or put right when it comes to the top. Entries end
in a number of their own before the object, so objects are never compared.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left
from collections import deque
from collections.abc import Iterator
from itertools import count
from typing import TYPE_CHECKING, NamedTuple

from fairlane.domain.charging import Mean
from fairlane.domain.lanes import LaneKey, Place
from fairlane.domain.limits import Gate
from fairlane.domain.policy import QueueRule, TaskRule, TenantRule

if TYPE_CHECKING:
    from fairlane.domain.lanes import Rule

_numbers = count()
COMPACT_AT = 64
"""A heap is cleaned when it holds more than this and four times what it needs."""


class Queue(Gate):
    """A queue: its gate, its rule and its groups."""

    __slots__ = ("groups", "name", "rule")

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name
        self.rule = QueueRule()
        self.groups: list[Group] = []


class Task(Gate):
    """A task: its gate, its rule and its groups."""

    __slots__ = ("groups", "name", "rule")

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name
        self.rule = TaskRule()
        self.groups: list[Group] = []


class Limit(Gate):
    """A named limit, its key filled in: the groups it closes, and the single tenants' groups (``{tenant}`` keys)."""

    __slots__ = ("groups", "key", "own", "template")

    def __init__(self, key: str) -> None:
        super().__init__()
        self.key = key
        self.template: str | None = None
        self.groups: list[Group] = []
        self.own: dict[tuple[str, int], tuple[Tenant, Group]] = {}


class Group:
    """The lanes of one queue and task.

    Attributes:
        bit: Its bit in every set of groups.
        limits: The named limits that close the whole group.
        templates: The keys with ``{tenant}``, which close it for one tenant at a time.
        closed: Whether its queue, its task or one of ``limits`` is closed.
    """

    __slots__ = ("bit", "closed", "limits", "queue", "task", "templates")

    def __init__(self, bit: int, queue: Queue, task: Task) -> None:
        self.bit = bit
        self.queue = queue
        self.task = task
        self.limits: list[Limit] = []
        self.templates: tuple[str, ...] = ()
        self.closed = False

    def shut(self) -> bool:
        """Return whether something closes the group now."""
        return self.queue.closed or self.task.closed or any(limit.closed for limit in self.limits)


class Tenant(Gate):
    """A tenant over all pools: its gate, its rule, what it runs by queue (all, and urgent ones)."""

    __slots__ = ("by_queue", "name", "rule", "turns", "urgent_by_queue")

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name
        self.rule = TenantRule()
        self.turns: dict[str, Turn] = {}
        self.by_queue: dict[str, int] = {}
        self.urgent_by_queue: dict[str, int] = {}


class Lane:
    """The waiting jobs of one lane by place: the first ones in memory, ``more`` if others lie behind them in the store.

    Attributes:
        bound: The key under which the lane stands in its heap, at most its true one; None when it stands in none.
        level: Its head's effective tier as last worked out (policy ``strict``).
        mean_key: Queue, task and tenant: whose runs tell how long its jobs run.
    """

    __slots__ = ("bound", "group", "jobs", "key", "level", "mean_key", "more", "number", "tier", "turn")

    def __init__(self, key: LaneKey, group: Group, turn: Turn) -> None:
        self.key = key
        self.group = group
        self.tier = key.tier
        self.mean_key = key[:3]
        self.turn = turn
        self.jobs: deque[Place] = deque()
        self.more = False
        self.bound: int | None = None
        self.level = key.tier
        self.number = next(_numbers)

    def insert(self, place: Place) -> bool:
        """Put a job in its place; return False if it was there already or lies behind what is in memory."""
        jobs = self.jobs
        if not jobs or place > jobs[-1]:
            if self.more:
                return False
            jobs.append(place)
            return True
        at = bisect_left(jobs, place)
        if jobs[at] == place:
            return False
        jobs.insert(at, place)
        return True

    def discard(self, place: Place) -> bool:
        """Take a job out; return False if it is not in memory."""
        jobs = self.jobs
        if jobs and jobs[0] == place:
            jobs.popleft()
            return True
        at = bisect_left(jobs, place)
        if at == len(jobs) or jobs[at] != place:
            return False
        del jobs[at]
        return True


class Turn:
    """A tenant in one pool.

    Attributes:
        virtual: Its virtual time (see ``charging``).
        activation: Number of its latest activation; ties go to the highest.
        last_ms: When it last got a guaranteed start, or -1.
        able: Whether it has a waiting job that nothing of its own holds back.
        seen: Its number by first appearance in the pool.
        urgent: How many of its CRITICAL and HIGH jobs run in the pool.
        lanes: Its lanes with waiting jobs, by (bit of the group, tier).
        bits: By tier, the set of groups with waiting jobs.
        express: By bit, how many express jobs wait.
        blocked: The groups closed to this tenant alone.
        shown: By class, the set of groups under which it stands in the heaps.
        stood: Virtual time and activation under which it stands there.
        saved: Its facts as they are stored (kept by the store).
        parked: Lanes taken out of the risen or arrival heap because the tenant was blocked.
    """

    __slots__ = (
        "able", "activation", "bits", "blocked", "express", "lanes", "last_ms", "over", "parked", "pool", "saved",
        "seen", "shown", "stood", "tenant", "urgent", "virtual",
    )  # fmt: skip

    def __init__(self, tenant: Tenant, pool: Pool, seen: int) -> None:
        self.tenant = tenant
        self.pool = pool
        self.seen = seen
        self.virtual = 0
        self.activation = 0
        self.last_ms = -1
        self.able = False
        self.over = False
        self.urgent = 0
        self.lanes: dict[tuple[int, int], Lane] = {}
        self.bits = [0, 0, 0, 0, 0]
        self.express: dict[int, int] = {}
        self.blocked = 0
        self.shown: tuple[int, ...] = ()
        self.stood: tuple[int, int] = (-1, -1)
        self.saved: tuple[int, ...] = ()
        self.parked: list[Lane] = []

    def __lt__(self, other: Turn) -> bool:
        return self.tenant.name < other.tenant.name  # never asked while numbers by appearance differ

    def facts(self) -> tuple[int, ...]:
        """Return what the jobs do not say: virtual time, activation, last guaranteed start, able, seen."""
        return self.virtual, self.activation, self.last_ms, int(self.able), self.seen

    def may(self, group: Group) -> bool:
        """Return whether nothing of the tenant's own holds back its jobs of this group."""
        return not self.tenant.closed and not self.blocked & group.bit

    def only_lane(self) -> Lane | None:
        """Return its lane if it has work in one only; a tenant that was chosen may run that one."""
        return next(iter(self.lanes.values())) if len(self.lanes) == 1 else None

    def runnable(self, served: int) -> Iterator[Lane]:
        """Yield its lanes in the groups ``served`` that nothing of its own closes."""
        served &= ~self.blocked
        return (lane for (bit, _), lane in self.lanes.items() if bit & served)


TurnEntry = tuple[int, int, int, Turn]
LaneEntry = tuple[int, int, int, Lane]


class TurnHeaps:
    """For one class of jobs: a heap of tenants for each distinct set of groups in which tenants have such jobs."""

    __slots__ = ("_class", "_heaps")

    def __init__(self, job_class: int) -> None:
        self._class = job_class
        self._heaps: dict[int, list[TurnEntry]] = {}

    def push(self, turn: Turn, groups: int) -> None:
        """Let a tenant stand under a set of groups with its virtual time of now."""
        heap = self._heaps.get(groups)
        if heap is None:
            heap = self._heaps[groups] = []
        heapq.heappush(heap, (turn.virtual, -turn.activation, turn.seen, turn))
        if len(heap) > COMPACT_AT and len(heap) > 4 * len(turn.pool.turns):
            heap[:] = {entry[2]: entry for entry in heap if self._true(entry, groups)}.values()
            heapq.heapify(heap)

    def _true(self, entry: TurnEntry, groups: int) -> bool:
        virtual, activation, _, turn = entry
        return turn.virtual == virtual and turn.activation == -activation and turn.shown[self._class] == groups

    def first(self, served: int) -> TurnEntry | None:
        """Return the tenant next in turn among those whose set meets ``served``; a step for each distinct set."""
        if not self._heaps:
            return None
        best: TurnEntry | None = None
        empty: list[int] = []
        for groups, heap in self._heaps.items():
            if groups & served:
                while heap and not self._true(heap[0], groups):
                    heapq.heappop(heap)
                if not heap:
                    empty.append(groups)
                elif best is None or heap[0] < best:
                    best = heap[0]
        for groups in empty:
            del self._heaps[groups]
        return best


class LaneHeap:
    """Lanes by a key of their head, at most one entry a lane; an entry's key is at most the lane's true one."""

    __slots__ = ("_heap",)

    def __init__(self) -> None:
        self._heap: list[LaneEntry] = []

    def enter(self, lane: Lane, key: int) -> None:
        """Let a lane stand under ``key`` unless it stands under a lower one already."""
        if lane.bound is None or key < lane.bound:
            lane.bound = key
            heapq.heappush(self._heap, (key, lane.turn.seen, lane.number, lane))

    def top(self) -> LaneEntry | None:
        """Return the first entry that is not an outdated second one of its lane."""
        heap = self._heap
        while heap:
            key, _, _, lane = heap[0]
            if key == lane.bound:
                return heap[0]
            heapq.heappop(heap)
        return None

    def pop(self) -> Lane:
        """Take the first entry out; its lane then stands in no heap."""
        lane = heapq.heappop(self._heap)[3]
        lane.bound = None
        return lane


class ExpressJob(NamedTuple):
    """An express job that waits, in the order of its expedite."""

    number: int
    place: Place
    lane: Lane


class Pool:
    """Queues that share workers: virtual time, counters, heaps.

    Attributes:
        now: The pool's virtual time.
        since: Starts since the last guaranteed one.
        activations: How many there were.
        seen: How many tenants were first seen in it.
        slots: What the live workers declared in all.
        served: The queues that live workers serve; None means all.
        asked_ms: When a claim last asked for a queue.
        asked_all_ms: When a claim last asked for every queue.
        bits: The set of all its groups.
        risen_from_ms: No job of it is risen before this instant (policy ``fair``).
        masks: Sets of groups by what a claim serves and knows; emptied when a group comes or goes.
    """

    __slots__ = (
        "activations", "asked_all_ms", "asked_ms", "bits", "express", "groups", "heaps", "lane_heaps", "masks",
        "mean", "name", "now", "risen_from_ms", "saved", "seen", "served", "since", "slots", "turns", "urgent_bound",
    )  # fmt: skip

    def __init__(self, name: str, classes: int) -> None:
        self.name = name
        self.now = 0
        self.since = 0
        self.activations = 0
        self.mean = Mean()
        self.slots = 0
        self.urgent_bound: int | None = None
        self.served: frozenset[str] | None = frozenset()
        self.asked_ms: dict[str, int] = {}
        self.asked_all_ms: int | None = None
        self.seen = 0
        self.saved: tuple[int, ...] = ()
        self.turns: dict[str, Turn] = {}
        self.groups: list[Group] = []
        self.bits = 0
        self.masks: dict[tuple[frozenset[str] | None, frozenset[str] | None], int] = {}
        self.heaps = [TurnHeaps(number) for number in range(classes)]
        self.lane_heaps: dict[tuple[int, int], LaneHeap] = {}
        self.express: list[ExpressJob] = []
        self.risen_from_ms = 0

    def facts(self) -> tuple[int, ...]:
        """Return what the jobs do not say: virtual time, counters, mean."""
        return self.now, self.since, self.activations, self.seen, *self.mean

    def join(self, group: Group) -> None:
        """Take a group in."""
        self.groups.append(group)
        self.bits |= group.bit
        self.masks.clear()

    def leave(self, group: Group) -> None:
        """Let a group go."""
        self.groups.remove(group)
        self.bits &= ~group.bit
        self.masks.clear()


class Chosen(NamedTuple):
    """What a decision found."""

    lane: Lane
    place: Place
    express: int | None
    rule: Rule
