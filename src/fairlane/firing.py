"""Firing the ticks of schedules: done by every worker, by ``fairlane monitor`` and by every server, whoever is first.

Choosing what is due, enqueueing the jobs and moving the schedules on is one transaction. So each tick is fired once
however many processes look, and one that is killed in between leaves everything as it was, for another to do. When no
process lives nothing is fired; the first one that comes back does what the schedule's ``misfire`` says.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable
from typing import Final, NamedTuple

from fairlane.chores import Chore, Rounds
from fairlane.domain.payloads import one_line
from fairlane.domain.schedules import ScheduleRecord, job_of, look, made, refused, unknown
from fairlane.errors import FairlaneError, InvalidValue, StoreError
from fairlane.failpoints import failpoint
from fairlane.looks import LOOK_S, Looker
from fairlane.options import new_id
from fairlane.owner import Owner
from fairlane.store import Store

log = logging.getLogger("fairlane.schedules")

BATCH: Final = 20
"""Schedules in one transaction; each makes one job as a rule, and ``CATCH_UP`` at most."""
JITTER: Final = 0.1
"""Processes that wait for one tick spread out by it, as a share of the wait: the first one fires, the others see it."""


class Fired(NamedTuple):
    """What one transaction did: how many schedules it looked at, and how many jobs it made."""

    looked: int
    jobs: int


def fire(store: Store, now_ms: int, *, limit: int = BATCH) -> Fired:
    """Fire what is due, in the caller's transaction.

    A schedule whose job is refused (a full queue, say) holds up no other: the reason is put down, and it goes on to
    its next tick.

    Args:
        store: The store.
        now_ms: The instant.
        limit: Most schedules to look at.
    """
    records = store.due_schedules(now_ms, limit=limit)
    return Fired(len(records), sum(_fire_one(store, record, now_ms) for record in records))


def _fire_one(store: Store, record: ScheduleRecord, now_ms: int) -> int:
    """Do what is to be done about one schedule; return how many jobs it made."""
    if record.gone_at_ms is not None:  # it has been for long enough
        store.remove_schedule(record.name, by=record.changed_by, now_ms=now_ms)
        return 0
    try:
        after, due = look(record, now_ms)
    except InvalidValue as error:  # a time zone that this machine does not have
        log.warning("schedule_unknown schedule=%r error=%s", record.name, one_line(str(error)))
        store.put_schedule(unknown(record, error, now_ms), now_ms=now_ms)
        return 0
    for tick_ms in due.fire:
        after = _tick(store, after, tick_ms, now_ms)
    if due.missed:
        log.warning("schedule_missed schedule=%r ticks=%d fired=%d", record.name, due.missed, len(due.fire))
    if due.fire:
        failpoint("mid_schedule")
    store.put_schedule(after, now_ms=now_ms)
    return after.runs - record.runs


def _tick(store: Store, record: ScheduleRecord, tick_ms: int, now_ms: int) -> ScheduleRecord:
    """Make the job of a tick; return the schedule after it."""
    try:
        answer = store.enqueue((job_of(record.name, record.spec, tick_ms, new_id(), now_ms),), now_ms)[0]
    except StoreError:
        raise
    except FairlaneError as error:
        log.warning("schedule_refused schedule=%r error=%s", record.name, one_line(str(error)))
        return refused(record, error, now_ms)
    return made(record, answer.id, created=answer.created)


class Firing:
    """The looks of one thread.

    Args:
        owner: Owner of the store.
    """

    def __init__(self, owner: Owner) -> None:
        self._owner = owner
        self._looker = Looker(owner)
        self._wait_s = 0.0

    @property
    def every_s(self) -> float:
        """How long until the next pass, in seconds: until the next tick, or the next look."""
        return self._wait_s

    def work(self) -> int:
        """Fire what is due now; return how many jobs that made."""
        self._wait_s = LOOK_S
        jobs = 0
        due_ms = self._looker.take().schedule_ms
        due_in_s = None if due_ms is None else (due_ms - self._owner.clock.now_ms()) / 1000
        if due_in_s is not None and due_in_s <= 0:
            due_in_s = self._owner.read(_due_in_s)
            if due_in_s is not None and due_in_s <= 0:  # else another process has fired it since the look
                jobs = self._owner.call(fire).jobs
                due_in_s = self._owner.read(_due_in_s)
        self._wait_s = self._looker.wait_s()
        if due_in_s is not None:
            self._wait_s = min(self._wait_s, max(0.0, due_in_s))
        return jobs


def _due_in_s(store: Store, now_ms: int) -> float | None:
    due_ms = store.next_schedule_ms()
    return None if due_ms is None else (due_ms - now_ms) / 1000


class Ticker(Rounds):
    """Fires schedules in a thread of its own. Start and stop are safe to call twice, and to stop before the start.

    Args:
        owner: Owner of the store.
        rng: Source of jitter.
        fired: Told how many jobs each look made, when there were any.
    """

    def __init__(
        self, owner: Owner, *, rng: random.Random | None = None, fired: Callable[[int], object] | None = None
    ) -> None:
        super().__init__("fairlane-schedules")
        self._firing = Firing(owner)
        self._fired = fired
        self.chores = (
            Chore(
                "schedules",
                self._work,
                every_s=lambda: self._firing.every_s,
                jitter=JITTER,
                rng=random.Random() if rng is None else rng,
            ),
        )

    def _work(self) -> int:
        jobs = self._firing.work()
        if jobs and self._fired is not None:
            self._fired(jobs)
        return jobs


class Beside:
    """Fires schedules beside a maintenance thread, for as long as that lives; see :class:`fairlane.maintenance.Upkeep`.

    In a thread of its own: deleting what ended long ago may take minutes, and a tick does not wait for that.

    Args:
        owner: Owner of the store.
    """

    name = "schedules"
    every_s = LOOK_S

    def __init__(self, owner: Owner) -> None:
        self._ticker = Ticker(owner)

    def work(self) -> int:
        """Start with the maintenance thread, not before: a worker whose start fails leaves no thread behind."""
        self._ticker.start()
        return 0

    def close(self) -> None:
        """The thread ends."""
        self._ticker.stop()
