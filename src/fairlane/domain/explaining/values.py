"""What an explanation says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, get_args

import msgspec

from fairlane.domain.jobs import WorkerRecord
from fairlane.domain.lanes import Rule
from fairlane.domain.states import State
from fairlane.domain.tiers import Tier

Hard = Literal[
    "order",
    "schedule",
    "pause",
    "queue full",
    "tenant cap",
    "limit",
    "rate",
    "no worker",
]
"""What closes the way to a job, whoever else waits."""

Cause = Literal[
    Hard,
    "urgent ahead",
    "express ahead",
    "guarantee due",
    "turns ahead",
    "own jobs ahead",
    "slots busy",
    "next",
    "not waiting",
]
"""The one thing that holds a job back most; ``next``: nothing does, the next claim that may run it starts it.

``not waiting``: it runs, has ended, or has expired.
"""

Kind = Literal["job", "queue", "task", "tenant", "limit", "pool"]

HARD: Final[tuple[Cause, ...]] = get_args(Hard)
"""The first of these that holds is the main cause."""

SHOWN_TENANTS: Final = 100
"""Tenants ahead beyond this are told as ``100+``."""
SHOWN_PLACE: Final = 10_000
"""Jobs ahead in a lane beyond this are told as ``10,000+``."""


class Figure(msgspec.Struct, frozen=True):
    """A number, or the least that it is: counting stopped there.

    Attributes:
        value: The number.
        more: Whether there are more.

    Example:
        >>> str(Figure(3)), str(Figure(10_000, more=True))
        ('3', '10,000+')
    """

    value: int
    more: bool = False

    def __str__(self) -> str:
        return f"{self.value:,}{'+' if self.more else ''}"


class Blocker(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that holds a job back.

    Attributes:
        cause: What sort of thing.
        kind: What it belongs to.
        name: Its name there; a named limit's key is filled in.
        current: How many run, wait in front, or are used.
        maximum: How many are allowed, when there is a bound.
        until_ms: When it ends by itself, milliseconds UTC, if that is known.
        reason: Why somebody set it.
        by: Who.
        text: The same in words.
    """

    cause: Cause
    kind: Kind
    name: str
    current: int | None = None
    maximum: int | None = None
    until_ms: int | None = None
    reason: str = ""
    by: str = ""
    text: str


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    """Why a job is waiting, as of one instant.

    Attributes:
        id: The job, 16 bytes.
        state: Its state; a job that does not wait has nothing but this and ``summary``.
        at_ms: The instant.
        cause: The main cause.
        summary: The main cause in one sentence.
        queue: Its queue.
        task: Its task.
        tenant: Its tenant.
        pool: The pool of its queue.
        tier: Its base tier.
        effective_tier: The tier that it counts as after its wait.
        express: Whether it is in the express lane.
        place: How many jobs stand before it in its lane (express: in the express lane).
        tenants_ahead: How many tenants have their turn before its own, with work of its class that may start.
        tenants_urgent: How many tenants have work of a more urgent class that goes first.
        express_ahead: How many express jobs that may start go first.
        next: Whether the next claim that may run it starts it.
        rule: The rule that would start it.
        blockers: Everything that holds it back, the main cause first.
        starts_in: Estimated start, from and to, in seconds from now; None when there is no honest figure.
        starts_unknown: Why there is none.
    """

    id: bytes
    state: State
    at_ms: int
    cause: Cause
    summary: str
    queue: str
    task: str
    tenant: str
    pool: str
    tier: Tier
    effective_tier: Tier
    express: bool = False
    place: Figure | None = None
    tenants_ahead: Figure | None = None
    tenants_urgent: Figure | None = None
    express_ahead: Figure | None = None
    next: bool = False
    rule: Rule | None = None
    blockers: tuple[Blocker, ...] = ()
    starts_in: tuple[float, float] | None = None
    starts_unknown: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Around:
    """What a store knows and the scheduler does not.

    Attributes:
        before: How many jobs stand before this one in its lane.
        due_ms: When a scheduled job becomes available.
        workers: The live workers of all pools.
        busy: How many jobs each of them runs.
        waits_for: Ids of some of the jobs that it waits for, those that were stored first.
    """

    before: Figure
    due_ms: int | None = None
    workers: Sequence[WorkerRecord] = ()
    busy: Mapping[str, int] = field(default_factory=dict[str, int])
    waits_for: Sequence[bytes] = ()
