"""Hands alerts to sinks, so that a sink that hangs, fails or is slow harms nobody: no caller, no other sink.

Every sink has a line of its own, bounded, and sends in a thread that is its own for one alert; at most one such thread
a sink is ever there. A sink that gives no answer in time counts as failed, the alert as told (it may well have
arrived, and an alert is told once). One that refuses is asked again, a few times and later each time; while it rests
nothing is sent to it.
"""

from __future__ import annotations

import logging
import os
import threading
from collections import deque
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from fairlane.alerts.alert import Alert, Sink
from fairlane.background import started
from fairlane.clock import Clock, SystemClock
from fairlane.domain.payloads import one_line

log = logging.getLogger("fairlane.alerts")

TIMEOUT_S: Final = 15.0
"""Longest wait for a sink's answer; Apprise's own connections give up after 8 s."""
MAX_PENDING: Final = 100
MAX_TRIES: Final = 3
MAX_ERROR: Final = 500
"""Characters of a sink's error that are kept."""
REST_S: Final = (1.0, 300.0)
"""Least and most rest of a sink that failed."""
LOOK_S: Final = 0.5
"""The thread looks again this often while a sink rests or owes an answer."""


class SinkHealth(NamedTuple):
    """How a sink does.

    Attributes:
        name: Its name.
        healthy: Whether its last alert was taken, and it owes no answer beyond the time for one.
        sent: Alerts that it took.
        failed: Attempts that it refused or left unanswered.
        dropped: Alerts that it never got: given up, or pushed out of a full line.
        pending: Alerts in its line.
        error: What was wrong last, in one line; empty when it is healthy.
    """

    name: str
    healthy: bool
    sent: int
    failed: int
    dropped: int
    pending: int
    error: str


class _Sending:
    """One alert on its way."""

    __slots__ = ("alert", "done", "error", "since", "tries")

    def __init__(self, alert: Alert, tries: int, since: float) -> None:
        self.alert = alert
        self.tries = tries
        self.since = since
        self.done = False
        self.error = ""


class _Line:
    """A sink, what waits for it, and how it does."""

    __slots__ = ("dropped", "error", "failed", "hung", "in_row", "pending", "rests_until", "sending", "sent", "sink")

    def __init__(self, sink: Sink) -> None:
        self.sink = sink
        self.pending: deque[tuple[Alert, int]] = deque()
        self.sending: _Sending | None = None
        self.hung = False
        self.rests_until = 0.0
        self.in_row = 0
        self.sent = self.failed = self.dropped = 0
        self.error = ""

    @property
    def idle(self) -> bool:
        """Whether nothing is left that could still be sent."""
        return not self.pending and (self.sending is None or self.hung)

    def health(self) -> SinkHealth:
        """Return how it does."""
        return SinkHealth(
            self.sink.name, not self.error, self.sent, self.failed, self.dropped, len(self.pending), self.error
        )


