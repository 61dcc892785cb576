"""Ids that tie a request, its log lines and its jobs together."""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping
from contextvars import ContextVar
from typing import Final, NamedTuple

_TRACE_ID: Final = re.compile(r"[0-9a-f]{32}")
_REQUEST_ID: Final = re.compile(r"[A-Za-z0-9._:/+=-]{1,128}")
_PARENT: Final = re.compile(r"[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}")
_NONE: Final = "0" * 32


class Trace(NamedTuple):
    """A request's ids.

    Attributes:
        request_id: The client's ``X-Request-Id``, or the trace id.
        trace_id: 32 hex digits: the client's, or new.
        parent: The W3C trace context that jobs of this request carry.
    """

    request_id: str
    trace_id: str
    parent: str


current: Final[ContextVar[Trace | None]] = ContextVar("fairlane_http_trace", default=None)
"""The ids of the request that is being answered in this context."""


def trace_of(headers: Mapping[str, str]) -> Trace:
    """Return a request's ids: ``traceparent`` goes before ``x-trace-id``; what is malformed counts as not given.

    Args:
        headers: By name in lower case.

    Example:
        >>> trace_of({"x-trace-id": "0AF7651916CD43DD8448EB211C80319C"}).trace_id
        '0af7651916cd43dd8448eb211c80319c'
    """
    given = headers.get("x-trace-id", "").lower()
    context = _PARENT.fullmatch(headers.get("traceparent", "").strip())
    if context is not None and context[1] != _NONE and context[2] != _NONE[:16]:
        trace_id, parent = context[1], context[0]
    else:
        trace_id = given if _TRACE_ID.fullmatch(given) and given != _NONE else secrets.token_hex(16)
        parent = f"00-{trace_id}-{secrets.token_hex(8)}-01"
    asked = headers.get("x-request-id", "")
    return Trace(asked if _REQUEST_ID.fullmatch(asked) else trace_id, trace_id, parent)
