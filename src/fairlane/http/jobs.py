"""``/v1/jobs``: store jobs, look at them, wait for them, steer them."""

from __future__ import annotations

from typing import Annotated, Any, Final

from fastapi import APIRouter, Query
from starlette.requests import Request
from starlette.responses import Response

from fairlane import shapes
from fairlane.domain.jobs import NewJob
from fairlane.errors import InvalidValue
from fairlane.http.answers import Caller, JobPath, Key, answer, given, once_of, trace_of, while_there
from fairlane.http.models import (
    AttemptsOut,
    BatchIn,
    Items,
    JobFull,
    JobIn,
    JobMoved,
    JobsOut,
    JobStored,
    ResultOut,
    StoredOut,
    Tier,
    TierIn,
    Why,
    answers,
)
from fairlane.service import Json, Service, Stored

router = APIRouter(prefix="/v1", tags=["jobs"])

Priority = Annotated[bool, Query(description="Whether it goes to the express lane.")]
Words = Annotated[str | None, Query(min_length=1, max_length=255)]
RESULT_RETRY_S: Final = 1


def new_job(service: Service, body: JobIn, parent: str) -> NewJob:
    """Return a job that was sent, checked."""
    options = given(body.model_dump(exclude={"task", "args"}))
    options.setdefault("trace", parent)
    return service.new(body.task, body.args, **options)


def stored(told: Stored) -> list[Json]:
    """Return stored jobs ready for JSON."""
    return [shapes.brief(job) | {"created": job.created} for job in told.jobs]


@router.post("/jobs", status_code=201, responses=answers({201: JobStored, 200: JobStored}, 409))
async def enqueue(request: Request, service: Caller, body: JobIn, key: Key = None) -> Response:
    """Store a job: 201, or 200 when it was there: a live job with its dedup key, or an earlier request's."""
    job = new_job(service, body, trace_of(request).parent)
    told = await service.enqueue([job], once=await once_of(request, key))
    await told.jobs[0].arefresh()
    made = told.jobs[0].created and not told.replayed
    headers = {"Location": f"{request.scope.get('root_path', '')}/v1/jobs/{told.jobs[0].id}"}
    if told.replayed:
        headers["Idempotent-Replayed"] = "true"
    return answer(stored(told)[0], 201 if made else 200, headers)


@router.post("/jobs:batch", status_code=201, responses=answers({201: StoredOut, 200: StoredOut}, 409))
async def enqueue_batch(request: Request, service: Caller, body: BatchIn, key: Key = None) -> Response:
    """Store up to 1,000 jobs, all of them or none: 201, or 200 when none of them is new."""
    parent = trace_of(request).parent
    jobs: list[NewJob] = []
    for index, one in enumerate(body.jobs):
        try:
            jobs.append(new_job(service, one, parent))
        except ValueError as error:  # what all errors of values are
            raise InvalidValue(f"jobs[{index}]: {error}") from error
    told = await service.enqueue(jobs, once=await once_of(request, key))
    for job in told.jobs:
        await job.arefresh()
    made = not told.replayed and any(job.created for job in told.jobs)
    headers = {"Idempotent-Replayed": "true"} if told.replayed else {}
    return answer({"items": stored(told)}, 201 if made else 200, headers)


@router.get("/jobs", responses=answers({200: JobsOut}))
async def find(  # noqa: PLR0917  FastAPI gives them by name
    service: Caller,
    state: Annotated[
        list[str] | None, Query(max_length=12, description="States, several with commas between or given again.")
    ] = None,
    queue: Words = None,
    task: Words = None,
    tenant: Words = None,
    tier: Tier | None = None,
    tag: Words = None,
    dedup_key: Words = None,
    fingerprint: Words = None,
    q: Annotated[Words, Query(description="Part of task, tenant, dedup key, tag or last error.")] = None,
    limit: Annotated[int, Query(ge=1, le=500)] = 50,
    cursor: Annotated[str | None, Query(max_length=512)] = None,
    count: Annotated[bool, Query(description="Whether to count them too, as far as 10,000.")] = False,
) -> Response:
    """Return a page of jobs that fit everything given, newest first."""
    which: dict[str, Any] = given(  # Any: a filter's values
        {
            "queue": queue, "task": task, "tenant": tenant, "tier": tier, "tag": tag, "dedup_key": dedup_key,
            "fingerprint": fingerprint, "q": q,
        }
    )  # fmt: skip
    if state is not None:
        which["state"] = [part for one in state for part in one.split(",")]
    told = await service.jobs(limit=limit, cursor=cursor, **which)
    if count:
        counted = await service.counted(which)
        told["count"] = {"value": counted.count, "capped": counted.more}
    return answer(told)


