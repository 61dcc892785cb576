"""Which routes there are: a table that the app, the tests and the OpenAPI document are made from."""

from __future__ import annotations

from typing import Final

from fastapi import APIRouter

from fairlane.http import events, jobs, leases, many, ops, rules, watching

ROUTERS: Final[tuple[APIRouter, ...]] = (
    jobs.router,
    leases.router,
    rules.router,
    watching.router,
    many.router,
    events.router,
    ops.router,
)
