"""What becomes of new jobs: dedup keys first, then the jobs that they wait for. Pure: the store is only asked.

Dedup keys. One job of a queue holds a key at a time, from its enqueue to its end; ``on_conflict`` says what an enqueue
does that finds the key held:

    on_conflict   the holder waits          the holder has begun                        the key is kept after an end
    ───────────   ───────────────────────   ─────────────────────────────────────────   ────────────────────────────
    return        the holder is returned    the holder is returned                      the ended job is returned
    raise         DedupConflict             DedupConflict                               DedupConflict
    replace       the holder is replaced    its waiting successor is replaced; without  the ended job is returned
                                            one: DedupConflict
    successor     the holder is returned    its successor is returned; without one: a   the ended job is returned
                                            new job waits behind the holder

A job has begun while it runs, and from its first hand-over to another system on: then its arguments are in use. A job
that waits for a retry has not: its next run may as well use others.

Order. A job that waits for others is stored behind those that have not ended. One that waits for a job that has failed
already is stored and cancelled at once, unless it runs anyway: so the caller, and whoever waits for it in turn, finds
out in the same way, whether the other job failed before the enqueue or after it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple
from uuid import UUID

from msgspec import structs

from fairlane.domain.jobs import Enqueued, NewJob
from fairlane.domain.states import State
from fairlane.errors import DedupConflict, InvalidJob, JobNotFound

ANYWAY: Final = 1
"""Of an edge: the job behind runs however the other one ends."""
SUCCEEDS: Final = 2
"""Of an edge: the job behind takes the other one's dedup key when that ends."""
SHOWN_IN_CYCLE: Final = 10
MAX_EDGES: Final = 100_000
"""Waits of all jobs of a batch together: they take half a second of one transaction, and others wait for it so long."""


class Held(NamedTuple):
    """A live job that holds a dedup key, or waits to.

    Attributes:
        id: Its id.
        seq: Its number; 0 when it is new.
        begun: Whether it runs, or another system works on it.
        successor: Whether it waits behind the one that holds the key.
    """

    id: bytes
    seq: int
    begun: bool
    successor: bool


class Holders(NamedTuple):
    """Who has to do with a dedup key: live jobs, the holder first, or else the ended job that keeps it."""

    live: Sequence[Held] = ()
    kept: bytes | None = None


class Parent(NamedTuple):
    """A stored job that a new one waits for: its number, and where it is in its life."""

    seq: int
    state: State


class Tie(NamedTuple):
    """What ties a new job to others.

    Attributes:
        parents: The jobs that it waits for, by number or (in the same batch) by id, each with the marks of its edge.
        successor: Whether it waits for a dedup key.
        doomed: Why it is cancelled at once, or None.
    """

    parents: tuple[tuple[int | bytes, int], ...] = ()
    successor: bool = False
    doomed: str | None = None


@dataclass(slots=True)
class Taken:
    """What is to be done with a batch.

    Attributes:
        answers: For each job, in order.
        new: The jobs to store, in order.
        ties: What ties some of these to others, by id.
        replaced: Stored jobs that others take the place of, each with its replacement.
    """

    answers: list[Enqueued]
    new: list[NewJob]
    ties: dict[bytes, Tie] = field(default_factory=dict[bytes, Tie])
    replaced: dict[bytes, tuple[Held, NewJob]] = field(default_factory=dict[bytes, tuple[Held, NewJob]])


def take_in(
    jobs: Sequence[NewJob], holders: Callable[[str, str], Holders], parent: Callable[[bytes], Parent | None]
) -> Taken:
    """Decide what becomes of a batch; see the head of the module.

    Args:
        jobs: The batch.
        holders: Tells who has to do with a dedup key, by queue and key.
        parent: Looks up a stored job by id.

    Raises:
        DedupConflict: A key is held and its job cannot be returned, replaced or succeeded as asked.
        InvalidJob: Jobs of the batch wait for each other in a circle, or for too many others in all.
        JobNotFound: A job waits for one that there is not.
    """
    edges = sum(len(job.after) for job in jobs)
    if edges > MAX_EDGES:
        raise InvalidJob(
            f"the {len(jobs):,} jobs of this batch wait for {edges:,} jobs in all; at most {MAX_EDGES:,} are allowed: "
            "store fewer at a time, or let one job wait for those that they share, and them for it"
        )
    for job in jobs:
        if job.dedup_key is not None or job.after:
            return _Intake(jobs, holders, parent).taken()
    return Taken([Enqueued(job.id, True) for job in jobs], list(jobs))


