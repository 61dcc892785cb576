"""The event loop that runs asynchronous handlers, in a thread of its own."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Final

from fairlane.clock import SystemClock
from fairlane.worker.attempt import Attempt, Done

log = logging.getLogger("fairlane.worker")

STALLED_S: Final = 0.05
"""A loop that has not begun what it was given for this long is held up by a handler that blocks it."""
_TIDY_S: Final = 0.5


class LoopThread:
    """Runs attempts as tasks of one event loop.

    They come in batches, each with a single wake-up of the loop, and ``flush`` is called once after all that ended
    in the same turn of the loop: so a hundred short jobs cost two switches between threads.

    Args:
        done: Called in the loop for each attempt that has ended.
        flush: Called in the loop once after some of these.
    """

    def __init__(self, done: Done, flush: Callable[[], None]) -> None:
        self._done = done
        self._flush = flush
        self._flushing = False
        self._clock = SystemClock()
        self._given: dict[int, Attempt] = {}
        self._batches = self._begun = 0  # given to the loop so far, and seen by it
        self._given_at = 0.0
        self._loop = asyncio.new_event_loop()
        self._stopping = False
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, name="fairlane-loop", daemon=True)
        try:
            self._thread.start()
        except BaseException:
            self._loop.close()
            raise
        self._ready.wait()

    # ------------------------------------------------------------------ from other threads

    def submit(self, attempts: Sequence[Attempt]) -> None:
        """Run attempts; used by one thread."""
        if self._begun == self._batches:
            self._given_at = self._clock.monotonic()
        self._batches += 1
        self._given.update((id(attempt), attempt) for attempt in attempts)
        self._loop.call_soon_threadsafe(self._begin, attempts)

    def interrupt(self, attempt: Attempt) -> None:
        """Cancel an attempt's coroutine, from any thread."""
        if not self._stopping:
            with suppress(RuntimeError):  # it was closed at this very moment
                self._loop.call_soon_threadsafe(self._cancel, attempt)

    def held_up_for(self) -> float:
        """Return for how many seconds the loop has owed a look at what it was given; 0 when it owes none.

        It still owes that when everything was taken back: nobody knows sooner that it can start something again.
        """
        return self._clock.monotonic() - self._given_at if self._begun < self._batches else 0.0

    def take_back(self) -> list[Attempt]:
        """Return what the loop has not begun, which it will not begin any more; for a loop that is held up."""
        back: list[Attempt] = []
        for key in list(self._given):
            attempt = self._given.pop(key, None)  # the loop takes it out in the same way: only one of us gets it
            if attempt is not None:
                back.append(attempt)
        return back

    @property
    def is_caller(self) -> bool:
        """Whether the caller runs in this loop's thread."""
        return threading.current_thread() is self._thread

    def close(self, timeout_s: float) -> int:
        """Cancel what still runs, end the loop, and return how many handlers still run after ``timeout_s``."""
        if self._stopping:
            return 0
        self._stopping = True
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(timeout_s)
        return int(self._thread.is_alive())

    # ------------------------------------------------------------------ in the loop's thread

    def _run(self) -> None:
        self._loop.call_soon(self._ready.set)
        while not self._stopping:
            try:
                self._loop.run_forever()
            except BaseException as error:  # noqa: BLE001  a handler's own task may raise SystemExit through the loop
                log.error("event_loop_interrupted error=%r", error)
        try:
            self._tidy()
        finally:
            self._loop.close()

    def _tidy(self) -> None:
        """Cancel what is left, ours and the handlers' own tasks, and give it a moment."""
        left = asyncio.all_tasks(self._loop)
        for task in left:
            task.cancel()
        if left:
            self._loop.run_until_complete(asyncio.wait(left, timeout=_TIDY_S))
        self._loop.run_until_complete(self._loop.shutdown_asyncgens())

    def _begin(self, attempts: Sequence[Attempt]) -> None:
        self._given_at = self._clock.monotonic()  # of the next batch
        self._begun += 1
        for attempt in attempts:
            if self._given.pop(id(attempt), None) is not None:
                attempt.coroutine = task = self._loop.create_task(attempt.run_async())
                task.add_done_callback(partial(self._ended, attempt))

    def _cancel(self, attempt: Attempt) -> None:
        if attempt.coroutine is not None and attempt.begun and not attempt.ended:
            attempt.coroutine.cancel()

    def _ended(self, attempt: Attempt, task: asyncio.Task[None]) -> None:
        if not attempt.ended:  # somebody cancelled it before its first step, so its own code never ran
            attempt.finish(None, asyncio.CancelledError())
        if task.cancelled():
            log.warning("attempt_cancelled_early job=%s", attempt.claim.uuid)
        attempt.coroutine = None
        self._done(attempt)
        if not self._flushing:
            self._flushing = True
            self._loop.call_soon(self._flush_now)

    def _flush_now(self) -> None:
        self._flushing = False
        self._flush()
