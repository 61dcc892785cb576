"""``/healthz``, ``/readyz``, ``/metrics``, ``/v1/simulations``: for those who run the server."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Annotated, Final, Literal

from fastapi import APIRouter, Request
from pydantic import Field
from starlette.responses import Response

from fairlane.app import Fairlane
from fairlane.domain.tiers import Tier as BaseTier
from fairlane.errors import FairlaneError, StoreError
from fairlane.exposition import StoreMetrics, written
from fairlane.flow import counted
from fairlane.http import problems
from fairlane.http.answers import Caller, answer
from fairlane.http.models import Name, Sent, Tier, answers
from fairlane.metrics import Sample
from fairlane.service import Question

router = APIRouter()

AT_ONCE: Final = 1
"""Simulations that run at once: each takes a whole processor."""
READY_S: Final = 5.0
"""How long a probe waits for a store that says nothing."""


class Tally:
    """What this server has counted, and what it last read from the store for the metrics.

    Args:
        app: Whose store it is.
        tenants: How many tenants the metrics tell apart.
    """

    def __init__(self, app: Fairlane, *, tenants: int = 0) -> None:
        self.requests: Counter[tuple[str, str, str]] = Counter()
        self.operations: Counter[tuple[str, str]] = Counter()
        self.express_rejected = 0
        self.simulating = 0
        self.store: Final = StoreMetrics(app, tenants=tenants)

    def request(self, method: str, route: str, status: int) -> None:
        """Count a request; methods and routes that are not ours are counted together."""
        self.requests[method, route, str(status)] += 1

    def operation(self, operation: str, *, priority: bool) -> None:
        """Count a change of a job that was made."""
        self.operations[operation, "true" if priority else "false"] += 1

    def samples(self) -> list[Sample]:
        """Return what this server has counted."""
        told = counted("fairlane_http_requests_total", self.requests)
        told += counted("fairlane_operations_total", self.operations)
        return [*told, ("fairlane_express_rejected_total", (), self.express_rejected)]


@router.get("/healthz", tags=["ops"])
async def healthz() -> Response:
    """Tell that the process answers. Anybody may ask, under any name."""
    return answer({"status": "ok"})


@router.get("/readyz", tags=["ops"], responses=answers({}))
async def readyz(request: Request) -> Response:
    """Tell whether the store answers: 200, or 503. Anybody may ask."""
    app: Fairlane = request.app.state.fairlane
    try:
        async with asyncio.timeout(READY_S):
            await app.owner.aread(lambda store, _: store.monitor())
    except TimeoutError:
        return problems.of_error(request.scope, StoreError(f"the store has not answered for {READY_S:.0f} s"))
    except FairlaneError as error:
        return problems.of_error(request.scope, error)
    return answer({"status": "ready"})


@router.get(
    "/metrics",
    tags=["ops"],
    responses=answers({200: "text/plain"}),
)
async def metrics_of(request: Request, service: Caller) -> Response:
    """Return every metric in Prometheus' text format, or as OpenMetrics where the `Accept` header names that."""
    service.need_all_tenants("metrics")
    tally: Tally = request.app.state.tally
    own, accept = tally.samples(), request.headers.get("accept", "")
    body, media_type = await asyncio.to_thread(lambda: written(own + tally.store.samples(), accept))
    return Response(body, headers={"content-type": media_type})


class Arrival(Sent):
    """A job of a simulation."""

    submit: Annotated[float, Field(ge=0, le=1e9, allow_inf_nan=False)]
    tenant: Name = "default"
    queue: Name = "default"
    tier: Tier = "normal"
    run: Annotated[float, Field(ge=0, le=1e6, allow_inf_nan=False)]


class SimulationIn(Sent):
    """What to simulate: given arrivals, or those of the last `window` seconds."""

    jobs: Annotated[list[Arrival], Field(min_length=1, max_length=20_000)] | None = None
    window: Annotated[float, Field(gt=0, le=30 * 86_400, allow_inf_nan=False)] = 3600.0
    workers: Annotated[int, Field(ge=1, le=100_000)] | None = None
    policies: Annotated[list[Literal["fair", "strict", "fifo"]], Field(min_length=1, max_length=3)] = ["fair"]  # noqa: RUF012  Pydantic copies it
    ageing_step: Annotated[float, Field(gt=0, le=1e9, allow_inf_nan=False)] = 60.0
    weights: dict[Name, Annotated[float, Field(ge=0.001, le=1e6, allow_inf_nan=False)]] = Field(default_factory=dict)
    caps: dict[Name, Annotated[int, Field(ge=1, le=100_000)]] = Field(default_factory=dict)
    queue_caps: dict[Name, Annotated[int, Field(ge=1, le=100_000)]] = Field(default_factory=dict)


@router.post("/v1/simulations", tags=["watching"], responses=answers({}))
async def simulate(request: Request, service: Caller, body: SimulationIn) -> Response:
    """Run arrivals through the scheduler's own code on virtual time, under one policy or several."""
    tally: Tally = request.app.state.tally
    if tally.simulating >= AT_ONCE:
        return problems.of_status(request.scope, 429, "a simulation is under way; try again when it is done")
    given = body.model_dump(exclude={"jobs"})
    jobs = None
    if body.jobs is not None:
        jobs = [(one.submit, one.tenant, one.queue, int(BaseTier.of(one.tier)), one.run) for one in body.jobs]
    tally.simulating += 1
    try:
        return answer(await service.simulate(Question(jobs=jobs, **given)))
    finally:
        tally.simulating -= 1
