"""The rules of each policy: which of the waiting jobs a decision starts.

``fair`` is rules 1 to 4 of SPEC section 2, ``strict`` lets the effective tier decide over all tenants, ``fifo`` the
arrival. Each keeps its own view of the pool in the pool's heaps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from types import MappingProxyType
from typing import Final

from fairlane.domain.checks import MAX_INT
from fairlane.domain.lanes import Ask
from fairlane.domain.policy import Kind, Policy
from fairlane.domain.tiers import TIERS, Tier, effective_tier, rise_delay_ms
from fairlane.domain.turns import Chosen, Lane, LaneHeap, Pool, Turn, TurnEntry

MASKS: Final = 256
"""Sets of groups remembered by what a claim serves and knows; beyond it they are worked out again."""

SEQ_BITS: Final = 44
"""Room for the job number below the arrival in one key: 17 million million jobs."""


class Decision:
    """One claim while it is being answered.

    Attributes:
        able: The groups whose tenants count for the pool's virtual time.
        mask: The groups that this claim may start jobs of.
        worst: The least urgent base tier that may start; -1 when only express jobs may.
        pool_time_moved: Whether the last decision moved the pool's virtual time.
    """

    __slots__ = (
        "_ask",
        "_open",
        "_rooms",
        "_served",
        "_slots",
        "able",
        "mask",
        "now_ms",
        "pool",
        "pool_time_moved",
        "worst",
    )

    def __init__(self, pool: Pool, now_ms: int, ask: Ask, open_: int, served: int) -> None:
        self.pool = pool
        self.now_ms = now_ms
        self.pool_time_moved = False
        self._ask = ask
        self._served = served & pool.bits
        self._slots = None if ask.queues is None else {name: free for name, free in ask.queues.items() if free > 0}
        self._rooms = None if ask.rooms is None else list(ask.rooms)
        self._open = open_
        self.able = self._served & open_
        self.mask = self._groups() & open_
        self.worst = self._worst()

    def _groups(self) -> int:
        """The groups that the worker serves and knows, whether or not they are open."""
        pool, tasks = self.pool, self._ask.tasks
        if self._slots is None and tasks is None:
            return pool.bits
        names = None if self._slots is None else frozenset(self._slots)
        mask = pool.masks.get((names, tasks))
        if mask is None:
            mask = 0
            for group in pool.groups:
                if (names is None or group.queue.name in names) and (tasks is None or group.task.name in tasks):
                    mask |= group.bit
            if len(pool.masks) > MASKS:
                pool.masks.clear()
            pool.masks[names, tasks] = mask
        return mask

    def _worst(self) -> int:
        if self._rooms is None:
            return Tier.BACKGROUND
        worst = -1
        for room in self._rooms:
            if room <= 0:
                break
            worst += 1
        return worst

    @property
    def restricted(self) -> bool:
        """Whether only slots kept by ``reserve`` are left for some tiers."""
        return self.worst < Tier.BACKGROUND

    def started(self, lane: Lane, express: bool, open_: int) -> None:
        """Take note of a start: it used a slot, and may have closed a gate."""
        if self._rooms is not None and not express:
            for tier in range(lane.tier + 1):
                self._rooms[tier] -= 1
            self.worst = self._worst()
        name = lane.group.queue.name
        if self._slots is not None:
            self._slots[name] -= 1
            if not self._slots[name]:
                del self._slots[name]
                self.mask = self._groups() & open_
        if open_ != self._open:
            self._open = open_
            self.able = self._served & open_
            self.mask = self._groups() & open_


class Rulebook:
    """What all policies share: tenants stand in heaps by class, express goes first."""

    classes = 1
    ages = False
    """Whether places in the heaps depend on the time, so that :meth:`aged` has something to do."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self.none = (0,) * self.classes

    def groups(self, turn: Turn, open_: int) -> tuple[int, ...]:
        """Return, by class, the set of groups under which a tenant stands."""
        bits = turn.bits
        return ((bits[0] | bits[1] | bits[2] | bits[3] | bits[4]) & open_,)

    def show(self, turn: Turn, groups: tuple[int, ...]) -> None:
        """Let a tenant stand under these sets of groups, and bring back what was set aside while it was blocked."""
        stood = (turn.virtual, turn.activation)
        if groups != turn.shown or stood != turn.stood:
            turn.shown, turn.stood = groups, stood
            heaps = turn.pool.heaps
            for number, mask in enumerate(groups):
                if mask:
                    heaps[number].push(turn, mask)
        if turn.parked and not turn.tenant.closed:
            parked, turn.parked = turn.parked, []
            for lane in parked:
                if not turn.may(lane.group):
                    turn.parked.append(lane)
                elif lane.jobs:
                    self.headed(turn.pool, lane, lane.jobs[0].arrival_ms)

    def headed(self, pool: Pool, lane: Lane, now_ms: int) -> None:
        """A lane has a new first job."""

    def aged(self, pool: Pool, now_ms: int) -> set[Turn]:
        """Let lanes age; return the tenants whose place may have changed."""
        return set()

    def choose(self, decision: Decision) -> Chosen | None:
        """Move the pool's virtual time and return the job to start, or None."""
        raise NotImplementedError

    def advance(self, decision: Decision) -> list[TurnEntry | None]:
        """Move the pool's virtual time to the lowest of those that could start something; return them by class."""
        pool = decision.pool
        able = decision.able
        firsts = [heap.first(able) for heap in pool.heaps]
        lowest = min((first[0] for first in firsts if first is not None), default=pool.now)
        decision.pool_time_moved = lowest > pool.now
        pool.now = max(pool.now, lowest)
        return firsts

    def express(self, decision: Decision) -> Chosen | None:
        """Return the express job expedited first of those that may run."""
        mask = decision.mask
        for job in decision.pool.express:
            if job.lane.group.bit & mask and job.lane.turn.may(job.lane.group):
                return Chosen(job.lane, job.place, job.number, "express")
        return None


