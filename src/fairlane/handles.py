"""Job: a handle on one stored job, with its record as last read, and waiting for its end."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Sequence
from concurrent.futures import Future
from datetime import datetime
from functools import partial
from typing import Any, Final, Generic, NamedTuple, Protocol, TypeVar
from uuid import UUID

import msgspec

from fairlane.background import started
from fairlane.domain.checks import number
from fairlane.domain.jobs import ErrorRecord, JobRecord, Phase
from fairlane.domain.states import State
from fairlane.domain.tiers import Tier
from fairlane.errors import (
    FairlaneError,
    InvalidJob,
    InvalidValue,
    JobCancelled,
    JobFailed,
    JobNotFound,
    StoreError,
    WaitTimeout,
)
from fairlane.faces import Faced, Homed, Steps, later, read, run, twin, wait
from fairlane.instants import aware
from fairlane.outcomes import UNSTORED
from fairlane.owner import Owner
from fairlane.store import News, Store

R_co = TypeVar("R_co", covariant=True)

POLL_S: Final = 0.5
"""How often a wait looks again when no news comes."""
AT_ONCE: Final = 500
"""Waited-for jobs that are looked up in one reading."""

log = logging.getLogger("fairlane.client")


class Progress(NamedTuple):
    """How far a run says it is: the share that is done (0 to 1), and a note."""

    share: float
    note: str


class Ends:
    """Tells those who wait that a job has ended: one thread looks for all of them, after news and every half second."""

    def __init__(self) -> None:
        self._reset()

    def _reset(self) -> None:
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._news = threading.Event()
        self._waiting: dict[bytes, list[Future[JobRecord]]] = {}
        self._thread: threading.Thread | None = None
        self._closed = False

    def watch(self, owner: Owner, job_id: bytes) -> Future[JobRecord]:
        """Return what will hold the job's record when it has ended; cancel it to stop waiting.

        It gets :class:`~fairlane.errors.JobNotFound` when there is no such job (any more), and
        :class:`~fairlane.errors.StoreError` when the store is closed meanwhile.
        """
        if os.getpid() != self._pid:  # a forked child: the thread is the parent's
            self._reset()
        future: Future[JobRecord] = Future()
        with self._lock:
            if self._closed:
                raise StoreError("the store is closed")
            if self._thread is None:
                self._thread = started(self._run, "fairlane-ends", owner)
            self._waiting.setdefault(job_id, []).append(future)
        self._news.set()
        return future

    def close(self) -> None:
        """Wake everybody who waits with an error; safe to call twice. Nothing of it runs afterwards."""
        with self._lock:
            self._closed = True
            waiting, self._waiting = self._waiting, {}
            thread = self._thread if os.getpid() == self._pid else None
        self._news.set()
        if thread is not None and thread is not threading.current_thread():
            thread.join()
        for futures in waiting.values():
            for future in futures:
                if future.set_running_or_notify_cancel():
                    future.set_exception(StoreError("the store was closed during the wait"))

    def _run(self, owner: Owner) -> None:
        news = self._news

        def heard(what: frozenset[News]) -> None:
            if "end" in what:
                news.set()

        try:
            stop = owner.listen(heard)
        except FairlaneError:  # looking every half second does without
            log.warning("listen_failed", exc_info=True)
            stop = news.clear
        try:
            while self._wanted():
                news.wait(POLL_S)
                news.clear()
                try:
                    self._look(owner)
                except FairlaneError:
                    if not self._closed:
                        log.warning("wait_failed: looking again in %s s", POLL_S, exc_info=True)
        finally:
            stop()

    def _wanted(self) -> bool:
        """Return whether anybody waits; when not, the thread is over."""
        with self._lock:
            for job_id in [job_id for job_id, futures in self._waiting.items() if all(f.cancelled() for f in futures)]:
                del self._waiting[job_id]
            if self._closed:
                return False
            if not self._waiting:
                self._thread = None  # the next who waits starts another
                return False
            return True

    def _look(self, owner: Owner) -> None:
        with self._lock:
            job_ids = list(self._waiting)
        for first in range(0, len(job_ids), AT_ONCE):
            asked = job_ids[first : first + AT_ONCE]
            records = owner.read(partial(_found, asked))
            for job_id, record in zip(asked, records, strict=True):
                if record is None or not record.state.live:
                    self._give(job_id, record)

    def _give(self, job_id: bytes, record: JobRecord | None) -> None:
        with self._lock:
            futures = self._waiting.pop(job_id, [])
        for future in futures:
            if future.set_running_or_notify_cancel():
                if record is None:
                    future.set_exception(JobNotFound(UUID(bytes=job_id)))
                else:
                    future.set_result(record)


def _found(job_ids: list[bytes], store: Store, now_ms: int) -> list[JobRecord | None]:
    del now_ms
    return [store.get(job_id) for job_id in job_ids]


class Home(Faced, Protocol):
    """Where a handle comes from: the client, as far as a handle needs it."""

    @property
    def ends(self) -> Ends:
        """Who tells that jobs have ended."""
        ...

    def decode_result(self, task: str, body: str) -> Any:
        """Return a stored result, typed where the task is known."""
        ...


class Job(Homed[Home], Generic[R_co]):
    """A handle on one job. Its fields are those of the job's record as last read: at first use, or by :meth:`refresh`.

    Two handles on one job are equal. In asynchronous code call :meth:`arefresh` before you look at fields, so that the
    first look does not block the event loop.

    Attributes:
        created: Whether the enqueue made it (False: a live job with the same dedup key was there). True for a handle
            that was looked up.
    """

    __slots__ = ("_id", "_record", "created")

    def __init__(self, home: Home, job_id: bytes, *, created: bool = True, record: JobRecord | None = None) -> None:
        super().__init__(home)
        self._id = job_id
        self._record = record
        self.created = created

    def __repr__(self) -> str:
        what = "" if self._record is None else f" {self._record.task} {self._record.state.label}"
        return f"<Job {self.id}{what}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Job) and self._id == other._id

    def __hash__(self) -> int:
        return hash(self._id)

    @property
    def id(self) -> UUID:
        """The job's id, a UUIDv7."""
        return UUID(bytes=self._id)

    # ------------------------------------------------------------------ reading and waiting

    def _refresh(self) -> Steps[Job[R_co]]:
        record = yield from read(lambda store, _: store.get(self._id))
        if record is None:
            raise JobNotFound(self.id)
        self._record = record
        return self

    @twin
    def refresh(self) -> Steps[Job[R_co]]:
        """Read the job's record again and return this handle.

        Raises:
            JobNotFound: There is no such job any more: retention removed it.
        """
        return (yield from self._refresh())

    arefresh = later(refresh)

    def _end(self, timeout: float | None) -> Steps[JobRecord]:
        if timeout is not None:
            timeout = number("timeout", timeout, least=0, most=threading.TIMEOUT_MAX)
        yield from self._refresh()
        record = self.record
        if record.state.live:
            future = self._home.ends.watch(self._home.owner, self._id)
            if not (yield from wait(future, timeout)):
                yield from self._refresh()
                raise WaitTimeout(self.id, self.state, timeout or 0)
            record = self._record = future.result()
        return record

    @twin
    def join(self, timeout: float | None = None) -> Steps[str]:
        """Wait until the job has ended and return its state: ``completed``, ``dead`` or ``cancelled``.

        Args:
            timeout: Longest wait, in seconds, 0 or more; None waits for ever.

        Raises:
            WaitTimeout: It has not ended in time; it is not affected.
            JobNotFound: There is no such job any more.
        """
        return (yield from self._end(timeout)).state.label

    ajoin = later(join)

    @twin
    def result(self, timeout: float | None = None) -> Steps[R_co]:
        """Wait until the job has ended and return what its handler returned.

        It arrives typed as the handler's annotation says where the task is registered in this process, else as plain
        JSON values.

        Args:
            timeout: Longest wait, in seconds, 0 or more; None waits for ever.

        Raises:
            JobFailed: The job is dead; the error tells why.
            JobCancelled: The job was cancelled, or it expired.
            WaitTimeout: It has not ended in time; it is not affected.
            JobNotFound: There is no such job any more.
            InvalidJob: The result was too large to be stored.
        """
        return result_of(self._home, (yield from self._end(timeout)))  # type: ignore[no-any-return]  # the handler's

    aresult = later(result)

    # ------------------------------------------------------------------ the record

    @property
    def record(self) -> JobRecord:
        """The stored record as last read."""
        if self._record is None:
            run(self, self._refresh())
            assert self._record is not None
        return self._record

    @property
    def state(self) -> str:
        """``scheduled``, ``available``, ``running``, ``completed``, ``dead`` or ``cancelled``."""
        return self.record.state.label

    @property
    def ended(self) -> bool:
        """Whether it was completed, dead or cancelled."""
        return not self.record.state.live

    @property
    def task(self) -> str:
        """Name of its task."""
        return self.record.task

    @property
    def queue(self) -> str:
        """Name of its queue."""
        return self.record.queue

    @property
    def tenant(self) -> str:
        """On whose behalf it runs."""
        return self.record.tenant

    @property
    def tier(self) -> Tier:
        """How urgent it is (its base tier: ageing does not change it)."""
        return Tier(self.record.tier)

    @property
    def args(self) -> dict[str, Any]:  # Any: what JSON holds
        """Its arguments as plain JSON values."""
        args: dict[str, Any] = msgspec.json.decode(self.record.args)
        return args

    @property
    def phase(self) -> Phase:
        """``process``, or ``verify`` while another system's work is checked."""
        return self.record.phase

    @property
    def express(self) -> bool:
        """Whether it is in the express lane."""
        return self.record.express is not None

    @property
    def failures(self) -> int:
        """Failed runs so far."""
        return self.record.failures

    @property
    def crashes(self) -> int:
        """Crashed runs so far."""
        return self.record.crashes

    @property
    def checks(self) -> int:
        """Checks of the verify phase so far, those before a rejection aside."""
        return self.record.checks

    @property
    def reference(self) -> Any:  # Any: what JSON holds
        """What the other system calls its work: what the process phase returned, as plain JSON values."""
        return None if self.record.reference is None else msgspec.json.decode(self.record.reference)

    @property
    def fence(self) -> int:
        """Number of its latest claim."""
        return self.record.fence

    @property
    def worker(self) -> str | None:
        """Who runs it."""
        return self.record.worker

    @property
    def progress(self) -> Progress | None:
        """How far its run says it is."""
        if self.record.progress is None:
            return None
        held = msgspec.json.decode(self.record.progress)
        return Progress(held.get("share", 0.0), held.get("note", ""))

    @property
    def checkpoint(self) -> Any:
        """Where its last run left off, as plain JSON values; None without a checkpoint."""
        return None if self.record.checkpoint is None else msgspec.json.decode(self.record.checkpoint)

    @property
    def reason(self) -> str | None:
        """Why it is dead or cancelled."""
        return self.record.reason

    @property
    def errors(self) -> Sequence[ErrorRecord]:
        """Its failed and crashed runs, oldest first."""
        return self.record.errors

    @property
    def behind(self) -> int:
        """How many other jobs it still waits for."""
        return self.record.behind

    @property
    def dedup_key(self) -> str | None:
        """At most one live job per key and queue."""
        return self.record.dedup_key

    @property
    def tags(self) -> tuple[str, ...]:
        """Free words to find it by."""
        return self.record.tags

    @property
    def trace(self) -> str | None:
        """The trace context handed on with it."""
        return self.record.trace

    @property
    def enqueued_at(self) -> datetime:
        """When it was enqueued, UTC."""
        return aware(self.record.enqueued_at_ms)

    @property
    def scheduled_at(self) -> datetime:
        """The earliest instant at which it may be claimed, UTC."""
        return aware(self.record.scheduled_at_ms)

    @property
    def available_at(self) -> datetime | None:
        """When it last became available, UTC."""
        return aware(self.record.available_at_ms)

    @property
    def started_at(self) -> datetime | None:
        """When its last run started, UTC."""
        return aware(self.record.started_at_ms)

    @property
    def finished_at(self) -> datetime | None:
        """When it ended, UTC."""
        return aware(self.record.finished_at_ms)

    @property
    def expires_at(self) -> datetime | None:
        """When it is cancelled if it has not started, UTC."""
        return aware(self.record.expires_at_ms)

    @property
    def lease_expires_at(self) -> datetime | None:
        """When the right to run it ends unless it is renewed, UTC."""
        return aware(self.record.lease_expires_at_ms)


