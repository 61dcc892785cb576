"""What is set for queues, tasks, tenants, named limits, tiers and the store: look, change, pause."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from contextlib import AbstractContextManager
from datetime import datetime
from typing import Any, Final, Literal, NamedTuple

import msgspec

from fairlane.domain.policy import Capacities, LimitRule, Policy, QueueRule, TaskRule, TenantRule
from fairlane.domain.tiers import Tier
from fairlane.errors import InvalidValue, Outdated
from fairlane.faces import within
from fairlane.options import TierLike
from fairlane.owner import Op
from fairlane.rules import Handles, Limit, Queue, TaskHandle, Tenant, describe, describe_tier
from fairlane.service.base import Base, Json
from fairlane.store import RuleKind, Store

SETTABLE: Final[Mapping[RuleKind, tuple[str, ...]]] = {
    "queue": ("pool", "max_running", "tenant_max_running", "max_waiting"),
    "task": (),
    "tenant": ("weight", "max_running", "max_waiting", "rate", "per", "burst"),
    "limit": ("max_running", "rate", "per", "burst"),
}
"""What can be set for each kind, in the words of ``set``."""
AnyHandle = Queue | TaskHandle | Tenant | Limit


class Shown(NamedTuple):
    """What is set, and the mark of exactly that, for a later change that must not undo somebody else's."""

    told: Json
    etag: str


def etag_of(told: object) -> str:
    """Return a mark that differs when what is set differs."""
    return hashlib.sha256(msgspec.json.encode(told)).hexdigest()[:16]


