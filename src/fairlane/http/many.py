"""``/v1/bulk`` and ``/v1/dead``: one action on many jobs, and dead letters by what they died of."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from starlette.requests import Request
from starlette.responses import Response

from fairlane.bulk import Operation
from fairlane.domain.operations import Action
from fairlane.http.answers import Caller, OperationPath, answer, given
from fairlane.http.models import BulkIn, Items, OperationOut, PreviewOut, ReplayIn, Why, answers
from fairlane.service import operated, previewed

router = APIRouter(prefix="/v1", tags=["many"])


def _started(request: Request, operation: Operation) -> Response:
    where = f"{request.scope.get('root_path', '')}/v1/bulk/{operation.id}"
    return answer(operated(operation), 202, {"Location": where, "Retry-After": "1"})


@router.post("/bulk", status_code=202, responses=answers({202: OperationOut, 200: PreviewOut}))
async def bulk(request: Request, service: Caller, body: BulkIn) -> Response:
    """Start one action on the jobs that a filter means: 202 and where its progress is. Or only tell what it means."""
    which = given(body.filter.model_dump())
    if body.dry_run:
        return answer(previewed(await service.would(body.action, which, to=body.tier)))
    operation = await service.do(body.action, which, to=body.tier, rate=body.rate, limit=body.limit, reason=body.reason)
    return _started(request, operation)


@router.get("/bulk", responses=answers({200: Items}))
async def operations(service: Caller, limit: Annotated[int, Query(ge=1, le=1000)] = 50) -> Response:
    """Return the latest operations, newest first."""
    return answer({"items": [operated(one) for one in await service.operations(limit=limit)]})


@router.get("/bulk/{operation_id}", responses=answers({200: OperationOut}, 404))
async def operation_of(service: Caller, operation_id: OperationPath) -> Response:
    """Return how far an operation is."""
    return answer(operated(await service.operation(operation_id)))


def _steers(to: str, about: str) -> None:
    @router.post(
        f"/bulk/{{operation_id}}/{to}",
        operation_id=f"{to}_bulk",
        responses=answers({200: OperationOut}, 404, 409),
    )
    async def steer(service: Caller, operation_id: OperationPath, body: Why | None = None) -> Response:
        return answer(operated(await service.steer(operation_id, to, reason="" if body is None else body.reason)))

    steer.__doc__ = about


_steers("cancel", "Leave the rest of an operation's jobs as they are; what is done stays done.")
_steers("pause", "Let an operation do nothing until it is resumed.")
_steers("resume", "Let an operation go on.")


@router.get("/dead/groups", responses=answers({200: Items}))
async def groups(service: Caller, limit: Annotated[int, Query(ge=1, le=1000)] = 50) -> Response:
    """Return the dead jobs by what they died of, the largest group first."""
    return answer({"items": [one.shown() for one in await service.groups(limit=limit)]})


@router.post("/dead/groups/{fingerprint}/replay", status_code=202, responses=answers({202: OperationOut}, 404))
async def replay(request: Request, service: Caller, fingerprint: str, body: ReplayIn | None = None) -> Response:
    """Bring the dead jobs of a group back, ten a second unless said otherwise, through the same scheduler."""
    asked = body or ReplayIn()
    action: Action = "retry" if asked.phase == "process" else "reverify"
    operation = await service.do(
        action, {"fingerprint": fingerprint}, to=asked.tier, rate=asked.rate, limit=asked.limit, reason=asked.reason
    )
    return _started(request, operation)
