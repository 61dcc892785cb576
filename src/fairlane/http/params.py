"""Parameters of addresses: those that nobody knows are refused, as unknown members of bodies are."""

from __future__ import annotations

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute


async def only_known(request: Request) -> None:
    """Let a request pass whose parameters the address knows: with a filter misspelt it would answer with everything.

    What there is, the OpenAPI document says.

    Raises:
        RequestValidationError: There are others.
    """
    route = request.scope.get("route")
    if not request.query_params or not isinstance(route, APIRoute):
        return
    told = request.app.openapi()["paths"][route.path_format][request.method.lower()]
    known = {one["name"] for one in told.get("parameters", ()) if one["in"] == "query"}
    if unknown := sorted(set(request.query_params) - known):
        said = f"there is no such parameter; this address has: {', '.join(sorted(known)) or 'none'}"
        raise RequestValidationError(
            [{"type": "extra_forbidden", "loc": ("query", name), "msg": said} for name in unknown]
        )
