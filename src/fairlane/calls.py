"""Calls of a store that stand in line for the thread that carries them out, and how their callers get the answers."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from fairlane.store import Store

AnyOp = Callable[[Store, int], object]


class Call:
    """One call in line: what to do, and its answer."""

    __slots__ = ("error", "given_up", "light", "loop", "op", "result", "taken")

    def __init__(self, op: AnyOp, *, light: bool) -> None:
        self.op = op
        self.light = light
        self.loop: asyncio.AbstractEventLoop | None = None
        self.result: object = None
        self.error: BaseException | None = None
        self.taken = False
        self.given_up = False

    def give(self) -> None:
        """Hand over the answer."""
        raise NotImplementedError

    def answer(self) -> object:
        """Return the answer, or raise what it is."""
        if self.error is not None:
            raise self.error
        return self.result


class Awaited(Call):
    """A call whose caller's thread stands still: a bare lock, for a future takes a tenth of a whole enqueue."""

    __slots__ = ("answered",)

    def __init__(self, op: AnyOp, *, light: bool) -> None:
        super().__init__(op, light=light)
        self.answered = threading.Lock()
        self.answered.acquire()

    def give(self) -> None:
        """Let the caller go on."""
        with contextlib.suppress(RuntimeError):  # it has gone on: it gave the call up just now
            self.answered.release()


class Here(Call):
    """A call that its caller's thread carries out itself."""

    __slots__ = ()

    def give(self) -> None:
        """Do nothing: the caller has it."""


class Promised(Call):
    """A call whose answer goes into a future; for one of asyncio's, :meth:`give` runs in its loop."""

    __slots__ = ("future",)

    def __init__(
        self,
        op: AnyOp,
        future: Future[Any] | asyncio.Future[Any],
        loop: asyncio.AbstractEventLoop | None,
        *,
        light: bool,
    ) -> None:
        super().__init__(op, light=light)
        self.future = future
        self.loop = loop

    def give(self) -> None:
        """Hand over the answer, unless nobody wants it any more."""
        future = self.future
        if future.done():
            return
        if self.error is not None:
            future.set_exception(self.error)
        else:
            future.set_result(self.result)


class Patience:
    """How long the calls of one event loop stand in line: one timer for all, for each would cost more than its call.

    Args:
        give_up: Called in the loop with a call whose time is over.
        busy_s: That time, in seconds.
    """

    def __init__(self, give_up: Callable[[Call], None], busy_s: float) -> None:
        self._give_up = give_up
        self._busy_s = busy_s
        self._line: deque[tuple[float, Promised]] = deque()
        self._timer: asyncio.TimerHandle | None = None

    def add(self, call: Promised, loop: asyncio.AbstractEventLoop) -> None:
        """Give a call up when its time is over."""
        self._forget_answered()
        self._line.append((loop.time() + self._busy_s, call))
        if self._timer is None:
            self._timer = loop.call_later(self._busy_s, self._look, loop)

    def _forget_answered(self) -> None:
        while self._line and self._line[0][1].future.done():
            self._line.popleft()

    def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        self._timer = None
        now = loop.time()
        self._forget_answered()
        for at, call in list(self._line):
            if at <= now and not call.future.done():
                self._give_up(call)
        self._forget_answered()
        if self._line:
            self._timer = loop.call_at(max(self._line[0][0], now + 1), self._look, loop)
