"""What the sampler remembers: an hour of starts, ends, waits and depth in a bounded number of buckets."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

BUCKET_MS: Final = 15_000
HOUR_MS: Final = 3_600_000
BUCKETS: Final = HOUR_MS // BUCKET_MS
OTHER: Final = "(other)"
MOST_QUEUES: Final = 50
MOST_TENANTS: Final = 60
"""Names told apart in one bucket; the rest are counted together as :data:`OTHER`."""
GROWTH: Final = 1.05
_LOG: Final = math.log(GROWTH)


class Waits:
    """How long jobs waited, in a histogram whose steps grow by 5 %: a percentile is at most that far off.

    Example:
        >>> waits = Waits()
        >>> for ms in (10, 20, 30, 1000): waits.add(ms)
        >>> waits.count, round(waits.percentile(0.5)), waits.within(25)
        (4, 20, 2)
    """

    __slots__ = ("bins", "count", "most")

    def __init__(self) -> None:
        self.bins: dict[int, int] = {}
        self.count = 0
        self.most = 0

    def add(self, ms: int) -> None:
        """Take a wait in, in milliseconds."""
        step = round(math.log(ms + 1) / _LOG) if ms > 0 else 0
        self.bins[step] = self.bins.get(step, 0) + 1
        self.count += 1
        self.most = max(self.most, ms)

    def take(self, other: Waits) -> None:
        """Take in all that another one holds."""
        for step, count in other.bins.items():
            self.bins[step] = self.bins.get(step, 0) + count
        self.count += other.count
        self.most = max(self.most, other.most)

    def percentile(self, share: float) -> float | None:
        """Return the nearest-rank percentile in milliseconds, or None when there are none."""
        if not self.count:
            return None
        rank, seen = max(1, math.ceil(share * self.count)), 0
        for step in sorted(self.bins):
            seen += self.bins[step]
            if seen >= rank:
                return min(GROWTH**step - 1, self.most)
        return float(self.most)

    def within(self, ms: int) -> int:
        """Return how many waits were no longer than ``ms``, to the histogram's exactness."""
        last = round(math.log(ms + 1) / _LOG)
        return sum(count for step, count in self.bins.items() if step <= last)


@dataclass(slots=True)
class Cell:
    """What happened to the jobs of one tier and queue, or of one tenant, in one bucket.

    Attributes:
        started: Jobs that started; ``risen`` those that the guarantee started, ``judged`` those that had a wait
            objective, ``met`` those of them that kept it.
        completed: Jobs that ended well; ``dead`` and ``cancelled`` the others.
        run_ms: How long the last runs of those that ended took.
        waits: How long those that started had waited.
    """

    started: int = 0
    risen: int = 0
    judged: int = 0
    met: int = 0
    completed: int = 0
    dead: int = 0
    cancelled: int = 0
    run_ms: int = 0
    waits: Waits = field(default_factory=Waits)

    def take(self, other: Cell) -> None:
        """Add what another one holds."""
        self.started += other.started
        self.risen += other.risen
        self.judged += other.judged
        self.met += other.met
        self.completed += other.completed
        self.dead += other.dead
        self.cancelled += other.cancelled
        self.run_ms += other.run_ms
        self.waits.take(other.waits)

    @property
    def ended(self) -> int:
        """Jobs that have ended in any way."""
        return self.completed + self.dead + self.cancelled


@dataclass(slots=True)
class Bucket:
    """A quarter of a minute.

    Attributes:
        at_ms: When it began.
        lanes: What happened, by (tier, queue).
        tenants: What happened, by tenant.
        waiting: Available jobs by tier when it was last looked at.
        oldest_ms: How long the oldest of each tier had waited then.
    """

    at_ms: int
    lanes: dict[tuple[int, str], Cell] = field(default_factory=dict[tuple[int, str], Cell])
    tenants: dict[str, Cell] = field(default_factory=dict[str, Cell])
    waiting: dict[int, int] = field(default_factory=dict[int, int])
    oldest_ms: dict[int, int] = field(default_factory=dict[int, int])

    def of(self, tier: int, queue: str, tenant: str) -> tuple[Cell, Cell]:
        """Return where a job of this tier, queue and tenant is counted."""
        if (tier, queue) not in self.lanes and len(self.lanes) >= MOST_QUEUES * 5:
            queue = OTHER
        if tenant not in self.tenants and len(self.tenants) >= MOST_TENANTS:
            tenant = OTHER
        return self.lanes.setdefault((tier, queue), Cell()), self.tenants.setdefault(tenant, Cell())


class Series:
    """The buckets of the last hour. Not safe for threads: its owner sees to that."""

    def __init__(self) -> None:
        self.buckets: deque[Bucket] = deque(maxlen=BUCKETS)

    def at(self, at_ms: int, now_ms: int) -> Bucket | None:
        """Return the bucket of an instant, made as needed; None: it is older than an hour, or ahead."""
        first = at_ms - at_ms % BUCKET_MS
        if at_ms > now_ms + BUCKET_MS or first <= now_ms - HOUR_MS:
            return None
        last = self.buckets[-1].at_ms if self.buckets else first - BUCKET_MS
        while last < first:
            last = max(last + BUCKET_MS, first - HOUR_MS)
            self.buckets.append(Bucket(last))
        back = (last - first) // BUCKET_MS
        if back < len(self.buckets):
            return self.buckets[-1 - back]
        return None

    def since(self, since_ms: int) -> list[Bucket]:
        """Return the buckets that begin at or after an instant, oldest first."""
        return [bucket for bucket in self.buckets if bucket.at_ms >= since_ms]


def together(cells: Iterable[Cell]) -> Cell:
    """Return what all of these hold."""
    total = Cell()
    for cell in cells:
        total.take(cell)
    return total
