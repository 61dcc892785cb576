"""``/v1/events``: that something has changed, told to browsers and programs while they listen (server-sent events).

An event carries no data of jobs: it says that there is news, and its listener looks again with its own rights. There is
one listener on the store for all of them; news of a quarter of a second are told together.
"""

from __future__ import annotations

import asyncio
import json
import secrets
from collections import deque
from collections.abc import AsyncGenerator, Callable
from contextlib import suppress
from typing import Annotated, Final

from fastapi import APIRouter, Header
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from fairlane.app import Fairlane
from fairlane.http import problems
from fairlane.http.answers import Caller
from fairlane.http.auth import caller_of
from fairlane.http.models import answers
from fairlane.store import News

router = APIRouter(prefix="/v1", tags=["watching"])

TOGETHER_S: Final = 0.25
BEAT_S: Final = 15.0
KEPT: Final = 1_000
MOST_LISTENERS: Final = 500


class Hub:
    """Hears of changes in the store once, and tells everybody who listens. Start and stop are safe to call twice."""

    def __init__(self, app: Fairlane) -> None:
        self._app = app
        self._boot = secrets.token_hex(4)
        self._version = 0
        self._kept: deque[tuple[int, frozenset[News]]] = deque(maxlen=KEPT)
        self._fresh: set[News] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._rung = asyncio.Event()
        self._stop: Callable[[], None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self.closed = False
        self.listeners = 0

    async def start(self) -> None:
        """Begin to listen."""
        if self._stop is not None:
            return
        self._loop = asyncio.get_running_loop()
        self._stop = await asyncio.to_thread(lambda: self._app.owner.listen(self._heard))

    def stop(self) -> None:
        """Listen no more and end every stream."""
        self.closed = True
        if self._stop is not None:
            self._stop()
            self._stop = None
        if self._timer is not None:
            self._timer.cancel()
        self._ring()

    def _heard(self, news: frozenset[News]) -> None:
        """Take news from the store's thread into the event loop."""
        if self._loop is not None:
            with suppress(RuntimeError):  # the loop is closed: nobody listens any more
                self._loop.call_soon_threadsafe(self._note, news)

    def _note(self, news: frozenset[News]) -> None:
        self._fresh |= news
        if self._timer is None and self._fresh and not self.closed:
            self._timer = asyncio.get_running_loop().call_later(TOGETHER_S, self._tell)

    def _tell(self) -> None:
        self._timer = None
        self._version += 1
        self._kept.append((self._version, frozenset(self._fresh)))
        self._fresh.clear()
        self._ring()

    def _ring(self) -> None:
        rung, self._rung = self._rung, asyncio.Event()
        rung.set()

    def place(self, last_id: str | None) -> int | None:
        """Return after which event to go on; None: what was missed is not known any more, or of another server."""
        if last_id is None:
            return self._version
        boot, _, number = last_id.partition("-")
        if boot != self._boot or not number.isascii() or not number.isdecimal() or len(number) > 18:  # noqa: PLR2004
            return None
        place = int(number)
        oldest = self._kept[0][0] if self._kept else self._version + 1
        return place if oldest - 1 <= place <= self._version else None

    def id_of(self, version: int) -> str:
        """Return an event's id."""
        return f"{self._boot}-{version}"

    async def events(self, last_id: str | None) -> AsyncGenerator[str | None]:
        """Give events as they are written to a listener, and None whenever nothing came for 15 s; ends with the hub."""
        place = self.place(last_id)
        if place is None:
            place = self._version
            yield _written("reset", self.id_of(place), {})
        else:
            yield _written("hello", self.id_of(place), {})
        while not self.closed:
            rung = self._rung
            missed = [news for version, news in self._kept if version > place]
            if missed:
                place = self._version
                yield _written("change", self.id_of(place), {"news": sorted(frozenset[str]().union(*missed))})
                continue
            try:
                await asyncio.wait_for(rung.wait(), BEAT_S)
            except TimeoutError:
                yield None


def _written(event: str, event_id: str, data: object) -> str:
    return f"event: {event}\nid: {event_id}\ndata: {json.dumps(data)}\n\n"


@router.get(
    "/events",
    response_class=StreamingResponse,
    responses=answers({200: "text/event-stream"}),
)
async def events(
    request: Request,
    service: Caller,
    last_event_id: Annotated[str | None, Header(max_length=64)] = None,
) -> Response:
    """Tell when something has changed: `change` with `news` of `work`, `end`, `ask`; `reset`: look at everything again.

    With `Last-Event-ID` it goes on where a stream broke off. A comment every 15 s keeps the connection alive.
    """
    del service
    hub: Hub = request.app.state.hub
    await hub.start()  # where it is mounted, nobody may have begun its life
    if hub.listeners >= MOST_LISTENERS:
        return problems.of_status(request.scope, 503, f"{MOST_LISTENERS} listeners are connected already")

    async def stream() -> AsyncGenerator[str]:
        hub.listeners += 1
        try:
            async for event in hub.events(last_event_id):
                if event is not None:
                    yield event
                elif await _still_may(request):
                    yield ": still here\n\n"
                else:
                    return
        finally:
            hub.listeners -= 1

    headers = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}
    return StreamingResponse(stream(), media_type="text/event-stream", headers=headers)


async def _still_may(request: Request) -> bool:
    """Return whether the listener's token is still in force."""
    web = request.app.state
    return await caller_of(web.fairlane, web.options, request.scope, request.headers) is not None