def heap_of(pool: Pool, key: tuple[int, int]) -> LaneHeap:
    """Return a pool's heap of lanes of this key, made when it is new."""
    heap = pool.lane_heaps.get(key)
    if heap is None:
        heap = pool.lane_heaps[key] = LaneHeap()
    return heap


def first_lane(
    heap: LaneHeap, true_key: Callable[[Lane], int], most: int | None, skip: Callable[[Turn], bool]
) -> tuple[int, int, Lane] | None:
    """Return (key, seen, lane) of the first lane that its tenant may run now.

    Entries that lie below their lane's true key are put right, lanes of blocked tenants are set aside until their
    tenant is no longer blocked, tenants to ``skip`` are passed over.

    Args:
        heap: The heap.
        true_key: The key under which a lane with jobs belongs.
        most: Keys above this are of no interest; None: all are.
        skip: Whether a tenant gets nothing this time.
    """
    held: list[tuple[Lane, int]] = []
    found = None
    while (entry := heap.top()) is not None:
        key, seen, _, lane = entry
        if most is not None and key > most:
            break
        if not lane.jobs:
            heap.pop()
        elif (true := true_key(lane)) != key:
            heap.pop()
            heap.enter(lane, true)
        elif not lane.turn.may(lane.group):
            lane.turn.parked.append(heap.pop())
        elif skip(lane.turn):
            held.append((heap.pop(), key))
        else:
            found = key, seen, lane
            break
    for lane, key in held:
        heap.enter(lane, key)
    return found


def nobody(_: Turn) -> bool:
    """Skip no tenant."""
    return False


def beyond_share(turn: Turn) -> bool:
    """Skip tenants beyond their urgent share: slots kept by ``reserve`` are not for them."""
    return turn.over


