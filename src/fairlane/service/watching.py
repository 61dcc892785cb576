"""How the store does: depth, waits, inversions, incidents, workers, express use."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from fairlane import shapes
from fairlane.domain.tiers import Tier
from fairlane.errors import InvalidValue
from fairlane.instants import aware
from fairlane.service.base import Base, Json
from fairlane.views import By, Depth, depth_of, grouped_by

COUNTED: Final = ("scheduled", "available", "running")
ALL: Final[tuple[By, ...]] = ("tier", "queue", "tenant")
FIGURES: Final = ("jobs", "mean", "p50", "p90", "p99", "max")


class Watching(Base):
    """What an actor sees of how the store does. A confined actor's figures count its own tenant's jobs alone."""

    async def depth(self, by: Sequence[By] = ALL) -> Json:
        """Return how many jobs wait and run, as ``{"at", "scheduled", "available", "running", "items"}``.

        The figures equal the rows in the store at the instant ``at``.

        Raises:
            InvalidValue: Something in ``by`` is no field to group by.
        """
        fields = grouped_by(by)
        depth = await self.read(
            lambda store, now_ms: depth_of(
                [lane for lane in store.depth(now_ms) if self.sees(lane.tenant)], fields, now_ms
            )
        )
        totals = {name: getattr(depth, name) for name in COUNTED}
        return {"at": shapes.instant(depth.at)} | totals | {"items": _depth_rows(depth, fields)}

    async def waits(self, by: Sequence[By] = ALL, *, window: float = 3600.0) -> Json:
        """Return percentiles of how long the jobs waited that started in the last ``window`` seconds.

        Raises:
            InvalidValue: An argument is out of range.
        """
        fields = grouped_by(by)
        wanted = fields if self.actor.tenant is None or "tenant" in fields else (*fields, "tenant")
        told = await self.app.awaits(wanted, window=window)
        rows: list[Json] = []
        jobs = 0
        for row in told.rows:
            if self.actor.tenant is None or row.tenant == self.actor.tenant:
                jobs += row.jobs
                rows.append(_named(row, fields) | {name: getattr(row, name) for name in FIGURES})
        return {
            "since": shapes.instant(aware(told.since_ms)),
            "at": shapes.instant(aware(told.at_ms)),
            "jobs": jobs,
            "more": told.more,
            "items": rows,
        }

    async def inversions(self, *, window: float = 900.0) -> Json:
        """Return the starts of less urgent jobs while more urgent ones waited, by what explains them.

        Raises:
            Forbidden: The actor is confined to a tenant: they are between tenants.
            InvalidValue: The window is out of range.
        """
        self.need_all_tenants("inversions")
        return shapes.overtaken(await self.app.ainversions(window=window))

    async def incidents(self, *, resolved: bool = False, limit: int = 100) -> Json:
        """Return the open incidents, or the latest ones; of a confined actor those whose oldest job is its own."""
        found = await self.app.aincidents(resolved=resolved, limit=limit)
        return {"items": [one.shown() for one in found if self.sees(one.tenant)]}

    async def workers(self) -> Json:
        """Return the workers on record.

        Raises:
            Forbidden: The actor is confined to a tenant.
        """
        self.need_all_tenants("workers")
        found = await self.read(lambda store, _: store.workers())
        return {
            "items": [
                {
                    "id": worker.id,
                    "pool": worker.pool,
                    "queues": None if worker.queues is None else list(worker.queues),
                    "tasks": None if worker.tasks is None else list(worker.tasks),
                    "slots": worker.slots,
                    "host": worker.host,
                    "pid": worker.pid,
                    "started_at": shapes.instant(aware(worker.started_at_ms)),
                }
                for worker in found
            ]
        }

    async def counts(self) -> dict[str, int]:
        """Return how many jobs are in each state.

        Raises:
            Forbidden: The actor is confined to a tenant.
        """
        self.need_all_tenants("counts by state")
        counts = await self.read(lambda store, _: store.counts())
        return {state.label: count for state, count in counts.items()}


def _named(row: Any, fields: Sequence[By]) -> Json:  # Any: a row of figures, whatever they are
    told: Json = {name: getattr(row, name) for name in fields}
    if told.get("tier") is not None:
        told["tier"] = Tier(told["tier"]).label
    return told


def _depth_rows(depth: Depth, fields: Sequence[By]) -> list[Json]:
    rows: list[Json] = []
    for row in depth:
        told = _named(row, fields) | {name: getattr(row, name) for name in COUNTED}
        told["oldest_at"] = shapes.instant(row.oldest_at)
        told["oldest_wait_s"] = None if row.oldest_at is None else max(0.0, (depth.at - row.oldest_at).total_seconds())
        rows.append(told)
    return rows


def fields_of(text: str | None) -> tuple[By, ...]:
    """Return what to group by from ``tier,queue`` as it stands in an address; None: tier, queue and tenant.

    Raises:
        InvalidValue: Something in it is no field to group by.
    """
    if text is None:
        return ALL
    names = tuple(dict.fromkeys(part.strip() for part in text.split(",")))
    if names == ("",):
        raise InvalidValue("by is empty; give some of tier, queue, tenant, task")
    return grouped_by(names)
