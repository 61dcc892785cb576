"""The HTTP surface as an ASGI app: for ``fairlane server``, or mounted into a program's own app under a prefix."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

from fastapi import Depends, FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

import fairlane
from fairlane.app import Fairlane
from fairlane.errors import FairlaneError
from fairlane.http import auth, ops, problems
from fairlane.http.events import Hub
from fairlane.http.guard import Guard
from fairlane.http.openapi import document
from fairlane.http.ops import Tally
from fairlane.http.options import HttpOptions, Orchestrator
from fairlane.http.orchestrator import make_routers
from fairlane.http.params import only_known
from fairlane.http.parts import ROUTERS
from fairlane.service import Redaction


def create_app(
    app: Fairlane,
    *,
    options: HttpOptions | None = None,
    root_path: str = "",
    redact: Redaction | Iterable[str] = (),
    read_only: bool = False,
    hosts: Sequence[str] = (),
    origins: Sequence[str] = (),
    orchestrator: Orchestrator = "off",
    maintenance: bool = True,
    dashboard: bool = True,
) -> FastAPI:
    """Return the HTTP surface of an app.

    Mount it anywhere: ``web.mount("/tools/fairlane", create_app(app))``. Its life is the outer app's then: run
    ``created.router.lifespan_context(created)`` in the outer lifespan, or the maintenance does not run. Whoever calls
    needs an access token (``fairlane token create``); only ``fairlane server`` opens it to its own machine without one.

    Args:
        app: The app; it stays open when this ends, unless ``fairlane server`` closes it.
        options: All options at once; the further arguments are then left out.
        root_path: The prefix under which a proxy serves it, ``/tools/fairlane``; a mount needs none.
        redact: What is put out of sight: paths of keys such as ``*.password``, or a :class:`Redaction`.
        read_only: Whether everybody may only look.
        hosts: Names under which it may be addressed, beside ``localhost`` and IP addresses; ``*``: any.
        origins: Origins whose pages may send changes, beside its own.
        orchestrator: Whether the orchestrator's routes are there, ``"post"`` or ``"legacy"``.
        maintenance: Whether it does what workers do beside running jobs: rescue, watch over waits, prune.
        dashboard: Whether the dashboard's pages are there too.

    Raises:
        ConfigError: An option is wrong.
    """
    if options is None:
        options = HttpOptions(
            redaction=redact if isinstance(redact, Redaction) else Redaction(redact),
            read_only=read_only,
            hosts=hosts,
            origins=origins,
            orchestrator=orchestrator,
            maintenance=maintenance,
        )
    web = _bare(app, options)
    _guard(web, app, options, root_path)
    _add_api(web, options)
    if dashboard:
        _add_dashboard(web, app)
    return web


def _bare(app: Fairlane, options: HttpOptions) -> FastAPI:
    """Return the ASGI app without routes, and with what these share as its state."""
    web = FastAPI(
        title="fairlane",
        summary="A background job queue for many tenants.",
        version=fairlane.__version__,
        docs_url=None,  # they need scripts from elsewhere, which the content security policy refuses
        redoc_url=None,
        openapi_url="/v1/openapi.json",
        lifespan=partial(_life, app, options),
        redirect_slashes=False,
        separate_input_output_schemas=False,
    )
    web.state.fairlane = app
    web.state.options = options
    web.state.public = {auth.LOGIN, "/healthz", "/readyz"}
    web.state.tally = Tally(app, tenants=options.metrics_tenants)
    web.state.hub = Hub(app)
    web.openapi = partial(document, web)  # type: ignore[method-assign]  # FastAPI's own way to change it
    return web


def _guard(web: FastAPI, app: Fairlane, options: HttpOptions, root_path: str) -> None:
    """Let nobody past without a look, and answer every error as a problem."""
    web.add_middleware(
        Guard,
        app=app,
        options=options,
        public=web.state.public,
        tally=web.state.tally.request,
        root_path=root_path.rstrip("/"),
    )
    web.add_exception_handler(FairlaneError, problems.on_error)
    web.add_exception_handler(HTTPException, problems.on_http)
    web.add_exception_handler(RequestValidationError, problems.on_invalid)


def _add_api(web: FastAPI, options: HttpOptions) -> None:
    """Add the API's routes, and the orchestrator's if they are asked for."""
    web.include_router(auth.router)
    for router in ROUTERS:
        web.include_router(router, dependencies=[Depends(only_known)])
    for router in (ops.router, *make_routers(options.orchestrator, admin=options.orchestrator_admin)):
        web.include_router(router)
    if options.orchestrator != "off":
        web.state.public.add("/health")


@asynccontextmanager
async def _life(app: Fairlane, options: HttpOptions, web: FastAPI) -> AsyncGenerator[None]:
    """Open the store, look after it while the server runs, and leave it open."""
    await asyncio.to_thread(lambda: app.owner)
    hub: Hub = web.state.hub
    await hub.start()
    upkeep: Any = app.maintenance() if options.maintenance else None
    if upkeep is not None:
        upkeep.start()
    if (board := getattr(web.state, "dashboard", None)) is not None:
        await board.start()
    try:
        yield
    finally:
        end_streams(web)
        if board is not None:
            await board.stop()
        if upkeep is not None:
            await asyncio.to_thread(upkeep.stop, 10.0)


def _add_dashboard(web: FastAPI, app: Fairlane) -> None:
    """Add the dashboard's pages; they come last, so that they take no address of the API's."""
    from fairlane.dashboard.routes import mount  # noqa: PLC0415  it imports this package's other modules

    mount(web, app)


def end_streams(web: FastAPI) -> None:
    """End every live stream, so that a server that stops need not wait for listeners; call it in the event loop."""
    web.state.hub.stop()
    if (board := getattr(web.state, "dashboard", None)) is not None:
        board.end_streams()
