"""Who gives way: which running jobs are asked to yield to urgent ones that only slots hold back (SPEC section 3).

An urgent job is a CRITICAL one or an express one. It may have the slot of a running job of a less urgent base tier
than its own: an express job starts before all others but is worth no more than its tier once both run, so an express
NORMAL job has LOW and BACKGROUND jobs asked, and an express BACKGROUND job nobody. Raise the tier first for more.

Each waiting job has one running job asked until it starts, whatever becomes of the one asked. A handler that never
looks therefore costs the job that waits for it nothing but the wait that it would have had without preemption, and no
other job is asked in its place: nothing tells a deaf handler from a slow one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from fairlane.domain.jobs import WorkerRecord
from fairlane.domain.limits import Gate, filled
from fairlane.domain.turns import Lane

PREEMPT_AFTER_MS: Final = 1_000
"""How long an urgent job waits before a running one is asked to give way to it."""
MAX_PREEMPTIONS: Final = 3
"""How often a job gives way at most."""
Room = tuple[str, ...]
"""Names something that is bounded: a queue, a tenant, a tenant in a queue, a limit, a tenant's urgent share."""


class Urgent(NamedTuple):
    """An urgent job that waits, and that nothing but slots and perhaps ``rooms`` holds back.

    Attributes:
        seq: Its number.
        pool: The pool of its queue.
        queue: Its queue.
        task: Its task.
        tier: Its base tier.
        express: Its number in the express lane, or None.
        since_ms: When it became available.
        rooms: What its start takes up one place of; see :func:`rooms_of`.
    """

    seq: int
    pool: str
    queue: str
    task: str
    tier: int
    express: int | None
    since_ms: int
    rooms: tuple[Room, ...] = ()


class Runner(NamedTuple):
    """A running job.

    Attributes:
        seq: Its number.
        worker: The worker that runs it; "" when none of ours does.
        queue: Its queue.
        tier: Its base tier.
        started_ms: When this run started.
        preemptible: Whether its task may be asked to give way.
        express: Whether it is an express job.
        preemptions: How often it has given way.
        asked: Whether it is asked to stop, for whatever reason.
        asked_for: The number of the waiting job that it was asked to give way to, or None.
    """

    seq: int
    worker: str
    queue: str
    tier: int
    started_ms: int
    preemptible: bool = True
    express: bool = False
    preemptions: int = 0
    asked: bool = False
    asked_for: int | None = None

    def may_be_asked(self, max_preemptions: int) -> bool:
        """Return whether it is one that gives way and is not asked to stop already."""
        return self.preemptible and not self.express and not self.asked and self.preemptions < max_preemptions


class Wish(NamedTuple):
    """A running job that is to be asked, and the waiting one that it is asked for; by number."""

    runner: int
    urgent: int


class _Seats:
    """The slots of one worker, as they will be when everything decided so far has happened."""

    def __init__(self, record: WorkerRecord) -> None:
        self._record = record
        self._used: dict[str, int] = {}
        self._total = 0
        own = record.queue_slots
        self._slots = {} if own is None or record.queues is None else dict(zip(record.queues, own, strict=True))

    def enter(self, queue: str) -> None:
        """A job of a queue takes a slot."""
        self._used[queue] = self._used.get(queue, 0) + 1
        self._total += 1

    def leave(self, queue: str) -> None:
        """A job of a queue frees its slot."""
        self._used[queue] -= 1
        self._total -= 1

    def knows(self, job: Urgent) -> bool:
        """Return whether the worker serves the job's queue and knows its task."""
        one = self._record
        return (
            one.pool == job.pool
            and (one.queues is None or job.queue in one.queues)
            and (one.tasks is None or job.task in one.tasks)
        )

    def free(self, queue: str, without: str | None = None) -> bool:
        """Return whether a slot is free for a queue, or would be if a job of queue ``without`` left."""
        total = self._total - (without is not None)
        used = self._used.get(queue, 0) - (without == queue)
        return total < self._record.slots and used < self._slots.get(queue, used + 1)


def to_ask(
    waiting: Iterable[Urgent],
    running: Sequence[Runner],
    workers: Iterable[WorkerRecord],
    rooms: Mapping[Room, int],
    *,
    now_ms: int,
    after_ms: int = PREEMPT_AFTER_MS,
    max_preemptions: int = MAX_PREEMPTIONS,
    limit: int = 100,
) -> list[Wish]:
    """Return which running jobs are to be asked, and for whom.

    The jobs for which one is asked already come first: what they take up is spoken for. Then the express jobs, in the
    order of their expedites, then the CRITICAL ones that have waited longest. Each has the least urgent, of those the
    latest started job asked whose slot it could use: on a worker that serves its queue and knows its task, and where
    the slot that becomes free is one for its queue. A slot that is free already is left to one waiting job that can
    use it, which has nobody asked; but once that job has waited ``after_ms`` again, the slot is taken for one that
    nobody uses, because its worker drains or hangs.

    Args:
        waiting: Urgent jobs whose queue, task, tenant and limits are open; younger ones than ``after_ms`` are passed
            over.
        running: All running jobs.
        workers: The workers on record.
        rooms: How many more jobs may start of what is bounded; what is not named is not bounded.
        now_ms: The instant.
        after_ms: How long a job waits first, in milliseconds.
        max_preemptions: How often a job gives way at most.
        limit: Most jobs to ask.

    Example:
        >>> to_ask(
        ...     [Urgent(9, "default", "mail", "send", 0, None, since_ms=0)],
        ...     [Runner(1, "w", "mail", 4, started_ms=5), Runner(2, "w", "mail", 4, started_ms=6)],
        ...     [WorkerRecord(id="w", pool="default", queues=None, slots=2)],
        ...     {},
        ...     now_ms=1_000,
        ... )
        [Wish(runner=2, urgent=9)]
    """
    plan = _Plan(running, workers, rooms, max_preemptions)
    wishes: list[Wish] = []
    for job in sorted(waiting, key=lambda job: (job.seq not in plan.served, *_order(job))):
        waited_ms = now_ms - job.since_ms
        if waited_ms < after_ms or not plan.room_for(job):
            continue
        if job.seq in plan.served:
            plan.give(plan.served[job.seq], job)
        elif waited_ms >= 2 * after_ms or not plan.seat(job):
            runner = plan.best(job)
            if runner is not None:
                plan.give(runner, job)
                wishes.append(Wish(runner.seq, job.seq))
        if len(wishes) >= limit:
            break
    return wishes


