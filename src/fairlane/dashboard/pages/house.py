"""Who went first and why, who changed what, and what is set for the whole store."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final
from uuid import UUID

from fastapi import Response

from fairlane.dashboard import words
from fairlane.dashboard.visit import Visit
from fairlane.domain.access import role_of
from fairlane.domain.inversions import WHYS
from fairlane.domain.tiers import Tier
from fairlane.errors import InvalidValue

AUDIT: Final = 100
DAY_S: Final = 86_400


async def fairness(visit: Visit) -> Response:
    """Return the starts out of turn, by what explains them."""
    visit.desk.need_all_tenants("inversions")
    found = await asyncio.to_thread(visit.sampler.look_for_inversions)
    return visit.page(
        "fairness.html",
        "Who went first, and why",
        section="/",
        as_of_ms=found.at_ms,
        found=found,
        causes=[(why, found.counts.get(why, 0)) for why in WHYS],
        hex=_uuid,
    )


def _uuid(job_id: bytes) -> str:
    return str(UUID(bytes=job_id))


async def audit(visit: Visit) -> Response:
    """Return who changed what, and why."""
    target, cursor = visit.asked("target").strip(), visit.asked("cursor") or None
    told = await visit.desk.audit(limit=AUDIT, cursor=cursor, target=target or None)
    more = told["next_cursor"] and visit.urls("/audit", target=target, cursor=told["next_cursor"])
    return visit.page(
        "audit.html",
        "Audit",
        section="/audit",
        live=False,
        rows=told["items"],
        target=target,
        first=visit.urls("/audit", target=target) if cursor else None,
        more=more,
    )


async def settings(visit: Visit, *, new_token: str = "") -> Response:
    """Return what is set for the whole store."""
    desk = visit.desk
    store = await desk.settings()
    policy: dict[str, Any] = store["policy"]  # Any: JSON values
    tokens: list[Any] = (await desk.tokens())["items"] if visit.may()["tokens"] else []  # Any: JSON values
    return visit.page(
        "settings.html",
        "Settings",
        live=False,
        new_token=new_token,
        who=desk.actor,
        objectives=(await desk.tiers())["items"],
        policy=[_in_words(name, value) for name, value in policy.items()],
        store_settings=store,
        limits=(await desk.rules("limit"))["items"],
        tokens=tokens,
    )


async def change(visit: Visit, form: Mapping[str, str]) -> Response:
    """Change a setting, or make or revoke a token."""
    desk, action, reason = visit.desk, form.get("action", ""), form.get("reason", "")
    if action == "objective":
        tier = Tier.of(form.get("tier"))
        changes = {"objective": _seconds(form.get("objective", "")), "on_breach": form.get("on_breach", "")}
        await desk.set_tier_objective(tier, changes, reason=reason)
        return visit.done(f"The objective of {tier.label} is set", "/settings")
    if action == "capacity":
        names = ("express_capacity", "express_per_tenant")
        await desk.configure({name: _whole(name, form.get(name, "")) for name in names}, reason=reason)
        return visit.done("The express lane is set", "/settings")
    if action == "revoke":
        told = await desk.revoke_token(form.get("token", ""))
        return visit.done(f"Token {told['name']} is revoked", "/settings")
    if action == "token":
        days = form.get("days", "").strip()
        told = await desk.create_token(
            form.get("name", ""),
            role=role_of("role", form.get("role", "")),
            tenant=form.get("tenant", "") or None,
            expires_in=_whole("days", days) * DAY_S if days else None,
        )
        return await settings(visit, new_token=told["token"])
    desk.need("admin")
    raise InvalidValue(f"settings cannot {action!r}")


def _in_words(name: str, value: Any) -> tuple[str, str]:  # Any: a JSON value
    """Return a setting of the policy for people: times with their unit."""
    if name.endswith("_ms"):
        return name[:-3].replace("_", " "), words.span(value)
    if name.endswith("_us"):
        return name[:-3].replace("_", " "), words.span(value / 1000)
    return name.replace("_", " "), str(value)


def _seconds(text: str) -> float | None:
    if not text.strip():
        return None
    try:
        return float(text.strip()[:40])
    except ValueError:
        raise InvalidValue(f"objective {text[:40]!r} is not a number of seconds") from None


def _whole(name: str, text: str) -> int:
    if not text.strip().isdecimal() or len(text) > 18:  # noqa: PLR2004  beyond it no count makes sense
        raise InvalidValue(f"{name} {text[:40]!r} is not a whole number")
    return int(text)
