"""The dashboard's addresses, and what every request has in common."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Final
from urllib.parse import parse_qs, quote

from fastapi import APIRouter, FastAPI, Request, Response
from fastapi.responses import StreamingResponse

from fairlane.app import Fairlane
from fairlane.dashboard.assets import YEAR_S, assets
from fairlane.dashboard.desk import Desk
from fairlane.dashboard.live import Live
from fairlane.dashboard.pages import house, jobs, overview, parties, whatif, work
from fairlane.dashboard.render import Urls, html, warm
from fairlane.dashboard.sampler import Sampler
from fairlane.dashboard.visit import Notes, Visit
from fairlane.domain.access import Role
from fairlane.errors import CapacityError, FairlaneError
from fairlane.http import auth, problems
from fairlane.service import LOCAL

MAX_FORM_FIELDS: Final = 1_200
"""A form names at most a thousand chosen jobs, and some fields more."""

Handler = Callable[[Visit], Awaitable[Response]]
Form = dict[str, str]
FormHandler = Callable[[Visit, Form, Sequence[str]], Awaitable[Response]]
Route = Callable[[Request], Awaitable[Response]]


class Dashboard:
    """What the pages of one server share. Start and stop are safe to call twice.

    Args:
        app: The application.
        prefix: Where below the server's own root the pages are.
    """

    def __init__(self, app: Fairlane, prefix: str) -> None:
        self.app = app
        self.prefix = prefix
        self.sampler = Sampler(app)
        self.notes = Notes()
        self.live = Live(self.sampler)

    async def start(self) -> None:
        """Begin to take samples, and make ready what the first page would wait for."""
        self.sampler.start()
        await asyncio.to_thread(warm)

    def end_streams(self) -> None:
        """End every live stream, so that a server that stops need not wait for browsers; called in the event loop."""
        self.live.stop()

    async def stop(self) -> None:
        """Stop sampling."""
        self.end_streams()
        await asyncio.to_thread(self.sampler.stop)

    def visit(self, request: Request) -> Visit:
        """Return what a request's page is made from."""
        caller: auth.Caller = request.scope["state"]["caller"]
        desk = Desk(self.app, caller.actor, redaction=request.app.state.options.redaction)
        self.sampler.start()
        return Visit(
            request=request,
            desk=desk,
            sampler=self.sampler,
            notes=self.notes,
            now_ms=self.app.clock.now_ms(),
            urls=Urls(str(request.scope.get("root_path", "")).rstrip("/") + self.prefix),
            open=caller.actor.name == LOCAL.name and not caller.actor.token,
        )


def dashboard_of(request: Request) -> Dashboard:
    """Return the dashboard that a request is for."""
    found: Dashboard = request.app.state.dashboard
    return found


# ---------------------------------------------------------------- around every page


def page(handler: Handler) -> Route:
    """Make a route of a page: a refusal is a page too, with the status that the API gives it."""

    async def route(request: Request) -> Response:
        visit = dashboard_of(request).visit(request)
        try:
            return await handler(visit)
        except FairlaneError as error:
            return refused(visit, error)

    return route


def form(role: Role, handler: FormHandler) -> Route:
    """Make a route of a form. Who may not is told so before anything of the form is looked at."""

    async def route(request: Request) -> Response:
        visit = dashboard_of(request).visit(request)
        try:
            visit.desk.need(role)
            body = (await request.body()).decode("utf-8", "replace")
            sent = parse_qs(body, keep_blank_values=True, max_num_fields=MAX_FORM_FIELDS)
            return await handler(visit, {name: values[-1] for name, values in sent.items()}, sent.get("ids", []))
        except FairlaneError as error:
            return refused(visit, error)
        except ValueError:  # too many fields
            return refused(visit, None, status=413)

    return route


def refused(visit: Visit, error: FairlaneError | None, *, status: int = 500) -> Response:
    """Return the page that tells why something was refused; nothing has changed then."""
    kind = problems.BY_STATUS[status] if error is None else problems.kind_of(error)
    facts: list[tuple[str, object]] = []
    if isinstance(error, CapacityError):
        facts = [("Taken", error.current), ("Of", error.maximum)]
    answer = visit.page(
        "refused.html",
        kind.title,
        live=False,
        status=kind.status,
        text=str(error) if error is not None else kind.title,
        facts=facts,
        back=_back(visit),
    )
    if kind.retry_s is not None:
        answer.headers["Retry-After"] = str(kind.retry_s)
    return answer


def _back(visit: Visit) -> str:
    """Return where somebody came from: the same address for a form, else the first page."""
    path, query = visit.path, visit.request.url.query
    if visit.request.method != "POST" or path == "/bulk":
        return visit.urls("/jobs" if path == "/bulk" else "/")
    return visit.urls(path) + (f"?{query}" if query else "")


# ---------------------------------------------------------------- what is no page


