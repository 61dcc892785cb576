"""The orchestrator's routes, for clients of that system: same addresses, envelope and messages; sounder behaviour.

What differs from the original, and why: changes are POST (``--orchestrator-routes=legacy`` lets GET make them too, for
clients that cannot be changed); an unknown job is 404 and one in the wrong state 409, both 400 there; every answer is
JSON, also 404, 405 and 500; a refused call changes nothing at all; the admin routes need an admin's token. What waits
needs no requeueing here, because a job is one row that no crash can part from its queue: those two routes take back
jobs whose holders are gone, so that a second call finds nothing to do.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Query
from fastapi.routing import APIRoute
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match
from starlette.types import Scope

from fairlane.domain.jobs import JobRecord
from fairlane.domain.phases import TIMED_OUT
from fairlane.domain.states import State
from fairlane.errors import FairlaneError, Forbidden, InvalidValue
from fairlane.http.answers import Caller, answer
from fairlane.http.options import Orchestrator
from fairlane.service import Json, Service

MOST: Final = 1_000
"""Jobs that a list shows, and that one call of an admin route deals with, at most."""
PAGE: Final = 500
TAG: Final = "block:"
"""Jobs of block 7 carry the tag ``block:7``."""

Status = Literal[
    "Created",
    "LockedForProcessing",
    "PendingVerification",
    "Completed",
    "VerificationTimeout",
    "VerificationFailed",
    "Failed",
    "PendingRetry",
    "Cancelled",
]
STATES: Final[dict[Status, tuple[str, ...]]] = {
    "Created": ("scheduled", "available"),
    "LockedForProcessing": ("running",),
    "PendingVerification": ("scheduled", "available", "running"),
    "Completed": ("completed",),
    "VerificationTimeout": ("dead",),
    "VerificationFailed": ("scheduled", "available"),
    "Failed": ("dead",),
    "PendingRetry": ("scheduled", "available"),
    "Cancelled": ("cancelled",),
}
"""The states in which jobs of each status are."""
Priority = Annotated[bool, Query(description="Whether it goes to the express lane.")]
JobType = Annotated[str | None, Query(min_length=1, max_length=255, description="Only jobs of this task.")]
Verb = Literal["process", "verify", "retry"]
WORDS: Final[dict[Verb, str]] = {"process": "processing", "verify": "verification", "retry": "retry"}


class ForPrograms(APIRoute):
    """A route that leaves a browser's requests to the dashboard's page at the same address."""

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """Match what a program asks for."""
        return (Match.NONE, {}) if wants_page(scope) else super().matches(scope)


def wants_page(scope: Scope) -> bool:
    """Return whether a request asks for HTML."""
    return any(name == b"accept" and b"text/html" in value for name, value in scope.get("headers", ()))


def status_of(record: JobRecord) -> Status:
    """Return what the orchestrator calls the state of a job."""
    if record.state is State.DEAD:
        return "VerificationTimeout" if record.reason == TIMED_OUT else "Failed"
    if not record.state.live:
        return "Completed" if record.state is State.COMPLETED else "Cancelled"
    if record.phase == "verify":
        return "PendingVerification"
    if record.state is State.RUNNING:
        return "LockedForProcessing"
    if record.errors and record.errors[-1].type == "Rejected":
        return "VerificationFailed"
    return "PendingRetry" if record.failures or record.crashes else "Created"


def enveloped(data: Any = None, message: str | None = None, status: int = 200) -> Response:  # Any: ready for JSON
    """Return an answer in the envelope."""
    told: Json = {"success": True}
    if data is not None:
        told["data"] = data
    if message is not None:
        told["message"] = message
    return answer(told, status)


def _status(given: str) -> Status:
    for status in STATES:
        if status.lower() == given.replace("_", "").replace("-", "").lower():
            return status
    raise InvalidValue(f"status {given[:80]!r} is not one of {', '.join(STATES)}")


async def _records(service: Service, **which: Any) -> list[JobRecord]:  # Any: a filter's values
    """Return the jobs of a filter that the caller sees, at most :data:`MOST`, newest first."""
    own = service.own(which)
    found: list[JobRecord] = []
    cursor: str | None = None
    while own is not None and len(found) < MOST:
        page = await service.app.ajobs(**own, limit=min(PAGE, MOST - len(found)), cursor=cursor)
        found += [job.record for job in page.jobs]
        cursor = page.cursor
        if cursor is None:
            break
    return found


def _shown(record: JobRecord) -> Json:
    return {"job_type": record.task, "id": str(record.uuid), "status": status_of(record)}


def make_routers(mode: Orchestrator, *, admin: bool) -> list[APIRouter]:
    """Return the routes that an option asks for, at the root and under ``/api/v1``.

    Args:
        mode: ``"off"``, ``"post"``, or ``"legacy"``: GET makes changes too.
        admin: Whether the admin routes are among them.
    """
    if mode == "off":
        return []
    jobs = APIRouter(tags=["orchestrator"], route_class=ForPrograms, include_in_schema=False)
    _list_routes(jobs)
    for verb in WORDS:
        _change_route(jobs, verb, ["POST", "GET"] if mode == "legacy" else ["POST"])
    top = APIRouter(include_in_schema=False)
    top.include_router(jobs, prefix="/jobs")
    top.include_router(jobs, prefix="/api/v1/jobs")
    top.add_api_route("/health", _health, methods=["GET"])
    if admin:
        top.include_router(admin_router())
    return [top]


async def _health() -> Response:
    """Tell that the process answers."""
    return enveloped("UP")


def _list_routes(jobs: APIRouter) -> None:
    @jobs.get("")
    async def by_status(service: Caller, status: Annotated[str | None, Query(max_length=64)] = None) -> Response:
        """Return jobs, at most 1,000, perhaps of one status."""
        wanted = None if status is None else _status(status)
        which = {} if wanted is None else {"state": STATES[wanted]}
        found = [record for record in await _records(service, **which) if wanted in {None, status_of(record)}]
        return enveloped({"jobs": [_shown(record) for record in found]})

    @jobs.get("/block/{number}/status")
    async def of_block(service: Caller, number: int) -> Response:
        """Return the jobs of a block: those with its tag."""
        found = await _records(service, tag=f"{TAG}{number}")
        return enveloped({"jobs": [_shown(record) for record in found]})


def _change_route(jobs: APIRouter, verb: Verb, methods: list[str]) -> None:
    async def change(request: Request, service: Caller, job_id: str, *, priority: Priority = False) -> Response:
        calls: dict[Verb, Callable[..., Awaitable[Json]]] = {
            "process": service.process, "verify": service.verify, "retry": service.retry,
        }  # fmt: skip
        told = await calls[verb](job_id, expedite=priority, reason="by the orchestrator's route")
        request.app.state.tally.operation(verb, priority=priority)
        how = "PRIORITY" if priority else "normal"
        return enveloped({"id": told["id"]}, f"Job with id {told['id']} queued for {how} {WORDS[verb]}")

    change.__doc__ = f"Queue a job for {WORDS[verb]}, with `priority` as an express job."
    jobs.add_api_route(f"/{{job_id}}/{verb}", change, methods=methods, operation_id=f"orchestrator_{verb}")


# ---------------------------------------------------------------- for admins


def _may_heal(service: Service) -> None:
    """These routes act on every job, so they take an admin with a token, also where the server is open.

    Raises:
        Forbidden: The caller is nobody of the kind.
    """
    service.need("admin")
    service.need_all_tenants("admin routes")
    if not service.actor.token:
        raise Forbidden("the admin routes need an admin's token, also on this machine")


async def _each(records: list[JobRecord], call: Callable[..., Awaitable[Json]]) -> Response:
    """Do something to each job, and tell for which it was done."""
    done: list[str] = []
    refused: list[str] = []
    for record in records:
        try:
            await call(record.uuid, reason="by the orchestrator's admin route")
        except FairlaneError:
            refused.append(str(record.uuid))
        else:
            done.append(str(record.uuid))
    return _healed(done, refused)


def _healed(done: list[str], refused: list[str]) -> Response:
    told = {
        "success_count": len(done),
        "successful_job_ids": done,
        "failed_count": len(refused),
        "failed_job_ids": refused,
    }
    return enveloped(told, f"{len(done)} jobs changed, {len(refused)} left as they were")


def admin_router() -> APIRouter:
    """Return the admin routes."""
    router = APIRouter(prefix="/admin/jobs", tags=["orchestrator"])

    async def dead(service: Service, job_type: str | None, status: Status) -> list[JobRecord]:
        _may_heal(service)
        which = {"state": "dead"} | ({} if job_type is None else {"task": job_type})
        return [record for record in await _records(service, **which) if status_of(record) == status]

    @router.post("/retry/failed")
    async def retry_failed(service: Caller, job_type: JobType = None) -> Response:
        """Retry the failed jobs, at most 1,000 a call, the youngest first."""
        return await _each(await dead(service, job_type, "Failed"), service.retry)

    @router.post("/reverify/verification-timeout")
    async def reverify(service: Caller, job_type: JobType = None) -> Response:
        """Check the work of jobs again whose checks were used up."""
        return await _each(await dead(service, job_type, "VerificationTimeout"), service.verify)

    async def heal(service: Service, job_type: str | None, phase: str) -> Response:
        _may_heal(service)
        which = {"state": "running"} | ({} if job_type is None else {"task": job_type})
        before = [record for record in await _records(service, **which) if record.phase == phase]
        await service.rescue()
        after = [await service.app.aget(record.uuid) for record in before]
        pairs = zip(before, after, strict=True)
        return _healed([str(old.uuid) for old, new in pairs if new.state != "running" or new.fence != old.fence], [])

    @router.post("/requeue/pending-verification")
    async def heal_verify(service: Caller, job_type: JobType = None) -> Response:
        """Take back checks whose holders are gone; waiting ones need nothing."""
        return await heal(service, job_type, "verify")

    @router.post("/requeue/created")
    async def heal_process(service: Caller, job_type: JobType = None) -> Response:
        """Take back jobs whose holders are gone; waiting ones need nothing."""
        return await heal(service, job_type, "process")

    return router
