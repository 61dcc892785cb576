"""Who calls: by a bearer token, by a browser's session, or because the surface is open to this machine."""

from __future__ import annotations

import html
import logging
from collections.abc import Mapping
from typing import Final, NamedTuple
from urllib.parse import parse_qs, quote

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.types import Scope

from fairlane.app import Fairlane
from fairlane.domain.access import TokenRecord
from fairlane.errors import StoreError
from fairlane.http.options import HttpOptions, is_loopback
from fairlane.service import LOCAL, Actor, Service
from fairlane.tokens import SESSION_MS

log = logging.getLogger("fairlane.http")

LOGIN: Final = "/login"
LOGOUT: Final = "/logout"
COOKIE: Final = "fairlane_session"
FORWARDED: Final = ("forwarded", "via", "x-forwarded-for", "x-forwarded-host", "x-real-ip")
"""Headers of proxies: whoever comes through one may be anybody, whatever address the proxy has."""
MAX_FORM_BYTES: Final = 4096


class Caller(NamedTuple):
    """Who calls, and whether a browser's cookie says so."""

    actor: Actor
    by_cookie: bool = False


async def caller_of(app: Fairlane, options: HttpOptions, scope: Scope, headers: Mapping[str, str]) -> Caller | None:
    """Return who calls, or None for somebody unknown.

    A token that is not valid makes nobody of the caller, also where the surface is open.
    """
    caller: Caller | None = None
    given = headers.get("authorization")
    if given is not None:
        scheme, _, token = given.partition(" ")
        record = await app.tokens.acheck(token.strip()) if scheme.lower() == "bearer" else None
        caller = None if record is None else Caller(Actor.of(record))
    elif secret := cookies_of(headers.get("cookie", "")).get(COOKIE):
        record = await app.tokens.asession(secret)
        caller = None if record is None else Caller(Actor.of(record), by_cookie=True)
    else:
        record = None
    if record is not None:
        await _note_use(app, record)
    if caller is None and given is None and await is_open(app, options, scope, headers):
        caller = Caller(LOCAL)
    if caller is not None and options.read_only:
        caller = Caller(caller.actor.as_viewer(), caller.by_cookie)
    return caller


async def is_open(app: Fairlane, options: HttpOptions, scope: Scope, headers: Mapping[str, str]) -> bool:
    """Return whether the surface is open to this caller: from this machine, while there is and was no token."""
    host = (scope.get("client") or ("", 0))[0]
    return (
        options.open_on_loopback
        and is_loopback(host)
        and not any(name in headers for name in FORWARDED)
        and not await app.tokens.aexist()
    )


async def _note_use(app: Fairlane, record: TokenRecord) -> None:
    """Note that a token was used, at most once a minute; that it could not be noted is no reason to refuse."""
    now_ms = app.clock.now_ms()
    if record.used_at_ms is not None and 0 <= now_ms - record.used_at_ms < 60_000:  # noqa: PLR2004  a minute
        return
    try:
        await app.tokens.aused(record.id)
    except StoreError as error:
        log.info("token_use_not_noted token=%s error=%r", record.id, error)


def cookies_of(header: str) -> dict[str, str]:
    """Return the cookies of a ``Cookie`` header; the first of several with one name.

    Example:
        >>> cookies_of("a=1; b=2; a=3")
        {'a': '1', 'b': '2'}
    """
    cookies: dict[str, str] = {}
    for part in header.split(";"):
        name, equals, value = part.strip().partition("=")
        if equals:
            cookies.setdefault(name, value.strip('"'))
    return cookies


def service_of(request: Request) -> Service:
    """Return the caller's service: the dependency of every route. The guard has let nobody unknown get here."""
    caller: Caller = request.scope["state"]["caller"]
    web = request.app.state
    return Service(web.fairlane, caller.actor, redaction=web.options.redaction)


# ---------------------------------------------------------------- logging in

router = APIRouter(include_in_schema=False)


def _page(request: Request, *, failed: bool = False, next_path: str = "/") -> HTMLResponse:
    """Return the form that asks for a token: the dashboard's, or one without script and style."""
    status = 401 if failed else 200
    if (page := getattr(request.app.state, "login_page", None)) is not None:
        return HTMLResponse(page(request, failed=failed, next_path=next_path), status)
    told = '<p role="alert">That token is not valid.</p>' if failed else ""
    action = html.escape(f"{request.scope.get('root_path', '')}{LOGIN}?next={quote(next_path, safe='/')}")
    return HTMLResponse(
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>fairlane: log in</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark"></head><body><main><h1>fairlane</h1>'
        f'{told}<form method="post" action="{action}"><p><label>Access token '
        '<input type="password" name="token" autocomplete="current-password" required autofocus></label></p>'
        "<p><button>Log in</button></p></form>"
        "<p>Make one with <code>fairlane token create</code>.</p></main></body></html>",
        status,
    )


def safe_next(path: str) -> str:
    r"""Return where to go after a log-in: a path of this server, never another site.

    Example:
        >>> [safe_next(path) for path in ("/jobs?tier=high", "//evil.example", "https://evil.example", "/\\e")]
        ['/jobs?tier=high', '/', '/', '/']
    """
    plain = path.isprintable() and "\\" not in path
    return path if plain and path.startswith("/") and not path.startswith("//") else "/"


@router.get(LOGIN)
async def ask(request: Request) -> Response:
    """Show the form."""
    return _page(request, next_path=safe_next(request.query_params.get("next", "/")))


@router.post(LOGIN)
async def log_in(request: Request) -> Response:
    """Begin a session with a token that is valid."""
    web = request.app.state
    app: Fairlane = web.fairlane
    next_path = safe_next(request.query_params.get("next", "/"))
    body = await request.body()
    given = parse_qs(body[:MAX_FORM_BYTES].decode("utf-8", "replace"), max_num_fields=8).get("token", [""])[0]
    record = await app.tokens.acheck(given.strip())
    if record is None:
        return _page(request, failed=True, next_path=next_path)
    secret = await app.tokens.alog_in(record)
    prefix = request.scope.get("root_path", "")
    response = RedirectResponse(prefix + next_path, 303)
    secure = web.options.secure_cookie
    response.set_cookie(
        COOKIE,
        secret,
        max_age=SESSION_MS // 1000,
        path=prefix or "/",
        secure=request.url.scheme == "https" if secure is None else secure,
        httponly=True,
        samesite="strict",
    )
    return response


@router.post(LOGOUT)
async def log_out(request: Request) -> Response:
    """End the session."""
    secret = cookies_of(request.headers.get("cookie", "")).get(COOKIE)
    if secret:
        await request.app.state.fairlane.tokens.alog_out(secret)
    prefix = request.scope.get("root_path", "")
    response = RedirectResponse(prefix + LOGIN, 303)
    response.delete_cookie(COOKIE, path=prefix or "/", httponly=True, samesite="strict")
    return response
