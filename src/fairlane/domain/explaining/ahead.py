"""What goes before a job: express jobs, more urgent work, the turns of others, the tenant's own jobs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from fairlane.domain.choosing import Decision
from fairlane.domain.explaining.subject import Subject
from fairlane.domain.lanes import Ask, Place, Rule
from fairlane.domain.tiers import Tier, rise_delay_ms
from fairlane.domain.turns import Chosen

MOST_TURNS: Final = 20_000
"""Tenants of a pool that are looked at; of a larger pool the figures are told as "at least"."""
MOST_ASKS: Final = 8
"""Sorts of workers (by queues and tasks) that are looked at."""


@dataclass(slots=True)
class Ahead:
    """What goes before a job, as one sort of worker sees it.

    Attributes:
        chosen: What that worker would start now.
        mine: Whether it is the job.
        express: Express jobs that may start and go first.
        urgent: Tenants with work of a more urgent class.
        tenants: Tenants of the same class whose turn comes first.
        rivals: Tenants of the same class, whenever their turn comes.
        weights: Their weights together.
        own: Jobs of the tenant's own that go first, in its lane and in others.
        more: Whether there were too many tenants to look at each.
    """

    chosen: Chosen | None
    mine: bool
    express: int = 0
    urgent: int = 0
    tenants: int = 0
    rivals: int = 0
    weights: int = 0
    own: int = 0
    more: bool = False

    def order(self) -> tuple[bool, int, int]:
        """Sort the sorts of workers: the one that starts the job soonest comes first."""
        return not self.mine, self.urgent + self.tenants, self.express


def look_ahead(job: Subject) -> Ahead:
    """Return what goes before the job, as the worker sees it that would start it soonest."""
    asks = dict.fromkeys(
        (None if worker.queues is None else tuple(sorted(worker.queues)), worker.tasks) for worker in job.able
    )
    found = [
        _seen_by(job, Ask(job.pool_name, 1, None if queues is None else dict.fromkeys(queues, 1), _set(tasks)))
        for queues, tasks in list(asks)[:MOST_ASKS] or [(None, None)]
    ]
    return min(found, key=Ahead.order)


def _seen_by(job: Subject, ask: Ask) -> Ahead:
    scheduler, pool = job.scheduler, job.pool
    decision = scheduler.decision(ask, job.now_ms)
    stood = pool.now
    chosen = scheduler.rules.choose(decision)
    pool.now = stood  # only a claim moves it
    mine = chosen is not None and chosen.place == job.place and chosen.lane.key == job.key
    found = Ahead(chosen, mine)
    number = job.record.express
    for other in pool.express:
        if number is not None and other.number >= number:
            break
        found.express += bool(other.lane.group.bit & decision.mask and other.lane.turn.may(other.lane.group))
    if number is None:
        _tenants(job, found, decision)
        found.own += job.around.before.value + _own(job, decision)
    return found


def _class(job: Subject) -> int:
    """Return the class of jobs among which it waits for its turn."""
    if job.policy.kind == "strict":
        return job.level
    if job.policy.kind == "fair":
        return min(job.key.tier, 2) if job.turn is None or not job.turn.over else 2
    return 0


def _tenants(job: Subject, found: Ahead, decision: Decision) -> None:
    """Count the tenants that go first, and all that wait in the same class."""
    number, mask, mine = _class(job), decision.mask, job.turn
    turn_key = _standing(job)
    arrival = job.policy.kind == "fifo"
    for looked, turn in enumerate(job.pool.turns.values()):
        if looked == MOST_TURNS:
            found.more = True
            return
        shown = turn.shown
        if not shown or turn.tenant.closed:
            continue
        found.urgent += any(groups & mask for groups in shown[:number])
        if turn is mine or not shown[number] & mask:
            continue
        found.rivals += 1
        found.weights += turn.tenant.rule.weight_milli
        if arrival:
            found.tenants += any(lane.jobs[0] < job.place for lane in turn.runnable(mask))
        elif (turn.virtual, -turn.activation) < turn_key:
            found.tenants += 1


def _standing(job: Subject) -> tuple[int, int]:
    """Return by what its tenant takes its turn; one that becomes able only later would start at the pool's time."""
    turn, pool = job.turn, job.pool
    if turn is not None and turn.able:
        return turn.virtual, -turn.activation
    return max(pool.now, 0 if turn is None else turn.virtual), -pool.activations - 1


def _own(job: Subject, decision: Decision) -> int:
    """Return how many jobs of its tenant's other lanes go first, as far as they are in memory."""
    if job.turn is None:
        return 0
    mine = _order(job, job.key.tier, job.level, job.place)
    return sum(
        len(lane.jobs)
        for lane in job.turn.runnable(decision.mask)
        if lane.key != job.key
        and _order(job, lane.tier, job.level_at(lane.tier, lane.jobs[0].arrival_ms), lane.jobs[0]) < mine
    )


def _order(job: Subject, tier: int, level: int, place: Place) -> tuple[int, Place]:
    """Sort jobs within a tenant, as the policy does."""
    if job.policy.kind == "fifo":
        return 0, place
    if job.policy.kind == "fair" and tier <= Tier.HIGH:
        return tier - 2, place
    return level, place


def rule_for(job: Subject, ahead: Ahead) -> Rule:
    """Return the rule that would start the job."""
    if ahead.mine and ahead.chosen is not None:
        return ahead.chosen.rule
    if job.record.express is not None:
        return "express"
    if job.policy.kind == "strict":
        return "tier"
    if job.policy.kind == "fifo":
        return "fifo"
    rise_ms = rise_delay_ms(job.key.tier, job.policy.ageing_step_ms)
    if _class(job) < Tier.NORMAL:
        return "urgent"
    risen = job.policy.risen_every and rise_ms is not None and job.waited_ms >= rise_ms
    return "risen" if risen and ahead.urgent else "shared"


def _set(names: Iterable[str] | None) -> frozenset[str] | None:
    return None if names is None else frozenset(names)
