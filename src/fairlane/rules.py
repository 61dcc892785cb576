"""What can be set for queues, tasks, tenants and named limits: ``app.queues["mail"].set(max_running=5)`` and so on.

``set`` changes only what is named, in one transaction with reading what was there; None takes a limit away. Changes act
on the existing backlog at once, in every process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, ClassVar, Generic, TypeVar, cast

from msgspec import UNSET, UnsetType, structs

from fairlane.domain.checks import number, text
from fairlane.domain.policy import WEIGHT_UNIT, LimitRule, Pause, QueueRule, Rate, TaskRule, TenantRule
from fairlane.domain.tiers import TIERS, Tier
from fairlane.domain.waits import Objective, ObjectiveRule, Objectives, OnBreach, Scope, checked
from fairlane.errors import InvalidValue
from fairlane.faces import Faced, Homed, Steps, later, read, run, twin, write
from fairlane.instants import aware, instant_ms
from fairlane.options import TierLike
from fairlane.steering import MAX_REASON_BYTES
from fairlane.store import RuleKind, Store

A = TypeVar("A", QueueRule, TaskRule, TenantRule, LimitRule)


class Handle(Homed[Faced], Generic[A]):
    """One queue, task, tenant or named limit, and what is set for it.

    Attributes:
        name: Its name, or a named limit's key.
    """

    kind: ClassVar[RuleKind]

    __slots__ = ("name",)

    def __init__(self, home: Faced, name: str) -> None:
        super().__init__(home)
        self.name = text(self.kind, name)

    def __repr__(self) -> str:
        return f"<{self.kind} {self.name}>"

    def _rule(self, store: Store) -> A:
        return cast("A", store.rule(self.kind, self.name))

    def _change(self, change: Callable[[A, int], A], by: str) -> Steps[None]:
        """Read what is set, change it and store it, in one transaction."""
        text("by", by, empty=True)

        def op(store: Store, now_ms: int) -> None:
            store.set_rule(self.kind, self.name, change(self._rule(store), now_ms), by=by, now_ms=now_ms)

        return (yield from write(op))

    @twin
    def get(self) -> Steps[A]:
        """Return what is set, or the defaults."""
        return (yield from read(lambda store, _: self._rule(store)))

    aget = later(get)

    @twin
    def pause(self, reason: str = "", *, by: str = "", until: datetime | None = None) -> Steps[None]:
        """Start nothing of it until :meth:`resume`; what runs goes on.

        Args:
            reason: Why, for people; at most 1,024 bytes.
            by: Who does it.
            until: When the pause ends by itself, a datetime with a timezone in the future; None: never.

        Raises:
            InvalidValue: An argument is outside the range given above.
        """
        pause = pausing(reason, by, until)
        return (yield from self._change(lambda rule, now_ms: replace(rule, pause=pause(now_ms)), by))

    apause = later(pause)

    @twin
    def resume(self, *, by: str = "") -> Steps[None]:
        """End the pause; nothing happens when there is none."""
        return (yield from self._change(lambda rule, _: replace(rule, pause=None), by))

    aresume = later(resume)


def pausing(reason: str, by: str, until: datetime | None) -> Callable[[int], Pause]:
    """Return what makes the pause at an instant; wrong values are refused now, an end that has passed then.

    Args:
        reason: Why, for people; at most 1,024 bytes.
        by: Who does it.
        until: When the pause ends by itself; None: never.

    Raises:
        InvalidValue: An argument is outside the range given above.
    """
    text("reason", reason, max_bytes=MAX_REASON_BYTES, empty=True)
    text("by", by, empty=True)
    until_ms = None if until is None else instant_ms("until", until)

    def pause(now_ms: int) -> Pause:
        if until_ms is not None and until_ms <= now_ms:
            raise InvalidValue(f"until is {until}; it must lie in the future")
        return Pause(reason, by, until_ms)

    return pause


class Queue(Handle[QueueRule]):
    """A queue; see :class:`Handle`."""

    kind = "queue"

    __slots__ = ()

    @twin
    def set(
        self,
        *,
        pool: str | UnsetType = UNSET,
        max_running: int | UnsetType | None = UNSET,
        tenant_max_running: int | UnsetType | None = UNSET,
        max_waiting: int | UnsetType | None = UNSET,
        by: str = "",
    ) -> Steps[None]:
        """Change what is named; None takes a limit away.

        Args:
            pool: The pool whose workers serve it; its tenants come in at that pool's time.
            max_running: Most jobs of it that run, over all workers; 0 or more.
            tenant_max_running: Most jobs of it that run for one tenant; 0 or more.
            max_waiting: Waiting jobs beyond which an enqueue is refused; 0 or more.
            by: Who does it.

        Raises:
            InvalidValue: An argument is outside the range given above.
        """
        named = _named(
            pool=pool, max_running=max_running, tenant_max_running=tenant_max_running, max_waiting=max_waiting
        )
        return (yield from self._change(_replacing(QueueRule(), named), by))

    aset = later(set)


class TaskHandle(Handle[TaskRule]):
    """A task, whether or not its code is here; see :class:`Handle`. Its limits are set in the code."""

    kind = "task"

    __slots__ = ()


class Tenant(Handle[TenantRule]):
    """A tenant; see :class:`Handle`."""

    kind = "tenant"

    __slots__ = ()

    @twin
    def set(
        self,
        *,
        weight: float | UnsetType = UNSET,
        max_running: int | UnsetType | None = UNSET,
        max_waiting: int | UnsetType | None = UNSET,
        rate: int | UnsetType | None = UNSET,
        per: float | UnsetType = UNSET,
        burst: int | UnsetType | None = UNSET,
        by: str = "",
    ) -> Steps[None]:
        """Change what is named; None takes a limit away.

        Args:
            weight: Share of worker time next to other tenants; 0.001 to a million, 1 by default.
            max_running: Most of its jobs that run; 0 or more.
            max_waiting: Waiting jobs beyond which an enqueue is refused; 0 or more.
            rate: Starts of its jobs in ``per`` seconds; 1 or more.
            per: The period of ``rate``, in seconds; above 0; as it was by default, else 1.
            burst: Starts that may come at once; 1 or more, by default (and with None) a tenth of ``rate``.
            by: Who does it.

        Raises:
            InvalidValue: An argument is outside the range given above.
        """
        named = _named(max_running=max_running, max_waiting=max_waiting)
        if not isinstance(weight, UnsetType):
            asked = number("weight", weight, least=1 / WEIGHT_UNIT, most=1e6)
            named["weight_milli"] = round(asked * WEIGHT_UNIT)
        change = _replacing(TenantRule(), named)
        bucket = Bucket(rate, per, burst)
        return (
            yield from self._change(lambda rule, now_ms: replace(change(rule, now_ms), rate=bucket.on(rule.rate)), by)
        )

    aset = later(set)


class Limit(Handle[LimitRule]):
    """A named limit; see :class:`Handle`. A key with ``{tenant}`` filled in is a limit of its own."""

    kind = "limit"

    __slots__ = ()

    @twin
    def set(
        self,
        *,
        max_running: int | UnsetType | None = UNSET,
        rate: int | UnsetType | None = UNSET,
        per: float | UnsetType = UNSET,
        burst: int | UnsetType | None = UNSET,
        by: str = "",
    ) -> Steps[None]:
        """Change what is named; None takes a limit away.

        Args:
            max_running: Most jobs that count against it and run; 0 or more.
            rate: Starts in ``per`` seconds; 1 or more.
            per: The period of ``rate``, in seconds; above 0; as it was by default, else 1.
            burst: Starts that may come at once; 1 or more, by default (and with None) a tenth of ``rate``.
            by: Who does it.

        Raises:
            InvalidValue: An argument is outside the range given above.
        """
        change = _replacing(LimitRule(), _named(max_running=max_running))
        bucket = Bucket(rate, per, burst)
        return (
            yield from self._change(lambda rule, now_ms: replace(change(rule, now_ms), rate=bucket.on(rule.rate)), by)
        )

    aset = later(set)


@dataclass(frozen=True, slots=True)
class Bucket:
    """What a caller said about a rate; checked as far as it can be without the rate that is set."""

    rate: int | UnsetType | None
    per: float | UnsetType
    burst: int | UnsetType | None

    def __post_init__(self) -> None:
        if self.rate is None and not (self.per is UNSET and self.burst is UNSET):
            raise InvalidValue("rate is None and per or burst is given; without a rate there are none")
        self.on(Rate.of(1))

    def on(self, held: Rate | None) -> Rate | None:
        """Return the rate after the change.

        Raises:
            InvalidValue: A part is out of range, or there is no rate whose part could be changed.
        """
        rate, per, burst = self.rate, self.per, self.burst
        if rate is None:
            return None
        if isinstance(rate, UnsetType):
            if isinstance(per, UnsetType) and isinstance(burst, UnsetType):
                return held
            if held is None:
                raise InvalidValue("per or burst is given and there is no rate; give rate too")
            rate, kept_burst = held.starts, held.burst
        else:
            kept_burst = None
        seconds = per if not isinstance(per, UnsetType) else 1.0 if held is None else held.per_ms / 1000
        return Rate.of(rate, seconds, kept_burst if isinstance(burst, UnsetType) else burst)


def _named(**options: Any) -> dict[str, Any]:  # Any: each option has its own type
    return {name: value for name, value in options.items() if value is not UNSET}


def _replacing(default: A, named: dict[str, Any]) -> Callable[[A, int], A]:
    """Return the change that puts ``named`` into a rule; wrong values are refused now."""
    replace(default, **named)
    return lambda rule, _: replace(rule, **named)


H = TypeVar("H", bound=Handle[Any])  # Any: each kind has its own rule


class Handles(Homed[Faced], Generic[H]):
    """All queues, tasks, tenants or named limits: by name, or those for which something is set."""

    __slots__ = ("_kind",)

    def __init__(self, home: Faced, kind: type[H]) -> None:
        super().__init__(home)
        self._kind = kind

    def __getitem__(self, name: str) -> H:
        return self._kind(self._home, name)

    def __iter__(self) -> Iterator[H]:
        """Go through those for which something is set, by name."""
        return iter(run(self, self._list()))

    def _list(self) -> Steps[list[H]]:
        held = yield from read(lambda store, _: store.rules(self._kind.kind))
        return [self._kind(self._home, name) for name in sorted(held)]

    @twin
    def list(self) -> Steps[list[H]]:
        """Return handles on those for which something is set, by name."""
        return (yield from self._list())

    alist = later(list)

    @twin
    def shown(self) -> Steps[dict[str, dict[str, Any]]]:
        """Return by name what is set, in the words and units of ``set``, ready for JSON."""
        held = yield from read(lambda store, _: store.rules(self._kind.kind))
        return {name: describe(held[name]) for name in sorted(held)}

    ashown = later(shown)


def describe(rule: QueueRule | TaskRule | TenantRule | LimitRule) -> dict[str, Any]:  # Any: ready for JSON
    """Return a rule in the words and units of ``set``, ready for JSON.

    Example:
        >>> describe(TenantRule(weight_milli=2500, rate=Rate.of(100, per=60)))["weight"]
        2.5
    """
    told: dict[str, Any] = {}
    if isinstance(rule, TaskRule):
        told["limits"] = list(rule.limits)
    for name in ("pool", "max_running", "tenant_max_running", "max_waiting"):
        if hasattr(rule, name):
            told[name] = getattr(rule, name)
    if isinstance(rule, TenantRule):
        told["weight"] = rule.weight_milli / WEIGHT_UNIT
    if isinstance(rule, TenantRule | LimitRule):
        rate = rule.rate
        told |= {"rate": None, "per": None, "burst": None}
        if rate is not None:
            told |= {"rate": rate.starts, "per": rate.per_ms / 1000, "burst": rate.burst}
    pause = rule.pause
    told["pause"] = None
    if pause is not None:
        until = aware(pause.until_ms)
        told["pause"] = {"reason": pause.reason, "by": pause.by, "until": None if until is None else until.isoformat()}
    return told


# ---------------------------------------------------------------- tiers


class TierHandle(Homed[Faced]):
    """A tier, and how long its jobs may wait: in all, in one queue, of one tenant, of one tenant in one queue.

    Attributes:
        tier: The tier.
    """

    __slots__ = ("tier",)

    def __init__(self, home: Faced, tier: TierLike) -> None:
        super().__init__(home)
        self.tier = Tier.of(tier)

    def __repr__(self) -> str:
        return f"<tier {self.tier.label}>"

    @twin
    def set(
        self,
        *,
        objective: float | UnsetType | None = UNSET,
        on_breach: OnBreach | UnsetType = UNSET,
        queue: str | None = None,
        tenant: str | None = None,
        by: str = "",
    ) -> Steps[None]:
        """Change what is named; what is not named here holds as for the wider scope.

        Args:
            objective: Longest wait, in seconds, 0.001 to a year; None: there is none.
            on_breach: What is done when a job waits longer, beside the alert: ``"alert"`` (nothing), ``"boost"`` (one
                tier up), ``"expedite"`` (the express lane).
            queue: Only for jobs of this queue.
            tenant: Only for jobs of this tenant, in all queues or in ``queue``; it goes before the queue's own.
            by: Who does it.

        Raises:
            InvalidValue: An argument is outside the range given above.
        """
        scope = checked(Scope(self.tier, queue, tenant))
        text("by", by, empty=True)
        named: dict[str, Any] = _named(on_breach=on_breach)
        if objective is None:
            named["objective_ms"] = None
        elif not isinstance(objective, UnsetType):
            named["objective_ms"] = round(number("objective", objective, least=0.001, most=366 * 86_400) * 1000)
        ObjectiveRule(**named)  # refuses wrong values now

        def op(store: Store, now_ms: int) -> None:
            held = store.objectives().rules.get(scope, ObjectiveRule())
            store.set_objective(scope, structs.replace(held, **named), by=by, now_ms=now_ms)

        return (yield from write(op))

    aset = later(set)

    @twin
    def unset(self, *, queue: str | None = None, tenant: str | None = None, by: str = "") -> Steps[None]:
        """Forget what is set for this scope, so that the wider scope or the default holds again."""
        scope = checked(Scope(self.tier, queue, tenant))
        text("by", by, empty=True)
        return (yield from write(lambda store, now_ms: store.set_objective(scope, None, by=by, now_ms=now_ms)))

    aunset = later(unset)

    @twin
    def get(self, *, queue: str | None = None, tenant: str | None = None) -> Steps[Objective]:
        """Return what holds: for the tier, or for jobs of a queue or tenant in it."""
        scope = checked(Scope(self.tier, queue, tenant))
        return (yield from read(lambda store, _: store.objectives().of(*scope)))

    aget = later(get)


class Tiers(Homed[Faced]):
    """The five tiers."""

    __slots__ = ()

    def __getitem__(self, tier: TierLike) -> TierHandle:
        return TierHandle(self._home, tier)

    def __iter__(self) -> Iterator[TierHandle]:
        """Go through all five, most urgent first."""
        return iter([TierHandle(self._home, tier) for tier in TIERS])

    @twin
    def shown(self) -> Steps[dict[str, dict[str, Any]]]:
        """Return by tier what holds and where it is set otherwise, in the words of ``set``, ready for JSON."""
        held = yield from read(lambda store, _: store.objectives())
        return {tier.label: describe_tier(held, tier) for tier in TIERS}

    ashown = later(shown)


def describe_tier(held: Objectives, tier: Tier) -> dict[str, Any]:  # Any: ready for JSON
    """Return what holds for a tier and where it is set otherwise, in the words of ``set``, ready for JSON."""
    scopes = [scope for scope in held.rules if scope.tier == tier and (scope.queue is not None or scope.tenant)]
    scopes.sort(key=lambda scope: (scope.queue or "", scope.tenant or ""))
    overrides = [{"queue": scope.queue, "tenant": scope.tenant} | _words(held.of(*scope)) for scope in scopes]
    return _words(held.of(tier)) | {"overrides": overrides}


def _words(objective: Objective) -> dict[str, Any]:  # Any: ready for JSON
    return {"objective": objective.objective, "on_breach": objective.on_breach}
