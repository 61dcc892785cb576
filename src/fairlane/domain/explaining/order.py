"""What goes before a job, told as blockers."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from fairlane.domain.explaining.ahead import Ahead
from fairlane.domain.explaining.subject import Subject
from fairlane.domain.explaining.values import SHOWN_TENANTS, Blocker, Cause, Figure
from fairlane.domain.explaining.words import goes, jobs
from fairlane.domain.lanes import Rule
from fairlane.domain.tiers import Tier
from fairlane.domain.turns import Chosen

_CAUSES: Final[Mapping[Rule, Cause]] = MappingProxyType({"express": "express ahead", "urgent": "urgent ahead"})


def soft(job: Subject, ahead: Ahead) -> list[Blocker]:
    """Return what goes before the job, the largest first, and whether it lacks a slot."""
    if ahead.mine:
        return _slots(job)
    found: list[Blocker] = []
    if ahead.urgent:
        found.append(_urgent(job, ahead))
    if ahead.tenants or (ahead.own and ahead.rivals):
        found.append(_turns(job, ahead))
    elif ahead.own:
        text = f"{jobs(ahead.own)} of its own tenant {goes(ahead.own)} first"
        found.append(Blocker(cause="own jobs ahead", kind="tenant", name=job.key.tenant, current=ahead.own, text=text))
    if ahead.express:
        text = f"{jobs(ahead.express)} in the express lane {goes(ahead.express)} first"
        most = not ahead.urgent and ahead.express >= ahead.tenants + ahead.own
        found.insert(
            0 if most else len(found),
            Blocker(cause="express ahead", kind="pool", name=job.pool_name, current=ahead.express, text=text),
        )
    chosen = ahead.chosen
    if chosen is not None and (chosen.rule == "risen" or not found):
        found.append(_first(job, chosen))
    return found + _slots(job)


def _first(job: Subject, chosen: Chosen) -> Blocker:
    """Say what is started next, where the figures alone do not."""
    tenant = chosen.lane.key.tenant
    text = f"a job of tenant {tenant!r} is next, by the rule {chosen.rule!r}"
    cause: Cause = "own jobs ahead" if tenant == job.key.tenant else _CAUSES.get(chosen.rule, "turns ahead")
    if chosen.rule == "risen":
        every = job.policy.risen_every
        text = f"one start in {every} is for jobs that have waited long, and now it is a job of tenant {tenant!r}"
        cause = "guarantee due"
    return Blocker(cause=cause, kind="tenant", name=tenant, current=1, text=text)


def _urgent(job: Subject, ahead: Ahead) -> Blocker:
    who = Figure(min(ahead.urgent, SHOWN_TENANTS), ahead.urgent > SHOWN_TENANTS)
    what = "tenant has" if ahead.urgent == 1 else "tenants have"
    text = f"{who} {what} more urgent work than tier {Tier(_told_level(job)).label}"
    return Blocker(cause="urgent ahead", kind="pool", name=job.pool_name, current=ahead.urgent, text=text)


def _told_level(job: Subject) -> int:
    return job.level if job.policy.kind == "strict" else job.key.tier


def _turns(job: Subject, ahead: Ahead) -> Blocker:
    who = Figure(min(ahead.tenants, SHOWN_TENANTS), ahead.tenants > SHOWN_TENANTS or ahead.more)
    parts: list[str] = []
    if ahead.own:
        parts.append(f"{jobs(ahead.own)} of its own tenant {goes(ahead.own)} first")
    if job.policy.kind == "fifo":
        parts.append(f"{who} other {'tenant has' if ahead.tenants == 1 else 'tenants have'} older jobs")
    elif ahead.tenants:
        parts.append(f"{who} other {'tenant has its turn' if ahead.tenants == 1 else 'tenants have their turn'} first")
    else:
        parts.append(f"{ahead.rivals:,} other {'tenant takes' if ahead.rivals == 1 else 'tenants take'} turns with it")
    return Blocker(
        cause="turns ahead", kind="pool", name=job.pool_name, current=ahead.tenants, text=", and ".join(parts)
    )


def _slots(job: Subject) -> list[Blocker]:
    busy, slots = job.used(), job.slots
    if not job.able or busy < slots:
        return []
    text = f"all {slots:,} slots of the workers that may run it are busy"
    return [Blocker(cause="slots busy", kind="pool", name=job.pool_name, current=busy, maximum=slots, text=text)]
