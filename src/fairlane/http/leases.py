"""``/v1/leases``: workers in any language. A lease is named by its job's id and proved by its fence."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from fairlane import shapes
from fairlane.http.answers import Caller, JobPath, answer, while_there
from fairlane.http.models import AckIn, BeatIn, BeatOut, LeaseIn, LeasesOut, NackIn, SaveIn, answers
from fairlane.pulled import PulledClaim
from fairlane.service import claimed

router = APIRouter(prefix="/v1/leases", tags=["leases"])


@router.post("", responses=answers({200: LeasesOut}))
async def claim(request: Request, service: Caller, body: LeaseIn) -> Response:
    """Start jobs, waiting up to `wait` seconds for one; no items when nothing may run. Claim what you can start now.

    Nobody renews these leases but you: call heartbeat well before `lease_expires_at`.
    """
    call = service.claim(
        queues=body.queues, tasks=body.tasks, pool=body.pool, lease=body.lease, wait=body.wait, most=body.max
    )
    claims = await while_there(request, call)
    if await request.is_disconnected():  # nobody will run them
        for one in claims:
            await one.arelease()
    return answer({"items": [claimed(one) for one in claims]})


@router.post("/{job_id}/heartbeat", responses=answers({200: BeatOut}, 404, 409))
async def heartbeat(service: Caller, job_id: JobPath, body: BeatIn) -> Response:
    """Renew a lease, and learn whether somebody wants the run to stop. 409 `lease-lost`: stop at once."""
    held = await service.held(job_id, body.fence, lease=body.lease)
    asked = await held.aheartbeat()
    return answer({"asked": asked, "lease_expires_at": shapes.instant(held.lease_expires_at)})


@router.post("/{job_id}/ack", status_code=204, responses=answers({}, 404, 409))
async def ack(service: Caller, job_id: JobPath, body: AckIn) -> Response:
    """The run succeeded: the job is completed, or its work handed over or verified. Or it ends as cancelled."""
    held = await service.held(job_id, body.fence)
    if body.outcome == "cancelled":
        await held.acancelled(body.reason)
    else:
        await held.aack(body.result)
    return Response(status_code=204)


@router.post("/{job_id}/nack", status_code=204, responses=answers({}, 404, 409))
async def nack(service: Caller, job_id: JobPath, body: NackIn) -> Response:
    """The run failed, or gives the job back."""
    held = await service.held(job_id, body.fence)
    await _not_acked(held, body)
    return Response(status_code=204)


async def _not_acked(held: PulledClaim, body: NackIn) -> None:
    match body.outcome:
        case "retry":
            await held.anack(body.error, retry_in=body.retry_in)
        case "dead":
            await held.adead(body.error)
        case "snoozed":
            await held.asnooze(body.retry_in or 0.0)
        case "released":
            await held.arelease(preempted=body.preempted)
        case "pending":
            await held.apending()
        case "rejected":
            await held.areject(body.error)


@router.post("/{job_id}/save", status_code=204, responses=answers({}, 404, 409))
async def save(service: Caller, job_id: JobPath, body: SaveIn) -> Response:
    """Store where a run is, and how far: the next run finds the checkpoint."""
    held = await service.held(job_id, body.fence)
    if "checkpoint" in body.model_fields_set:
        await held.asave(body.checkpoint)
    if body.progress is not None:
        await held.aprogress(body.progress, body.note)
    return Response(status_code=204)
