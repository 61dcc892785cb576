"""Why jobs wait: explanations, inversions and percentiles of waits. Each call has an ``a…`` twin over the same body."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from fairlane.client import Client
from fairlane.domain.checks import number
from fairlane.domain.explaining import Explanation
from fairlane.domain.inversions import Inversions, Setting, inversions
from fairlane.domain.policy import QueueRule, TaskRule, TenantRule
from fairlane.domain.sightings import WaitRow, wait_rows
from fairlane.faces import Steps, later, read, twin
from fairlane.store import Store
from fairlane.views import By, JobId, grouped_by, id_of

MOST_STARTS: Final = 20_000
"""Starts that percentiles and inversions are worked out from at most: the latest of the window."""
MOST_LANES: Final = 5_000
MAX_WINDOW: Final = 30 * 86_400.0


class Waits(msgspec.Struct, frozen=True, kw_only=True):
    """Percentiles of waits, in seconds.

    Attributes:
        since_ms: From when on starts were looked at, milliseconds UTC.
        at_ms: Up to when.
        jobs: How many starts that were.
        more: Whether there were more in the window than are looked at; the latest are.
        rows: One for each group, by tier, queue, tenant and task.
    """

    since_ms: int
    at_ms: int
    jobs: int
    more: bool
    rows: tuple[WaitRow, ...]


class Insight(Client):
    """The client's calls that tell why jobs wait, and how long they did."""

    @twin
    def explain(self, job_id: JobId) -> Steps[Explanation]:
        """Return why a job is waiting: its place, what blocks it, what goes first, and about when it starts.

        The first call of a process loads the state that claims decide on, which takes about a second with a million
        jobs of 10,000 tenants; later ones follow its changes and take milliseconds.

        Raises:
            JobNotFound: There is no such job.
            InvalidValue: ``job_id`` is no id.
        """
        wanted = id_of(job_id)
        return (yield from read(lambda store, now_ms: store.explain(wanted, now_ms)))

    aexplain = later(explain)

    @twin
    def waits(self, by: By | Sequence[By] = ("tier", "queue", "tenant"), *, window: float = 3600.0) -> Steps[Waits]:
        """Return percentiles of how long jobs waited before they started, from the jobs still kept.

        Of the starts in the window the latest 20,000 are looked at. A job that ran more than once counts with its
        last start, and from when it came back; one that waits to be tried again is left out.

        Args:
            by: What to tell apart: any of ``tier``, ``queue``, ``tenant`` and ``task``.
            window: Only starts of the last so many seconds; above 0, at most 30 days.

        Raises:
            InvalidValue: An argument is outside the range given above.
        """
        fields = grouped_by(by)
        window_ms = _window_ms(window)

        def op(store: Store, now_ms: int) -> Waits:
            since_ms = now_ms - window_ms
            starts = store.starts(since_ms, limit=MOST_STARTS)
            more = len(starts) >= MOST_STARTS
            if more:
                since_ms = min(one.started_ms for one in starts if one.started_ms is not None)
            return Waits(
                since_ms=since_ms, at_ms=now_ms, jobs=len(starts), more=more, rows=tuple(wait_rows(starts, fields))
            )

        return (yield from read(op))

    awaits = later(waits)

    @twin
    def inversions(self, *, window: float = 900.0) -> Steps[Inversions]:
        """Return the starts of less urgent jobs while more urgent ones waited, by what explains them.

        They are worked out from the jobs still kept, the latest 20,000 starts of the window at most.

        Args:
            window: Only starts of the last so many seconds; above 0, at most 30 days.

        Raises:
            InvalidValue: The window is outside the range given above.
        """
        window_ms = _window_ms(window)

        def op(store: Store, now_ms: int) -> Inversions:
            since_ms = now_ms - window_ms
            starts = store.starts(since_ms, limit=MOST_STARTS)
            heads = store.heads(limit=MOST_LANES)
            more = len(starts) >= MOST_STARTS or len(heads) >= MOST_LANES
            return inversions(starts, heads, setting_of(store, since_ms), since_ms=since_ms, now_ms=now_ms, more=more)

        return (yield from read(op))

    ainversions = later(inversions)


def _window_ms(window: float) -> int:
    return round(number("window", window, least=0, most=MAX_WINDOW, above=True) * 1000)


def setting_of(store: Store, since_ms: int) -> Setting:
    """Return what explains inversions since an instant: rules, workers, what people did."""
    return Setting(
        policy=store.settings()[0],
        queues={name: rule for name, rule in store.rules("queue").items() if isinstance(rule, QueueRule)},
        tasks={name: rule for name, rule in store.rules("task").items() if isinstance(rule, TaskRule)},
        tenants={name: rule for name, rule in store.rules("tenant").items() if isinstance(rule, TenantRule)},
        workers=store.workers(),
        steered=store.steered(since_ms),
    )
