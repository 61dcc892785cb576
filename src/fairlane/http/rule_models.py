"""The JSON of what is set: limits, rates, pauses, objectives. Unknown fields are refused on write."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from fairlane.http.models import Instant, Json, Name, Tier, Told, Why

MaxRunning = Annotated[int, Field(ge=0, le=2**63 - 1)] | None


class RateIn(Why):
    """A rate."""

    rate: Annotated[int, Field(ge=1, le=2**31)] | None = None
    per: Annotated[float, Field(gt=0, le=1e9, allow_inf_nan=False)] = 1.0
    burst: Annotated[int, Field(ge=1, le=2**31)] | None = None


class QueueIn(Why):
    """What to set for a queue; what is left out stays, null takes a limit away."""

    pool: Name = "default"
    max_running: MaxRunning = None
    tenant_max_running: MaxRunning = None
    max_waiting: MaxRunning = None


class TenantIn(RateIn):
    """What to set for a tenant; what is left out stays, null takes a limit away."""

    weight: Annotated[float, Field(ge=0.001, le=1e6, allow_inf_nan=False)] = 1.0
    max_running: MaxRunning = None
    max_waiting: MaxRunning = None


class LimitIn(RateIn):
    """What to set for a named limit; what is left out stays, null takes a limit away."""

    max_running: MaxRunning = None


class ObjectiveIn(Why):
    """How long jobs of a tier may wait; what is left out stays."""

    objective: Annotated[float, Field(ge=0.001, le=366 * 86_400, allow_inf_nan=False)] | None = Field(
        None, description="Seconds; null: there is none."
    )
    on_breach: Literal["alert", "boost", "expedite"] = "alert"
    queue: Name | None = Field(None, description="Only for this queue.")
    tenant: Name | None = Field(None, description="Only for this tenant.")


class PauseIn(Why):
    """A pause."""

    until: Instant | None = Field(None, description="When it ends by itself; null: never.")


class ConfigureIn(Why):
    """What to change for the whole store."""

    policy: Literal["fair", "strict", "fifo"] = "fair"
    express_capacity: Annotated[int, Field(ge=1, le=10**6)] = 20
    express_per_tenant: Annotated[int, Field(ge=1, le=10**6)] = 5


class RuleOut(Told):
    """What is set for a queue, task, tenant or limit."""

    name: str
    pause: Json | None


class TierOut(Told):
    """How long jobs of a tier may wait."""

    tier: Tier
    objective: float | None
    on_breach: Literal["alert", "boost", "expedite"]
    overrides: list[Json]
