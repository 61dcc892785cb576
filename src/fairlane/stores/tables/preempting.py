"""Preemption: running jobs are asked to give way to urgent ones that only slots hold back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from fairlane.domain.fairness import Scheduler
from fairlane.domain.lanes import LaneKey
from fairlane.domain.preempting import MAX_PREEMPTIONS, PREEMPT_AFTER_MS, Room, Runner, Urgent, rooms_of, to_ask
from fairlane.stores._queries import named
from fairlane.stores.tables.rules import Rules

PREEMPT_PROBE: Final = named("preempt_probe")
PREEMPT_RUNNING: Final = named("preempt_running")
PREEMPT_EXPRESS: Final = named("preempt_express")
PREEMPT_LANES: Final = named("preempt_lanes")
PREEMPT_HEADS: Final = named("preempt_heads")
PREEMPT_ASK: Final = named("preempt_ask")


class Preempting(Rules):
    """Asks running jobs to give way."""

    def may_preempt(self) -> bool:
        """Return whether a pass may find something; see the protocol."""
        with self.reading("look for urgent work that waits") as db:
            return bool(db.execute(PREEMPT_PROBE).fetchone()[0])

    def preempt(
        self,
        now_ms: int,
        *,
        after_ms: int = PREEMPT_AFTER_MS,
        max_preemptions: int = MAX_PREEMPTIONS,
        limit: int = 100,
    ) -> int:
        """Ask running jobs to give way; see the protocol."""
        self._write_counts()
        if not self._x(PREEMPT_PROBE).fetchone()[0]:
            return 0
        running = [Runner._make(row) for row in self._x(PREEMPT_RUNNING).fetchall()]
        if not any(one.may_be_asked(max_preemptions) for one in running):
            return 0
        waiting = Waiting(self._live().scheduler, self.lane_key, now_ms, now_ms - after_ms)
        # As many as could have one asked, and those that have one already.
        most = min(len(running), limit + sum(one.asked for one in running))
        old = {"before_ms": now_ms - after_ms, "most": most}
        for lane, seq, number, since_ms in self._x(PREEMPT_EXPRESS, old).fetchall():
            waiting.add(lane, [(seq, since_ms)], number)
        if waiting.scheduler.policy.kind != "fifo":  # by arrival alone a CRITICAL job would not get the slot
            for (lane,) in self._x(PREEMPT_LANES, old).fetchall():
                if waiting.open(lane, express=False):
                    waiting.add(lane, self._x(PREEMPT_HEADS, {"lane": lane, "most": most}).fetchall(), None)
        wishes = []
        if waiting.jobs:
            wishes = to_ask(
                waiting.jobs,
                running,
                self.workers(),
                waiting.rooms,
                now_ms=now_ms,
                after_ms=after_ms,
                max_preemptions=max_preemptions,
                limit=limit,
            )
        for wish in wishes:
            self._x(PREEMPT_ASK, {"seq": wish.runner, "asked_for": wish.urgent})
            self._fresh.add("ask")
        return len(wishes)


class Waiting:
    """Urgent jobs that nothing but slots holds back, as the state that claims decide on has it."""

    def __init__(self, scheduler: Scheduler, lane_key: Callable[[int], LaneKey], now_ms: int, before_ms: int) -> None:
        self.jobs: list[Urgent] = []
        self.rooms: dict[Room, int] = {}
        self.scheduler = scheduler
        self._lane_key = lane_key
        self._now_ms = now_ms
        self._before_ms = before_ms
        self._open: dict[tuple[int, bool], tuple[Room, ...] | None] = {}

    def open(self, lane: int, *, express: bool) -> bool:
        """Return whether something of the lane may start; what its start takes up is remembered."""
        if (lane, express) not in self._open:
            held = self.scheduler.lanes.get(self._lane_key(lane))
            share = not express and self.scheduler.policy.kind == "fair"
            rooms = None if held is None else rooms_of(held, self.scheduler.limits, share=share, now_ms=self._now_ms)
            self._open[lane, express] = None if rooms is None else tuple(rooms)
            for name, left in (rooms or {}).items():
                if left is not None:
                    self.rooms[name] = left
        return self._open[lane, express] is not None

    def add(self, lane: int, jobs: list[tuple[int, int]], number: int | None) -> None:
        """Take in jobs of a lane, given by number and since when they are available."""
        if not self.open(lane, express=number is not None):
            return
        key = self._lane_key(lane)
        pool = self.scheduler.queues[key.queue].rule.pool
        rooms = self._open[lane, number is not None] or ()
        for seq, since_ms in jobs:
            if since_ms <= self._before_ms:
                self.jobs.append(Urgent(seq, pool, key.queue, key.task, key.tier, number, since_ms, rooms))
