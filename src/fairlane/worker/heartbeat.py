"""Keeps leases alive, and ends what has run too long: two threads that run no user code and wait for nobody else.

The **heartbeat** renews the leases of runs that are older than a third of a lease, over a connection of its own where
the store has more than one, so neither an event loop that is blocked nor a connection that is busy holds it up. Its
answers tell which leases are lost and which runs are asked to stop.

The **watch** touches no store, so that a store that hangs cannot hang it: when a lease runs out unrenewed it tells the
handler to stop, and when a timeout passes likewise. If the whole process stood still meanwhile (stopped, or held up by
code that keeps the interpreter's lock), the leases may well have outlived it: the heartbeat then gets a moment to ask.
Until it has, the worker neither claims nor rescues (see ``Hands.overdue``): it would take its own jobs from itself.
"""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Callable, Sequence
from typing import Final

from fairlane.clock import Clock, instant_of
from fairlane.domain.jobs import Beat
from fairlane.errors import StoreError
from fairlane.owner import Owner
from fairlane.store import Store
from fairlane.worker.attempt import NEVER, Attempt

log = logging.getLogger("fairlane.worker")

RENEW_AFTER: Final = 1 / 3
"""Share of the lease after which it is renewed."""
TOGETHER: Final = 1 / 12
"""Leases due within this share of the lease are renewed with those that are due."""
MAX_BEATS: Final = 1_000
"""Leases renewed in one transaction."""
WATCH_POLL_S: Final = 1.0
LATE_S: Final = 0.2
"""A watch that finds the end of a lease this much too late was held up, and so was everybody else."""

Attempts = Callable[[], list[Attempt]]


class Heartbeat:
    """Renews leases. Start and stop once; after :meth:`stop` returns, nothing runs, unless the store hangs.

    Attributes:
        failed: Beats that failed in a row.

    Args:
        owner: Owner of the store.
        attempts: Returns the runs that hold a lease.
        lease_ms: Length of a lease, in milliseconds.
    """

    def __init__(self, owner: Owner, attempts: Attempts, lease_ms: int) -> None:
        self._owner = owner
        self._clock = owner.clock
        self._attempts = attempts
        self._lease_ms = lease_ms
        self._lease_s = lease_ms / 1000
        self._store: Store | None = None
        self._stopping = False
        self._sooner = threading.Event()
        self._thread = threading.Thread(target=self._run, name="fairlane-heartbeat", daemon=True)
        self.failed = 0

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self, timeout_s: float) -> None:
        """End; waits at most ``timeout_s`` for a store that hangs."""
        self._stopping = True
        self._sooner.set()
        if self._thread.ident is not None:
            self._thread.join(timeout_s)

    def at_once(self) -> None:
        """Renew now what is due, from any thread."""
        self._sooner.set()

    def _run(self) -> None:
        while True:
            self._sooner.wait(self._pause_s())
            self._sooner.clear()
            if self._stopping:
                break
            try:
                self.beat()
                self.failed = 0
            except Exception as error:
                self.failed += 1
                log.warning("heartbeat_failed times=%d error=%r", self.failed, error, exc_info=self.failed == 1)
        if self._store is not None:
            self._store.close()

    def _pause_s(self) -> float:
        """Return the time until the next lease is due; runs that start meanwhile are due later than that."""
        every = self._lease_s * RENEW_AFTER
        if self.failed:
            return min(1.0, every / 4)
        now = self._clock.monotonic()
        # A run that has ended and lost its lease is held until its settlement finds out, and was tried in vain.
        tried = (max(attempt.renewed_at, attempt.tried_at) for attempt in self._held())
        return max(0.0, min(tried, default=now) + every - now)

    def _held(self) -> list[Attempt]:
        return [attempt for attempt in self._attempts() if not attempt.dropped and not attempt.settling]

    def beat(self) -> None:
        """Renew what is due.

        Raises:
            StoreError: The store could not do it; the leases go on running out.
        """
        old = self._clock.monotonic() - self._lease_s * (RENEW_AFTER - TOGETHER)
        due = [attempt for attempt in self._held() if attempt.renewed_at <= old]
        for first in range(0, len(due), MAX_BEATS):
            part = due[first : first + MAX_BEATS]
            for attempt in part:
                attempt.tried_at = self._clock.monotonic()
            renewed_at, beats = self._renew([(attempt.claim.seq, attempt.claim.fence) for attempt in part])
            for attempt, beat in zip(part, beats, strict=True):
                self._take(attempt, beat, renewed_at)

    def _renew(self, claims: Sequence[tuple[int, int]]) -> tuple[float, list[Beat]]:
        """Return when the leases were renewed, and what came of each."""
        clock = self._clock

        def renew(store: Store, now_ms: int) -> tuple[float, list[Beat]]:
            return instant_of(clock, now_ms), store.heartbeat(claims, lease_ms=self._lease_ms, now_ms=now_ms)

        store = self._sibling()
        if store is None:
            return self._owner.call(renew, light=True)
        with store.transaction(light=True):
            return renew(store, clock.now_ms())

    def _sibling(self) -> Store | None:
        if self._store is None:
            self._store = self._owner.store.sibling()
        return self._store

    def _take(self, attempt: Attempt, beat: Beat, renewed_at: float) -> None:
        if beat.answer == "lost":
            if not attempt.ended and not attempt.settling:  # else it was settled, or its settlement will find out
                log.warning("lease_lost job=%s fence=%d", attempt.claim.uuid, attempt.claim.fence)
                attempt.tell("lost")
            return
        attempt.renewed_at = renewed_at
        attempt.lapses_at = renewed_at + self._lease_s
        if beat.answer != "ok":
            attempt.tell(beat.answer)


