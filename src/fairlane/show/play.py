"""The loop: the producer's answers and the oracle log go to the board, the board goes to the screen."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final

from fairlane.clock import SystemClock
from fairlane.domain.states import State
from fairlane.show.board import Board
from fairlane.show.feed import Feed
from fairlane.show.oracle import Oracle
from fairlane.show.screen import Screen
from fairlane.show.stage import Stage

TICK_S: Final = 0.1
LEAD_S: Final = 0.3
"""Time between the start of the clock and the first job."""
STALL_S: Final = 45.0
"""A job that is silent for longer than a lease, a sweep and its run is lost."""
SETTLE_S: Final = 10.0

Tick = Callable[[float], None]


class Play:
    """One performance. Make it when the workers are ready.

    Attributes:
        board: What happened.
    """

    def __init__(self, stage: Stage, feed: Feed) -> None:
        self._stage = stage
        self._feed = feed
        self._clock = SystemClock()
        self._oracle = Oracle(stage.log)
        self._longest_s = max(piece.run_s for piece in feed.pieces)
        start_s = self._clock.monotonic() + LEAD_S
        self.board = Board(feed.pieces, [job.id.hex() for job in feed.jobs], start_s)

    @property
    def now_s(self) -> float:
        """Seconds from the start."""
        return self._clock.monotonic() - self.board.start_s

    def look(self) -> None:
        """Take in what is new."""
        self.board.answered(self._feed.answers())
        self.board.heard(self._oracle.poll())

    def run(self, screen: Screen, tick: Tick | None = None) -> None:
        """Let every job come and run; return when all are done, or nothing happens any more.

        Args:
            screen: Where it is shown.
            tick: Called ten times a second with the time since the start.

        Raises:
            StageError: A worker ended by itself.
        """
        self._feed.start(self.board.start_s)
        pause = threading.Event()
        seen, seen_s = (0, 0, 0), 0.0
        while True:
            finished = self._feed.finished.is_set()
            self.look()
            now_s = self.now_s
            if tick is not None:
                tick(now_s)
            screen.update(now_s)
            if finished and self.board.settled:
                return
            marks = (len(self.board.accepted), len(self.board.all.waits), self.board.all.done)
            if marks != seen or not finished:
                seen, seen_s = marks, now_s
            if now_s - seen_s > STALL_S + self._longest_s:
                return
            self._stage.check()
            pause.wait(TICK_S)

    def completed_by_store(self) -> int:
        """Return how many jobs the queue itself says are completed, when its last settlements are in."""
        until = self._clock.monotonic() + SETTLE_S
        pause = threading.Event()
        while True:
            counts = self._stage.counts()
            done = counts.get(State.COMPLETED, 0)
            if done >= self.board.all.done or self._clock.monotonic() > until:
                return done
            pause.wait(TICK_S)
