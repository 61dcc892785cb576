"""Fairlane in a FastAPI app: a worker for as long as the app lives, the HTTP API under a prefix, and a dependency.

Needs FastAPI; :func:`mount` needs the rest of the extra ``server`` too: ``pip install 'fairlane[server]'``.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import Annotated, Any, Final

from fastapi import Depends, FastAPI
from fastapi.requests import HTTPConnection

from fairlane.app import Fairlane
from fairlane.domain.tiers import Tier
from fairlane.errors import ConfigError

Lifespan = Callable[[FastAPI], AbstractAsyncContextManager[Any]]  # Any: the state that an app's lifespan may give
_APP: Final = "fairlane"
_MOUNTED: Final = "fairlane_mounted"


def lifespan(
    app: Fairlane,
    *,
    worker: bool = True,
    around: Lifespan | None = None,
    concurrency: int | None = None,
    queues: Iterable[str] | Mapping[str, int] | None = None,
    pool: str | None = None,
    reserve: Mapping[str, int] | Mapping[Tier, int] | None = None,
    lease: float | None = None,
    grace: float | None = None,
    name: str | None = None,
) -> Lifespan:
    """Return a lifespan for ``FastAPI(lifespan=…)``: it opens the store, runs a worker beside the app, and closes both.

    The worker has threads and an event loop of its own, so its tasks do not hold requests up. Every process of the
    server has one. When the server stops, it claims no more, waits for running jobs up to ``grace``, gives the rest
    back unharmed, and closes ``app``. Whatever was mounted with :func:`mount` lives as long.

    Args:
        app: The application.
        worker: Whether to run a worker; without one jobs are only stored here.
        around: A lifespan of the program's own, which begins before and ends after; it may use ``app``.
        concurrency: As for :meth:`fairlane.Fairlane.worker`, like the rest.
        queues: Queues to serve, or slots by queue.
        pool: The pool.
        reserve: Slots kept for a base tier or better.
        lease: Length of a lease, in seconds.
        grace: How long the end waits for running jobs, in seconds.
        name: How the worker's id begins.

    Raises:
        ConfigError: When the app starts: an argument is wrong.
    """

    @asynccontextmanager
    async def life(web: FastAPI) -> AsyncGenerator[Any]:  # Any: as above
        async with AsyncExitStack() as stack:
            stack.push_async_callback(app.aclose)
            setattr(web.state, _APP, app)
            state = None if around is None else await stack.enter_async_context(around(web))
            await asyncio.to_thread(lambda: app.owner)  # a store that cannot be opened ends the start
            for mounted in getattr(web.state, _MOUNTED, ()):
                await stack.enter_async_context(mounted.router.lifespan_context(mounted))
            if worker:
                hired = await asyncio.to_thread(
                    lambda: app.worker(
                        concurrency=concurrency, queues=queues, pool=pool, reserve=reserve, lease=lease, grace=grace,
                        name=name,
                    )
                )  # fmt: skip
                await stack.enter_async_context(hired)
            yield state

    return life


def mount(web: FastAPI, app: Fairlane, path: str = "/fairlane", **options: Any) -> FastAPI:
    """Serve the HTTP API and the dashboard under a prefix of a program's own app, and return what serves them.

    Whoever calls needs an access token (``fairlane token create``). ``web`` needs a :func:`lifespan`, which also runs
    what the server does beside answering: rescue, waits, retention.

    Args:
        web: The program's app.
        app: The application.
        path: The prefix; begins with a stroke, and does not end with one.
        options: Those of :func:`fairlane.http.app.create_app`.

    Raises:
        ConfigError: ``path`` is no prefix, an option is wrong, or the extra ``server`` is not installed.
    """
    if not path.startswith("/") or path.endswith("/"):
        raise ConfigError(
            f"path {path!r} is no prefix: it begins with a stroke and does not end with one, as /fairlane"
        )
    try:
        from fairlane.http.app import create_app  # noqa: PLC0415  who only wants a worker needs less
    except ModuleNotFoundError as error:
        if (error.name or "").startswith(_APP):
            raise
        raise ConfigError(f"the API and the dashboard need more: pip install 'fairlane[server]' ({error})") from None
    made = create_app(app, **options)
    web.mount(path, made)
    setattr(web.state, _MOUNTED, [*getattr(web.state, _MOUNTED, ()), made])
    return made


def fairlane_app(connection: HTTPConnection) -> Fairlane:
    """Return the application of the app that a request came to: a dependency. :data:`App` is the same, in short.

    Raises:
        ConfigError: The app has no :func:`lifespan` of fairlane's, or it has not begun.
    """
    found: object = getattr(connection.app.state, _APP, None)
    if not isinstance(found, Fairlane):
        raise ConfigError("there is no application: give FastAPI(lifespan=fairlane.integrations.fastapi.lifespan(app))")
    return found


App = Annotated[Fairlane, Depends(fairlane_app)]
"""The application, as a parameter of an endpoint: ``async def send(to: str, jobs: App)``."""
