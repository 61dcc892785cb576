"""Which routes the API has under ``/v1``: a table that the app is made from."""

from __future__ import annotations

from typing import Final

from fastapi import APIRouter

from fairlane.http import events, jobs, leases, many, rules, watching

ROUTERS: Final[tuple[APIRouter, ...]] = (
    jobs.router,
    leases.router,
    rules.router,
    watching.router,
    many.router,
    events.router,
)
