"""Who holds a store open for a program, and what it knows beside it: its tasks, hooks, and who waits for results."""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import Callable
from typing import Any

import msgspec

from fairlane.clock import Clock
from fairlane.domain.retries import Retry
from fairlane.handles import Ends
from fairlane.hooks import Hooks
from fairlane.owner import Owner
from fairlane.registry import Registry


class Holder:
    """What every part of a client stands on. Safe to use from many threads; the store is opened at the first use.

    Args:
        open_owner: Opens the store.
        clock: Where instants come from.
    """

    def __init__(self, open_owner: Callable[[], Owner], clock: Clock) -> None:
        self._open_owner = open_owner
        self._owner: Owner | None = None
        self._opening = threading.Lock()
        self.rng = random.Random()
        self.clock: Clock = clock
        self.registry = Registry()
        self.hooks = Hooks()
        self.ends = Ends()

    @property
    def owner(self) -> Owner:
        """The thread that owns the store; opens it when nobody has yet.

        Raises:
            ConfigError: The store was created with other settings.
            StoreError: It cannot be opened.
        """
        owner = self._owner
        if owner is None:
            with self._opening:
                if self._owner is None:
                    self._owner = self._open_owner()
                owner = self._owner
        return owner

    @property
    def opened(self) -> bool:
        """Whether the store is open, or was."""
        return self._owner is not None

    def close(self) -> None:
        """Carry out what is in line, close the store, wake those who wait for results; safe to call twice."""
        self.ends.close()
        if self._owner is not None:
            self._owner.close()

    async def aclose(self) -> None:
        """Do what :meth:`close` does, without blocking the event loop."""
        await asyncio.to_thread(self.close)

    def decode_result(self, task: str, body: str) -> Any:
        """Return a stored result, typed where the task is known here, else as plain JSON values."""
        known = self.registry.get(task)
        return msgspec.json.decode(body) if known is None else known.decode_result(body)

    def retry_of(self, task: str) -> Retry:
        """Return when failures of a task are tried again; the default where the task is not known here."""
        known = self.registry.get(task)
        return Retry() if known is None else known.retry
