"""The jobs that wait, as far as they are in memory.

A lane holds its first jobs, and loads more of them when these are used up.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Sequence

from fairlane.domain.lanes import LaneKey, Place
from fairlane.domain.policy import Policy
from fairlane.domain.roster import Roster, by_seen
from fairlane.domain.turns import ExpressJob, Lane, Pool, Queue, Turn

Refill = Callable[[Sequence[tuple[LaneKey, Place]]], Sequence[tuple[list[Place], bool]]]
"""Loads the jobs of lanes behind a place each: the first few, and whether more lie behind them."""
FIRST = Place(-1, -1)
"""Before every job."""


class Backlog(Roster):
    """The waiting jobs of all lanes and of the express lanes.

    Args:
        policy: The rules.
        refill: Loads more of a lane whose jobs in memory are used up; without it every lane is whole in memory.
        lane_buffer: How many jobs of a lane are kept in memory when there is a ``refill``.
    """

    def __init__(self, policy: Policy, *, refill: Refill | None = None, lane_buffer: int = 256) -> None:
        super().__init__(policy)
        self._refill = refill
        self._lane_buffer = lane_buffer
        self._moved: set[Lane] = set()  # lanes that have lost their first job since a replay began

    def add(self, key: LaneKey, place: Place, express: int | None = None) -> None:
        """A job becomes available, for the first time or again."""
        lane = self._lane(key)
        turn = lane.turn
        bit = lane.group.bit
        if express is not None:
            job = ExpressJob(express, place, lane)
            if _find(turn.pool.express, express, lane) is not None:
                return
            insort(turn.pool.express, job, key=_by_number)
            turn.express[bit] = turn.express.get(bit, 0) + 1
        elif lane.insert(place):
            if self._refill is not None and len(lane.jobs) > self._lane_buffer:
                for _ in range(self._lane_buffer // 2):
                    lane.jobs.pop()
                lane.more = True
            if (bit, lane.tier) not in turn.lanes:
                turn.lanes[bit, lane.tier] = lane
                turn.bits[lane.tier] |= bit
            if lane.jobs[0] == place:
                self._headed(lane)
        elif not lane.jobs:
            self._reload(lane, FIRST)
        self._look(turn)

    def remove(self, key: LaneKey, place: Place, express: int | None = None) -> None:
        """A waiting job leaves without starting: cancelled, expired, or moved elsewhere."""
        lane = self._lane(key)
        self._take(lane, place, express)
        self._look(lane.turn)

    def _take(self, lane: Lane, place: Place, express: int | None) -> None:
        turn = lane.turn
        bit = lane.group.bit
        if express is not None:
            at = _find(turn.pool.express, express, lane)
            if at is not None:
                del turn.pool.express[at]
                turn.express[bit] -= 1
                if not turn.express[bit]:
                    del turn.express[bit]
            return
        was_head = bool(lane.jobs) and lane.jobs[0] == place
        if not lane.discard(place):
            return
        if not lane.jobs and lane.more:
            self._reload(lane, place)
        elif not lane.jobs:
            del turn.lanes[bit, lane.tier]
            turn.bits[lane.tier] &= ~bit
        if was_head and lane.jobs:
            self._headed(lane)

    def _headed(self, lane: Lane) -> None:
        """Note that a lane has a new first job."""
        if self.passive:
            self._moved.add(lane)
        else:
            self._rules.headed(lane.turn.pool, lane, self.now_ms)

    def _reload(self, lane: Lane, after: Place) -> None:
        """Bring more of a lane into memory; in a replay at its end, with all others that lack jobs."""
        if self.passive:
            self._moved.add(lane)
        else:
            self._load([(lane, after)])

    def _load(self, lacking: Sequence[tuple[Lane, Place]]) -> None:
        """Bring more of lanes into memory: of each what lies behind a place."""
        assert self._refill is not None, "only a lane with a store behind it lacks jobs"
        found = self._refill([(lane.key, after) for lane, after in lacking])
        for (lane, _), (places, more) in zip(lacking, found, strict=True):
            lane.jobs.extend(places)
            lane.more = more
            turn, bit = lane.turn, lane.group.bit
            if lane.jobs:
                turn.lanes[bit, lane.tier] = lane
                turn.bits[lane.tier] |= bit
                self._rules.headed(turn.pool, lane, self.now_ms)
            else:
                turn.lanes.pop((bit, lane.tier), None)
                turn.bits[lane.tier] &= ~bit

    def _place(self) -> None:
        """Work out where lanes and tenants stand that a replay has touched."""
        self._place_lanes()
        super()._place()

    def _place_lanes(self) -> None:
        moved, self._moved = self._moved, set()
        lacking: list[tuple[Lane, Place]] = []
        for lane in moved:
            if lane.jobs:
                self._rules.headed(lane.turn.pool, lane, self.now_ms)
            elif lane.more:
                lacking.append((lane, FIRST))
        if lacking:
            self._load(lacking)

    # ------------------------------------------------------------------ state taken from elsewhere

    def load_lane(self, key: LaneKey, places: list[Place], *, more: bool) -> None:
        """Put a lane's first jobs in memory without activating its tenant: the state as it is stored."""
        lane = self._lane(key)
        lane.jobs.extend(places)
        lane.more = more
        if lane.jobs:
            lane.turn.lanes[lane.group.bit, lane.tier] = lane
            lane.turn.bits[lane.tier] |= lane.group.bit
            self._rules.headed(lane.turn.pool, lane, self.now_ms)

    def see(self, key: LaneKey) -> None:
        """Let a tenant appear in a pool: ties of the guarantee go to the one first seen there."""
        self._lane(key)

    def load_express(self, key: LaneKey, place: Place, number: int) -> None:
        """Put a waiting express job in memory without activating its tenant: the state as it is stored."""
        lane = self._lane(key)
        insort(lane.turn.pool.express, ExpressJob(number, place, lane), key=_by_number)
        lane.turn.express[lane.group.bit] = lane.turn.express.get(lane.group.bit, 0) + 1

    # ------------------------------------------------------------------ a queue changes its pool

    def _move(self, queue: Queue, old: Pool, new: Pool) -> None:
        """Bring a queue's groups, waiting jobs and running urgent jobs from one pool into another."""
        self._place_lanes()
        bits = 0
        for group in queue.groups:
            old.leave(group)
            new.join(group)
            bits |= group.bit
        moving = [job for job in old.express if job.lane.group.bit & bits]
        old.express = [job for job in old.express if not job.lane.group.bit & bits]
        left: list[Turn] = []
        joined: list[Turn] = []
        for turn in sorted(old.turns.values(), key=by_seen):
            turn.urgent -= turn.tenant.urgent_by_queue.get(queue.name, 0)
            left.append(turn)
            lanes = [lane for (bit, _), lane in turn.lanes.items() if bit & bits]
            express = [bit for bit in turn.express if bit & bits]
            other = new.turns.get(turn.tenant.name)
            if lanes or express:
                other = other or self._turn(new, turn.tenant)
                other.blocked = other.blocked & ~bits | turn.blocked & bits
                for bit in express:
                    other.express[bit] = turn.express.pop(bit)
                for lane in lanes:
                    self._rehome(lane, turn, other)
            if other is not None:
                other.urgent = self._urgent(turn.tenant, new)
                joined.append(other)
        for key in [key for key, lane in self.lanes.items() if lane.turn.pool is old and key.queue == queue.name]:
            del self.lanes[key]  # empty: made anew in the new pool when a job comes
        for job in moving:
            insort(new.express, job._replace(lane=self._lane(job.lane.key)), key=_by_number)
        self._look_at(left)
        self._look_at(joined)

    def _rehome(self, lane: Lane, old: Turn, new: Turn) -> None:
        fresh = self.lanes[lane.key] = Lane(lane.key, lane.group, new)
        fresh.jobs, fresh.more, lane.jobs = lane.jobs, lane.more, type(lane.jobs)()
        bit = lane.group.bit
        del old.lanes[bit, lane.tier]
        old.bits[lane.tier] &= ~bit
        new.lanes[bit, lane.tier] = fresh
        new.bits[lane.tier] |= bit
        self._rules.headed(new.pool, fresh, self.now_ms)


def _by_number(job: ExpressJob) -> int:
    return job.number


def _find(line: list[ExpressJob], number: int, lane: Lane) -> int | None:
    """Return where a job stands in the express lane; one that changes lanes stands there twice for a moment."""
    at = bisect_left(line, number, key=_by_number)
    while at < len(line) and line[at].number == number:
        if line[at].lane is lane:
            return at
        at += 1
    return None
