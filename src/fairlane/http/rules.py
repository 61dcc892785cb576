"""``/v1/queues``, ``tasks``, ``tenants``, ``limits``, ``tiers``, ``settings``: what is set; and pauses.

PUT changes what is named and leaves the rest, so that a client which knows one field cannot wipe out another; with
``If-Match`` it changes nothing that somebody else has changed since.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Literal

from fastapi import APIRouter
from starlette.responses import Response

from fairlane.http.answers import Caller, IfMatch, answer, expected_of, shown
from fairlane.http.models import Items, Tier, Why, answers
from fairlane.http.rule_models import ConfigureIn, LimitIn, ObjectiveIn, PauseIn, QueueIn, RuleOut, TenantIn, TierOut
from fairlane.store import RuleKind

router = APIRouter(prefix="/v1", tags=["settings"])

Settable = Literal["queue", "tenant", "limit"]
SETS: dict[str, type[Why]] = {"queue": QueueIn, "tenant": TenantIn, "limit": LimitIn}
"""What can be set, by kind. A task's limits are said in its code."""


def _pauses(kind: RuleKind) -> None:
    """Add the routes of one kind's pauses; before those of its names, which may hold strokes."""
    path = f"/{kind}s/{{name:path}}/pause"

    @router.put(path, operation_id=f"pause_{kind}", responses=answers({200: RuleOut}, 412))
    async def pause(service: Caller, name: str, body: PauseIn | None = None, if_match: IfMatch = None) -> Response:
        asked = PauseIn(until=None) if body is None else body
        return shown(
            await service.pause(kind, name, reason=asked.reason, until=asked.until, expected=expected_of(if_match))
        )

    @router.delete(path, operation_id=f"resume_{kind}", status_code=204, responses=answers({}, 412))
    async def resume(service: Caller, name: str, if_match: IfMatch = None) -> Response:
        await service.resume(kind, name, expected=expected_of(if_match))
        return Response(status_code=204)

    pause.__doc__ = f"Start nothing of a {kind} until it is resumed, or until an instant; what runs goes on."
    resume.__doc__ = f"End the pause of a {kind}; nothing happens when there is none."


def _looks(kind: RuleKind) -> None:
    """Add the routes that show one kind."""

    @router.get(f"/{kind}s", operation_id=f"list_{kind}s", responses=answers({200: Items}))
    async def every(service: Caller) -> Response:
        return answer(await service.rules(kind))

    @router.get(f"/{kind}s/{{name:path}}", operation_id=f"get_{kind}", responses=answers({200: RuleOut}))
    async def one(service: Caller, name: str) -> Response:
        return shown(await service.rule(kind, name))

    every.__doc__ = f"Return what is set for every {kind}, and those with live jobs."
    one.__doc__ = f"Return what is set for a {kind}, or the defaults, with its ETag."


def _sets(kind: Settable) -> None:
    """Add the route that sets one kind."""
    model: Any = SETS[kind]

    async def put(service: Caller, name: str, body: Any, if_match: IfMatch = None) -> Response:
        changes = body.model_dump(exclude_unset=True)
        reason = changes.pop("reason", "")
        return shown(await service.set_rule(kind, name, changes, reason=reason, expected=expected_of(if_match)))

    put.__annotations__["body"] = model  # each kind has its own fields
    put.__doc__ = f"Change what is named of a {kind} and leave the rest; null takes a limit away."
    add: Callable[[Callable[..., Awaitable[Response]]], object] = router.put(
        f"/{kind}s/{{name:path}}", operation_id=f"set_{kind}", responses=answers({200: RuleOut}, 412)
    )
    add(put)


for _kind in ("queue", "task", "tenant", "limit"):
    _pauses(_kind)
    _looks(_kind)
for _set in ("queue", "tenant", "limit"):
    _sets(_set)


# ---------------------------------------------------------------- tiers


@router.get("/tiers", responses=answers({200: Items}))
async def tiers(service: Caller) -> Response:
    """Return how long jobs of every tier may wait."""
    return answer(await service.tiers())


@router.get("/tiers/{tier}", responses=answers({200: TierOut}))
async def tier_of(service: Caller, tier: Tier) -> Response:
    """Return how long jobs of a tier may wait, with its ETag."""
    return shown(await service.tier(tier))


@router.put("/tiers/{tier}", responses=answers({200: TierOut}, 412))
async def set_tier(service: Caller, tier: Tier, body: ObjectiveIn, if_match: IfMatch = None) -> Response:
    """Change how long jobs of a tier may wait, in all or of one queue or tenant."""
    changes = body.model_dump(exclude_unset=True, exclude={"queue", "tenant", "reason"})
    return shown(
        await service.set_tier_objective(
            tier, changes, queue=body.queue, tenant=body.tenant, reason=body.reason, expected=expected_of(if_match)
        )
    )


# ---------------------------------------------------------------- the store


@router.get("/settings", responses=answers({}))
async def settings(service: Caller) -> Response:
    """Return the policy and the capacities of the store."""
    return answer(await service.settings())


@router.put("/settings", responses=answers({}))
async def configure(service: Caller, body: ConfigureIn) -> Response:
    """Change the policy or the capacities for everybody; what is left out stays."""
    changes = body.model_dump(exclude_unset=True)
    reason = changes.pop("reason", "")
    return answer(await service.configure(changes, reason=reason))
