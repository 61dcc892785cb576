"""The stream that tells browsers that there is something new; they ask for their page's content again themselves.

An event carries a number and nothing else, so a stream needs no rights beyond being let in; the page it leads to is
made with its reader's own. A browser that leaves is noticed at the next beat at the latest.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Final

from fairlane.dashboard.sampler import Sampler

BEAT_S: Final = 5.0
MOST: Final = 500
LOOK_AGAIN: Final = 6
"""Beats after which a listener's right to be here is looked at again."""


class Live:
    """Listeners of one server. :meth:`stop` ends every stream, and is safe to call twice.

    Args:
        sampler: Whose samples are told.
    """

    def __init__(self, sampler: Sampler) -> None:
        self._sampler = sampler
        self._rung: set[asyncio.Event] = set()
        self.closed = False

    @property
    def full(self) -> bool:
        """Whether there is no room for another listener."""
        return len(self._rung) >= MOST

    def stop(self) -> None:
        """End every stream; called in the event loop."""
        self.closed = True
        for event in self._rung:
            event.set()

    async def stream(self, still_may: Callable[[], Awaitable[bool]]) -> AsyncGenerator[str]:
        """Give events as they are written to a browser: ``new`` for each sample, ``beat`` when none came for 5 s."""
        loop = asyncio.get_running_loop()
        event, version, told, beats = asyncio.Event(), 0, 0, 0

        def heard(number: int) -> None:
            def ring() -> None:
                nonlocal version
                version = number
                event.set()

            if not loop.is_closed():
                loop.call_soon_threadsafe(ring)

        self._rung.add(event)
        try:
            with self._sampler.watch(heard):
                yield "retry: 2000\n\n"
                while not self.closed:
                    try:
                        await asyncio.wait_for(event.wait(), BEAT_S)
                    except TimeoutError:
                        yield "event: beat\ndata: 0\n\n"
                    event.clear()
                    if version != told:
                        told = version
                        yield f"event: new\nid: {version}\ndata: {version}\n\n"
                    beats += 1
                    if beats % LOOK_AGAIN == 0 and not await still_may():
                        return
        finally:
            self._rung.discard(event)
