"""The producer: one thread with an event loop that enqueues each job at its time, and notes how late it was.

Each job is an ``aenqueue`` of its own, as in a web application; those that come together are committed together.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Sequence
from typing import Final, NamedTuple

from fairlane.app import Fairlane
from fairlane.clock import SystemClock
from fairlane.domain.jobs import NewJob
from fairlane.domain.tiers import TIERS
from fairlane.errors import FairlaneError
from fairlane.show.hands import TASK, THREAD_TASK
from fairlane.show.scenario import Piece

MAX_ON_THE_WAY: Final = 4_000
"""Jobs that are being enqueued at one instant; the next ones wait, and are late."""


class Answer(NamedTuple):
    """What became of an enqueue: the job's number, the instant of the answer, and the error if it was refused."""

    number: int
    at_s: float
    error: Exception | None


class Feed:
    """Enqueues pieces at their times. :meth:`stop` is safe to call twice, and before the start.

    Attributes:
        pieces: What comes when.
        jobs: The jobs, as the pieces.
        finished: Set when every enqueue has been answered, or it was stopped.
    """

    def __init__(self, app: Fairlane, pieces: Sequence[Piece]) -> None:
        self._app = app
        self.pieces = pieces
        self._clock = SystemClock()
        self._answers: deque[Answer] = deque()
        self._thread: threading.Thread | None = None
        self._stopping = threading.Event()
        self._start_s = 0.0
        self.finished = threading.Event()
        self.jobs: Sequence[NewJob] = [
            app.new(
                THREAD_TASK if piece.in_thread else TASK,
                {"seconds": piece.run_s},
                queue=piece.queue,
                tenant=piece.tenant,
                tier=TIERS[piece.tier],
                expedite=piece.express,
            )
            for piece in pieces
        ]

    def start(self, start_s: float) -> None:
        """Begin; ``start_s`` is the instant, by the monotonic clock, that the pieces count from."""
        self._start_s = start_s
        self._thread = threading.Thread(target=self._run, name="feed", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Enqueue no more, and wait for the end of the thread."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join()

    def answers(self) -> list[Answer]:
        """Return what is new since the last call."""
        new: list[Answer] = []
        while self._answers:
            new.append(self._answers.popleft())
        return new

    def _run(self) -> None:
        try:
            asyncio.run(self._feed())
        finally:
            self.finished.set()

    async def _feed(self) -> None:
        room = asyncio.Semaphore(MAX_ON_THE_WAY)
        on_the_way: set[asyncio.Task[None]] = set()
        for number, piece in enumerate(self.pieces):
            while (left_s := self._start_s + piece.due_s - self._clock.monotonic()) > 0:
                await asyncio.sleep(min(left_s, 0.1))
                if self._stopping.is_set():
                    break
            await room.acquire()
            if self._stopping.is_set():
                break
            task = asyncio.create_task(self._put(number))
            on_the_way.add(task)
            task.add_done_callback(on_the_way.discard)
            task.add_done_callback(lambda _: room.release())
        await asyncio.gather(*on_the_way)

    async def _put(self, number: int) -> None:
        error: Exception | None = None
        try:
            await self._app.aenqueue(self.jobs[number])
        except FairlaneError as refused:
            error = refused
        self._answers.append(Answer(number, self._clock.monotonic(), error))