class Fair(Rulebook):
    """Rules 1 to 4 of SPEC section 2. Classes: CRITICAL, HIGH, shared."""

    classes = 3

    def __init__(self, policy: Policy) -> None:
        super().__init__(policy)
        self._rise = tuple(rise_delay_ms(tier, policy.ageing_step_ms) or 0 for tier in TIERS)

    def groups(self, turn: Turn, open_: int) -> tuple[int, ...]:
        """Return the sets of CRITICAL, HIGH and shared work; beyond the urgent share all of it is shared."""
        critical, high, normal, low, background = turn.bits
        if turn.over:
            return 0, 0, (critical | high | normal | low | background) & open_
        return critical & open_, high & open_, (normal | low | background) & open_

    def _risen_key(self, lane: Lane) -> int:
        return max(lane.turn.last_ms, lane.jobs[0].arrival_ms + self._rise[lane.tier])

    def headed(self, pool: Pool, lane: Lane, now_ms: int) -> None:
        """A lane below CRITICAL stands in the heap of its group and tier by when its head is risen."""
        if lane.tier:
            key = self._risen_key(lane)
            pool.risen_from_ms = min(pool.risen_from_ms, key)
            heap_of(pool, (lane.group.bit, lane.tier)).enter(lane, key)

    def choose(self, decision: Decision) -> Chosen | None:
        """Move the pool's virtual time and return the job to start, or None."""
        firsts = self.advance(decision)
        pool = decision.pool
        if 0 < self.policy.risen_every <= pool.since + 1 and (chosen := self._guaranteed(decision)) is not None:
            return chosen
        if pool.express and (chosen := self.express(decision)) is not None:
            return chosen
        mask, worst = decision.mask, decision.worst
        same = mask == decision.able
        for tier in (Tier.CRITICAL, Tier.HIGH):
            if tier <= worst and (first := firsts[tier] if same else pool.heaps[tier].first(mask)) is not None:
                lane = min((lane for lane in first[3].runnable(mask) if lane.tier == tier), key=_head)
                return Chosen(lane, lane.jobs[0], None, "urgent")
        if decision.restricted:
            return self._reserved(decision)
        first = firsts[2] if same else pool.heaps[2].first(mask)
        if first is None:
            return None
        turn = first[3]
        lane = turn.only_lane() or self._within(turn.runnable(mask), decision.now_ms)
        return Chosen(lane, lane.jobs[0], None, "shared")

    def _guaranteed(self, decision: Decision) -> Chosen | None:
        """Rule 1: the risen job of the tenant whose last guaranteed start or earliest rise lies furthest back."""
        mask, worst, now_ms = decision.mask, decision.worst, decision.now_ms
        pool = decision.pool
        if now_ms < pool.risen_from_ms:
            return None
        skip = beyond_share if decision.restricted else nobody
        best: tuple[int, int, Lane] | None = None
        for (bit, tier), heap in pool.lane_heaps.items():
            if bit & mask and tier <= worst:
                found = first_lane(heap, self._risen_key, now_ms, skip)
                if found is not None and (best is None or found[:2] < best[:2]):
                    best = found
        if best is None:
            tops = (heap.top() for heap in pool.lane_heaps.values())
            pool.risen_from_ms = min((top[0] for top in tops if top is not None), default=MAX_INT)
            return None
        risen = (
            lane
            for lane in best[2].turn.runnable(mask)
            if 0 < lane.tier <= worst and lane.jobs[0].arrival_ms + self._rise[lane.tier] <= now_ms
        )
        lane = min(risen, key=_head)
        return Chosen(lane, lane.jobs[0], None, "risen")

    def _within(self, lanes: Iterable[Lane], now_ms: int) -> Lane:
        """Rule 4 inside a tenant: CRITICAL, HIGH by base tier, then the effective tier, then the arrival."""
        policy = self.policy

        def order(lane: Lane) -> tuple[int, tuple[int, int]]:
            tier, head = lane.tier, lane.jobs[0]
            if tier <= Tier.HIGH:
                return tier - 2, head
            waited = now_ms - head.arrival_ms
            return effective_tier(tier, waited, step_ms=policy.ageing_step_ms, ceiling=policy.ageing_ceiling), head

        return min(lanes, key=order)

    def _reserved(self, decision: Decision) -> Chosen | None:
        """Shared work for slots kept for NORMAL or LOW and better: rare, so it looks at each tenant of the pool."""
        lanes = allowed_lanes(decision)
        if not lanes:
            return None
        turn = min((lane.turn for lane in lanes), key=_turn)
        lane = self._within((lane for lane in lanes if lane.turn is turn), decision.now_ms)
        return Chosen(lane, lane.jobs[0], None, "shared")


