"""Errors as problem details (RFC 9457): one shape for every error of every route, one table for every FairlaneError."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple
from urllib.parse import quote

from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Scope

from fairlane.errors import (
    CapacityError,
    ConfigError,
    DedupConflict,
    ExpressFull,
    FairlaneError,
    Forbidden,
    GroupNotFound,
    IllegalMove,
    InvalidJob,
    InvalidValue,
    JobNotFound,
    KeyReused,
    LeaseLost,
    OperationNotFound,
    Outdated,
    QueueFull,
    ScheduleNotFound,
    StoreBusy,
    StoreError,
    StoreFull,
    TokenNotFound,
    UnknownTask,
)

log = logging.getLogger("fairlane.http")

MEDIA_TYPE: Final = "application/problem+json"
URN: Final = "urn:fairlane:problem:"
MAX_ERRORS: Final = 20
BUSY_RETRY_S: Final = 1
FULL_RETRY_S: Final = 5
ENVELOPE: Final = "fairlane_envelope"
"""Where a request's scope says that its answers come in the orchestrator's envelope."""


class Kind(NamedTuple):
    """A sort of problem: its status, its code, its title, and after how many seconds to try again."""

    status: int
    code: str
    title: str
    retry_s: int | None = None


KINDS: Final[Mapping[type[FairlaneError], Kind]] = {
    KeyReused: Kind(422, "idempotency-mismatch", "The idempotency key came with another request before"),
    InvalidJob: Kind(422, "validation", "The job breaks a rule"),
    InvalidValue: Kind(422, "validation", "A value breaks a rule"),
    ConfigError: Kind(422, "validation", "These do not go together"),
    UnknownTask: Kind(422, "unknown-task", "The task is not known here"),
    JobNotFound: Kind(404, "not-found", "There is no such job"),
    OperationNotFound: Kind(404, "not-found", "There is no such operation"),
    GroupNotFound: Kind(404, "not-found", "There is no such group"),
    ScheduleNotFound: Kind(404, "not-found", "There is no such schedule"),
    TokenNotFound: Kind(404, "not-found", "There is no such token"),
    IllegalMove: Kind(409, "conflict-state", "The job's state does not allow this"),
    DedupConflict: Kind(409, "dedup-conflict", "Another job holds the dedup key"),
    LeaseLost: Kind(409, "lease-lost", "The claim is no longer the job's current one"),
    Outdated: Kind(412, "precondition", "What is set has changed since it was read"),
    Forbidden: Kind(403, "forbidden", "This token may not do that"),
    ExpressFull: Kind(429, "express-full", "The express lane is full", FULL_RETRY_S),
    QueueFull: Kind(429, "queue-full", "The queue or the tenant holds its maximum of waiting jobs", FULL_RETRY_S),
    CapacityError: Kind(429, "full", "There is no room now", FULL_RETRY_S),
    StoreBusy: Kind(503, "overloaded", "The store is busy", BUSY_RETRY_S),
    StoreFull: Kind(503, "store-full", "The disk of the store is full", FULL_RETRY_S),
    StoreError: Kind(503, "store-unavailable", "The store could not do it", FULL_RETRY_S),
}
"""What each error is over HTTP; of several classes of an error the most special one counts."""

BY_STATUS: Final[Mapping[int, Kind]] = {
    kind.status: kind
    for kind in (
        Kind(400, "bad-request", "The request cannot be read"),
        Kind(401, "unauthenticated", "A valid token is needed"),
        Kind(403, "forbidden", "This is not allowed"),
        Kind(404, "not-found", "There is nothing here"),
        Kind(405, "method-not-allowed", "This address does not know the method"),
        Kind(408, "timeout", "The request took too long to arrive"),
        Kind(413, "too-large", "The request is too large"),
        Kind(415, "media-type", "The request is not JSON"),
        Kind(421, "host", "The server is not known by this name"),
        Kind(422, "validation", "A value breaks a rule"),
        Kind(428, "precondition", "A precondition is missing"),
        Kind(429, "rate-limited", "Too many requests", 1),
        Kind(500, "internal", "Something went wrong inside"),
        Kind(503, "overloaded", "The server is busy", 1),
    )
}


def kind_of(error: FairlaneError) -> Kind:
    """Return what an error is over HTTP."""
    for base in type(error).__mro__:
        if base in KINDS:
            return KINDS[base]
    return BY_STATUS[500]


def problem(
    scope: Scope,
    kind: Kind,
    detail: str,
    *,
    headers: Mapping[str, str] | None = None,
    **extra: Any,  # Any: further members, ready for JSON
) -> Response:
    """Return an error's response: a problem, or the orchestrator's envelope on its routes."""
    sent = dict(headers or {})
    if kind.retry_s is not None:
        sent.setdefault("Retry-After", str(kind.retry_s))
        extra["retry_after"] = int(sent["Retry-After"])
    if kind.status == 401:  # noqa: PLR2004  the one status that must name a scheme
        sent["WWW-Authenticate"] = 'Bearer realm="fairlane"'
    status = kind.status
    if scope.get("state", {}).get(ENVELOPE):
        body: dict[str, Any] = {"success": False, "message": detail, "code": kind.code} | extra
        media_type = "application/json"
        status = 400 if status == 422 else status  # noqa: PLR2004  its clients know no other
    else:
        body = {
            "type": URN + kind.code,
            "title": kind.title,
            "status": kind.status,
            "detail": detail,
            "instance": quote(str(scope.get("path", "")), safe="/:@"),
            "code": kind.code,
        } | extra
        media_type = MEDIA_TYPE
    # ASCII alone: what was sent may hold halves of characters that UTF-8 cannot express
    return Response(json.dumps(body), status, headers=sent, media_type=media_type)


def of_error(scope: Scope, error: FairlaneError) -> Response:
    """Return the response to a refused call."""
    kind = kind_of(error)
    extra: dict[str, Any] = {}
    if isinstance(error, CapacityError):
        extra = {"current": error.current, "max": error.maximum}
    elif isinstance(error, IllegalMove):
        extra = {"state": error.state}
    if kind.status >= 500:  # noqa: PLR2004  ours, not the caller's
        log.warning("request_failed path=%r error=%r", scope.get("path"), error)
    detail = str(error)
    if isinstance(error, ExpressFull) and scope.get("state", {}).get(ENVELOPE):
        detail = (
            f"Priority queue is full (current: {error.current}, max: {error.maximum}). "
            "Please try again later or use normal queue."
        )
    return problem(scope, kind, detail, **extra)


def of_status(scope: Scope, status: int, detail: str = "", headers: Mapping[str, str] | None = None) -> Response:
    """Return the response for a status."""
    kind = BY_STATUS.get(status) or Kind(status, "error", "Something went wrong")
    return problem(scope, kind, detail or kind.title, headers=headers)


async def on_error(request: Request, error: Exception) -> Response:
    """Answer a FairlaneError."""
    assert isinstance(error, FairlaneError)
    if isinstance(error, ExpressFull):
        request.app.state.tally.express_rejected += 1
    return of_error(request.scope, error)


async def on_http(request: Request, error: Exception) -> Response:
    """Answer what the framework refuses: unknown addresses, methods that an address does not know."""
    assert isinstance(error, HTTPException)
    detail = "" if error.detail in {"Not Found", "Method Not Allowed"} else str(error.detail)
    return of_status(request.scope, error.status_code, detail, error.headers)


async def on_invalid(request: Request, error: Exception) -> Response:
    """Answer a body or a parameter that does not fit its schema."""
    assert isinstance(error, RequestValidationError)
    found: Sequence[Any] = error.errors()  # Any: Pydantic's own
    if any(one["type"] == "json_invalid" for one in found):
        return of_status(request.scope, 400, "the body is not JSON")
    errors = [{"pointer": _pointer(one["loc"]), "detail": str(one["msg"])} for one in found[:MAX_ERRORS]]
    detail = "; ".join(f"{one['pointer']}: {one['detail']}" for one in errors[:3])
    return problem(request.scope, BY_STATUS[422], detail, errors=errors)


def _pointer(places: Sequence[object]) -> str:
    """Return where something is: a JSON pointer into the body, or a parameter's name behind where it stands."""
    if places and places[0] == "body":
        return "#" + "".join("/" + str(place).replace("~", "~0").replace("/", "~1") for place in places[1:])
    return ".".join(str(place) for place in places)
