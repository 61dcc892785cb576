"""The client: enqueue, look up, claim; it steers as ``steering.py`` says. Every blocking call has an ``a…`` twin."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import Future
from itertools import islice
from typing import Any, Final, TypeVar, Unpack, cast
from uuid import UUID

from fairlane.bundles import Group, in_group
from fairlane.domain.checks import whole
from fairlane.domain.intake import plain
from fairlane.domain.jobs import MAX_ARGS_BYTES, MAX_BATCH, Enqueued, NewJob
from fairlane.domain.payloads import encode
from fairlane.errors import FairlaneError, GroupNotFound, InvalidJob, JobNotFound, StoreBusy
from fairlane.faces import Steps, later, read, twin, wait, write
from fairlane.handles import Job
from fairlane.options import EnqueueOptions, JobOptions, Plan, new_id, without_conn
from fairlane.pulled import PulledClaim
from fairlane.pulling import asked, pull
from fairlane.registry import declare
from fairlane.steering import Steering
from fairlane.store import KeyHeld, Store
from fairlane.tasks import Task
from fairlane.transactional import with_conn
from fairlane.views import (
    MAX_PAGE,
    By,
    Depth,
    JobFilters,
    JobId,
    JobPage,
    StateLike,
    asked_page,
    depth_of,
    grouped_by,
    id_of,
    job_filter,
)

T = TypeVar("T")

KEY_WAIT_S: Final = 10.0
"""How long an enqueue waits for other programs' open transactions that are about to take its dedup key."""
KEY_LOOK_S: Final = (0.002, 0.1)
"""Least and most time between two tries."""