async def static(request: Request) -> Response:
    """Return a file; one that is asked for by its mark never changes."""
    asset = assets().get(request.path_params["name"])
    if asset is None:
        return Response(status_code=404)
    etag = f'"{asset.mark}"'
    marked = request.query_params.get("v") == asset.mark
    headers = {
        "ETag": etag,
        "Cache-Control": f"public, max-age={YEAR_S}, immutable" if marked else "no-cache",
        "Vary": "Accept-Encoding",
    }
    if request.headers.get("if-none-match") == etag:
        return Response(status_code=304, headers=headers)
    if "gzip" in request.headers.get("accept-encoding", ""):
        return Response(asset.packed, headers=headers | {"Content-Encoding": "gzip"}, media_type=asset.kind)
    return Response(asset.body, headers=headers, media_type=asset.kind)


async def events(request: Request) -> Response:
    """Tell a browser whenever there is something new."""
    dashboard = dashboard_of(request)
    if dashboard.live.full:
        return problems.of_status(request.scope, 503, "too many listeners")
    dashboard.sampler.start()
    web = request.app.state

    async def still_may() -> bool:
        return await auth.caller_of(web.fairlane, web.options, request.scope, request.headers) is not None

    headers = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}
    return StreamingResponse(dashboard.live.stream(still_may), media_type="text/event-stream", headers=headers)


# ---------------------------------------------------------------- the table


def _named(handler: Callable[[Visit, str], Awaitable[Response]], parameter: str) -> Handler:
    """Make a page of one that is about something named in its path or, for names of any text, in its query."""

    async def of(visit: Visit) -> Response:
        name = visit.request.path_params.get(parameter) or visit.asked(parameter)
        return await handler(visit, name)

    return of


def router() -> APIRouter:
    """Return the routes."""
    made = APIRouter(include_in_schema=False)

    def get(path: str, handler: Handler) -> None:
        made.add_route(path, page(handler), methods=["GET"], include_in_schema=False)

    def post(path: str, role: Role, handler: FormHandler) -> None:
        made.add_route(path, form(role, handler), methods=["POST"], include_in_schema=False)

    get("/", overview.overview)
    get("/jobs", jobs.jobs)
    get("/jobs/{id}", _named(jobs.job, "id"))
    get("/tenants", parties.tenants)
    get("/tenant", _named(parties.tenant, "name"))
    get("/queues", parties.queues)
    get("/queue", _named(parties.queue, "name"))
    get("/inflight", work.inflight)
    get("/dead", work.dead)
    get("/dead/group", work.group)
    get("/bulk", work.operations)
    get("/bulk/new", work.confirm)
    get("/bulk/{id}", _named(work.operation, "id"))
    get("/schedules", work.schedules)
    get("/workers", work.workers)
    get("/whatif", whatif.whatif)
    get("/fairness", house.fairness)
    get("/audit", house.audit)
    get("/settings", house.settings)
    post("/jobs/{id}", "operator", lambda visit, sent, ids: jobs.act(visit, visit.request.path_params["id"], sent))
    post("/tenant", "operator", lambda visit, sent, ids: parties.change(visit, "tenant", visit.asked("name"), sent))
    post("/queue", "operator", lambda visit, sent, ids: parties.change(visit, "queue", visit.asked("name"), sent))
    post("/bulk", "operator", work.begin)
    post("/bulk/{id}", "operator", lambda visit, sent, ids: work.steer(visit, visit.request.path_params["id"], sent))
    post("/schedules", "operator", lambda visit, sent, ids: work.schedule_do(visit, sent))
    post("/settings", "admin", lambda visit, sent, ids: house.change(visit, sent))
    made.add_route("/static/{name}", static, methods=["GET"], include_in_schema=False)
    made.add_route("/events", events, methods=["GET"], include_in_schema=False)
    return made


def _login_page(prefix: str, request: Request, *, failed: bool, next_path: str) -> str:
    """Return the page that asks for a token."""
    root = str(request.scope.get("root_path", "")).rstrip("/")
    action = f"{root}{auth.LOGIN}?next={quote(next_path, safe='/')}"
    return html("login.html", {"asset": Urls(root + prefix).asset, "action": action, "failed": failed})


def mount(web: FastAPI, app: Fairlane, *, prefix: str = "") -> Dashboard:
    """Put the dashboard into the app that :func:`fairlane.http.app.create_app` makes.

    Args:
        web: Where its routes go; its own guard lets nobody in who may not.
        app: The application.
        prefix: Where the pages are below the server's root: ``""``, or ``/dashboard`` where the root has other pages.
    """
    made = web.state.dashboard = Dashboard(app, prefix)
    web.state.login_page = partial(_login_page, prefix)
    web.include_router(router(), prefix=prefix)
    web.state.public.add(f"{prefix}/static/")
    return made
