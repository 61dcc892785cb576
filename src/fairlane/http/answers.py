"""What routes share: JSON answers, entity tags, idempotency keys, waiting for something while the client is there."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Coroutine, Mapping
from contextlib import suppress
from typing import Annotated, Any, Final, TypeVar

from fastapi import Depends, Header, Path
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from fairlane.errors import InvalidValue, Outdated
from fairlane.http.auth import service_of
from fairlane.http.trace import Trace
from fairlane.service import Json, Once, Service, Shown

T = TypeVar("T")

Caller = Annotated[Service, Depends(service_of)]
"""The caller's service, for a route's parameter."""
IfMatch = Annotated[str | None, Header(alias="If-Match", description="Change it only if this is still its ETag.")]
JobPath = Annotated[str, Path(description="The job's id.", json_schema_extra={"format": "uuid"})]
OperationPath = Annotated[str, Path(description="The operation's id.", json_schema_extra={"format": "uuid"})]
Key = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        max_length=255,
        description="For 24 hours a second request with this key and the same body does nothing and is told the same.",
    ),
]
GONE: Final = 499
"""Status in the log of a request whose client left; nobody receives it."""


def answer(told: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:  # Any: ready for JSON
    """Return JSON. Whole numbers keep all their digits."""
    body = json.dumps(told, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return Response(body, status, headers=dict(headers or {}), media_type="application/json")


def shown(found: Shown) -> Response:
    """Return what is set, with its entity tag."""
    return answer(found.told, headers={"ETag": f'"{found.etag}"'})


def expected_of(if_match: str | None) -> str | None:
    """Return the mark that a change asks for; ``*`` asks for none, because there is always something.

    Raises:
        Outdated: It names several marks, or a weak one, which no setting ever has.
    """
    if if_match is None or if_match.strip() == "*":
        return None
    mark = if_match.strip()
    if len(mark) < 2 or mark[0] != '"' or mark[-1] != '"':  # noqa: PLR2004  two quotes
        raise Outdated(f"If-Match is {mark[:80]!r}; give one entity tag in quotes, as it stood in ETag")
    return mark[1:-1]


async def once_of(request: Request, key: str | None) -> Once | None:
    """Return the request's idempotency key with the fingerprint of the request, or None without one.

    Raises:
        InvalidValue: The key is empty.
    """
    if key is None:
        return None
    plain = key.strip()
    if len(plain) > 1 and plain[0] == plain[-1] == '"':  # a string of structured fields, as the draft has it
        plain = plain[1:-1]
    if not plain:
        raise InvalidValue("Idempotency-Key is empty")
    digest = hashlib.sha256(f"{request.method} {request.url.path}\n".encode() + await request.body())
    return Once(plain, digest.digest())


def trace_of(request: Request) -> Trace:
    """Return the request's ids."""
    found: Trace = request.scope["state"]["trace"]
    return found


def given(told: Json) -> Json:
    """Return what was given: null stands for what was left out."""
    return {name: value for name, value in told.items() if value is not None}


async def while_there(request: Request, call: Coroutine[Any, Any, T]) -> T:  # Any: asyncio's own
    """Return what ``call`` returns; when the client leaves before, it is cancelled.

    Raises:
        HTTPException: The client left.
    """
    task = asyncio.create_task(call)
    gone = asyncio.create_task(_gone(request))
    try:
        await asyncio.wait({task, gone}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            task.cancel()
            with suppress(asyncio.CancelledError):
                return await task
            raise HTTPException(GONE)
        return task.result()
    finally:
        for one in (gone, task):
            one.cancel()


async def _gone(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
