"""Looks at jobs and at the store as a whole.

Transactions, errors and time: see the package.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from fairlane.domain.explaining import Explanation
from fairlane.domain.jobs import (
    DepthRow,
    JobFilter,
    JobRecord,
)
from fairlane.domain.lanes import Ask
from fairlane.domain.sightings import Arrivals, Ending, Sighting, Steered
from fairlane.domain.states import State
from fairlane.store.values import (
    Counted,
    DeadGroupRecord,
    Page,
)


class Reading(Protocol):
    """Answers that change nothing."""

    def get(self, job_id: bytes) -> JobRecord | None:
        """Return a job, or None."""
        ...

    def bundle(self, bundle: bytes) -> list[tuple[bytes, State]]:
        """Return the jobs of a bundle that are still kept, each with its state, in the order in which they were stored.

        Takes a step for each of its jobs.
        """
        ...

    def jobs(self, which: JobFilter, *, limit: int, cursor: str | None = None) -> Page:
        """Return jobs, newest first, a page at a time.

        A page looks at a bounded number of jobs: one with a cursor may hold fewer than ``limit`` of them, or none.

        Raises:
            InvalidValue: The cursor is not one of ours.
        """
        ...

    def count(self, which: JobFilter, *, limit: int) -> Counted:
        """Return how many jobs a filter means, counted as far as ``limit``. Reads only."""
        ...

    def peek(self, ask: Ask, now_ms: int) -> list[JobRecord]:
        """Return what a claim would start now, in order, and change nothing."""
        ...

    def explain(self, job_id: bytes, now_ms: int) -> Explanation:
        """Return why a job is waiting, as of the last commit; a job that does not wait is told with its state.

        A store object that keeps the state for this loads it at the first call and follows from there.

        Raises:
            JobNotFound: There is no such job.
        """
        ...

    def starts(self, since_ms: int, *, limit: int) -> list[Sighting]:
        """Return the jobs that started since an instant and run or have ended, the latest ones, at most ``limit``.

        Of a job that started more than once, its last start is told; one that waits again is left out.
        """
        ...

    def ends(self, since_ms: int, *, limit: int) -> list[Ending]:
        """Return the jobs that ended since an instant and are still kept, the latest ones first, at most ``limit``."""
        ...

    def arrivals(self, after: int | None, *, limit: int) -> Arrivals:
        """Return how many jobs were stored since a look, by the queue and tier that they have now. Reads only.

        Args:
            after: ``last`` of that look; None only returns where the next look begins.
            limit: Most jobs to look at, the earliest ones; those beyond are left for the next look.
        """
        ...

    def ended(self, state: State, which: JobFilter, *, limit: int, cursor: str | None = None) -> Page:
        """Return jobs that ended in one way, the latest end first, a page at a time.

        It is found without a look at other jobs, which :meth:`jobs` may need many of: what ended is older than what
        waits.

        Args:
            state: How they ended.
            which: Their queue, task, tenant and tier; nothing else of it is looked at.
            limit: Most jobs.
            cursor: Where the page before ended.

        Raises:
            InvalidValue: The cursor is not one of ours.
        """
        ...

    def express(self, *, limit: int) -> list[JobRecord]:
        """Return the jobs that wait in the express lane, in their order, at most ``limit``."""
        ...

    def heads(self, *, limit: int) -> list[Sighting]:
        """Return the first and the last available job of each lane, express jobs aside, of at most ``limit`` lanes."""
        ...

    def steered(self, since_ms: int) -> Steered:
        """Return what people have changed since an instant."""
        ...

    def depth(self, now_ms: int) -> list[DepthRow]:
        """Return how many jobs wait and run, by lane; equal to the rows at the moment of the call."""
        ...

    def dead_groups(self, *, limit: int) -> list[DeadGroupRecord]:
        """Return the dead jobs by fingerprint, largest group first."""
        ...

    def dead_history(self, fingerprint: str, *, since_ms: int, spell_ms: int, spells: int) -> list[int]:
        """Return how many dead jobs of a group died in each of ``spells`` spells of time, the oldest first. Reads only.

        Args:
            fingerprint: The group.
            since_ms: When the first spell begins.
            spell_ms: How long each is, in milliseconds; 1 or more.
            spells: How many there are.
        """
        ...

    def counts(self) -> dict[State, int]:
        """Return how many jobs are in each state."""
        ...

    def next_due_ms(self) -> int | None:
        """Return the next instant at which time alone may make something startable, or None."""
        ...

    def check(self) -> list[str]:
        """Return what is wrong with the store's own books; empty when all is well. May take seconds."""
        ...

    def facts(self) -> Mapping[str, Any]:  # Any: for people to read
        """Return facts about the database for ``doctor``: versions, sizes, settings."""
        ...
