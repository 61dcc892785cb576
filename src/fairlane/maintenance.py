"""Keeping a store in order: jobs of the dead are taken back, some give way, and those that ended long ago are deleted.

Each pass is bounded and safe to repeat, at any time and in any number of processes at once.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final, Protocol
from weakref import WeakKeyDictionary

from fairlane.chores import Chore, Rounds
from fairlane.domain.checks import number, whole
from fairlane.domain.states import State
from fairlane.looks import Looker
from fairlane.owner import Owner

RESCUE_BATCH: Final = 100
PREEMPT_EVERY_S: Final = 0.5
"""With the second that urgent work waits first, and what a handler takes to stop, it starts within two seconds."""
PRUNE_EVERY_S: Final = 60.0
PRUNE_BATCH: Final = 500
MOST_SURPLUS: Final = 100_000
"""Completed jobs beyond what a queue keeps that one pass deletes."""
OPERATE_EVERY_S: Final = 0.25
OPERATE_BATCH: Final = 200
"""Jobs that one portion of an operation changes: it bounds how long the others wait."""
MAX_BATCHES: Final = 1_000
"""Batches of one pass; what is left waits for the next pass."""
HOUR_S: Final = 3600.0
_MOST_S: Final = 100 * 366 * 24 * HOUR_S


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """How long jobs are kept after their end. A time of None keeps them for ever.

    Attributes:
        completed: In seconds.
        keep_completed: Most completed jobs kept per queue, however young.
        cancelled: In seconds.
        dead: In seconds.
    """

    completed: float | None = 24 * HOUR_S
    keep_completed: int = 100_000
    cancelled: float | None = 7 * 24 * HOUR_S
    dead: float | None = 30 * 24 * HOUR_S

    def __post_init__(self) -> None:
        for name in ("completed", "cancelled", "dead"):
            value = getattr(self, name)
            if value is not None:
                number(name, value, least=0, most=_MOST_S)
        whole("keep_completed", self.keep_completed)

    @property
    def keep_ms(self) -> Mapping[State, int]:
        """The times in milliseconds, by state; states that are kept for ever are left out."""
        times = {State.COMPLETED: self.completed, State.CANCELLED: self.cancelled, State.DEAD: self.dead}
        return {state: round(seconds * 1000) for state, seconds in times.items() if seconds is not None}


def rescue(
    owner: Owner, *, going_on: Callable[[], bool] = lambda: True, ready: Callable[[], bool] = lambda: True
) -> int:
    """Take back the jobs of workers that are gone and of leases that ran out, and return how many.

    Batch by batch, each a transaction of its own, so that others are not held up. While there is nothing to take back
    this is a look without a transaction.

    Args:
        owner: Owner of the store.
        going_on: Asked before each further batch.
        ready: Asked inside each transaction, after any wait for the store; when not, nothing is taken back.
    """

    def batch() -> int:
        return owner.call(lambda store, now_ms: store.rescue(now_ms, limit=RESCUE_BATCH) if ready() else 0)

    if not owner.read(lambda store, now_ms: store.may_rescue(now_ms)):
        return 0
    return _in_batches(batch, RESCUE_BATCH, going_on)


def preempt(owner: Owner) -> int:
    """Ask running jobs to give way to urgent ones that only slots hold back, and return how many.

    While no CRITICAL or express job waits, or no task gives way, this is one look at two indexes without a transaction:
    about 0.01 ms, twice a second in each process that runs something. Else it takes a step for each running job and
    each lane with CRITICAL work, whatever else waits: 3 ms for 200 and 1,000 of them.
    """
    if not owner.read(lambda store, _: store.may_preempt()):
        return 0
    return owner.call(lambda store, now_ms: store.preempt(now_ms))


def prune(owner: Owner, retention: Retention, *, going_on: Callable[[], bool] = lambda: True) -> int:
    """Delete jobs that ended longer ago than ``retention`` keeps them, and return how many; as :func:`rescue`.

    Which completed jobs are beyond the number that a queue keeps is looked up beside the transactions: where there are
    more of them in all, it takes a step for each, half a second for a million, and nobody should wait for that.
    """

    def batch() -> int:
        return owner.call(lambda store, now_ms: store.prune(now_ms, keep_ms=retention.keep_ms, limit=PRUNE_BATCH))

    def surplus_batch() -> int:
        part = surplus[done["looked"] : done["looked"] + PRUNE_BATCH]
        done["looked"] += len(part)
        done["deleted"] += owner.call(
            lambda store, now_ms: store.prune(now_ms, keep_ms={}, surplus=part, limit=PRUNE_BATCH)
        )
        return len(part)

    deleted = _in_batches(batch, PRUNE_BATCH, going_on)
    if not going_on():
        return deleted
    surplus = owner.read(lambda store, _: store.surplus(keep=retention.keep_completed, limit=MOST_SURPLUS))
    done = {"looked": 0, "deleted": 0}
    if surplus:
        _in_batches(surplus_batch, PRUNE_BATCH, going_on)
    return deleted + done["deleted"]


def operate(owner: Owner, *, going_on: Callable[[], bool] = lambda: True) -> int:
    """Carry operations on as far as their rates allow now; return how many portions that were; as :func:`rescue`.

    While none is due this is a look at an index, without a transaction.
    """
    return _Operating(owner, going_on).work()


class _Operating:
    """The pass that carries operations on: often while one is under way, else only now and then."""

    def __init__(self, owner: Owner, going_on: Callable[[], bool]) -> None:
        self._owner = owner
        self._going_on = going_on
        self._under_way = False
        self._looker = Looker(owner)

    def every_s(self) -> float:
        """Return how long after a pass the next one comes, in seconds: at the next look while none is under way."""
        return OPERATE_EVERY_S if self._under_way else self._looker.wait_s()

    def work(self) -> int:
        """Make the pass."""
        return _in_batches(self._portion, 1, self._going_on)

    def look(self) -> int:
        """Make the pass when one is under way, as far as the process knows."""
        if not self._under_way and self._looker.take().operation_ms is None:
            return 0
        return self.work()

    def _portion(self) -> int:
        due_ms, now_ms = self._owner.read(lambda store, now_ms: (store.operations_due_ms(), now_ms))
        self._under_way = due_ms is not None
        if due_ms is None or due_ms > now_ms:
            return 0
        went = self._owner.call(lambda store, now_ms: store.advance(now_ms, limit=OPERATE_BATCH))
        return 0 if went is None else 1


def _in_batches(batch: Callable[[], int], full: int, going_on: Callable[[], bool]) -> int:
    total = 0
    for _ in range(MAX_BATCHES):
        done = batch()
        total += done
        if done < full or not going_on():
            break
    return total


class Upkeep(Protocol):
    """A further pass that belongs to an owner's store, made in every maintenance thread: watching over waits."""

    name: str

    @property
    def every_s(self) -> float:
        """How long after a pass the next one comes, in seconds; asked after each."""
        ...

    def work(self) -> int:
        """Make the pass; return how many jobs it dealt with."""
        ...

    def close(self) -> None:
        """The thread ends."""
        ...