class _Intake:
    """One batch on its way in."""

    def __init__(
        self, jobs: Sequence[NewJob], holders: Callable[[str, str], Holders], parent: Callable[[bytes], Parent | None]
    ) -> None:
        self._jobs = jobs
        self._ask_holders = holders
        self._ask_parent = parent
        self._keys: dict[tuple[str, str], Holders] = {}
        self._stored: dict[bytes, Parent] = {}
        self._answers: dict[int, Enqueued] = {}
        self._new: dict[int, NewJob] = {}
        self._places: dict[bytes, int] = {}  # of new jobs, in the batch
        self._stands_for: dict[bytes, bytes] = {}  # which job an id of the batch has become
        self._ties: dict[bytes, Tie] = {}
        self._replaced: dict[bytes, tuple[Held, NewJob]] = {}

    def taken(self) -> Taken:
        """Take in all of them, each after those of the batch that it waits for."""
        for place in waiting_order([(job.id, job.after) for job in self._jobs]):
            job = self._jobs[place]
            answer = self._take(place, job)
            self._answers[place] = answer
            self._stands_for[job.id] = answer.id
        return Taken(
            [self._answers[place] for place in range(len(self._jobs))],
            [self._new[place] for place in sorted(self._new)],
            self._ties,
            self._replaced,
        )

    def _take(self, place: int, job: NewJob) -> Enqueued:
        key = job.dedup_key
        held = Holders() if key is None else self._holders(job.queue, key)
        told = answered(job, held)
        if isinstance(told, bytes):
            return Enqueued(told, created=False)
        if told is not None and (job.on_conflict == "replace"):
            self._replace(told, job)
            return Enqueued(told.id, created=False)
        self._new[place] = job
        self._places[job.id] = place
        tie = self._tie(job, told)
        if tie is not None:
            self._ties[job.id] = tie
        if key is not None and (tie is None or tie.doomed is None):
            mine = Held(job.id, 0, begun=False, successor=told is not None)
            self._keys[job.queue, key] = Holders((*held.live, mine))
        return Enqueued(job.id, created=True)

    def _holders(self, queue: str, key: str) -> Holders:
        held = self._keys.get((queue, key))
        if held is None:
            held = self._keys[queue, key] = self._ask_holders(queue, key)
        return held

    def _replace(self, held: Held, job: NewJob) -> None:
        place = self._places.get(held.id)
        if place is None:
            self._replaced[held.id] = held, job
            return
        self._new[place] = structs.replace(job, id=held.id, bundle=self._new[place].bundle)
        tie = self._ties.pop(held.id, None)
        if tie is not None and tie.successor:  # it still waits for the key, and for nothing else
            parents = tuple((parent, ANYWAY | marks) for parent, marks in tie.parents if marks & SUCCEEDS)
            self._ties[held.id] = Tie(parents, successor=True)

    # ------------------------------------------------------------------ order

    def _tie(self, job: NewJob, holder: Held | None) -> Tie | None:
        marks = ANYWAY if job.on_failure == "run" else 0
        parents: dict[int | bytes, int] = {}
        for asked in job.after:
            wanted = self._stands_for.get(asked, asked)
            name, state = self._look_up(wanted)
            if state.live:
                parents[name] = marks
            elif state is not State.COMPLETED and not marks:
                return Tie(doomed=reason_for(wanted, state))
        if holder is not None:
            asked_for = parents.get(holder.seq)
            parents[holder.seq] = SUCCEEDS | (ANYWAY if asked_for is None else asked_for)
        return Tie(tuple(parents.items()), successor=holder is not None) if parents else None

    def _look_up(self, wanted: bytes) -> tuple[int | bytes, State]:
        """Return how edges name a job, and its state."""
        if wanted in self._places:
            tie = self._ties.get(wanted)
            return wanted, State.SCHEDULED if tie is None or tie.doomed is None else State.CANCELLED
        found = self._stored.get(wanted) or self._ask_parent(wanted)
        if found is None:
            raise JobNotFound(UUID(bytes=wanted))
        self._stored[wanted] = found
        return found