class Alerts:
    """The sinks of a process. Its threads start with the first alert and end with :meth:`close`.

    Args:
        sinks: Where alerts go.
        timeout_s: Longest wait for an answer, in seconds.
        rest_s: Least and most rest of a sink that failed, in seconds.
        clock: Measures both.
    """

    def __init__(
        self,
        sinks: Iterable[Sink] = (),
        *,
        timeout_s: float = TIMEOUT_S,
        rest_s: tuple[float, float] = REST_S,
        clock: Clock | None = None,
    ) -> None:
        self._timeout_s = timeout_s
        self._rest_s = rest_s
        self._clock = SystemClock() if clock is None else clock
        self._lines = [_Line(sink) for sink in sinks]
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._process = os.getpid()
        self._closed = False

    # ------------------------------------------------------------------ what callers do

    def add(self, sink: Sink) -> None:
        """Send alerts from now on to ``sink`` too."""
        with self._changed:
            self._lines.append(_Line(sink))

    def send(self, alert: Alert) -> None:
        """Put an alert in every sink's line and return at once; a full line loses its oldest one. Raises nothing."""
        self._after_fork()
        with self._changed:
            if self._closed:
                return
            for line in self._lines:
                if len(line.pending) >= MAX_PENDING:
                    line.pending.popleft()
                    line.dropped += 1
                line.pending.append((alert, 0))
            self._start()
            self._changed.notify_all()

    def health(self) -> list[SinkHealth]:
        """Return how each sink does."""
        with self._changed:
            return [line.health() for line in self._lines]

    def drain(self, timeout_s: float) -> bool:
        """Wait until every alert was taken or given up, at most ``timeout_s`` seconds; return whether it is so.

        A sink that hangs is not waited for beyond the time for an answer.
        """
        return self.until(lambda: all(line.idle for line in self._lines), timeout_s)

    def until(self, holds: Callable[[], bool], timeout_s: float) -> bool:
        """Wait until ``holds()``, looked at after everything that happens here; for :meth:`drain` and tests."""
        with self._changed:
            return self._changed.wait_for(holds, timeout_s)

    def close(self, timeout_s: float = 2.0) -> None:
        """Wait a moment for what is on its way, then send no more; safe to call twice.

        After it returns its own thread has ended; a sink's that hangs is a daemon, and nothing it does counts.

        Args:
            timeout_s: The moment, in seconds.
        """
        self._after_fork()
        if self._thread is not None and not self._closed:
            self.drain(timeout_s)
        with self._changed:
            self._closed = True
            self._changed.notify_all()
            thread, self._thread = self._thread, None
        if thread is not None:
            thread.join()

    # ------------------------------------------------------------------ the thread

    def _after_fork(self) -> None:
        """In a forked child: the parent sends what is in line, its threads are not here, its lock may be held."""
        if self._process != os.getpid():
            self._process = os.getpid()
            self._changed = threading.Condition()
            self._lines = [_Line(line.sink) for line in self._lines]
            self._thread = None

    def _start(self) -> None:
        if self._thread is None:
            try:
                self._thread = started(self._run, "fairlane-alerts")
            except RuntimeError:  # the next alert tries again
                log.exception("alerts_wait")

    def _run(self) -> None:
        with self._changed:
            while not self._closed:
                now = self._clock.monotonic()
                moved = False
                for line in self._lines:
                    moved = self._advance(line, now) or moved
                if moved:
                    self._changed.notify_all()
                busy = any(line.pending or (line.sending is not None and not line.hung) for line in self._lines)
                self._changed.wait(min(LOOK_S, self._timeout_s) if busy else None)

    def _advance(self, line: _Line, now: float) -> bool:
        """Take a line's answer, and send it the next alert; return whether anything happened."""
        moved = False
        sending = line.sending
        if sending is not None and sending.done:
            self._answered(line, sending, now)
            line.sending = sending = None
            moved = True
        elif sending is not None and not line.hung and now - sending.since > self._timeout_s:
            line.hung = True
            self._failed(line, f"no answer within {self._timeout_s:g} s", now)
            moved = True
        if sending is None and line.pending and now >= line.rests_until:
            alert, tries = line.pending.popleft()
            line.sending = sending = _Sending(alert, tries + 1, now)
            try:
                started(self._hand_over, "fairlane-alert", line.sink, sending)
            except RuntimeError as error:  # tried again like any that failed
                sending.error, sending.done = _words_of(error), True
        return moved

    def _hand_over(self, sink: Sink, sending: _Sending) -> None:
        """Send one alert; runs in a thread of its own."""
        try:
            sink.send(sending.alert)
        except Exception as error:  # noqa: BLE001  it is counted, told in health and logged
            sending.error = _words_of(error)
        finally:
            with self._changed:
                sending.done = True
                self._changed.notify_all()

    def _answered(self, line: _Line, sending: _Sending, now: float) -> None:
        if line.hung:  # counted already; the answer says only that it can be asked again
            line.hung = False
            return
        if not sending.error:
            line.sent += 1
            line.in_row, line.error = 0, ""
            return
        self._failed(line, sending.error, now)
        if sending.tries < MAX_TRIES and len(line.pending) < MAX_PENDING:
            line.pending.appendleft((sending.alert, sending.tries))
        else:
            line.dropped += 1

    def _failed(self, line: _Line, error: str, now: float) -> None:
        line.failed += 1
        line.in_row += 1
        line.error = error
        least, most = self._rest_s
        line.rests_until = now + min(most, least * 4 ** min(line.in_row - 1, 20))
        log.warning("alert_not_sent sink=%s times=%d error=%s", line.sink.name, line.in_row, error)


def _words_of(error: Exception) -> str:
    """Return a sink's error in one line: what a server answered may be part of it, and it goes to logs and pages."""
    name = type(error).__name__
    try:
        return one_line(f"{name}: {error}", MAX_ERROR)
    except Exception as other:  # noqa: BLE001  somebody else's __str__
        return f"{name}: no text, {type(other).__name__}"
