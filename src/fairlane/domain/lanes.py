"""The words of a decision: lanes and groups, what a claim asks for, what a start is.

A **lane** holds the jobs of one queue, task, tenant and tier by arrival. A **group** is the lanes of one queue and
task: whatever closes a queue, a task or one of its limits closes its groups as one fact.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

Rule = Literal["risen", "express", "urgent", "shared", "tier", "fifo"]
"""Which rule started a job."""

RULES: Final[tuple[Rule, ...]] = ("risen", "express", "urgent", "shared", "tier", "fifo")
"""The rules by the number that is stored; never reorder them."""


class LaneKey(NamedTuple):
    """Names a lane."""

    queue: str
    task: str
    tenant: str
    tier: int


class Place(NamedTuple):
    """A job's place in its lane: its arrival, then the number drawn at insert. Nothing changes it later."""

    arrival_ms: int
    seq: int


@dataclass(frozen=True, slots=True)
class Ask:
    """What one claim asks for.

    Attributes:
        pool: The pool of queues.
        count: How many jobs at most.
        queues: Free slots by queue served; None serves every queue of the pool without a bound of its own.
        tasks: The tasks that the worker knows; None knows any.
        rooms: By tier, how many more jobs of that base tier or a less urgent one may start, express jobs aside; None
            sets no such bound. This is how slots are kept by ``reserve``.
    """

    pool: str
    count: int
    queues: Mapping[str, int] | None = None
    tasks: frozenset[str] | None = None
    rooms: tuple[int, int, int, int, int] | None = None


class Start(NamedTuple):
    """A job that a decision starts, with what its tenant was charged.

    Attributes:
        lane: The lane it comes from; its tier and tenant are those of the start.
        place: Its place there.
        express: Its number in the express lane, or None.
        rule: The rule that started it.
        expected_us: The run time that was charged, in microseconds.
        divided_by: What the charge was divided by: weight and share at the start.
    """

    lane: LaneKey
    place: Place
    express: int | None
    rule: Rule
    expected_us: int
    divided_by: int
