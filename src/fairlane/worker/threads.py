"""Threads that run synchronous handlers; as many as run at once, made as they are needed."""

from __future__ import annotations

import queue
import threading

from fairlane.background import started
from fairlane.clock import SystemClock
from fairlane.worker.attempt import Attempt, Done


class Threads:
    """Runs each attempt in a thread of its own for as long as it takes.

    The threads are daemons: one whose handler ignores every request to stop must not keep the process alive.

    Args:
        done: Called in the attempt's thread when it has ended.
    """

    def __init__(self, done: Done) -> None:
        self._done = done
        self._line: queue.SimpleQueue[Attempt | None] = queue.SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._busy = 0

    def submit(self, attempt: Attempt) -> None:
        """Run an attempt; used by one thread.

        Raises:
            RuntimeError: The system gives no more threads; it is not run.
        """
        if self._busy >= len(self._threads):
            self._threads.append(started(self._run, f"fairlane-job-{len(self._threads)}"))
        self._busy += 1
        self._line.put(attempt)

    def collected(self) -> None:
        """Take note that an attempt has ended; used by the thread that submits."""
        self._busy -= 1

    def end(self) -> None:
        """Let the threads end, each when its handler has ended; nothing is submitted any more."""
        for _ in self._threads:
            self._line.put(None)

    def wait(self, timeout_s: float) -> int:
        """Wait until they have, and return how many handlers still run after ``timeout_s``."""
        clock = SystemClock()
        until = clock.monotonic() + timeout_s
        for thread in self._threads:
            thread.join(max(0.0, until - clock.monotonic()))
        return sum(thread.is_alive() for thread in self._threads)

    def _run(self) -> None:
        while (attempt := self._line.get()) is not None:
            attempt.run()
            self._done(attempt)
            del attempt  # it holds the job's arguments, and the next job may be long in coming
