"""Passes that come again and again, and the thread that makes them."""

from __future__ import annotations

import logging
import math
import random
import threading
from collections.abc import Callable
from typing import Final

from fairlane.background import started
from fairlane.clock import SystemClock
from fairlane.errors import FairlaneError

log = logging.getLogger("fairlane.maintenance")

RETRY_S: Final = (0.2, 30.0)
"""Least and most time before a pass that failed is tried again."""


class Chore:
    """A pass that comes again and again.

    Attributes:
        due_at: When it comes next, by the machine's monotonic clock.
        failed: How often it failed in a row.

    Args:
        name: What logs call it.
        work: The pass; returns how many jobs it dealt with.
        every_s: Time from one pass to the next, in seconds, or what tells it after each pass.
        jitter: Largest stretch of that time, as a share of it: processes that began together spread out.
        rng: Source of the jitter.
    """

    def __init__(
        self,
        name: str,
        work: Callable[[], int],
        *,
        every_s: float | Callable[[], float],
        jitter: float,
        rng: random.Random,
    ) -> None:
        self.name = name
        self._work = work
        self._every_s = every_s
        self._jitter = jitter
        self._rng = rng
        self.due_at = -math.inf
        self.failed = 0

    def run(self, now: float) -> None:
        """Make the pass and plan the next one: later as planned, sooner after a failure. Raises nothing."""
        try:
            done = self._work()
        except Exception as error:
            self.failed += 1
            least, most = RETRY_S
            wait_s = min(most, least * 2 ** min(self.failed - 1, 20)) * self._rng.uniform(0.5, 1.0)
            expected = isinstance(error, FairlaneError)
            log.warning("%s_failed times=%d error=%r", self.name, self.failed, error, exc_info=not expected)
        else:
            self.failed = 0
            every_s = self._every_s() if callable(self._every_s) else self._every_s
            wait_s = every_s * (1 + self._jitter * self._rng.random())
            if done:
                log.info("%s_done jobs=%d", self.name, done)
        self.due_at = now + wait_s


class Rounds:
    """A thread that makes passes, each when it is due.

    Start and stop are safe to call twice, and to stop before the start.

    Attributes:
        chores: The passes; there is one at least when it starts.

    Args:
        name: The thread's name.
    """

    def __init__(self, name: str) -> None:
        self.chores: tuple[Chore, ...] = ()
        self._name = name
        self._clock = SystemClock()
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin; what is due is done at once."""
        if self._thread is None:
            self._stopping.clear()
            self._thread = started(self._run, self._name)

    def stop(self, timeout_s: float | None = None) -> None:
        """End after what is under way; waits at most ``timeout_s`` for a store that hangs."""
        self._stopping.set()
        thread, self._thread = self._thread, None
        if thread is not None:
            thread.join(timeout_s)

    @property
    def healthy(self) -> bool:
        """Whether the last pass of each kind went well."""
        return not any(chore.failed for chore in self.chores)

    def _run(self) -> None:
        try:
            self._go_round()
        finally:
            self._leave()

    def _leave(self) -> None:
        """The thread ends; for who has something to put away then."""

    def _go_round(self) -> None:
        while True:
            now = self._clock.monotonic()
            if self._stopping.wait(max(0.0, min(chore.due_at for chore in self.chores) - now)):
                return
            for chore in self.chores:
                now = self._clock.monotonic()
                if chore.due_at <= now and not self._stopping.is_set():
                    chore.run(now)
