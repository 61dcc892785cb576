"""One action on many jobs, and dead letters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final
from uuid import UUID

from fairlane import shapes
from fairlane.bulk import Operation, Preview
from fairlane.dead import DeadGroup
from fairlane.domain.operations import Action
from fairlane.errors import InvalidValue, OperationNotFound
from fairlane.options import TierLike
from fairlane.service.base import Base, Json
from fairlane.store import Counted

GROUPS: Final = 200
COUNTED: Final = 10_000
Which = Mapping[str, Any]  # Any: a filter's values


class Many(Base):
    """What an actor does with many jobs at once. Workers and servers carry it out, see ``app.bulk``."""

    def own(self, which: Which) -> dict[str, Any] | None:
        """Return a filter for what the actor sees; None when it means only what the actor does not see."""
        scope = self.actor.tenant
        if scope is None:
            return dict(which)
        if which.get("tenant") not in {None, scope}:
            return None
        return {**which, "tenant": scope}

    async def counted(self, which: Which) -> Counted:
        """Return how many jobs a filter means, as far as 10,000."""
        own = self.own(which)
        return Counted(0, False) if own is None else await self.app.acount(**own, most=COUNTED)

    async def would(self, action: Action, which: Which, *, to: TierLike | None = None) -> Preview:
        """Return what an operation would mean, and change nothing.

        Raises:
            Forbidden: The actor may not do this.
            InvalidValue: A value breaks a rule.
        """
        self._may_do(action)
        own = self.own(which)
        if own is None:
            return Preview(action=action, count=0, more=False, sample=())
        return await self.app.apreview(action, to=to, **own)

    async def do(
        self,
        action: Action,
        which: Which,
        *,
        to: TierLike | None = None,
        rate: float | None = None,
        limit: int | None = None,
        reason: str = "",
    ) -> Operation:
        """Start an operation on the jobs of a filter that the actor sees; workers and the server carry it on.

        Raises:
            Forbidden: The actor may not do this; deleting dead jobs takes an admin.
            InvalidValue: A value breaks a rule, or the filter means every job there is.
        """
        self._may_do(action)
        own = self.own(which)
        if own is None:
            raise InvalidValue("there are no such jobs")
        with self.changing(reason):
            return await self.app.abulk(action, to=to, rate=rate, limit=limit, by=self.actor.name, reason=reason, **own)

    def _may_do(self, action: Action) -> None:
        self.need("admin" if action == "discard" else "operator")

    async def operation(self, name: UUID | str) -> Operation:
        """Return an operation whose jobs the actor sees.

        Raises:
            OperationNotFound: There is none.
        """
        found = await self.app.aoperation(name)
        if self.actor.tenant is not None and found.record.plan.which.tenant != self.actor.tenant:
            raise OperationNotFound(name)
        return found

    async def operations(self, *, limit: int = 100) -> list[Operation]:
        """Return the latest operations whose jobs the actor sees."""
        scope = self.actor.tenant
        found = await self.app.aoperations(limit=limit)
        return [one for one in found if scope is None or one.record.plan.which.tenant == scope]

    async def steer(self, name: UUID | str, to: str, *, reason: str = "") -> Operation:
        """Pause, resume or cancel an operation.

        Raises:
            Forbidden, OperationNotFound, IllegalMove, InvalidValue: Nothing has changed.
        """
        self.need("operator")
        found = await self.operation(name)
        calls = {"pause": found.apause, "resume": found.aresume, "cancel": found.acancel}
        if to not in calls:
            raise InvalidValue(f"an operation cannot {to!r}; it can {', '.join(calls)}")
        with self.changing(reason):
            return await calls[to](by=self.actor.name)

    async def groups(self, *, limit: int = GROUPS) -> list[DeadGroup]:
        """Return the dead jobs by what they died of, the largest group first.

        Raises:
            Forbidden: The actor is confined to a tenant: groups are over all tenants.
            InvalidValue: ``limit`` is out of range.
        """
        self.need_all_tenants("groups of dead letters")
        return await self.app.dead.agroups(limit=limit)


def operated(operation: Operation) -> Json:
    """Return an operation ready for JSON."""
    record = operation.record
    return {
        "id": str(operation.id),
        "action": operation.action,
        "state": operation.state,
        "total": operation.total,
        "more": operation.more,
        "done": operation.done,
        "refused": operation.refused,
        "refusals": [{"job_id": str(one.job_id), "reason": one.reason} for one in operation.refusals],
        "progress": operation.progress,
        "rate": record.plan.rate,
        "limit": record.plan.limit,
        "by": record.by,
        "reason": record.reason,
        "created_at": shapes.instant(operation.created_at),
        "ended_at": shapes.instant(operation.ended_at),
    }


def previewed(preview: Preview) -> Json:
    """Return a preview ready for JSON."""
    return {
        "action": preview.action,
        "count": preview.count,
        "more": preview.more,
        "sample": [shapes.brief(job) for job in preview.sample],
    }
