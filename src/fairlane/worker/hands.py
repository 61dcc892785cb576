"""The hands of a worker: they run what was claimed, in threads and in an event loop, and collect what has ended."""

from __future__ import annotations

import logging
import math
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

from fairlane.clock import SystemClock
from fairlane.hooks import Hooks, Moment
from fairlane.owner import Owner
from fairlane.worker.aio import STALLED_S, LoopThread
from fairlane.worker.attempt import Attempt
from fairlane.worker.heartbeat import Watch
from fairlane.worker.notices import event_of
from fairlane.worker.threads import Threads
from fairlane.worker.verdict import Judge

log = logging.getLogger("fairlane.worker")

TAKE_BACK_S: Final = 1.0
"""What a held-up event loop has not begun after this long is given back to the store."""


class Hands:
    """Runs attempts. One thread, the dispatcher's, starts and collects them.

    Attributes:
        held: The attempts that hold a lease, by job and fence: from the claim until the settlement is on disk.

    Args:
        owner: Owner of the store.
        judge: Decides what the store is told.
        hooks: Who is told of starts.
        lease_ms: Length of a lease, in milliseconds.
        wake: Called when something has ended and can be collected.
    """

    def __init__(self, owner: Owner, judge: Judge, hooks: Hooks, *, lease_ms: int, wake: Callable[[], None]) -> None:
        self.owner = owner
        self.clock = owner.clock
        self.judge = judge
        self.hooks = hooks
        self.held: dict[tuple[int, int], Attempt] = {}
        self.watch = Watch(owner.clock, self.attempts, lease_ms)
        self._lease_s = lease_ms / 1000
        self._sound_until = -math.inf
        self._claimed_until = math.inf
        self._looking = threading.Lock()
        self._wake = wake
        self._ended: deque[Attempt] = deque()
        self._settled: deque[Attempt] = deque()
        self._threads = Threads(self._thread_done)
        self._loop: LoopThread | None = None

    # ------------------------------------------------------------------ for the dispatcher

    def start(self, attempts: list[Attempt]) -> None:
        """Run attempts, at least one, and take them out of the list.

        Raises:
            RuntimeError, OSError: The system gives no more threads, or files; those that are left do not run.
        """
        first = min(attempt.lapses_at for attempt in attempts)
        with self._looking:  # else a look that began before could put its own, later end over this one
            self.held.update(((attempt.claim.seq, attempt.claim.fence), attempt) for attempt in attempts)
            self._sound_until = min(self._sound_until, first)
        in_loop = [attempt for attempt in attempts if attempt.task.is_async]
        attempts[:] = [attempt for attempt in reversed(attempts) if not attempt.task.is_async]
        try:
            try:
                while attempts:
                    self._threads.submit(attempts[-1])
                    attempts.pop()
            finally:  # the loop may have its thread already
                attempts += in_loop
                if in_loop:
                    self._start_in_loop(in_loop)
                    del attempts[-len(in_loop) :]
        finally:
            self.watch.note(first)

    def _start_in_loop(self, attempts: Sequence[Attempt]) -> None:
        if self._loop is None:
            self._loop = LoopThread(self._ended.append, self._wake)
        self._loop.submit(attempts)

    def claiming(self, lapses_at: float) -> None:
        """Take note that leases are being given to this worker: they count as held before anything is started.

        The process may be stopped right after the commit and go on when they are over.

        Args:
            lapses_at: When they end, by the monotonic clock; infinite when what was claimed is held, or given back.
        """
        self._claimed_until = lapses_at

    @property
    def ended(self) -> int:
        """How many have ended and are to be collected."""
        return len(self._ended)

    def collect(self, most: int) -> list[Attempt]:
        """Return what has ended since the last call, so many at most."""
        ended: list[Attempt] = []
        line = self._ended
        while line and len(ended) < most:
            attempt = line.popleft()
            if not attempt.task.is_async:
                self._threads.collected()
            ended.append(attempt)
        return ended

    def collect_settled(self) -> list[Attempt]:
        """Return what has settled itself since the last call; its handlers may still run."""
        line = self._settled
        return [line.popleft() for _ in range(len(line))]

    @property
    def anything_ended(self) -> bool:
        """Whether there is something to collect."""
        return bool(self._ended) or bool(self._settled)

    @property
    def loop_is_held_up(self) -> bool:
        """Whether a handler blocks the event loop, so that it can start nothing now."""
        return self._loop is not None and self._loop.held_up_for() > STALLED_S

    def take_back(self) -> list[Attempt]:
        """Return what a loop that has long been held up was given and has not begun."""
        if self._loop is None or self._loop.held_up_for() < TAKE_BACK_S:
            return []
        return self._loop.take_back()

    def close(self, timeout_s: float) -> int:
        """End threads and loop, and return how many handlers still run after ``timeout_s``."""
        clock = SystemClock()
        until = clock.monotonic() + timeout_s
        self._threads.end()  # they do so while the loop is waited for
        left = 0 if self._loop is None else self._loop.close(timeout_s)
        return left + self._threads.wait(max(0.0, until - clock.monotonic()))

    # ------------------------------------------------------------------ for attempts and other threads

    def attempts(self) -> list[Attempt]:
        """Return the attempts that hold a lease; from any thread."""
        return list(self.held.values())

    def began(self, attempt: Attempt) -> None:
        """Take note that a handler is about to run, with its timeout."""
        self.watch.note(attempt.times_out_at)

    def overdue(self) -> bool:
        """Whether a lease has run out and nobody has said yet that it is lost: then this worker must not take it away.

        It looks at every attempt only once in the better part of a lease: leases only grow, and new ones end later.
        """
        now = self.clock.monotonic()
        if self._claimed_until <= now:
            return True
        if now < self._sound_until:
            return False
        with self._looking:
            held = [
                # A moment that the watch gave is for the heartbeat alone; until it has asked, the lease may be over.
                attempt.moment_at if attempt.moment_at > attempt.renewed_at else attempt.lapses_at
                for attempt in self.attempts()
                if not attempt.dropped and not attempt.settling  # those that ended count until they are settled
            ]
            first = min(held, default=math.inf)
            self._sound_until = min(first, now + self._lease_s)
        return first <= now

    def settled(self, attempt: Attempt) -> None:
        """Take note that an attempt has settled itself."""
        self._settled.append(attempt)
        self._wake()

    def interrupt(self, attempt: Attempt) -> None:
        """Cancel an attempt's coroutine, from any thread."""
        if self._loop is not None:
            self._loop.interrupt(attempt)

    def in_loop(self) -> bool:
        """Whether the caller runs in the event loop's thread."""
        return self._loop is not None and self._loop.is_caller

    def wanted(self, moment: Moment, task: str) -> bool:
        """Whether a hook waits for this."""
        return self.hooks.wanted(moment, task)

    def fire(self, attempt: Attempt, moment: Moment) -> None:
        """Call the hooks of a moment, in this thread."""
        try:
            self.hooks.fire(event_of(attempt, moment))
        except BaseException:  # SystemExit from a hook must not spoil the run
            log.exception("hook_failed moment=%s job=%s", moment, attempt.claim.uuid)

    def _thread_done(self, attempt: Attempt) -> None:
        self._ended.append(attempt)
        self._wake()
