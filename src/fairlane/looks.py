"""One look at a store for everything that may be due, shared by the threads of a process that wait for something.

Rescue, operations, schedules and the claims of a worker that is idle are each to notice within a second what other
processes have done. On a server every look is a transaction; so whoever comes first looks for all. Each comes again a
little less than a second after the look that it was given, and is given the latest: one that it has not seen yet, or
else a new one. So nobody notices later than if it looked alone, and all meet at the same looks.
"""

from __future__ import annotations

import math
import os
import random
import threading
from typing import Final
from weakref import WeakKeyDictionary

from fairlane.clock import SystemClock
from fairlane.owner import Owner
from fairlane.store import Look

LOOK_S: Final = 1.0
"""Longest time between two looks that a thread is given."""
SPREAD: Final = 0.05
"""How much sooner one may come, as a share of it: processes that began together spread out."""
FOR_EVER_S: Final = -1.0
"""What locks take for no end of patience."""
SOON_S: Final = 0.02
"""How long one waits for others that read who has jobs to start: all meet at the same looks, which are short."""


class _Latest:
    """The latest look at a store; when it was begun and when the next is to be, by the machine's monotonic clock."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self.lock = threading.Lock()
        self.rng = random.Random()
        self.at = self.next_at = -math.inf
        self.look: Look | None = None


class Looker:
    """Takes looks for one that waits for something. The first is a new one.

    Args:
        owner: Owner of the store.
    """

    def __init__(self, owner: Owner) -> None:
        self._owner = owner
        self._clock = SystemClock()
        self._at = self._next_at = self._clock.monotonic()  # of the look that was taken last, and of the next

    def take(self) -> Look:
        """Return the latest look, which is not the one that was taken last.

        Raises:
            StoreError: The store cannot be read.
        """
        look = self._take(FOR_EVER_S)
        assert look is not None
        return look

    def take_soon(self) -> Look | None:
        """Do as :meth:`take`, but return None rather than wait for a thread that reads for long.

        Raises:
            StoreError: The store cannot be read.
        """
        return self._take(SOON_S)

    def _take(self, within_s: float) -> Look | None:
        latest = _latest_of(self._owner)
        if not latest.lock.acquire(timeout=within_s):
            return None
        try:
            look = latest.look if latest.at > self._at else None
            if look is None:
                now = self._clock.monotonic()
                look = self._owner.read_soon(lambda store, now_ms: store.look(now_ms), within_s)
                if look is None:
                    return None
                latest.look, latest.at = look, now
                latest.next_at = now + LOOK_S * (1 - SPREAD * latest.rng.random())
            self._at, self._next_at = latest.at, latest.next_at
            return look
        finally:
            latest.lock.release()

    def wait_s(self) -> float:
        """Return how long until the next look is to be taken, in seconds from 0 to :data:`LOOK_S`."""
        return max(0.0, self._next_at - self._clock.monotonic())


_latest: Final[WeakKeyDictionary[Owner, _Latest]] = WeakKeyDictionary()


def _latest_of(owner: Owner) -> _Latest:
    """Return the latest look at an owner's store; in a forked child it is another than the parent's."""
    latest = _latest.get(owner)
    if latest is None or latest.pid != os.getpid():
        latest = _latest[owner] = _Latest()
    return latest