class Watch:
    """Tells handlers to stop whose lease or time has run out. Start and stop once.

    Attributes:
        ask: Called when the heartbeat should ask at once what became of a lease.

    Args:
        clock: Its monotonic time counts.
        attempts: Returns the runs that hold a lease.
        lease_ms: Length of a lease, in milliseconds.
    """

    def __init__(self, clock: Clock, attempts: Attempts, lease_ms: int) -> None:
        self._clock = clock
        self._attempts = attempts
        self._moment_s = lease_ms / 1000 * RENEW_AFTER
        self._sooner = threading.Event()
        self._planned = math.inf
        self.ask: Callable[[], None] = _nothing
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="fairlane-watch", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End, and wait for it."""
        self._stopping = True
        self._sooner.set()
        if self._thread.ident is not None:
            self._thread.join()

    def note(self, at: float) -> None:
        """Look no later than ``at``; cheap when that is planned anyway."""
        if at < self._planned:
            self._sooner.set()

    def _run(self) -> None:
        while not self._stopping:
            self._sooner.clear()
            self._planned = math.inf  # whoever notes something while we look makes us look again
            now = self._clock.monotonic()
            self._planned = planned = self.look(now)
            self._sooner.wait(max(0.0, min(WATCH_POLL_S, planned - now)))

    def look(self, now: float) -> float:
        """Tell those to stop whose time is up at ``now``, and return when to look again."""
        planned = NEVER
        for attempt in self._attempts():
            if attempt.ended or attempt.dropped:
                continue
            if attempt.times_out_at <= now:
                attempt.times_out_at = NEVER
                log.warning("job_timed_out job=%s task=%s", attempt.claim.uuid, attempt.claim.task)
                attempt.tell("timeout")
            if attempt.settling:
                planned = min(planned, attempt.times_out_at)
            elif attempt.lapses_at <= now and not self._give_a_moment(attempt, now):
                log.error("lease_lapsed job=%s fence=%d", attempt.claim.uuid, attempt.claim.fence)
                attempt.tell("lost")
            else:
                planned = min(planned, attempt.lapses_at, attempt.times_out_at)
        return planned

    def _give_a_moment(self, attempt: Attempt, now: float) -> bool:
        """Give the heartbeat once the time to ask, if it was held up as we were; return whether it was given."""
        renewed_at = attempt.renewed_at
        untried = attempt.tried_at <= renewed_at
        late = now - attempt.lapses_at > LATE_S
        if attempt.moment_at > renewed_at or not (untried or late):
            return False
        attempt.moment_at = now
        attempt.lapses_at = now + self._moment_s
        self.ask()
        return True


def _nothing() -> None:
    pass


def pass_on(owner: Owner, worker: str, attempts: Sequence[Attempt]) -> bool:
    """Ask the store which of a worker's runs somebody wants to stop, and tell them.

    The heartbeat would find out too, but only once in a third of a lease.

    Returns:
        False when nobody was asked because another thread is reading.
    """
    try:
        asked = owner.read_soon(lambda store, now_ms: store.asked(worker), 0.0)
    except StoreError as error:
        log.warning("asked_failed error=%r", error)
        return True
    if asked is None:
        return False
    held = {(attempt.claim.seq, attempt.claim.fence): attempt for attempt in attempts} if asked else {}
    for beat in asked:
        attempt = held.get((beat.seq, beat.fence))
        if attempt is not None and beat.answer != "ok":
            attempt.tell(beat.answer)
    return True