def plain(jobs: Iterable[NewJob]) -> bool:
    """Return whether nothing has to be known of other jobs to take these in."""
    return all(job.dedup_key is None and not job.express and not job.after for job in jobs)


def answered(job: NewJob, held: Holders) -> Held | bytes | None:
    """Return what a dedup key says about a new job.

    Args:
        job: The job.
        held: Who has to do with its key.

    Returns:
        The id that the caller is given instead; or the job that it replaces or succeeds; or None: it is simply new.

    Raises:
        DedupConflict: The key is held, and nothing of that can be done.
    """
    key = job.dedup_key or ""
    if not held.live:
        if held.kept is not None and job.on_conflict == "raise":
            raise DedupConflict(key, job.queue, UUID(bytes=held.kept), "for a time (dedup_ttl) by job")
        return held.kept
    first = held.live[0]
    if job.on_conflict == "raise":
        raise DedupConflict(key, job.queue, UUID(bytes=first.id))
    if job.on_conflict == "replace":
        for one in held.live:
            if not one.begun:
                return one
        raise DedupConflict(key, job.queue, UUID(bytes=first.id), "by a job that has begun and cannot be replaced:")
    if job.on_conflict == "successor" and first.begun:
        return held.live[1].id if len(held.live) > 1 else first
    return first.id


def goes_on(state: int, marks: int) -> bool:
    """Return whether a job may go on when one that it waits for has ended in ``state``."""
    return state == State.COMPLETED or bool(marks & ANYWAY)


def reason_for(parent: bytes | None, state: int) -> str:
    """Return why a job is cancelled when one that it waits for has failed.

    Args:
        parent: The id of that one; None when it is gone.
        state: How it ended.
    """
    name = "a job" if parent is None else f"job {UUID(bytes=parent)}"
    return f"{name} that it waited for {'is dead' if state == State.DEAD else 'was cancelled'}"


def waiting_order(jobs: Sequence[tuple[bytes, Iterable[bytes]]]) -> Sequence[int]:
    """Return the places of a batch, each after those of the batch that it waits for, else as they are.

    Args:
        jobs: Id of each job, and the ids of those that it waits for, of the batch or not.

    Raises:
        InvalidJob: Some wait for each other in a circle; the message names them.

    Example:
        >>> list(waiting_order([(b"b", [b"a"]), (b"a", []), (b"c", [])]))
        [1, 0, 2]
    """
    places = {job: place for place, (job, _) in enumerate(jobs)}
    before = [[places[one] for one in dict.fromkeys(after) if one in places] for _, after in jobs]
    if not any(before):
        return range(len(jobs))
    order: list[int] = []
    done: set[int] = set()
    for start in range(len(jobs)):
        path: dict[int, int] = {}  # the jobs that are being looked at, and how many of each one's parents were
        at = start
        while True:
            looked = path.setdefault(at, 0)
            ahead = before[at]
            if at in done or looked == len(ahead):
                if at not in done:
                    done.add(at)
                    order.append(at)
                del path[at]
                if not path:
                    break
                at = next(reversed(path))
                continue
            path[at] = looked + 1
            at = ahead[looked]
            if at in path:
                raise InvalidJob(_circle([jobs[place][0] for place in _from(path, at)]))
    return order


def _from(path: Mapping[int, int], start: int) -> list[int]:
    names = list(path)
    return names[names.index(start) :]


def _circle(ids: Sequence[bytes]) -> str:
    shown = [str(UUID(bytes=one)) for one in ids[:SHOWN_IN_CYCLE]]
    if len(ids) > SHOWN_IN_CYCLE:
        shown.append(f"… {len(ids) - SHOWN_IN_CYCLE} more")
    return f"these jobs wait for each other in a circle: {' after '.join([*shown, shown[0]])}"
