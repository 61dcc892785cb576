"""``/v1/stats``, inversions, incidents, workers, the record of changes, tokens: how the store does, and who may see."""

from __future__ import annotations

from typing import Annotated, Final

from fastapi import APIRouter, Query
from starlette.responses import Response

from fairlane.http.answers import Caller, answer
from fairlane.http.models import Items, Paged, TokenIn, TokenMade, TokenOut, answers
from fairlane.service import fields_of

router = APIRouter(prefix="/v1", tags=["watching"])

MAX_WINDOW_S: Final = 30 * 86_400
By = Annotated[
    str | None, Query(max_length=64, description="What to tell apart: some of tier, queue, tenant, task, with commas.")
]
Window = Annotated[float, Query(gt=0, le=MAX_WINDOW_S, allow_inf_nan=False, description="Seconds to look back.")]
Limit = Annotated[int, Query(ge=1, le=1000)]


@router.get("/stats/depth", responses=answers({200: Items}))
async def depth(service: Caller, by: By = None) -> Response:
    """Return how many jobs wait and run; the figures equal the rows in the store at the instant `at`."""
    return answer(await service.depth(fields_of(by)))


@router.get("/stats/waits", responses=answers({200: Items}))
async def waits(service: Caller, by: By = None, window: Window = 3600.0) -> Response:
    """Return percentiles, in seconds, of how long the jobs waited that started lately."""
    return answer(await service.waits(fields_of(by), window=window))


@router.get("/inversions", responses=answers({}))
async def inversions(service: Caller, window: Window = 900.0) -> Response:
    """Return the starts of less urgent jobs while more urgent ones waited, by what explains them."""
    return answer(await service.inversions(window=window))


@router.get("/incidents", responses=answers({200: Items}))
async def incidents(service: Caller, *, resolved: bool = False, limit: Limit = 100) -> Response:
    """Return the open incidents, oldest first; or the latest ones, open and over."""
    return answer(await service.incidents(resolved=resolved, limit=limit))


@router.get("/workers", responses=answers({200: Items}))
async def workers(service: Caller) -> Response:
    """Return the workers on record."""
    return answer(await service.workers())


@router.get("/audit", responses=answers({200: Paged}))
async def audit(
    service: Caller,
    limit: Limit = 50,
    cursor: Annotated[str | None, Query(max_length=64)] = None,
    target: Annotated[str | None, Query(min_length=1, max_length=255)] = None,
) -> Response:
    """Return who changed what and why, the latest first."""
    return answer(await service.audit(limit=limit, cursor=cursor, target=target))


# ---------------------------------------------------------------- tokens


@router.get("/tokens", responses=answers({200: Items}))
async def tokens(service: Caller) -> Response:
    """Return every access token, without what it would take to use it."""
    return answer(await service.tokens())


@router.post("/tokens", status_code=201, responses=answers({201: TokenMade}))
async def create_token(service: Caller, body: TokenIn) -> Response:
    """Make an access token. Its text is in this answer alone."""
    told = await service.create_token(body.name, role=body.role, tenant=body.tenant, expires_in=body.expires_in)
    return answer(told, 201)


@router.delete("/tokens/{token_id}", responses=answers({200: TokenOut}, 404))
async def revoke_token(service: Caller, token_id: str) -> Response:
    """Revoke an access token, at once and in every process."""
    return answer(await service.revoke_token(token_id))
