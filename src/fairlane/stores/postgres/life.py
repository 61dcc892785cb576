"""Signs of life of workers: a row each, renewed on a connection of their own.

A worker whose sign is older than :data:`LOST_S` is gone: killed, cut off, or its machine is down. The database's own
clock decides, also where tests set all other clocks.
"""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Callable
from typing import Final

import psycopg

from fairlane.background import started
from fairlane.clock import SystemClock
from fairlane.errors import FairlaneError
from fairlane.stores.postgres.connection import Address, Statements, alive, translated

RENEW_S: Final = 3.0
"""How often signs of life are renewed."""
LOST_S: Final = 10.0
"""How long one holds."""

log = logging.getLogger("fairlane.stores")


class Life:
    """A worker's sign of life, until it is closed."""

    def __init__(self, worker: str, ended: Callable[[str], None]) -> None:
        self._worker = worker
        self._ended = ended

    def close(self) -> None:
        """Give none any more; safe to call twice."""
        self._ended(self._worker)


class Lives:
    """Renews the signs of life of a process's workers, from a thread that runs while there are some."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self._workers: set[str] = set()
        self._lock = threading.Lock()
        self._stop = threading.Event()  # the thread's that runs
        self._thread: threading.Thread | None = None
        self._db: Statements | None = None
        self._clock = SystemClock()
        self._signed_at = -math.inf  # when the last sign was given that arrived
        self._steady_since = -math.inf
        self._doubtful: set[str] = set()

    def steady(self) -> bool:
        """Return whether the signs of others can be judged: not just after ours could not be given either.

        When the database was out of reach for all, the signs of all are old when it is back.
        """
        now = self._clock.monotonic()
        return now - self._steady_since >= LOST_S and (not self._workers or now - self._signed_at <= 2 * RENEW_S)

    def doubtful(self, worker: str) -> bool:
        """Return whether others may have taken a worker of ours for dead, or may do so soon."""
        late = self._clock.monotonic() - self._signed_at > 2 * RENEW_S
        return worker in self._workers and (late or worker in self._doubtful)

    def clear(self, worker: str) -> None:
        """Take note that a worker is on record again."""
        self._doubtful.discard(worker)

    def _signed(self, at: float) -> None:
        if at - self._signed_at > 2 * RENEW_S and self._signed_at > -math.inf:
            self._steady_since = at
            self._doubtful |= self._workers
        self._signed_at = at

    def begin(self, worker: str) -> Life:
        """Give the first sign of a worker.

        Raises:
            StoreError: The database cannot be reached.
        """
        with self._lock:
            at = self._clock.monotonic()
            with translated("give a sign of life"):
                try:
                    self._statements().execute("life_put", {"worker": worker})
                except psycopg.Error:
                    self._let_go()
                    raise
            if not self._workers:
                self._signed_at = at
            if self._thread is None:
                self._stop = threading.Event()
                self._thread = started(self._run, "fairlane-life", self._stop)  # without one this sign ends by itself
            self._workers.add(worker)
        return Life(worker, self._end)

    def _end(self, worker: str) -> None:
        with self._lock:
            if worker not in self._workers:
                return
            self._workers.discard(worker)
            try:
                self._statements().execute("life_drop", {"worker": worker})
            except (psycopg.Error, FairlaneError):
                log.warning("life_not_dropped worker=%s", worker)
            if self._workers:
                return
            thread = self._told_to_stop()  # in here: a worker that begins from now on has a thread of its own
        self._over(thread)

    def _statements(self) -> Statements:
        self._db = alive(self._db, self._address)
        return self._db

    def _let_go(self) -> None:
        """Close the connection; it may lead to a server that takes no changes any more."""
        if self._db is not None:
            self._db.raw.close()
            self._db = None

    def _run(self, stop: threading.Event) -> None:
        while not stop.wait(RENEW_S):
            with self._lock:
                try:
                    at = self._clock.monotonic()
                    for worker in self._workers:
                        self._statements().execute("life_put", {"worker": worker})
                    self._signed(at)
                except (psycopg.Error, FairlaneError):
                    log.warning("life_not_renewed workers=%d", len(self._workers), exc_info=True)
                    self._let_go()

    def _told_to_stop(self) -> threading.Thread | None:
        """Tell the thread to stop, and return it; under the lock."""
        self._stop.set()
        thread, self._thread = self._thread, None
        return thread

    def _over(self, thread: threading.Thread | None) -> None:
        """Wait for a thread that was told to stop, and let go of the connection unless another one uses it."""
        if thread is not None and thread is not threading.current_thread():
            thread.join()
        with self._lock:
            if self._thread is None:
                self._let_go()

    def close(self) -> None:
        """Stop; safe to call twice."""
        with self._lock:
            thread = self._told_to_stop()
        self._over(thread)
