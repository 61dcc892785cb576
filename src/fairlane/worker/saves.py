"""Progress and checkpoints of one run, on their way to the store."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import NamedTuple

from fairlane.domain.jobs import Claim
from fairlane.errors import LeaseLost
from fairlane.owner import Owner
from fairlane.store import Store

log = logging.getLogger("fairlane.worker")


class Saved(NamedTuple):
    """What is to be stored, as JSON; None leaves it as it is."""

    progress: str | None
    checkpoint: str | None

    def then(self, later: Saved) -> Saved:
        """Return both as one: what is said later counts."""
        return Saved(
            self.progress if later.progress is None else later.progress,
            self.checkpoint if later.checkpoint is None else later.checkpoint,
        )


class Saves:
    """Stores what one run says about itself, without ever making an event loop wait for the disk.

    At most one save is on its way; what comes meanwhile is put together and follows, the latest values only. So a
    handler that reports progress in a tight loop costs one write at a time, and memory for one. All saves of a run go
    through the owner's line, and so does its settlement, behind them.

    Args:
        owner: Owner of the store.
        claim: The claim of the run.
        lost: Called when the store says that the claim is no longer the job's current one.
    """

    def __init__(self, owner: Owner, claim: Claim, lost: Callable[[], None]) -> None:
        self._owner = owner
        self._claim = claim
        self._lost = lost
        self._lock = threading.Lock()
        self._next: Saved | None = None
        self._under_way = False
        self._closed = False

    def put(self, saved: Saved) -> None:
        """Take something to be stored soon."""
        with self._lock:
            if self._closed:
                return
            self._next = saved if self._next is None else self._next.then(saved)
            if self._under_way:
                return
            saved, self._next = self._next, None
            self._under_way = True
        self._send(saved)

    def put_and_wait(self, saved: Saved) -> None:
        """Store something and return when it is on disk.

        Raises:
            LeaseLost: The claim is no longer the job's current one.
            StoreError: The store could not do it.
        """
        with self._lock:
            if self._next is not None:
                saved, self._next = self._next.then(saved), None
        if not self._owner.call(lambda store, now_ms: self.store(store, saved)):
            self._lost()
            raise LeaseLost(self._claim.uuid, self._claim.fence)

    def close(self) -> Saved | None:
        """Take nothing more, and return what has not been sent yet: it goes with the settlement."""
        with self._lock:
            self._closed = True
            rest, self._next = self._next, None
            return rest

    def store(self, store: Store, saved: Saved) -> bool:
        """Store it, inside a transaction; return False when the lease was lost."""
        return store.save(self._claim.seq, self._claim.fence, progress=saved.progress, checkpoint=saved.checkpoint)

    def _send(self, saved: Saved) -> None:
        self._owner.submit(lambda store, now_ms: self.store(store, saved), light=True).add_done_callback(self._sent)

    def _sent(self, answer: Future[bool]) -> None:
        error = answer.exception()
        if error is not None:
            log.warning("save_failed job=%s error=%r", self._claim.uuid, error)
        with self._lock:
            saved, self._next = self._next, None
            self._under_way = saved is not None
            closed = self._closed
        if error is None and not answer.result() and not closed:
            self._lost()
        if saved is not None:
            self._send(saved)
