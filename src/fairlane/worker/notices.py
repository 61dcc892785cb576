"""Tells hooks how runs ended: after the settlement is on disk, and in a thread of its own, for hooks may be slow."""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Final, NamedTuple

from fairlane.background import started
from fairlane.domain.jobs import Kind
from fairlane.domain.states import State
from fairlane.domain.tiers import TIERS
from fairlane.hooks import Event, Hooks, Moment
from fairlane.owner import Owner
from fairlane.worker.attempt import Attempt

log = logging.getLogger("fairlane.worker")

LOOK_S: Final = 0.05
"""How often the end of a worker, while hooks run, looks whether it is to hurry."""
MAX_WAITING: Final = 10_000
"""Events that wait for slow hooks; what comes beyond is left out, and logged."""

MOMENTS_OF: Final[dict[Kind, tuple[Moment, ...]]] = {
    "completed": ("success", "finish"),
    "retry": ("failure",),
    "dead": ("failure", "dead", "finish"),
    "cancelled": ("finish",),
    "crashed": ("failure",),
    "snoozed": (),
    "released": (),
    "handed": (),
    "pending": (),
}


IF_IT_ENDED: Final[tuple[Moment, ...]] = ("dead", "finish")
"""What hooks are told as well of a run that should have let its job go on, if the job has ended with it."""


def moments_of(attempt: Attempt) -> tuple[Moment, ...]:
    """Return what hooks are told of a run that was settled."""
    settlement = attempt.settlement
    if settlement is None:
        return ()
    if settlement.kind == "crashed" and attempt.claim.crashes >= attempt.task.retry.max_crashes:
        return MOMENTS_OF["dead"]  # the store made it dead
    if settlement.kind == "pending" and settlement.error is not None:
        return MOMENTS_OF["retry"]  # the check failed
    return MOMENTS_OF[settlement.kind]


def event_of(attempt: Attempt, moment: Moment) -> Event:
    """Return what a hook is told."""
    claim, settlement, end = attempt.claim, attempt.settlement, attempt.end
    lane = claim.start.lane
    return Event(
        moment=moment,
        job_id=claim.uuid,
        task=claim.task,
        queue=lane.queue,
        tenant=lane.tenant,
        tier=TIERS[lane.tier],
        attempt=claim.attempt,
        phase=claim.phase,
        outcome=None if settlement is None else settlement.kind,
        result=None if end is None else end.value,
        error=None if end is None else end.error,
        reason=None if settlement is None else settlement.reason,
        run_s=0.0 if settlement is None else settlement.run_us / 1e6,
    )


class _Notice(NamedTuple):
    """An event to tell; a doubted one only if the store says that the job of this claim has ended."""

    event: Event
    fence: int
    doubted: bool


class Notices:
    """Calls hooks in the order of the settlements.

    A job that should have gone back may have ended all the same: somebody had asked it to stop, or its time was over.
    Only the store knows, so it is asked, when a hook waits for ends.

    Args:
        hooks: The hooks.
        owner: Who owns the store.
    """

    def __init__(self, hooks: Hooks, owner: Owner) -> None:
        self._hooks = hooks
        self._owner = owner
        self._line: queue.SimpleQueue[_Notice | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    def settled(self, attempt: Attempt) -> None:
        """Tell of a run whose settlement is on disk; used by one thread."""
        sure = moments_of(attempt)
        doubted = IF_IT_ENDED if attempt.settlement is not None and "finish" not in sure else ()
        for moment in (*sure, *doubted):
            if not self._hooks.wanted(moment, attempt.claim.task):
                continue
            if self._line.qsize() >= MAX_WAITING:
                log.error("hook_left_out moment=%s job=%s: hooks are too slow", moment, attempt.claim.uuid)
                continue
            self._line.put(_Notice(event_of(attempt, moment), attempt.claim.fence, moment in doubted))
            if self._thread is None:
                self._begin()

    def _begin(self) -> None:
        try:
            self._thread = started(self._run, "fairlane-hooks")
        except RuntimeError:  # the next end tries again
            log.exception("hooks_wait waiting=%d", self._line.qsize())

    def close(self, left_s: Callable[[], float]) -> None:
        """Let what waits be told, as long as ``left_s()`` leaves time for it."""
        if self._thread is None and not self._line.empty():
            self._begin()
        thread = self._thread
        if thread is None:
            return
        self._line.put(None)
        while thread.is_alive() and (left := left_s()) > 0:
            thread.join(min(left, LOOK_S))
        if thread.is_alive():
            log.error("hooks_left_out waiting=%d: they took longer than the grace", max(0, self._line.qsize() - 1))

    def _run(self) -> None:
        while (notice := self._line.get()) is not None:
            event: Event | None = notice.event
            try:
                if notice.doubted:
                    event = self._as_stored(notice)
                if event is not None:
                    self._hooks.fire(event)
            except BaseException:  # SystemExit from a hook must not end the others
                log.exception("hook_failed moment=%s job=%s", notice.event.moment, notice.event.job_id)

    def _as_stored(self, notice: _Notice) -> Event | None:
        """Return what to tell of a run whose job may have ended with it; None: it goes on."""
        event = notice.event
        record = self._owner.read(lambda store, _: store.get(event.job_id.bytes))
        if record is None or record.fence != notice.fence or record.state.live:
            return None
        if event.moment == "dead" and record.state is not State.DEAD:
            return None
        outcome: Kind = "dead" if record.state is State.DEAD else "cancelled"
        return replace(event, outcome=outcome, reason=record.reason)
