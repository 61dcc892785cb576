"""Rules 1, 3 and 4 of SPEC 2 for one queue and one task, plainly: each decision looks at every tenant.

It keeps no express, caps, pauses or limits. Written from the text and from the exact model of the specification, with
the arithmetic of the code (whole milliseconds, microseconds and units of virtual time), so that whole traces can be
compared start by start. `tests/property/plain_model.py` is complete but far too slow for that.
"""

from __future__ import annotations

import heapq
from collections import defaultdict, deque

from fairlane.simulate.traces import Trace

CRITICAL, HIGH = 0, 1
SHARES = (8, 8, 4, 2, 1)
UNITS_PER_US = 8  # virtual time of a microsecond at weight 1 and share 1
LEAST_US = 1000
UNKNOWN_US = 1_000_000


class PlainFair:
    def __init__(self, slots: int, step_ms: int, *, risen_every=8, urgent_share=0.25, max_lag_us=600_000_000) -> None:
        self.step_ms = step_ms
        self.risen_every = risen_every
        self.urgent_bound = max(1, int(slots * urgent_share))
        self.max_lag = max_lag_us * UNITS_PER_US
        self.lanes: dict[
            str, list[deque[tuple[int, int]]]
        ] = {}  # by tenant, a deque of (arrival, number) for each tier
        self.virtual: defaultdict[str, int] = defaultdict(int)
        self.activated: dict[str, int] = {}
        self.activations = 0
        self.pool_time = 0
        self.since_guarantee = 0
        self.last_guaranteed: dict[str, int] = {}
        self.urgent_running: defaultdict[str, int] = defaultdict(int)
        self.runs: defaultdict[str, tuple[int, int]] = defaultdict(lambda: (0, 0))
        self.all_runs = (0, 0)

    def add(self, tenant: str, tier: int, arrival: int, number: int) -> None:
        lanes = self.lanes.setdefault(tenant, [deque() for _ in SHARES])
        if not any(lanes):
            self.activations += 1
            self.activated[tenant] = self.activations
            self.virtual[tenant] = max(self.virtual[tenant], self.pool_time)
        lanes[tier].append((arrival, number))

    def choose(self, now: int) -> tuple[str, int] | None:
        """The tenant and tier of the next start."""
        waiting = [tenant for tenant, lanes in self.lanes.items() if any(lanes)]
        if not waiting:
            return None
        self.pool_time = max(self.pool_time, min(self.virtual[tenant] for tenant in waiting))
        risen = self._guaranteed(waiting, now) if self.since_guarantee >= self.risen_every - 1 else None
        self.since_guarantee = 0 if risen else self.since_guarantee + 1
        return risen or self._urgent(waiting) or self._shared(waiting, now)

    def _turn(self, tenant: str) -> tuple[int, int]:
        return self.virtual[tenant], -self.activated[tenant]

    def _rise(self, tier: int, arrival: int) -> int:
        return arrival + max(1, tier - HIGH) * self.step_ms

    def _guaranteed(self, waiting: list[str], now: int) -> tuple[str, int] | None:
        best = None
        for tenant in waiting:  # by first appearance, so that the first of equals wins
            heads = [(lane[0], tier) for tier, lane in enumerate(self.lanes[tenant]) if lane and tier >= HIGH]
            risen = [(head, tier) for head, tier in heads if self._rise(tier, head[0]) <= now]
            if risen:
                earliest = min(self._rise(tier, head[0]) for head, tier in risen)
                place = max(self.last_guaranteed.get(tenant, -1), earliest)
                if best is None or place < best[0]:
                    best = place, tenant, min(risen)[1]
        if best is None:
            return None
        self.last_guaranteed[best[1]] = now
        return best[1], best[2]

    def _urgent(self, waiting: list[str]) -> tuple[str, int] | None:
        for tier in (CRITICAL, HIGH):
            able = [t for t in waiting if self.lanes[t][tier] and self.urgent_running[t] < self.urgent_bound]
            if able:
                return min(able, key=self._turn), tier
        return None

    def _shared(self, waiting: list[str], now: int) -> tuple[str, int]:
        tenant = min(waiting, key=self._turn)
        keys = []
        for tier, lane in enumerate(self.lanes[tenant]):
            if lane:
                aged = max(HIGH, tier - (now - lane[0][0]) // self.step_ms)
                keys.append((tier - 2 if tier <= HIGH else aged, lane[0], tier))
        return tenant, min(keys)[2]

    def start(self, tenant: str, tier: int) -> tuple[int, int]:
        """Take the job out and charge its tenant; return its number and the run time that was expected."""
        _, number = self.lanes[tenant][tier].popleft()
        runs, total = self.runs[tenant] if self.runs[tenant][0] else self.all_runs
        expected = total // runs if runs else UNKNOWN_US
        lowest = self.pool_time - self.max_lag
        self.virtual[tenant] = max(self.virtual[tenant], lowest) + self._cost(expected, tier)
        self.urgent_running[tenant] += tier <= HIGH
        return number, expected

    def finish(self, tenant: str, tier: int, expected: int, run_us: int) -> None:
        self.virtual[tenant] += self._cost(run_us, tier) - self._cost(expected, tier)
        self.urgent_running[tenant] -= tier <= HIGH
        self.runs[tenant] = (self.runs[tenant][0] + 1, self.runs[tenant][1] + run_us)
        self.all_runs = (self.all_runs[0] + 1, self.all_runs[1] + run_us)

    @staticmethod
    def _cost(run_us: int, tier: int) -> int:
        return max(run_us, LEAST_US) * UNITS_PER_US // SHARES[tier]


def plain_waits(trace: Trace, workers: int, step_ms: int, **settings) -> list[int]:
    """The waits of a trace, as `simulate` gives them."""
    model = PlainFair(workers, step_ms, **settings)
    jobs, waits = trace.jobs, [0] * len(trace.jobs)
    running: list[tuple[int, int, int]] = []
    coming = 0
    while coming < len(jobs) or running:
        instants = [jobs[coming].submit_us] if coming < len(jobs) else []
        now_us = min([*instants, *(entry[0] for entry in running[:1])])
        while running and running[0][0] <= now_us:
            _, number, expected = heapq.heappop(running)
            model.finish(jobs[number].tenant, jobs[number].tier, expected, jobs[number].run_us)
        while coming < len(jobs) and jobs[coming].submit_us <= now_us:
            model.add(jobs[coming].tenant, jobs[coming].tier, jobs[coming].submit_us // 1000, coming)
            coming += 1
        while len(running) < workers and (chosen := model.choose(now_us // 1000)) is not None:
            number, expected = model.start(*chosen)
            waits[number] = now_us - jobs[number].submit_us
            heapq.heappush(running, (now_us + jobs[number].run_us, number, expected))
    return waits