@router.get("/jobs/{job_id}", responses=answers({200: JobFull}, 404))
async def get(service: Caller, job_id: JobPath) -> Response:
    """Return everything of a job."""
    return answer(await service.job(job_id))


@router.get("/jobs/{job_id}/attempts", responses=answers({200: AttemptsOut}, 404))
async def attempts(service: Caller, job_id: JobPath) -> Response:
    """Return a job's failed and crashed runs, oldest first."""
    return answer(await service.attempts(job_id))


@router.get("/jobs/{job_id}/explain", responses=answers({200: Items}, 404))
async def explain(service: Caller, job_id: JobPath) -> Response:
    """Tell why a job is waiting: what blocks it, what goes before it, and about when it starts."""
    return answer(await service.explain(job_id))


@router.get("/jobs/{job_id}/result", responses=answers({200: ResultOut, 202: ResultOut}, 404))
async def result(
    request: Request,
    service: Caller,
    job_id: JobPath,
    wait: Annotated[float, Query(ge=0, le=60, allow_inf_nan=False, description="Seconds to wait for the end.")] = 0.0,
) -> Response:
    """Return how a job ended: 200, or 202 with Retry-After while it has not."""
    ended, told = await while_there(request, service.result(job_id, wait=wait))
    return answer(told, 200) if ended else answer(told, 202, {"Retry-After": str(RESULT_RETRY_S)})


# ---------------------------------------------------------------- steer


@router.post("/jobs/{job_id}/cancel", responses=answers({200: JobFull}, 404, 409))
async def cancel(request: Request, service: Caller, job_id: JobPath, body: Why | None = None) -> Response:
    """Cancel a waiting job, or ask a running one to stop."""
    return _done(request, "cancel", await service.cancel(job_id, reason=_why(body)))


@router.post("/jobs/{job_id}/retry", responses=answers({200: JobFull}, 404, 409))
async def retry(
    request: Request, service: Caller, job_id: JobPath, body: Why | None = None, *, priority: Priority = False
) -> Response:
    """Make a dead job available again, with its counts at zero and its history kept."""
    return _done(request, "retry", await service.retry(job_id, expedite=priority, reason=_why(body)), priority)


@router.post("/jobs/{job_id}/expedite", responses=answers({200: JobFull}, 404, 409))
async def expedite(request: Request, service: Caller, job_id: JobPath, body: Why | None = None) -> Response:
    """Put a waiting job into the express lane."""
    return _done(request, "expedite", await service.expedite(job_id, reason=_why(body)), priority=True)


@router.post("/jobs/{job_id}/boost", responses=answers({200: JobMoved}, 404, 409))
async def boost(request: Request, service: Caller, job_id: JobPath, body: TierIn) -> Response:
    """Raise a waiting job's tier, or with `lower` set it; its arrival stays."""
    change = service.set_tier if body.lower else service.boost
    return _done(request, "boost", await change(job_id, body.tier, reason=body.reason))


@router.post("/jobs/{job_id}/process", responses=answers({200: JobFull}, 404, 409))
async def process(
    request: Request, service: Caller, job_id: JobPath, body: Why | None = None, *, priority: Priority = False
) -> Response:
    """Have a job processed now: one that waits for its time, or a dead one."""
    return _done(request, "process", await service.process(job_id, expedite=priority, reason=_why(body)), priority)


@router.post("/jobs/{job_id}/verify", responses=answers({200: JobFull}, 404, 409))
async def verify(
    request: Request, service: Caller, job_id: JobPath, body: Why | None = None, *, priority: Priority = False
) -> Response:
    """Have another system's work for a job checked now."""
    return _done(request, "verify", await service.verify(job_id, expedite=priority, reason=_why(body)), priority)


def _done(request: Request, operation: str, told: Json, priority: bool = False) -> Response:
    """Count a change that was made, and tell what the job is now."""
    request.app.state.tally.operation(operation, priority=priority)
    return answer(told)


def _why(body: Why | None) -> str:
    return "" if body is None else body.reason
