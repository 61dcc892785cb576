"""What stands before every route: who may knock, from where, how large and how fast. Closed unless it opens.

It is one piece of plain ASGI, so that no route, mounted page or error can be reached around it:

* the server must be addressed by a name that it knows (DNS rebinding),
* a change must not come from another site's page (CSRF),
* whoever has neither a token nor a session gets no further than the few public addresses,
* a request must be JSON of bounded size and depth, and arrive in time,
* every answer carries its request's ids and headers that keep a browser from doing more with it than it should.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable, Mapping, MutableMapping
from typing import Any, Final
from urllib.parse import quote, urlsplit

from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from fairlane.app import Fairlane
from fairlane.clock import SystemClock
from fairlane.errors import FairlaneError
from fairlane.http import problems, trace
from fairlane.http.auth import LOGIN, Caller, caller_of
from fairlane.http.limits import Buckets
from fairlane.http.options import HttpOptions
from fairlane.http.orchestrator import wants_page

log = logging.getLogger("fairlane.http")

SAFE: Final = frozenset({"GET", "HEAD", "OPTIONS"})
METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE"})
OTHER: Final = "other"
SAME: Final = frozenset({"same-origin", "none"})
HEADERS: Final = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; font-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",  # without any, browsers hide the origin of forms, and we could not check it
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
"""What every answer carries unless it says otherwise itself."""
_STRINGS: Final = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*(?:"|\\?\Z)', re.DOTALL)
_NO_BRACKETS: Final = bytes(sorted(set(range(256)) - set(b"[]{}")))


class Refused(Exception):
    """A request that goes no further, and the answer to it."""

    def __init__(self, response: Response) -> None:
        super().__init__()
        self.response = response


class Guard:
    """Stands before an ASGI app; see the module.

    Args:
        inner: What it guards.
        app: Whose tokens count.
        options: How it is opened.
        public: Addresses that need no token, each a path or, with a stroke at its end, all below it; may grow.
        tally: Is told the method, the route and the status of every request.
        root_path: The prefix under which a proxy serves it, which it may pass on or take away.
    """

    def __init__(
        self,
        inner: ASGIApp,
        *,
        app: Fairlane,
        options: HttpOptions,
        public: set[str],
        tally: Callable[[str, str, int], None],
        root_path: str = "",
    ) -> None:
        self._inner = inner
        self._app = app
        self._options = options
        self._public = public
        self._tally = tally
        self._root_path = root_path
        self._buckets = None if options.rate is None else Buckets(options.rate)
        self._clock = SystemClock()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request through, or answer it."""
        if scope["type"] == "lifespan":
            await self._inner(scope, receive, send)
        elif scope["type"] != "http":  # there are no web sockets here
            await send({"type": "websocket.close", "code": 1008})
        else:
            await self._http(scope, receive, send)

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._root_path and not scope.get("root_path"):
            scope["root_path"] = self._root_path
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
        ids = trace.trace_of(headers)
        state: MutableMapping[str, Any] = scope.setdefault("state", {})
        state["trace"] = ids
        state[problems.ENVELOPE] = self._enveloped(scope)
        method = scope["method"] if scope["method"] in METHODS else OTHER
        answer = _Answer(send, {**HEADERS, "X-Request-Id": ids.request_id, "X-Trace-Id": ids.trace_id})
        token = trace.current.set(ids)
        began = self._clock.monotonic()
        try:
            receive = await self._pass(scope, receive, headers)
            await self._inner(scope, receive, answer)
        except Refused as refused:
            await refused.response(scope, receive, answer)
        except FairlaneError as error:  # the store did not answer when tokens were looked up
            await problems.of_error(scope, error)(scope, receive, answer)
        except Exception:
            log.exception("request_crashed method=%s path=%r trace=%s", scope["method"], scope["path"], ids.trace_id)
            if answer.begun:
                raise
            await problems.of_status(scope, 500)(scope, receive, answer)
        finally:
            trace.current.reset(token)
            self._tally(method, getattr(scope.get("route"), "path", OTHER), answer.status)
            log.info(
                "request method=%s path=%s status=%s ms=%d trace=%s request=%s",
                scope["method"],
                quote(scope["path"], safe="/:@"),
                answer.status,
                (self._clock.monotonic() - began) * 1000,
                ids.trace_id,
                ids.request_id,
            )

    def _enveloped(self, scope: Scope) -> bool:
        """Return whether a request is for the orchestrator's routes, whose answers have its envelope."""
        path = path_in(scope)
        if self._options.orchestrator == "off" or wants_page(scope):
            return False
        return path in {"/jobs", "/health"} or path.startswith(("/jobs/", "/api/v1/", "/admin/"))

    # ------------------------------------------------------------------ the gates, one after the other

    async def _pass(self, scope: Scope, receive: Receive, headers: Mapping[str, str]) -> Receive:
        """Return where the inner app reads the request from.

        Raises:
            Refused: It does not get that far.
        """
        path, method = path_in(scope), scope["method"]
        if path == "/healthz":
            return receive
        if not self._options.knows(headers.get("host", "")):
            hint = "start the server with --allow-host for each name that it should answer to"
            raise Refused(problems.of_status(scope, 421, f"the server does not know this Host; {hint}"))
        if path == "/readyz":  # who asks is all the same, and only the store could tell
            return receive
        if self._changes(method, path):
            self._check_origin(scope, headers)
        caller = await caller_of(self._app, self._options, scope, headers)
        self._check_rate(scope, caller)
        if caller is not None:
            scope["state"]["caller"] = caller
            if caller.by_cookie and self._changes(method, path):
                self._check_cookie(scope, headers)
        elif not self._is_public(path):
            raise Refused(self._knock(scope, headers))
        if method in SAFE:
            return receive
        return await self._read(scope, receive, headers)

    def _check_origin(self, scope: Scope, headers: Mapping[str, str]) -> None:
        """Refuse changes that another site's page sends."""
        origin, site = headers.get("origin"), headers.get("sec-fetch-site")
        if origin is not None and not self._is_own(origin, headers.get("host", "")):
            raise Refused(problems.of_status(scope, 403, "the request comes from another site's page (Origin)"))
        if site is not None and site not in SAME and not (origin is not None and origin in self._options.origins):
            raise Refused(problems.of_status(scope, 403, "the request comes from another site's page (Sec-Fetch-Site)"))

    def _is_own(self, origin: str, host: str) -> bool:
        if origin in self._options.origins:
            return True
        return bool(host) and urlsplit(origin).netloc.lower() == host.strip().lower()

    def _check_cookie(self, scope: Scope, headers: Mapping[str, str]) -> None:
        """A browser says where a change comes from; what uses a cookie and does not say is no browser of ours."""
        if "origin" not in headers and "sec-fetch-site" not in headers:
            raise Refused(problems.of_status(scope, 403, "a change with a session needs an Origin header"))

    def _changes(self, method: str, path: str) -> bool:
        """Return whether a request may change something."""
        return method not in SAFE or (self._options.orchestrator == "legacy" and not path.startswith("/v1/"))

    def _check_rate(self, scope: Scope, caller: Caller | None) -> None:
        if self._buckets is None:
            return
        if caller is None:
            name = f"from {(scope.get('client') or ('', 0))[0]}"
        elif caller.actor.token:
            name = caller.actor.token
        else:
            return
        wait_s = self._buckets.wait_s(name, self._clock.monotonic())
        if wait_s > 0:
            headers = {"Retry-After": str(max(1, round(wait_s)))}
            raise Refused(problems.of_status(scope, 429, "too many requests", headers))

    def _is_public(self, path: str) -> bool:
        return any(path == one or (one.endswith("/") and path.startswith(one)) for one in self._public)

    def _knock(self, scope: Scope, headers: Mapping[str, str]) -> Response:
        """Return the answer to somebody unknown: a browser that looks is shown where to log in."""
        page = scope["method"] == "GET" and "text/html" in headers.get("accept", "")
        if page and not path_in(scope).startswith("/v1/"):
            where = path_in(scope)
            if scope.get("query_string"):
                where += "?" + scope["query_string"].decode("latin-1")
            return RedirectResponse(f"{scope.get('root_path', '')}{LOGIN}?next={quote(where, safe='/')}", 303)
        return problems.of_status(scope, 401)

    # ------------------------------------------------------------------ the body

    async def _read(self, scope: Scope, receive: Receive, headers: Mapping[str, str]) -> Receive:
        """Read the whole request within its bounds, and return what gives it to the inner app."""
        if headers.get("content-encoding", "identity").lower() != "identity":
            raise Refused(problems.of_status(scope, 415, "compressed requests are not taken"))
        try:
            async with asyncio.timeout(self._options.body_timeout):
                body = await self._whole(scope, receive, headers)
        except TimeoutError:
            raise Refused(problems.of_status(scope, 408, headers={"Connection": "close"})) from None
        if body and path_in(scope).startswith("/v1/") and not _is_json(headers.get("content-type", "")):
            raise Refused(problems.of_status(scope, 415, "send Content-Type: application/json"))
        if _is_json(headers.get("content-type", "")) and not shallow(body, self._options.max_depth):
            detail = f"the JSON is nested deeper than {self._options.max_depth} levels"
            raise Refused(problems.of_status(scope, 413, detail))
        given = False

        async def again() -> Message:
            nonlocal given
            if not given:
                given = True
                return {"type": "http.request", "body": body, "more_body": False}
            return await receive()

        return again

    async def _whole(self, scope: Scope, receive: Receive, headers: Mapping[str, str]) -> bytes:
        most = self._options.max_body_bytes
        said = headers.get("content-length", "")
        if said.isdecimal() and int(said[:20]) > most:
            raise Refused(_too_large(scope, most))
        parts: list[bytes] = []
        size = 0
        more = True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise Refused(Response(status_code=400))
            parts.append(message.get("body", b""))
            size += len(parts[-1])
            if size > most:
                raise Refused(_too_large(scope, most))
            more = message.get("more_body", False)
        return b"".join(parts)