_upkeep: Final[WeakKeyDictionary[Owner, list[Callable[[], Upkeep]]]] = WeakKeyDictionary()


def also(owner: Owner, make: Callable[[], Upkeep] | None) -> None:
    """Let every maintenance thread on this owner's store that is made from now on make one more pass; None ends all."""
    if make is None:
        _upkeep.pop(owner, None)
    else:
        _upkeep.setdefault(owner, []).append(make)


def _every_s(further: Upkeep) -> float:
    return further.every_s


class Maintenance(Rounds):
    """The thread that makes the passes; see :class:`~fairlane.chores.Rounds`. The first rescue comes at once.

    Args:
        owner: Owner of the store.
        retention: How long jobs are kept; None for the defaults.
        rng: Source of jitter.
        ready: Asked before each rescue; one that is not ready leaves it to the next pass.
        busy: Whether this process runs something that may be asked to give way. One that does not finds such wishes
            with the look that all share, once a second; it makes up for those that are held up.
    """

    def __init__(
        self,
        owner: Owner,
        retention: Retention | None = None,
        *,
        rng: random.Random | None = None,
        ready: Callable[[], bool] = lambda: True,
        busy: Callable[[], bool] = lambda: True,
    ) -> None:
        rng = random.Random() if rng is None else rng
        kept = Retention() if retention is None else retention
        super().__init__("fairlane-maintenance")

        def going_on() -> bool:
            return not self._stopping.is_set()

        looker = Looker(owner)

        def rescuing() -> int:
            return rescue(owner, going_on=going_on, ready=ready) if looker.take().rescue else 0

        urgent = Looker(owner)

        def preempting() -> int:
            return preempt(owner) if busy() or urgent.take().preempt else 0

        def preempt_s() -> float:
            return PREEMPT_EVERY_S if busy() else urgent.wait_s()

        prunes = Chore(
            "prune", lambda: prune(owner, kept, going_on=going_on), every_s=PRUNE_EVERY_S, jitter=0.5, rng=rng
        )
        prunes.due_at = self._clock.monotonic() + PRUNE_EVERY_S * rng.random()  # the rescue comes first
        operating = _Operating(owner, going_on)
        self.chores: tuple[Chore, ...] = (
            Chore("rescue", rescuing, every_s=looker.wait_s, jitter=0.0, rng=rng),
            Chore("preempt", preempting, every_s=preempt_s, jitter=0.1, rng=rng),
            Chore("operate", operating.look, every_s=operating.every_s, jitter=0.0, rng=rng),
            prunes,
        )
        self._further: list[Upkeep] = []
        try:
            for make in _upkeep.get(owner, ()):
                self._further.append(make())
        except BaseException:
            self._leave()
            raise
        for further in self._further:
            chore = Chore(further.name, further.work, every_s=partial(_every_s, further), jitter=0.1, rng=rng)
            chore.due_at = self._clock.monotonic() + further.every_s * rng.random()
            self.chores += (chore,)

    def discard(self, timeout_s: float) -> None:
        """End it, also when it was never started: then put away what it was made with."""
        if self._thread is None:
            self._leave()
        self.stop(timeout_s)

    def _leave(self) -> None:
        for further in self._further:
            further.close()
