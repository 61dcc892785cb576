"""Which waits deserve an alert: objectives, breaches, incidents, causes, and what to do about them.

A job's wait is looked at *while it waits*: from when it became available (its arrival, before its first run) to now.
All jobs of one queue and tier that wait too long are one **incident**. It is raised when a wait exceeds its objective
and resolved when none exceeds three quarters of it: with one threshold for both, a queue whose waits hover around the
objective would be raised and resolved with every start.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple, get_args

import msgspec
from msgspec import UNSET, UnsetType

from fairlane.domain.checks import text, whole
from fairlane.domain.lanes import LaneKey
from fairlane.domain.limits import Gate
from fairlane.domain.policy import Pause
from fairlane.domain.tiers import TIERS, Tier
from fairlane.errors import InvalidValue

OnBreach = Literal["alert", "boost", "expedite"]
"""What is done beside the alert: nothing, one tier up, or the express lane."""
CauseKind = Literal["paused", "cap", "rate", "no_worker", "busy", "turn"]
EventKind = Literal["raised", "again", "resolved"]
GateKind = Literal["queue", "task", "tenant", "limit", "tenant in queue"]

DEFAULT_OBJECTIVES: Final[Mapping[int, int]] = {Tier.CRITICAL: 120_000, Tier.HIGH: 120_000}
"""Longest wait in milliseconds by tier, where nobody says otherwise; other tiers have none."""
RENOTIFY_MS: Final = 15 * 60_000
"""An incident that goes on is told again no sooner than this."""
MAX_ESCALATED: Final = 20
"""Jobs of one incident that wait with a boost or express place given by it; like the express lane, it stays short."""
MAX_OBJECTIVE_MS: Final = 366 * 86_400_000
_CALM: Final = (3, 4)


# ---------------------------------------------------------------- objectives


class Scope(NamedTuple):
    """What an objective holds for: a tier; of it, one queue or one tenant, or one tenant in one queue."""

    tier: int
    queue: str | None = None
    tenant: str | None = None


class ObjectiveRule(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """What is set for one scope; what is not set comes from the wider scope.

    Attributes:
        objective_ms: Longest wait, in milliseconds, 1 or more; None: there is no objective.
        on_breach: What is done when a job waits longer.
    """

    objective_ms: int | UnsetType | None = UNSET
    on_breach: OnBreach | UnsetType = UNSET

    def __post_init__(self) -> None:
        if isinstance(self.objective_ms, int):
            whole("objective in milliseconds", self.objective_ms, least=1, most=MAX_OBJECTIVE_MS)
        if self.on_breach is not UNSET and self.on_breach not in get_args(OnBreach):
            raise InvalidValue(f"on_breach {self.on_breach!r} is not one of {', '.join(get_args(OnBreach))}")


class Objective(NamedTuple):
    """What holds for a lane.

    Attributes:
        objective_ms: The longest wait, in milliseconds; None: no objective.
        on_breach: What is done beyond it.
    """

    objective_ms: int | None
    on_breach: OnBreach = "alert"

    @property
    def objective(self) -> float | None:
        """The longest wait in seconds, as it is set."""
        return None if self.objective_ms is None else self.objective_ms / 1000

    @property
    def calm_ms(self) -> int | None:
        """The wait up to which an incident is over, in milliseconds."""
        return None if self.objective_ms is None else self.objective_ms * _CALM[0] // _CALM[1]


class Objectives:
    """All objectives of a store.

    Args:
        rules: What is set, by scope.

    Example:
        >>> held = Objectives({Scope(1, tenant="acme"): ObjectiveRule(objective_ms=30_000)})
        >>> held.of(1, "mail", "acme"), held.of(1, "mail", "other").objective, held.of(2, "mail", "acme").objective
        (Objective(objective_ms=30000, on_breach='alert'), 120.0, None)
    """

    def __init__(self, rules: Mapping[Scope, ObjectiveRule]) -> None:
        self.rules = dict(rules)

    def of(self, tier: int, queue: str | None = None, tenant: str | None = None) -> Objective:
        """Return what holds: the tenant in the queue, else the tenant, else the queue, else the tier."""
        objective_ms: int | UnsetType | None = UNSET
        on_breach: OnBreach | UnsetType = UNSET
        for scope in (
            Scope(tier, queue, tenant),
            Scope(tier, None, tenant),
            Scope(tier, queue, None),
            Scope(tier, None, None),
        ):
            rule = self.rules.get(scope)
            if rule is not None:
                objective_ms = rule.objective_ms if objective_ms is UNSET else objective_ms
                on_breach = rule.on_breach if on_breach is UNSET else on_breach
        return Objective(
            DEFAULT_OBJECTIVES.get(tier) if isinstance(objective_ms, UnsetType) else objective_ms,
            "alert" if isinstance(on_breach, UnsetType) else on_breach,
        )

    def tiers(self) -> frozenset[int]:
        """Return the tiers in which some job may have an objective."""
        named = {scope.tier for scope, rule in self.rules.items() if isinstance(rule.objective_ms, int)}
        return frozenset(named | {tier for tier in TIERS if self.of(tier).objective_ms is not None})


def checked(scope: Scope) -> Scope:
    """Return a scope whose names may be stored.

    Raises:
        InvalidValue: There is no such tier, or a name breaks a rule.
    """
    for name, value in (("queue", scope.queue), ("tenant", scope.tenant)):
        if value is not None:
            text(name, value)
    return Scope(Tier.of(scope.tier), scope.queue, scope.tenant)


# ---------------------------------------------------------------- who waits


class Waiter(NamedTuple):
    """A job that waits: its id, since when in milliseconds, and whether it is express."""

    id: bytes
    since_ms: int
    express: bool = False


@dataclass(frozen=True, slots=True)
class WaitingLane:
    """The jobs that wait in one lane.

    Attributes:
        lane: The lane.
        tier: The tier they count under: the lane's, or the one they had before an incident boosted them.
        count: How many wait.
        oldest: Those that have waited longest, longest first; at least one.
    """

    lane: LaneKey
    tier: int
    count: int
    oldest: tuple[Waiter, ...]


def since_ms(arrival_ms: int, available_at_ms: int, started_at_ms: int | None) -> int:
    """Return since when an available job waits.

    Before its first run from its arrival, since a timer may be noticed late when no worker is there; after it from
    when it came back, since its run and its delay were no wait.

    Example:
        >>> since_ms(1_000, 9_000, None), since_ms(1_000, 9_000, 2_000), since_ms(9_000, 3_000, None)
        (1000, 9000, 3000)
    """
    return min(arrival_ms, available_at_ms) if started_at_ms is None else available_at_ms


class Late(NamedTuple):
    """A job that has waited longer than its objective, and what is to be done about it."""

    waiter: Waiter
    lane: LaneKey
    objective: Objective


@dataclass(frozen=True, slots=True, kw_only=True)
class Breach:
    """The jobs of one queue and tier that wait too long.

    Attributes:
        over: Whether a wait exceeds its objective; else one is only above the bound of calm.
        lane: The lane of the job that has waited longest.
        oldest: That job.
        objective: What holds for it.
        count: How many jobs wait in lanes like its own: those with a job over the objective (or the bound).
        late: Known jobs over their objective, longest wait first.
    """

    queue: str
    tier: int
    over: bool
    lane: LaneKey
    oldest: Waiter
    objective: Objective
    count: int
    late: tuple[Late, ...]


def breaches(lanes: Iterable[WaitingLane], objectives: Objectives, now_ms: int) -> dict[tuple[str, int], Breach]:
    """Return, by queue and tier, where jobs wait longer than their objective, or longer than calm.

    Args:
        lanes: Lanes with jobs that wait; those of fresh jobs may be left out.
        objectives: What holds.
        now_ms: The instant.

    Source:
        SPEC section 6, first point.
    """
    found: dict[tuple[str, int], list[tuple[bool, WaitingLane, Objective]]] = {}
    for lane in lanes:
        objective = objectives.of(lane.tier, lane.lane.queue, lane.lane.tenant)
        wait_ms = now_ms - lane.oldest[0].since_ms
        if objective.objective_ms is not None and objective.calm_ms is not None and wait_ms > objective.calm_ms:
            over = wait_ms > objective.objective_ms
            found.setdefault((lane.lane.queue, lane.tier), []).append((over, lane, objective))
    return {key: _breach(key, held, now_ms) for key, held in found.items()}


def _breach(key: tuple[str, int], held: list[tuple[bool, WaitingLane, Objective]], now_ms: int) -> Breach:
    over = any(is_over for is_over, _, _ in held)
    alike = [(lane, objective) for is_over, lane, objective in held if is_over or not over]
    worst, objective = min(alike, key=lambda item: (item[0].oldest[0].since_ms, item[0].lane))
    late = [
        Late(waiter, lane.lane, own)
        for lane, own in alike
        for waiter in lane.oldest
        if own.objective_ms is not None and now_ms - waiter.since_ms > own.objective_ms
    ]
    return Breach(
        queue=key[0],
        tier=key[1],
        over=over,
        lane=worst.lane,
        oldest=worst.oldest[0],
        objective=objective,
        count=sum(lane.count for lane, _ in alike),
        late=tuple(sorted(late, key=lambda one: (one.waiter.since_ms, one.waiter.id))),
    )


# ---------------------------------------------------------------- why


class Cause(msgspec.Struct, frozen=True):
    """Why a job waits.

    Attributes:
        kind: One word, for programs.
        text: A sentence, for people.
    """

    kind: CauseKind
    text: str


class GateFacts(NamedTuple):
    """What a queue, task, tenant or named limit says about starting a job now.

    Attributes:
        opens_ms: Until when its rate, or a handler that was told to wait, closes it; None: they do not.
    """

    kind: GateKind
    name: str
    pause: Pause | None = None
    running: int = 0
    max_running: int | None = None
    opens_ms: int | None = None


class Standing(NamedTuple):
    """What may hold up the jobs of one lane.

    Attributes:
        gates: Of its queue, task, tenant and named limits.
        pool: The pool that its queue is in.
        serving: Live workers that serve its queue.
        knowing: Those of them that know its task.
        slots: What these declared.
        running: Jobs that run on these.
        asked: Whether a claim without a worker's record asked for its queue within the last minute.
    """

    gates: tuple[GateFacts, ...] = ()
    pool: str = ""
    serving: int = 0
    knowing: int = 0
    slots: int = 0
    running: int = 0
    asked: bool = False


def gate_facts(kind: GateKind, name: str, gate: Gate, now_ms: int) -> GateFacts:
    """Return what a gate says now, without refreshing it."""
    opens: list[int] = []
    if now_ms < gate.held_until_ms:
        opens.append(gate.held_until_ms)
    if gate.rate is not None:
        excess = gate.tat - (gate.rate.burst - 1) * gate.rate.per_ms
        if excess > now_ms * gate.rate.starts:
            opens.append(-(-excess // gate.rate.starts))
    pause = gate.pause if gate.pause is not None and gate.pause.active(now_ms) else None
    return GateFacts(kind, name, pause, gate.running, gate.max_running, max(opens, default=None))


def causes(lane: LaneKey, standing: Standing, now_ms: int) -> tuple[Cause, ...]:
    """Return why the jobs of a lane wait; what people decided comes first, the one to name when there is room for one.

    Source:
        SPEC section 6: "cause (no worker, all slots busy, cap, pause)".
    """
    found = [cause for gate in standing.gates for cause in _closing(gate, now_ms)]
    found.sort(key=lambda cause: ("paused", "cap", "rate").index(cause.kind))
    where = f"queue {lane.queue!r} (pool {standing.pool!r})"
    if standing.knowing == 0 and not standing.asked:
        unknown = f" and knows task {lane.task!r}" if standing.serving else ""
        found.append(Cause("no_worker", f"no live worker serves {where}{unknown}"))
    elif standing.knowing and standing.running >= standing.slots:
        found.append(Cause("busy", f"all {standing.slots} slots of the workers that serve {where} are busy"))
    elif not found:
        found.append(Cause("turn", f"workers of {where} start other jobs first, or keep their free slots for others"))
    return tuple(found)


def _closing(gate: GateFacts, now_ms: int) -> Iterator[Cause]:
    name = f"{gate.kind} {gate.name!r}"
    if gate.pause is not None:
        by = f" by {gate.pause.by}" if gate.pause.by else ""
        yield Cause("paused", f"{name} is paused{by}{': ' if gate.pause.reason else ''}{gate.pause.reason}")
    if gate.max_running is not None and gate.running >= gate.max_running:
        yield Cause("cap", f"{name} runs {gate.running} of at most {gate.max_running} jobs")
    if gate.opens_ms is not None:
        yield Cause("rate", f"{name} is closed by its rate or by a wait for {(gate.opens_ms - now_ms) / 1000:.1f} s")


# ---------------------------------------------------------------- incidents


class IncidentRecord(msgspec.Struct, frozen=True, kw_only=True):
    """Jobs of one queue and tier wait too long; instants in milliseconds UTC.

    Attributes:
        id: Its number; 0 before it is stored.
        job: Id of the job that has waited longest; ``task`` and ``tenant`` are its own.
        since_ms: Since when it waits.
        objective_ms: The objective that holds for it.
        count: How many jobs wait like it.
        causes: Why, the first one foremost.
        on_breach: What is done.
        escalated: Jobs that were boosted or expedited for it and still wait.
        note: What stood in the way of boosting or expediting; empty when nothing did.
        opened_at_ms: When it was raised.
        seen_at_ms: When it was last looked at.
        notified_at_ms: When it was last told.
        notices: How often it was told.
        resolved_at_ms: When it was over; None while it is open.
    """

    id: int = 0
    queue: str
    tier: int
    job: bytes
    task: str
    tenant: str
    since_ms: int
    objective_ms: int
    count: int
    causes: tuple[Cause, ...]
    on_breach: OnBreach
    escalated: tuple[bytes, ...] = ()
    note: str = ""
    opened_at_ms: int
    seen_at_ms: int
    notified_at_ms: int
    notices: int = 1
    resolved_at_ms: int | None = None

    @property
    def cause(self) -> CauseKind:
        """The foremost cause."""
        return self.causes[0].kind if self.causes else "turn"

    @property
    def wait_ms(self) -> int:
        """How long the oldest job had waited when it was last looked at."""
        return max(0, self.seen_at_ms - self.since_ms)


def next_incident(
    held: IncidentRecord | None, breach: Breach | None, why: tuple[Cause, ...], now_ms: int
) -> tuple[IncidentRecord | None, EventKind | None]:
    """Return what an incident becomes, and what is to be told.

    Args:
        held: The open incident of a queue and tier, if there is one.
        breach: What was found there, if anything.
        why: The causes of the breach.
        now_ms: The instant.

    Returns:
        The incident to store (None: there is none), and the event to tell (None: nothing).
    """
    if breach is None:
        if held is None:
            return None, None
        over = msgspec.structs.replace(
            held, escalated=(), note="", seen_at_ms=now_ms, resolved_at_ms=now_ms, notices=held.notices + 1
        )
        return over, "resolved"
    if held is None and not breach.over:
        return None, None
    now = IncidentRecord(
        queue=breach.queue,
        tier=breach.tier,
        job=breach.oldest.id,
        task=breach.lane.task,
        tenant=breach.lane.tenant,
        since_ms=breach.oldest.since_ms,
        objective_ms=breach.objective.objective_ms or 0,
        count=breach.count,
        causes=why,
        on_breach=breach.objective.on_breach,
        opened_at_ms=now_ms,
        seen_at_ms=now_ms,
        notified_at_ms=now_ms,
    )
    if held is None:
        return now, "raised"
    again = breach.over and now_ms - held.notified_at_ms >= RENOTIFY_MS
    goes_on = msgspec.structs.replace(
        now,
        id=held.id,
        escalated=held.escalated,
        note=held.note,
        opened_at_ms=held.opened_at_ms,
        notified_at_ms=now_ms if again else held.notified_at_ms,
        notices=held.notices + again,
    )
    return goes_on, "again" if again else None


def to_escalate(breach: Breach, escalated: Collection[bytes]) -> list[Late]:
    """Return the jobs that are to be boosted or expedited now, longest wait first.

    Those that were already are left alone, and no more than ``MAX_ESCALATED`` of one incident wait at a time: an
    express lane full of everything is a queue like any other.
    """
    wanted = [
        late
        for late in breach.late
        if late.waiter.id not in escalated
        and (
            (late.objective.on_breach == "expedite" and not late.waiter.express)
            or (late.objective.on_breach == "boost" and breach.tier > Tier.CRITICAL)
        )
    ]
    return wanted[: max(0, MAX_ESCALATED - len(escalated))]
