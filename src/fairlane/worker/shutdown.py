"""Ending: the steps from a wish to stop to the end, and the signals that bring the wish.

    running ──stop()──▶ draining ──grace is over, or a second wish──▶ returning ──LAST_S is over──▶ over
                           └──────────── nothing runs any more ──────────┴────────────────────────▶ over

*Draining*: nothing is claimed. Handlers see ``ctx.should_stop``, so those that can give way early do; asynchronous
ones are not cancelled. *Returning*: asynchronous handlers are cancelled, and everybody has a last moment to tidy up.
*Over*: what still runs is given back to the store, unharmed, and its handler's outcome is dropped.
"""

from __future__ import annotations

import os
import select
import signal
import threading
from contextlib import suppress
from types import FrameType
from typing import Final, Literal

from fairlane.clock import SystemClock

LAST_S: Final = 1.0
"""Time for handlers to end after they were interrupted."""
GIVE_BACK_S: Final = 0.6
"""Time for the store to take jobs back."""
TIDY_S: Final = 0.3
"""Time for threads to end. The three together are below the two seconds that a shutdown may add to the grace."""

ENDING: Final = (signal.SIGTERM, signal.SIGINT)

Step = Literal["running", "draining", "returning", "over"]


class Drain:
    """How far a worker has come towards its end. Wishes come from any thread; one thread takes the steps.

    It goes by the machine's own clock: a test's clock that stands still must not keep a worker from ending.

    Args:
        grace_s: How long running jobs are waited for, in seconds.
    """

    def __init__(self, grace_s: float) -> None:
        self._clock = SystemClock()
        self._grace_s = grace_s
        self._wished_at: float | None = None
        self._hurried_at: float | None = None
        self._returning_since: float | None = None
        self.step: Step = "running"

    def wish(self, grace_s: float | None = None) -> None:
        """Begin to end; a second wish changes nothing but may shorten the grace."""
        if grace_s is not None:
            self._grace_s = min(self._grace_s, grace_s) if self._wished_at is not None else grace_s
        if self._wished_at is None:
            self._wished_at = self._clock.monotonic()

    def hurry(self) -> None:
        """End at once: wait for running jobs no longer."""
        self.wish()
        if self._hurried_at is None:
            self._hurried_at = self._clock.monotonic()

    @property
    def wished(self) -> bool:
        """Whether somebody wants the worker to end."""
        return self._wished_at is not None

    def advance(self, *, busy: bool) -> Step:
        """Take the step that is due and return it.

        Args:
            busy: Whether jobs still run.
        """
        if self._wished_at is None or self.step == "over":
            return self.step
        now = self._clock.monotonic()
        if not busy:
            self.step = "over"
        elif self.step == "running":
            self.step = "draining"
        elif self.step == "draining" and (self._hurried_at is not None or now >= self._wished_at + self._grace_s):
            self.step = "returning"
            self._returning_since = now
        elif self._returning_since is not None and now >= self._returning_since + LAST_S:
            self.step = "over"
        return self.step

    def wait_s(self) -> float | None:
        """Return the time until the next step is due, or None while there is none."""
        if self._wished_at is None:
            return None
        now = self._clock.monotonic()
        if self._returning_since is not None:
            return max(0.0, self._returning_since + LAST_S - now)
        if self._hurried_at is not None or self.step == "running":
            return 0.0
        return max(0.0, self._wished_at + self._grace_s - now)

    def spare_s(self) -> float:
        """Return what is left of the grace; 0 when nobody wished for an end, or for one at once."""
        if self._wished_at is None or self._hurried_at is not None:
            return 0.0
        return max(0.0, self._wished_at + self._grace_s - self._clock.monotonic())

    def left_s(self) -> float:
        """Return how long the end may still take; 0 when it should be over."""
        now = self._clock.monotonic()
        since = now if self._wished_at is None else self._wished_at + self._grace_s
        if self._hurried_at is not None:
            since = min(since, self._hurried_at)
        return max(0.0, since + LAST_S + GIVE_BACK_S + TIDY_S - now)


class Signals:
    """SIGTERM and SIGINT while it is entered, for the main thread of a worker's process.

    The handlers do nothing: they may run between any two steps of the main thread, also while it holds a lock. The
    interpreter itself writes the signal's number into our pipe, in whichever thread the system delivers it; only so the
    main thread wakes when it was another one. It writes those of other signals too that a program handles: they do not
    count. Elsewhere than in the main thread nothing is installed.

    Example:
        >>> with Signals() as signals:
        ...     os.kill(os.getpid(), signal.SIGTERM)
        ...     signals.wait(5.0)
        1
    """

    def __init__(self, *, install: bool = True) -> None:
        self._install = install and threading.current_thread() is threading.main_thread()
        self._before: dict[signal.Signals, object] = {}
        self._wakeup_before = -1
        self._count = 0
        self._read_fd, self._write_fd = -1, -1

    def __enter__(self) -> Signals:
        self._read_fd, self._write_fd = os.pipe()
        os.set_blocking(self._write_fd, False)
        os.set_blocking(self._read_fd, False)
        if self._install:
            self._wakeup_before = signal.set_wakeup_fd(self._write_fd, warn_on_full_buffer=False)
            for which in ENDING:
                self._before[which] = signal.signal(which, _do_nothing)
        return self

    def __exit__(self, *exc_info: object) -> None:
        for which, before in self._before.items():
            signal.signal(which, before)  # type: ignore[arg-type]  # what signal.signal returned
        if self._before:
            signal.set_wakeup_fd(self._wakeup_before)
        self._before.clear()
        write_fd, self._write_fd = self._write_fd, -1
        os.close(write_fd)
        os.close(self._read_fd)

    def wake(self) -> None:
        """End a wait, from any thread."""
        if self._write_fd >= 0:
            with suppress(OSError):  # the pipe is full of wake-ups, or closed at this moment
                os.write(self._write_fd, b"\0")

    def wait(self, timeout_s: float | None = None) -> int:
        """Wait for a signal or :meth:`wake`, and return how many signals have come so far."""
        if select.select([self._read_fd], [], [], timeout_s)[0]:
            self._count += sum(byte in ENDING for byte in os.read(self._read_fd, 4096))
        return self._count


def _do_nothing(signum: int, frame: FrameType | None) -> None:
    del signum, frame