class _Answer:
    """Adds headers to an answer, and knows whether it has begun."""

    def __init__(self, send: Send, headers: Mapping[str, str]) -> None:
        self._send = send
        self._headers = headers
        self.begun = False
        self.status = 0

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.begun = True
            self.status = message["status"]
            have = {name.lower() for name, _ in message.get("headers", [])}
            more = [
                (name.lower().encode("latin-1"), value.encode("latin-1"))
                for name, value in self._headers.items()
                if name.lower().encode("latin-1") not in have
            ]
            message = {**message, "headers": [*message.get("headers", []), *more]}
        await self._send(message)


def path_in(scope: Scope) -> str:
    """Return a request's path below the prefix that the app is served under."""
    path: str = scope["path"]
    prefix: str = scope.get("root_path", "")
    if prefix and (path == prefix or path.startswith(prefix.rstrip("/") + "/")):
        return path[len(prefix.rstrip("/")) :] or "/"
    return path


def shallow(body: bytes, most: int) -> bool:
    """Return whether JSON text is nested at most about ``most`` levels (twice that where kinds alternate).

    It looks at brackets outside strings alone, without building anything: each round takes the innermost pairs away.
    Text that is not JSON may pass or not; it is refused later in any case.

    Example:
        >>> shallow(b'{"a": [1, {"b": "]]]]"}]}', 3), shallow(b"[" * 9 + b"]" * 9, 3)
        (True, False)
    """
    brackets = _STRINGS.sub(b"", body).translate(None, _NO_BRACKETS)
    for _ in range(most):
        if not brackets:
            return True
        brackets = brackets.replace(b"[]", b"").replace(b"{}", b"")
    return len(brackets) <= most and b"[]" not in brackets and b"{}" not in brackets


def _is_json(content_type: str) -> bool:
    kind = content_type.partition(";")[0].strip().lower()
    return kind == "application/json" or (kind.startswith("application/") and kind.endswith("+json"))


def _too_large(scope: Scope, most: int) -> Response:
    return problems.problem(
        scope,
        problems.BY_STATUS[413],
        f"the request is larger than {most:,} bytes",
        headers={"Connection": "close"},
        max=most,
    )