class SettingsOf(Base):
    """What an actor does with settings."""

    # ------------------------------------------------------------------ queues, tasks, tenants, limits

    def _handle(self, kind: RuleKind, name: str) -> AnyHandle:
        app = self.app
        handles: Mapping[RuleKind, Handles[Any]] = {
            "queue": app.queues, "task": app.tasks, "tenant": app.tenants, "limit": app.limits,
        }  # fmt: skip
        handle: AnyHandle = handles[kind][name]
        return handle

    async def rules(self, kind: RuleKind) -> Json:
        """Return what is set for every queue, task, tenant or limit, and for those with live jobs, by name.

        Queues, tasks and tenants also have ``scheduled``, ``available`` and ``running``: how many jobs of them there
        are. A confined actor is shown its own tenant alone, and only its own jobs are counted.
        """

        def op(store: Store, now_ms: int) -> tuple[dict[str, Any], list[Any]]:
            return dict(store.rules(kind)), store.depth(now_ms)

        rules, lanes = await self.read(op)
        told = {name: describe(rule) for name, rule in rules.items()}
        if kind != "limit":
            for lane in lanes:
                if self.sees(lane.tenant):
                    of = told.setdefault(getattr(lane, kind), describe(DEFAULTS[kind]))
                    for state in LIVE:
                        of[state] = of.get(state, 0) + getattr(lane, state)
            for of in told.values():
                for state in LIVE:
                    of.setdefault(state, 0)
        if kind == "tenant":
            told = {name: of for name, of in told.items() if self.sees(name)}
        return {"items": [{"name": name} | told[name] for name in sorted(told)]}

    async def rule(self, kind: RuleKind, name: str) -> Shown:
        """Return what is set for one, or the defaults.

        Raises:
            InvalidValue: The name is no storable text.
            Forbidden: It is a tenant that the actor may not see.
        """
        self._may_see(kind, name)
        told = describe(await self._handle(kind, name).aget())
        return Shown({"name": name} | told, etag_of(told))

    async def set_rule(
        self,
        kind: Literal["queue", "tenant", "limit"],
        name: str,
        changes: Mapping[str, Any],  # Any: unchecked
        *,
        reason: str = "",
        expected: str | None = None,
    ) -> Shown:
        """Change what is named and leave the rest; None takes a limit away.

        Args:
            kind: What it is set for.
            name: Its name.
            changes: In the words of ``app.queues[…].set`` and so on.
            reason: Why, for the record.
            expected: The mark of what the actor saw; None changes it whatever it is.

        Raises:
            Forbidden: The actor may not.
            InvalidValue: A value is wrong.
            Outdated: It is not what the actor saw any more.
        """
        self.need("admin")
        self.need_all_tenants("settings")
        if unknown := changes.keys() - set(SETTABLE[kind]):
            raise InvalidValue(
                f"{', '.join(sorted(unknown))} cannot be set for a {kind}; it has {', '.join(SETTABLE[kind])}"
            )
        handle: Any = self._handle(kind, name)
        with self.changing(reason), self._if_still(kind, name, expected):
            await handle.aset(**changes, by=self.actor.name)
        return await self.rule(kind, name)

    async def pause(
        self,
        kind: RuleKind,
        name: str,
        *,
        reason: str = "",
        until: datetime | None = None,
        expected: str | None = None,
    ) -> Shown:
        """Start nothing of it until it is resumed, or until an instant; what runs goes on.

        Raises:
            Forbidden, InvalidValue, Outdated: As for :meth:`set_rule`; pausing takes an operator.
        """
        self._may_pause(kind, name)
        with self.changing(reason), self._if_still(kind, name, expected):
            await self._handle(kind, name).apause(reason, by=self.actor.name, until=until)
        return await self.rule(kind, name)

    async def resume(self, kind: RuleKind, name: str, *, reason: str = "", expected: str | None = None) -> Shown:
        """End a pause; nothing happens when there is none."""
        self._may_pause(kind, name)
        with self.changing(reason), self._if_still(kind, name, expected):
            await self._handle(kind, name).aresume(by=self.actor.name)
        return await self.rule(kind, name)

    def _may_see(self, kind: RuleKind, name: str) -> None:
        if kind == "tenant" and not self.sees(name):
            self.need_all_tenants("other tenants")

    def _may_pause(self, kind: RuleKind, name: str) -> None:
        """A confined operator may hold its own tenant, and nothing that others use."""
        self.need("operator")
        if kind != "tenant" or not self.sees(name):
            self.need_all_tenants("settings")

    def _if_still(self, kind: RuleKind, name: str, expected: str | None) -> AbstractContextManager[None]:
        """Let a change be refused when what is set is not what the actor saw: looked at in the same transaction."""

        def around(op: Op[Any]) -> Op[Any]:
            def checked(store: Store, now_ms: int) -> Any:
                if expected is not None and etag_of(describe(store.rule(kind, name))) != expected:
                    raise Outdated(f"what is set for {kind} {name!r} has changed; read it again")
                return op(store, now_ms)

            return checked

        return within(around)

    # ------------------------------------------------------------------ tiers

    async def tiers(self) -> Json:
        """Return the wait objectives of every tier, with what is set otherwise for queues and tenants."""
        held = await self.app.tiers.ashown()
        return {"items": [{"tier": name} | self._own_overrides(told) for name, told in held.items()]}

    async def tier(self, tier: TierLike) -> Shown:
        """Return the wait objective of one tier.

        Raises:
            InvalidValue: There is no such tier.
        """
        name = Tier.of(tier).label
        told = (await self.app.tiers.ashown())[name]
        return Shown({"tier": name} | self._own_overrides(told), etag_of(told))

    def _own_overrides(self, told: Json) -> Json:
        own = [one for one in told["overrides"] if one["tenant"] is None or self.sees(one["tenant"])]
        return told | {"overrides": own}

    async def set_tier_objective(
        self,
        tier: TierLike,
        changes: Mapping[str, Any],  # Any: unchecked
        *,
        queue: str | None = None,
        tenant: str | None = None,
        reason: str = "",
        expected: str | None = None,
    ) -> Shown:
        """Change how long jobs of a tier may wait, in all or of one queue or tenant.

        Args:
            tier: The tier.
            changes: ``objective`` in seconds (None: none), ``on_breach``.
            queue: Only for this queue.
            tenant: Only for this tenant.
            reason: Why, for the record.
            expected: The mark of what the actor saw; None changes it whatever it is.

        Raises:
            Forbidden: The actor may not.
            InvalidValue: A value is wrong.
            Outdated: It is not what the actor saw any more.
        """
        self.need("admin")
        self.need_all_tenants("settings")

        def around(op: Op[Any]) -> Op[Any]:
            def checked(store: Store, now_ms: int) -> Any:
                if expected is not None and etag_of(describe_tier(store.objectives(), Tier.of(tier))) != expected:
                    raise Outdated(f"what is set for tier {Tier.of(tier).label} has changed; read it again")
                return op(store, now_ms)

            return checked

        with self.changing(reason), within(around):
            await self.app.tiers[tier].aset(**changes, queue=queue, tenant=tenant, by=self.actor.name)
        return await self.tier(tier)

    # ------------------------------------------------------------------ the store

    async def settings(self) -> Json:
        """Return the policy and the capacities of the store."""
        policy, capacities = await self.read(lambda store, _: store.settings())
        return _store_settings(policy, capacities)

    async def configure(self, changes: Mapping[str, Any], *, reason: str = "") -> Json:  # Any: unchecked
        """Change the policy (``fair``, ``strict`` or ``fifo``) or the capacities for everybody.

        Raises:
            Forbidden: The actor may not.
            InvalidValue: A value is wrong.
        """
        self.need("admin")
        self.need_all_tenants("settings")
        with self.changing(reason):
            return _store_settings(*await self.app.aconfigure(**changes, by=self.actor.name))


LIVE: Final = ("scheduled", "available", "running")
DEFAULTS: Final[Mapping[RuleKind, QueueRule | TaskRule | TenantRule | LimitRule]] = {
    "queue": QueueRule(), "task": TaskRule(), "tenant": TenantRule(), "limit": LimitRule(),
}  # fmt: skip


def _store_settings(policy: Policy, capacities: Capacities) -> Json:
    return {
        "policy": msgspec.to_builtins(policy) | {"ageing_ceiling": Tier(policy.ageing_ceiling).label},
        "express_capacity": capacities.express_capacity,
        "express_per_tenant": capacities.express_per_tenant,
    }