def id_of(value: object) -> bytes:
    """Return the 16 bytes of a job's id.

    Args:
        value: A UUID, its text, or a handle.

    Raises:
        InvalidValue: It is none of these.

    Example:
        >>> id_of("0198f0de-0000-7000-8000-000000000001").hex()
        '0198f0de000070008000000000000001'
    """
    if isinstance(value, Job):
        return value.id.bytes
    if isinstance(value, UUID):
        return value.bytes
    if isinstance(value, str):
        try:
            return UUID(value).bytes
        except ValueError:
            pass
    held = getattr(value, "bytes", None)
    if type(value).__name__ == "UUID" and isinstance(held, bytes):  # uuid_utils has a class of its own
        return held
    raise InvalidValue(f"a job is named by its UUID, the UUID's text or a Job, not {value!r}")


def result_of(home: Home, record: JobRecord) -> Any:
    """Return what the handler of a job that has ended returned.

    Raises:
        JobFailed: The job is dead.
        JobCancelled: It was cancelled, or it expired.
        InvalidJob: Its result was too large to be stored.
    """
    if record.state is State.DEAD:
        raise JobFailed(record.uuid, record.reason or "", record.errors)
    if record.state is State.CANCELLED:
        raise JobCancelled(record.uuid, record.reason or "")
    if record.result is None:
        return None
    if record.result.startswith(f'{{"{UNSTORED}"'):
        why = msgspec.json.decode(record.result)[UNSTORED]
        raise InvalidJob(f"job {record.uuid} is completed, but its result was not stored: {why}")
    return home.decode_result(record.task, record.result)