class Strict(Rulebook):
    """Express, then the effective tier over all tenants, who take turns within a tier. Classes: the effective tiers."""

    classes = len(TIERS)
    ages = True

    def groups(self, turn: Turn, open_: int) -> tuple[int, ...]:
        """Return by effective tier where the tenant has work; a step for each of its lanes."""
        masks = [0] * self.classes
        for (bit, _), lane in turn.lanes.items():
            masks[lane.level] |= bit & open_
        return tuple(masks)

    def headed(self, pool: Pool, lane: Lane, now_ms: int) -> None:
        """Note the lane's effective tier and when it changes next."""
        arrival = lane.jobs[0].arrival_ms
        policy = self.policy
        waited = now_ms - arrival
        lane.level = effective_tier(lane.tier, waited, step_ms=policy.ageing_step_ms, ceiling=policy.ageing_ceiling)
        if lane.level > policy.ageing_ceiling:
            heap_of(pool, (0, 0)).enter(lane, arrival + (lane.tier - lane.level + 1) * policy.ageing_step_ms)

    def aged(self, pool: Pool, now_ms: int) -> set[Turn]:
        """Raise the lanes whose time has come."""
        touched: set[Turn] = set()
        heap = heap_of(pool, (0, 0))
        while (entry := heap.top()) is not None and entry[0] <= now_ms:
            lane = heap.pop()
            if lane.jobs:
                self.headed(pool, lane, now_ms)
                touched.add(lane.turn)
        return touched

    def choose(self, decision: Decision) -> Chosen | None:
        """Move the pool's virtual time and return the job to start, or None."""
        firsts = self.advance(decision)
        pool, mask = decision.pool, decision.mask
        if pool.express and (chosen := self.express(decision)) is not None:
            return chosen
        if decision.restricted:
            return self._reserved(decision)
        same = mask == decision.able
        for level in TIERS:
            first = firsts[level] if same else pool.heaps[level].first(mask)
            if first is not None:
                lane = min((lane for lane in first[3].runnable(mask) if lane.level == level), key=_head)
                return Chosen(lane, lane.jobs[0], None, "tier")
        return None

    def _reserved(self, decision: Decision) -> Chosen | None:
        lanes = allowed_lanes(decision)
        if not lanes:
            return None
        lane = min(lanes, key=lambda lane: (lane.level, *_turn(lane.turn), lane.jobs[0]))
        return Chosen(lane, lane.jobs[0], None, "tier")


class Fifo(Rulebook):
    """Express, then the arrival alone."""

    def _arrival_key(self, lane: Lane) -> int:
        head = lane.jobs[0]
        return head.arrival_ms << SEQ_BITS | head.seq

    def headed(self, pool: Pool, lane: Lane, now_ms: int) -> None:
        """A lane stands in the heap of its group by its head's place."""
        heap_of(pool, (lane.group.bit, 0)).enter(lane, self._arrival_key(lane))

    def choose(self, decision: Decision) -> Chosen | None:
        """Move the pool's virtual time and return the job to start, or None."""
        self.advance(decision)
        pool, mask = decision.pool, decision.mask
        if pool.express and (chosen := self.express(decision)) is not None:
            return chosen
        if decision.restricted:
            lane = min(allowed_lanes(decision), key=_head, default=None)
        else:
            tops = (
                first_lane(heap, self._arrival_key, None, nobody)
                for (bit, _), heap in pool.lane_heaps.items()
                if bit & mask
            )
            best = min((top for top in tops if top is not None), key=_key, default=None)
            lane = None if best is None else best[2]
        return None if lane is None else Chosen(lane, lane.jobs[0], None, "fifo")


def allowed_lanes(decision: Decision) -> list[Lane]:
    """Return the lanes that slots kept by ``reserve`` may start from; a step for each tenant of the pool."""
    return [
        lane
        for turn in decision.pool.turns.values()
        if not turn.tenant.closed and not turn.over
        for lane in turn.runnable(decision.mask)
        if lane.tier <= decision.worst
    ]


def _head(lane: Lane) -> tuple[int, int]:
    return lane.jobs[0]


def _turn(turn: Turn) -> tuple[int, int]:
    return turn.virtual, -turn.activation


def _key(top: tuple[int, int, Lane]) -> int:
    return top[0]


RULEBOOK: Final = MappingProxyType[Kind, type[Rulebook]]({"fair": Fair, "strict": Strict, "fifo": Fifo})
"""The rules of each kind of policy."""