class _Plan:
    """Who sits where and what is left, as it will be when everything decided so far has happened."""

    def __init__(
        self,
        running: Sequence[Runner],
        workers: Iterable[WorkerRecord],
        rooms: Mapping[Room, int],
        max_preemptions: int,
    ) -> None:
        self.served: dict[int, Runner] = {}
        self._seats = {worker.id: _Seats(worker) for worker in workers}
        self._rooms = dict(rooms)
        known = [one for one in running if one.worker in self._seats]
        for one in known:
            self._seats[one.worker].enter(one.queue)
            if one.asked and one.asked_for is not None:
                self.served[one.asked_for] = one
        self._able = [one for one in known if one.may_be_asked(max_preemptions)]
        self._able.sort(key=lambda one: (-one.tier, -one.started_ms, -one.seq))

    def room_for(self, job: Urgent) -> bool:
        """Return whether what is bounded has room for one more."""
        return all(self._rooms.get(name, 1) > 0 for name in job.rooms)

    def seat(self, job: Urgent) -> bool:
        """Leave a free slot to a job, if there is one that it could use."""
        for seats in self._seats.values():
            if seats.knows(job) and seats.free(job.queue):
                self._enter(seats, job)
                return True
        return False

    def best(self, job: Urgent) -> Runner | None:
        """Return the running job that should give way to another, or None."""
        for one in self._able:
            if one.tier <= job.tier:
                return None  # and so are all that follow
            seats = self._seats[one.worker]
            if seats.knows(job) and not seats.free(job.queue) and seats.free(job.queue, without=one.queue):
                return one
        return None

    def give(self, runner: Runner, job: Urgent) -> None:
        """A job gives its slot to another."""
        if not runner.asked:
            self._able.remove(runner)
        self._seats[runner.worker].leave(runner.queue)
        self._enter(self._seats[runner.worker], job)

    def _enter(self, seats: _Seats, job: Urgent) -> None:
        seats.enter(job.queue)
        for name in job.rooms:
            if name in self._rooms:
                self._rooms[name] -= 1


def _order(job: Urgent) -> tuple[bool, int, int]:
    return job.express is None, job.since_ms if job.express is None else job.express, job.seq


def room(gate: Gate, now_ms: int) -> int | None:
    """Return how many more jobs may start now as far as a gate's bounds go; None: it has none."""
    rooms: list[int] = []
    if gate.max_running is not None:
        rooms.append(gate.max_running - gate.running)
    if gate.rate is not None:
        ahead = max(0, gate.tat - now_ms * gate.rate.starts)
        rooms.append(((gate.rate.burst - 1) * gate.rate.per_ms - ahead) // gate.rate.per_ms + 1)
    return min(rooms, default=None)


def rooms_of(lane: Lane, limits: Mapping[str, Gate], *, share: bool, now_ms: int) -> dict[Room, int | None] | None:
    """Return what a start from a lane takes up places of, and how many there are; None: something closes the lane.

    Args:
        lane: The lane.
        limits: The named limits by filled-in key.
        share: Whether the job goes first only within its tenant's urgent share.
        now_ms: The instant.
    """
    group, turn = lane.group, lane.turn
    queue, tenant = group.queue, turn.tenant
    if group.closed or not turn.may(group):
        return None
    rooms: dict[Room, int | None] = {
        ("queue", queue.name): room(queue, now_ms),
        ("tenant", tenant.name): room(tenant, now_ms),
    }
    own = queue.rule.tenant_max_running
    if own is not None:
        rooms["tenant in queue", queue.name, tenant.name] = own - tenant.by_queue.get(queue.name, 0)
    keys = [limit.key for limit in group.limits]
    keys += [filled(template, tenant.name) for template in group.templates]
    rooms |= {("limit", key): room(limits[key], now_ms) for key in keys if key in limits}
    bound = turn.pool.urgent_bound
    if share and bound is not None:
        rooms["share", turn.pool.name, tenant.name] = bound - turn.urgent
    return None if any(left is not None and left <= 0 for left in rooms.values()) else rooms
