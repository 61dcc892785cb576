"""The OpenAPI document: of the app as it runs, and as it is checked in."""

from __future__ import annotations

import json
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from fairlane.http.models import Problem

DESCRIPTION = """Store jobs, look at them, steer them, run them: from any language.

Send `Authorization: Bearer flt_…` (`fairlane token create`). Errors are problem details (RFC 9457): look at `code`.
Instants are RFC 3339 in UTC, times are seconds, tiers and states are words. Lists go on with `next_cursor`.
"""


def document(web: FastAPI) -> dict[str, Any]:  # Any: JSON
    """Return the OpenAPI document of an app; made once."""
    if web.openapi_schema is None:
        told = get_openapi(
            title=web.title,
            version="1",  # of the API: the package's own version would change the file with every release
            summary=web.summary,
            description=DESCRIPTION,
            routes=web.routes,
        )
        schemas = told["components"]["schemas"]
        schemas["Problem"] = Problem.model_json_schema(ref_template="#/components/schemas/{model}")
        for unused in ("HTTPValidationError", "ValidationError"):
            schemas.pop(unused, None)
        told["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
        told["security"] = [{"token": []}]
        for path in ("/healthz", "/readyz"):
            told["paths"][path]["get"]["security"] = []
        web.openapi_schema = told
    return web.openapi_schema


def exported() -> str:
    """Return the document of the plain API as text, as it is checked in at ``docs/reference/openapi.json``."""
    from fairlane.app import Fairlane  # noqa: PLC0415  only this needs an app of its own
    from fairlane.http.app import create_app  # noqa: PLC0415  it imports this module

    web = create_app(Fairlane("sqlite://"), dashboard=False)
    return json.dumps(document(web), indent=2, ensure_ascii=False) + "\n"
