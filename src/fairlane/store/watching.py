"""Waits: objectives, the right to watch over them, incidents.

Transactions, errors and time: see the package.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from fairlane.domain.lanes import LaneKey
from fairlane.domain.waits import IncidentRecord, ObjectiveRule, Objectives, Scope, Standing, WaitingLane
from fairlane.store.values import (
    NOBODY,
    MonitorRecord,
)


class Watching(Protocol):
    """What a monitor needs."""

    def objectives(self) -> Objectives:
        """Return what is set about waits. Reads only."""
        ...

    def set_objective(self, scope: Scope, rule: ObjectiveRule | None, *, by: str, now_ms: int) -> None:
        """Set the wait objective of a scope, in place of what was set; None lets the wider scope hold again."""
        ...

    def monitor(self) -> MonitorRecord | None:
        """Return who watches over waits, or did last; None: nobody ever did. Reads only."""
        ...

    def watch(self, monitor: str, *, lease_ms: int, now_ms: int, sinks: str = "[]") -> bool:
        """Take or keep the right to watch over waits.

        Atomic: the look and the taking. Concurrent: one holds it at a time; another gets it when the holder's time is
        over, or lies further ahead than a lease, which only a clock that stepped back explains. Durable: as the
        transaction; a renewal is written at half time, or when ``sinks`` has changed.

        Args:
            monitor: The monitor's id, its own in every process.
            lease_ms: How long the right lasts, in milliseconds; 1 or more.
            now_ms: The instant.
            sinks: How the monitor's alert sinks do, as JSON, for others to see.

        Returns:
            Whether it holds the right now; if not, nothing has changed.
        """
        ...

    def unwatch(self, monitor: str) -> None:
        """Give the right back, so that another monitor takes over at once; nothing happens when another holds it."""
        ...

    def notice(self, now_ms: int) -> None:
        """Make due jobs available and cancel expired ones, a bounded portion in order of time, as every claim does.

        Without it a job whose time came while no worker lives would never be seen waiting.
        """
        ...

    def waiting(
        self, objectives: Objectives, *, apart: Mapping[bytes, LaneKey] = NOBODY, now_ms: int
    ) -> list[WaitingLane]:
        """Return the lanes whose jobs may have waited longer than the bound of calm, with counts and oldest jobs.

        Takes a step for each lane with waiting jobs of a tier that has an objective, whatever the number of jobs.
        Express jobs are among those of their lane. One snapshot. Reads only.

        Args:
            objectives: What holds; lanes without an objective are left out.
            apart: Available jobs, by id, that are looked at elsewhere and left out here, each with its lane.
            now_ms: The instant.
        """
        ...

    def standing(self, lane: LaneKey, now_ms: int) -> Standing:
        """Return what may hold up the jobs of a lane; changes no job and no rule, and needs a transaction."""
        ...

    def incidents(self) -> list[IncidentRecord]:
        """Return the open incidents, oldest first. Reads only."""
        ...

    def past_incidents(self, *, limit: int) -> list[IncidentRecord]:
        """Return the latest incidents, open and over, newest first; the last thousand are kept. Reads only."""
        ...

    def put_incident(self, incident: IncidentRecord) -> IncidentRecord | None:
        """Raise an incident (``id`` 0), or change or resolve an open one.

        Concurrent: a queue and tier have one open incident at most, and what is over stays over: of several callers
        that raise or resolve it, the first does.

        Returns:
            The incident with its number, or None when another call came first and nothing has changed.
        """
        ...
