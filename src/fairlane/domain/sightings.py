"""What is known of jobs that waited: when they could start, when they did; and percentiles of their waits."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, Literal

import msgspec

from fairlane.domain.lanes import Rule

WaitField = Literal["tier", "queue", "tenant", "task"]
MS: Final = 1000


class Sighting(msgspec.Struct, frozen=True, gc=False):
    """A job as its row tells it, ``started_ms`` being its last start or None while it has none.

    Attributes:
        available_ms: When it last became available.
        again: Whether it had run before that start.
        express: Whether it is or was in the express lane.
        finished_ms: When it ended, or None.
        worker: Who started it; "" for a claim of a program's own, or a worker that is unknown by now.
        rule: What started it.
    """

    seq: int
    id: bytes
    queue: str
    task: str
    tenant: str
    tier: int
    arrival_ms: int
    available_ms: int
    again: bool
    express: bool
    started_ms: int | None = None
    finished_ms: int | None = None
    worker: str | None = None
    rule: Rule | None = None

    @property
    def wait_ms(self) -> int | None:
        """How long it waited: since its arrival, or since it came back; None while it waits."""
        if self.started_ms is None:
            return None
        return max(0, self.started_ms - (self.available_ms if self.again else self.arrival_ms))


class Ending(msgspec.Struct, frozen=True, gc=False):
    """A job that has ended, as its row tells it.

    Attributes:
        state: How it ended, the number of a :class:`~fairlane.domain.states.State`.
        started_ms: Its last start, or None: it never started.
        finished_ms: When it ended.
        failures: Attempts of it that failed, since it was enqueued or last brought back from the dead.
        crashes: Attempts whose worker was lost, likewise.
    """

    seq: int
    queue: str
    task: str
    tenant: str
    tier: int
    state: int
    started_ms: int | None
    finished_ms: int
    failures: int = 0
    crashes: int = 0

    @property
    def run_ms(self) -> int:
        """How long its last run took; 0 when it never ran."""
        return 0 if self.started_ms is None else max(0, self.finished_ms - self.started_ms)


class Arrivals(msgspec.Struct, frozen=True):
    """How many jobs were stored since a look.

    Attributes:
        last: The number of the last job that was looked at: where the next look goes on.
        counts: Jobs by queue and tier, those that are still kept.
    """

    last: int
    counts: tuple[tuple[str, int, int], ...] = ()


class Steered(msgspec.Struct, frozen=True):
    """What people have changed since an instant.

    Attributes:
        changes: As (what, name of what).
        configured_ms: When the policy was changed last, or None.
        more: Whether there was more than fits.
    """

    changes: frozenset[tuple[str, str]] = frozenset()
    configured_ms: int | None = None
    more: bool = False


class WaitRow(msgspec.Struct, frozen=True, kw_only=True):
    """Waits of the jobs of one tier, queue, tenant and task, in seconds; None where these are taken together.

    Attributes:
        jobs: How many there were.
        mean: Their mean wait.
        p50: The wait that half of them did not exceed; ``p90`` and ``p99`` likewise.
        max: The longest.
    """

    tier: int | None = None
    queue: str | None = None
    tenant: str | None = None
    task: str | None = None
    jobs: int
    mean: float
    p50: float
    p90: float
    p99: float
    max: float


def percentile(ordered: list[int], share: float) -> int:
    """Return the nearest-rank percentile of values in order.

    Example:
        >>> [percentile([1, 2, 3, 4], share) for share in (0.0, 0.5, 0.51, 1.0)]
        [1, 2, 3, 4]
    """
    rank = -int(-len(ordered) * share // 1)
    return ordered[min(len(ordered), max(1, rank)) - 1]


def wait_rows(sightings: Iterable[Sighting], by: tuple[WaitField, ...]) -> list[WaitRow]:
    """Return the percentiles of waits by some of tier, queue, tenant and task, in the order of these.

    Example:
        >>> job = Sighting(1, b"", "q", "t", "a", 2, 0, 0, False, False, 1500)
        >>> [(row.tier, row.jobs, row.p50) for row in wait_rows([job], ("tier",))]
        [(2, 1, 1.5)]
    """
    groups: dict[tuple[object, ...], list[int]] = {}
    for one in sightings:
        wait_ms = one.wait_ms
        if wait_ms is not None:
            groups.setdefault(tuple(getattr(one, name) for name in by), []).append(wait_ms)
    rows = [_row(dict(zip(by, key, strict=True)), sorted(waits)) for key, waits in groups.items()]
    rows.sort(key=lambda row: (row.tier or 0, row.queue or "", row.tenant or "", row.task or ""))
    return rows


def _row(names: dict[WaitField, Any], waits: list[int]) -> WaitRow:  # Any: a tier or a name
    return WaitRow(
        tier=names.get("tier"),
        queue=names.get("queue"),
        tenant=names.get("tenant"),
        task=names.get("task"),
        jobs=len(waits),
        mean=round(sum(waits) / len(waits) / MS, 3),
        p50=percentile(waits, 0.5) / MS,
        p90=percentile(waits, 0.9) / MS,
        p99=percentile(waits, 0.99) / MS,
        max=waits[-1] / MS,
    )