class Client(Steering):
    """What programs do with a store. Safe to use from many threads; the store is opened at the first use.

    Args:
        open_owner: Opens the store.
        clock: Where instants come from.
    """

    # ------------------------------------------------------------------ enqueue

    def put(self, job: NewJob, conn: object = None) -> Steps[Job[Any]]:
        """Store one job: the body of every enqueue."""
        stored = yield from self._store((job,), conn)
        return Job(self, stored[0].id, created=stored[0].created)

    def _store(self, jobs: Sequence[NewJob], conn: object = None) -> Steps[list[Enqueued]]:
        tracer = self.hooks.tracer
        if tracer is None:
            return (yield from self._stored(jobs, conn))
        with tracer.sending(jobs) as sending:
            stored = yield from self._stored(sending.jobs, conn)
            sending.stored = stored
        return stored

    def _stored(self, jobs: Sequence[NewJob], conn: object) -> Steps[list[Enqueued]]:
        if conn is not None:
            return (yield from self._stored_with(jobs, conn))
        tasks = self.registry.undeclared

        def op(store: Store, now_ms: int) -> list[Enqueued]:
            declare(store, tasks, now_ms)
            return store.enqueue(jobs, now_ms)

        stored = yield from _when_keys_are_free(lambda: write(op, light=not tasks and plain(jobs)))
        if tasks:
            self.registry.declared(tasks)
        return stored

    def _stored_with(self, jobs: Sequence[NewJob], conn: object) -> Steps[list[Enqueued]]:
        """Store jobs in a caller's transaction."""
        names = {job.task for job in jobs}
        tasks = [task for task in self.registry.undeclared if task.name in names]
        stored = yield from with_conn(
            conn, jobs, (lambda known, now_ms: declare(known, tasks, now_ms)) if tasks else None
        )
        if stored.declared:
            self.registry.declared(tasks)
        return stored.answers

    def new(
        self,
        what: str | Task[..., Any],
        /,
        args: Mapping[str, Any] | None = None,
        **options: Unpack[JobOptions],
    ) -> NewJob:
        """Return a job by the name of its task, checked but not stored.

        Args:
            what: Name of its task; as for :meth:`enqueue`, like the rest.
            args: The named arguments.
            options: See :class:`~fairlane.options.JobOptions`.

        Raises:
            InvalidJob: An argument or option breaks a rule; the message names the path, the value and the rule.
        """
        if not isinstance(what, str | Task):  # pyright: ignore[reportUnnecessaryIsInstance]  callers may not check
            raise InvalidJob(f"a task is named by its name, not {what!r}")
        task = what if isinstance(what, Task) else self.registry.get(what)
        named: Mapping[str, Any] = {} if args is None else args
        if not isinstance(named, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]  as above
            raise InvalidJob(f"args must be a mapping of names to values, not {args!r}")
        if task is None:
            plan = Plan().changed(options, "enqueue")
            return plan.job(str(what), encode(dict(named), what="args", max_bytes=MAX_ARGS_BYTES), self.clock.now_ms())
        return task.plan.changed(options, "enqueue").job(
            task.name, task.signature.check(dict(named)), self.clock.now_ms()
        )

    @twin
    def enqueue(
        self,
        what: str | NewJob | Task[..., Any],
        /,
        args: Mapping[str, Any] | None = None,
        **options: Unpack[EnqueueOptions],
    ) -> Steps[Job[Any]]:
        """Store a job and return a handle on it.

        Args:
            what: Name of its task (any name: the code need not be here; where it is, the arguments are checked and
                the task's options hold), or a job that ``task.using(...).new(...)`` made.
            args: The named arguments, at most 256 KiB as JSON.
            options: See :class:`~fairlane.options.EnqueueOptions`; ``conn`` is your own connection, in whose
                transaction the job is stored.

        Raises:
            InvalidJob: An argument or option breaks a rule; the message names the path, the value and the rule.
            InvalidValue: ``conn`` is no connection, is to another database, or no transaction is open on it.
            DedupConflict: A live job holds the dedup key and ``on_conflict="raise"`` was asked for.
            ExpressFull: ``expedite=True`` was asked for and the express lane is full.
            QueueFull: The queue or the tenant holds its maximum of waiting jobs.
            JobNotFound: ``after`` names a job that there is not (any more).
            StoreError: The store could not do it.
        """
        rest, conn = without_conn(options)
        if not isinstance(what, NewJob):
            return (yield from self.put(self.new(what, args, **cast("JobOptions", rest)), conn))
        if args is not None or rest:
            raise TypeError("a job made by new() has its arguments and options already")
        return (yield from self.put(what, conn))

    aenqueue = later(enqueue)

    @twin
    def enqueue_many(
        self, jobs: Iterable[NewJob], *, batch: int = MAX_BATCH, conn: object = None
    ) -> Steps[list[Job[Any]]]:
        """Store many jobs, a batch in one transaction, and return a handle for each, in order.

        When a batch is refused, the batches before it are stored and nothing of it or after it is; the error has a
        note that says how many that are.

        Args:
            jobs: What ``task.new(...)`` or ``task.using(...).new(...)`` made; read as it is stored, so it may be long.
            batch: Jobs in one transaction, 1 to 10,000.
            conn: Your own connection: all batches are stored in its transaction; see :meth:`enqueue`.

        Raises:
            InvalidJob: Something in ``jobs`` is no job, or jobs of a batch wait for each other in a circle.
            DedupConflict, ExpressFull, JobNotFound, QueueFull, StoreError: As :meth:`enqueue`.
        """
        whole("batch", batch, least=1, most=MAX_BATCH)
        handles: list[Job[Any]] = []
        left = iter(_several("enqueue_many", jobs))
        try:
            while some := list(islice(left, batch)):
                for job in some:
                    if not isinstance(job, NewJob):  # pyright: ignore[reportUnnecessaryIsInstance]  as above
                        raise InvalidJob(f"enqueue_many takes what task.new(...) makes, not {job!r}")
                stored = yield from self._store(some, conn)
                handles += [Job(self, one.id, created=one.created) for one in stored]
        except FairlaneError as error:
            where = "stored" if conn is None else "in your transaction"
            error.add_note(f"{len(handles)} jobs of the batches before it are {where}")
            raise
        return handles

    aenqueue_many = later(enqueue_many)

    @twin
    def group(self, jobs: Iterable[NewJob], *, conn: object = None) -> Steps[Group]:
        """Store jobs in one transaction as a group, which has one result and one progress; return its handle.

        Args:
            jobs: What ``task.new(...)`` or ``task.using(...).new(...)`` made, at most 10,000. More than that are more
                than one group; a job may wait for several: ``after=[first, second]``. A group without jobs is done,
                and nothing of it is stored.
            conn: Your own connection: the group is stored in its transaction; see :meth:`enqueue`.

        Raises:
            InvalidJob: Something in ``jobs`` is no job, or there are too many.
            DedupConflict: Another job holds a dedup key: a job belongs to one group, the one it was made for.
            JobNotFound, ExpressFull, QueueFull, StoreError: As :meth:`enqueue`. Nothing is stored then.
        """
        group_id = new_id()
        new = [in_group(job, group_id) for job in islice(_several("group", jobs), MAX_BATCH + 1)]
        if len(new) > MAX_BATCH:
            raise InvalidJob(f"a group holds at most {MAX_BATCH:,} jobs; make several, and a job after all of them")
        if new:
            yield from self._store(new, conn)
        return Group(self, group_id, [job.id for job in new])

    agroup = later(group)

    @twin
    def get_group(self, group_id: UUID | str | Group) -> Steps[Group]:
        """Return a handle on a group by its id, with those of its jobs that are still kept.

        Raises:
            GroupNotFound: No job of it is there: it never existed, had none, or retention removed them.
            InvalidValue: ``group_id`` is no id.
        """
        wanted = group_id.id.bytes if isinstance(group_id, Group) else id_of(group_id)
        members = yield from read(lambda store, _: store.bundle(wanted))
        if not members:
            raise GroupNotFound(group_id)
        return Group(self, wanted, [job_id for job_id, _ in members])

    aget_group = later(get_group)

    # ------------------------------------------------------------------ look

    @twin
    def get(self, job_id: JobId) -> Steps[Job[Any]]:
        """Return a handle on a job, with its record as it is now.

        Raises:
            JobNotFound: There is no such job: it never existed or retention removed it.
            InvalidValue: ``job_id`` is no id.
        """
        wanted = id_of(job_id)
        record = yield from read(lambda store, _: store.get(wanted))
        if record is None:
            raise JobNotFound(job_id)
        return Job(self, wanted, record=record)

    aget = later(get)

    @twin
    def jobs(
        self,
        *,
        state: StateLike | Collection[StateLike] | None = None,
        limit: int = 50,
        cursor: str | None = None,
        **which: Unpack[JobFilters],
    ) -> Steps[JobPage]:
        """Return a page of jobs, newest first; give its ``cursor`` to the same call for the next one.

        Args:
            state: A state, or several: any of them.
            limit: Most jobs on a page, 1 to 1,000. A page looks at 200,000 jobs at most, so where few fit there may be
                fewer on it, or none, and a cursor all the same.
            cursor: Where to go on.
            which: What jobs must fit, all of it: ``queue``, ``tenant`` and so on; see
                :class:`~fairlane.views.JobFilters`.

        Raises:
            InvalidValue: An argument breaks a rule, or the cursor is not one of ours.
        """
        meant = job_filter(state=state, now_ms=self.clock.now_ms(), **which)
        asked_page(limit, cursor)
        page = yield from read(lambda store, _: store.jobs(meant, limit=limit, cursor=cursor))
        return JobPage(tuple(Job(self, record.id, record=record) for record in page.jobs), page.cursor)

    ajobs = later(jobs)

    @twin
    def peek(self, *, queue: str | None = None, pool: str | None = None, limit: int = 10) -> Steps[list[Job[Any]]]:
        """Return what a claim would start now, in order, and change nothing.

        Args:
            queue: Only this queue; None: all queues of the pool.
            pool: The pool; None: that of the queue, or the default one.
            limit: Most jobs, 1 to 1,000.

        Raises:
            InvalidValue: An argument breaks a rule.
            ConfigError: The queue is in another pool.
        """
        whole("limit", limit, least=1, most=MAX_PAGE)
        ask = asked(None if queue is None else (queue,), None, pool, limit)
        records = yield from read(lambda store, now_ms: store.peek(ask(store), now_ms))
        return [Job(self, record.id, record=record) for record in records]

    apeek = later(peek)

    @twin
    def depth(self, by: By | Sequence[By] = ("tier", "queue", "tenant")) -> Steps[Depth]:
        """Return how many jobs wait and run; the figures equal the rows in the store at the instant that they name.

        Args:
            by: What to tell apart: any of ``tier``, ``queue``, ``tenant`` and ``task``.

        Raises:
            InvalidValue: Something in ``by`` is none of these.
        """
        fields = grouped_by(by)
        return (yield from read(lambda store, now_ms: depth_of(store.depth(now_ms), fields, now_ms)))

    adepth = later(depth)

    # ------------------------------------------------------------------ pull

    @twin
    def claim(
        self,
        *,
        queues: Iterable[str] | None = None,
        tasks: Iterable[str] | None = None,
        pool: str | None = None,
        lease: float = 30.0,
        wait: float = 0.0,
    ) -> Steps[PulledClaim | None]:
        """Start one job and return the right to run it, or None when nothing may run.

        Args:
            queues: Queues to take from, of one pool; None: all queues of the pool.
            tasks: Only jobs of these tasks; None: any.
            pool: The pool; None: that of ``queues``, or the default one.
            lease: How long the right lasts unless ``heartbeat`` renews it, in seconds; 0.1 to a day.
            wait: How long to wait for a job when there is none, in seconds; 0 to a day.

        Raises:
            InvalidValue: An argument is outside the range given above.
            ConfigError: The queues are in different pools.
        """
        claims = yield from pull(self, asked(queues, tasks, pool, 1), lease, wait)
        return claims[0] if claims else None

    aclaim = later(claim)

    @twin
    def claim_many(
        self,
        count: int,
        *,
        queues: Iterable[str] | None = None,
        tasks: Iterable[str] | None = None,
        pool: str | None = None,
        lease: float = 30.0,
        wait: float = 0.0,
    ) -> Steps[list[PulledClaim]]:
        """Start up to ``count`` jobs at once. Claim only what you can start now.

        Args:
            count: Most jobs, 1 to 1,000.
            queues: As for :meth:`claim`, like the rest.
            tasks: Only jobs of these tasks.
            pool: The pool.
            lease: How long the right to run each lasts, in seconds.
            wait: How long to wait for a first job, in seconds.

        Raises:
            InvalidValue: An argument is outside the range given above.
            ConfigError: The queues are in different pools.
        """
        whole("count", count, least=1, most=MAX_PAGE)
        return (yield from pull(self, asked(queues, tasks, pool, count), lease, wait))

    aclaim_many = later(claim_many)


def _several(caller: str, jobs: Iterable[NewJob]) -> Iterable[NewJob]:
    """Return what somebody gives as jobs.

    Raises:
        InvalidJob: It is no collection; what is in it is looked at later.
    """
    if not isinstance(jobs, Iterable):  # pyright: ignore[reportUnnecessaryIsInstance]  callers may not check
        raise InvalidJob(f"{caller} takes several jobs, as a list or the like, not {jobs!r}")
    return jobs


def _when_keys_are_free(steps: Callable[[], Steps[T]]) -> Steps[T]:
    """Do something that takes dedup keys; again while other programs' open transactions are about to take them.

    Raises:
        StoreBusy: They are at it for :data:`KEY_WAIT_S` seconds.
    """
    waited, pause = 0.0, KEY_LOOK_S[0]
    while True:
        try:
            return (yield from steps())
        except KeyHeld as held:
            if waited >= KEY_WAIT_S:
                raise StoreBusy(f"{held}; it has not ended in {KEY_WAIT_S:.0f} s") from None
        never: Future[None] = Future()
        yield from wait(never, pause)
        waited += pause
        pause = min(pause * 2, KEY_LOOK_S[1])
