"""The database's clock, as a process tells it: the machine's steady clock, and how far the database's is ahead of it.

Machines that share a database need not agree on the time: whoever asks the database gets the one time that counts. To
ask for every instant would cost a round trip each, so the difference is measured and kept. A measurement is the middle
of a round trip, and wrong by half of the trip at most; of some trips the quickest counts. It is made anew when somebody
asks for the time and the last one is old, in a thread beside the caller: only the first call waits. The machine's wall
clock is never looked at, so it may be wrong, or be set.
"""

from __future__ import annotations

import contextlib
import logging
import os
import threading
import weakref
from typing import Any, Final, NamedTuple

import psycopg

from fairlane.background import started
from fairlane.clock import SystemClock
from fairlane.errors import FairlaneError
from fairlane.stores._queries import query
from fairlane.stores.postgres.connection import address_of, connect, translated

CLOCK_NOW: Final = query("postgres", "clock_now").encode()

MEASURE_S: Final = 10.0
"""How old a measurement may be before another one is made."""
TRIPS: Final = 5
"""Round trips of a measurement, at most."""
QUICK_NS: Final = 500_000
"""One that is wrong by no more is good enough."""
DRIFT: Final = 1e-4
"""How fast two steady clocks drift apart, at most: 9 s a day."""
STOOD_MS: Final = 1_000
"""From here on it is told that the time stands still."""
STOP_S: Final = 2.0
"""How long closing waits for a measurement that is under way; one that hangs is left to itself."""

log = logging.getLogger("fairlane.stores")


class Measured(NamedTuple):
    """How far the database's clock is ahead of the machine's steady one.

    Attributes:
        offset_ns: The difference, in nanoseconds.
        error_ns: By how much it may be wrong.
        at_ns: When it was measured, by the steady clock.
    """

    offset_ns: int
    error_ns: int
    at_ns: int

    def wrong_by_ns(self, at_ns: int) -> int:
        """Return by how much it may be wrong by now, the clocks having drifted."""
        return self.error_ns + round((at_ns - self.at_ns) * DRIFT)


def better(held: Measured | None, fresh: Measured) -> Measured:
    """Return which of two measurements counts from now on.

    A slow trip that does not contradict what is known tells nothing new. One that does tells that the database's clock
    was set, or that another server answers.
    """
    if held is None:
        return fresh
    doubt_ns = held.wrong_by_ns(fresh.at_ns)
    agree = abs(fresh.offset_ns - held.offset_ns) <= fresh.error_ns + doubt_ns
    return held if agree and fresh.error_ns > doubt_ns else fresh


class PostgresClock:
    """A :class:`fairlane.clock.Clock` that tells the time of a database; any thread may ask, and it never goes back.

    Where the database's clock is set back, time stands still here until it has caught up.

    Args:
        url: The database, as the store is opened with.
        machine: Its steady clock counts; tests give one of their own.

    Raises:
        ConfigError: It is no such URL.
    """

    def __init__(self, url: str, *, machine: SystemClock | None = None) -> None:
        self._address = address_of(url)
        self._machine = SystemClock() if machine is None else machine
        self._measured: Measured | None = None
        self._tried_ns = 0
        self._told_ms = 0
        self._failing = False
        self._closed = False
        self._raw: psycopg.Connection[Any] | None = None  # Any: the database's own types
        self._left: list[object] = []
        self._telling = threading.Lock()
        self._measuring = threading.Lock()
        self._thread: threading.Thread | None = None
        _clocks.add(self)

    def now_ms(self) -> int:
        """Return the database's time in milliseconds since 1970, UTC.

        Raises:
            StoreError: The database was never asked yet, and cannot be.
        """
        if self._measured is None:
            with self._measuring:
                if self._measured is None:  # else another thread was first
                    self._measure()
        steady_ns = self._machine.steady_ns()
        if steady_ns - self._tried_ns > MEASURE_S * 1e9:
            self._measure_beside(steady_ns)
        with self._telling:
            assert self._measured is not None
            self._told_ms = max(self._told_ms, (steady_ns + self._measured.offset_ns) // 1_000_000)
            return self._told_ms

    def monotonic(self) -> float:
        """Return seconds of the machine's clock that never steps; only differences mean anything."""
        return self._machine.monotonic()

    def close(self) -> None:
        """Let go of the database; safe to call twice. The time is still told, by what was measured last."""
        self._closed = True
        thread = self._thread
        if thread is not None:
            thread.join(STOP_S)
        if self._measuring.acquire(blocking=False):  # else who measures now sees that it is closed
            try:
                self._let_go()
            finally:
                self._measuring.release()

    # ------------------------------------------------------------------ measuring

    def _measure(self) -> None:
        """Measure, in the caller's thread, which holds the lock for it.

        Raises:
            StoreError: The database cannot be asked.
        """
        self._tried_ns = self._machine.steady_ns()
        try:
            fresh = self._ask()
        except BaseException:
            self._let_go()
            raise
        if self._closed:
            self._let_go()
        with self._telling:
            self._measured = better(self._measured, fresh)
            behind_ms = self._told_ms - (self._machine.steady_ns() + self._measured.offset_ns) // 1_000_000
        if behind_ms >= STOOD_MS:
            log.warning("clock_set_back seconds=%.1f: time stands still here until it has caught up", behind_ms / 1000)

    def _ask(self) -> Measured:
        """Ask on the connection that there is, or on a new one when that has ended: the server was restarted, say."""
        if self._raw is not None:
            try:
                return self._quickest(self._raw)
            except psycopg.Error:
                self._let_go()
        with translated("read the database's clock"):
            self._raw = connect(self._address)
            return self._quickest(self._raw)

    def _quickest(self, raw: psycopg.Connection[Any]) -> Measured:
        """Return the best of some measurements."""
        best = self._trip(raw)
        for _ in range(TRIPS - 1):
            if best.error_ns <= QUICK_NS:
                break
            best = min(best, self._trip(raw), key=lambda one: one.error_ns)
        return best

    def _trip(self, raw: psycopg.Connection[Any]) -> Measured:
        before_ns = self._machine.steady_ns()
        row = raw.execute(CLOCK_NOW).fetchone()
        after_ns = self._machine.steady_ns()
        assert row is not None
        half_ns = (after_ns - before_ns) // 2
        return Measured(row[0] * 1000 - before_ns - half_ns, half_ns, after_ns)

    def _let_go(self) -> None:
        if self._raw is not None:
            self._raw.close()
            self._raw = None

    def _measure_beside(self, steady_ns: int) -> None:
        """Measure in a thread, unless one does."""
        with self._telling:
            if self._closed or (self._thread is not None and self._thread.is_alive()):
                return
            self._tried_ns = steady_ns
            with contextlib.suppress(RuntimeError):
                self._thread = started(self._try_to_measure, "fairlane-clock")

    def _try_to_measure(self) -> None:
        try:
            with self._measuring:
                self._measure()
        except FairlaneError as error:
            if not self._failing:
                log.warning("clock_not_measured: %s", error)
            self._failing = True
        else:
            self._failing = False

    # ------------------------------------------------------------------ forks

    def forget_parent(self) -> None:
        """In a forked child: what was measured holds here too; the connection and the thread are the parent's."""
        self._left.append(self._raw)  # not closed: that would end it for the parent
        self._raw = None
        self._telling = threading.Lock()
        self._measuring = threading.Lock()
        self._thread = None


_clocks: Final[weakref.WeakSet[PostgresClock]] = weakref.WeakSet()


def _in_child() -> None:
    for clock in list(_clocks):
        clock.forget_parent()


os.register_at_fork(after_in_child=_in_child)
