"""Groups: jobs that were enqueued together and have one result."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final
from uuid import UUID

from msgspec import structs

from fairlane.clock import SystemClock
from fairlane.domain.checks import flag, number, text
from fairlane.domain.jobs import JobRecord, NewJob
from fairlane.domain.states import State
from fairlane.errors import FairlaneError, GroupFailed, IllegalMove, InvalidJob, JobNotFound, WaitTimeout
from fairlane.faces import Homed, Steps, later, read, twin, wait, write
from fairlane.handles import Home, Job, result_of
from fairlane.store import Store

AT_ONCE: Final = 1_000
"""Jobs that one reading or one transaction of a group takes at most."""

_real = SystemClock()  # a wait for other programs is real time, also in tests with a clock of their own


@dataclass(frozen=True, slots=True)
class GroupProgress:
    """How far a group is, as of one look.

    Attributes:
        total: How many jobs it has.
        counts: How many of them are in each state, by name; states without any are left out.
        removed: How many had ended and were removed by retention.
    """

    total: int
    counts: Mapping[str, int] = field(default_factory=dict[str, int])
    removed: int = 0

    @property
    def ended(self) -> int:
        """How many were completed, dead or cancelled, those that are removed among them."""
        return self.removed + sum(self.counts.get(state.label, 0) for state in State if not state.live)

    @property
    def share(self) -> float:
        """The share of its jobs that have ended, 0 to 1; a group without jobs is done."""
        return 1.0 if not self.total else self.ended / self.total


class Group(Homed[Home]):
    """A handle on jobs that were enqueued together, made by ``app.group`` or ``app.get_group``.

    Two handles on one group are equal. A job may wait for a whole group: ``after=group``.

    Attributes:
        jobs: Handles on its jobs, in the order in which they were given.
    """

    __slots__ = ("_id", "jobs")

    def __init__(self, home: Home, group_id: bytes, job_ids: Sequence[bytes]) -> None:
        super().__init__(home)
        self._id = group_id
        self.jobs: tuple[Job[Any], ...] = tuple(Job(home, job_id) for job_id in job_ids)

    def __repr__(self) -> str:
        return f"<Group {self.id} of {len(self.jobs)} jobs>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Group) and self._id == other._id

    def __hash__(self) -> int:
        return hash(self._id)

    def __len__(self) -> int:
        return len(self.jobs)

    def __iter__(self) -> Iterator[Job[Any]]:
        return iter(self.jobs)

    @property
    def id(self) -> UUID:
        """The group's id, a UUIDv7."""
        return UUID(bytes=self._id)

    # ------------------------------------------------------------------ looking

    def _states(self) -> Steps[dict[bytes, State]]:
        if not self.jobs:
            return {}
        return dict((yield from read(lambda store, _: store.bundle(self._id))))

    def _progress(self, states: Mapping[bytes, State]) -> GroupProgress:
        counts = Counter(states.values())
        shown = {state.label: counts[state] for state in State if counts[state]}
        return GroupProgress(len(self.jobs), shown, len(self.jobs) - len(states))

    @twin
    def progress(self) -> Steps[GroupProgress]:
        """Return how many of its jobs are in each state now."""
        return self._progress((yield from self._states()))

    aprogress = later(progress)

    # ------------------------------------------------------------------ waiting

    def _end(self, timeout: float | None) -> Steps[dict[bytes, State]]:
        """Wait until all have ended: for one at a time, the last that has not, for that one often ends last."""
        if timeout is not None:
            timeout = number("timeout", timeout, least=0, most=threading.TIMEOUT_MAX)
        until = None if timeout is None else _real.monotonic() + timeout
        while True:
            states = yield from self._states()
            live = [job_id for job_id, state in states.items() if state.live]
            if not live:
                return states
            future = self._home.ends.watch(self._home.owner, live[-1])
            left_s = None if until is None else max(0.0, until - _real.monotonic())
            if not (yield from wait(future, left_s)):
                error = WaitTimeout(UUID(bytes=live[-1]), states[live[-1]].label, timeout or 0)
                error.add_note(f"{len(live)} of the {len(self.jobs)} jobs of group {self.id} have not ended")
                raise error
            with suppress(JobNotFound):  # retention was quick
                future.result()

    @twin
    def join(self, timeout: float | None = None) -> Steps[GroupProgress]:
        """Wait until all of its jobs have ended, in whatever way, and return how they did.

        Args:
            timeout: Longest wait, in seconds, 0 or more; None waits for ever.

        Raises:
            WaitTimeout: Some have not ended in time, the error names one of them; they are not affected.
        """
        return self._progress((yield from self._end(timeout)))

    ajoin = later(join)

    @twin
    def result(self, timeout: float | None = None, *, return_exceptions: bool = False) -> Steps[list[Any]]:
        """Wait until all of its jobs have ended and return what their handlers returned, in the order of the jobs.

        Args:
            timeout: Longest wait, in seconds, 0 or more; None waits for ever.
            return_exceptions: Whether a job without a result stands in the list with the error that its own
                ``result()`` would raise, instead of spoiling the whole.

        Raises:
            GroupFailed: Some jobs have no result; the error names them all.
            WaitTimeout: Some have not ended in time, the error names one of them; they are not affected.
        """
        flag("return_exceptions", return_exceptions)
        yield from self._end(timeout)
        results: list[Any] = []
        for first in range(0, len(self.jobs), AT_ONCE):
            wanted = [job.id.bytes for job in self.jobs[first : first + AT_ONCE]]
            records = yield from read(partial(_records, wanted))
            results += [self._outcome(job_id, record) for job_id, record in zip(wanted, records, strict=True)]
        failed = [result for result in results if isinstance(result, _Failed)]
        if failed and not return_exceptions:
            raise GroupFailed(self.id, len(self.jobs), [one.error for one in failed])
        return [one.error if isinstance(one, _Failed) else one for one in results]

    aresult = later(result)

    def _outcome(self, job_id: bytes, record: JobRecord | None) -> Any:
        if record is None:
            return _Failed(JobNotFound(UUID(bytes=job_id)))
        try:
            return result_of(self._home, record)
        except FairlaneError as error:
            return _Failed(error)

    # ------------------------------------------------------------------ steering

    @twin
    def cancel(self, *, reason: str = "") -> Steps[int]:
        """Cancel those of its jobs that wait and ask those that run to stop, a thousand a transaction.

        Args:
            reason: Why, at most 1,024 bytes.

        Returns:
            How many were cancelled or asked; those that have ended are left as they are.
        """
        text("reason", reason, max_bytes=1024, empty=True)
        states = yield from self._states()
        live = [job_id for job_id in reversed(states) if states[job_id].live]  # those behind others first
        done = 0
        for first in range(0, len(live), AT_ONCE):
            wanted = live[first : first + AT_ONCE]
            done += yield from write(partial(_cancel, wanted, reason))
        return done

    acancel = later(cancel)


def in_group(job: NewJob, group_id: bytes) -> NewJob:
    """Return a new job as one of a group; a job that is there already cannot become one.

    Raises:
        InvalidJob: It is no new job.
    """
    if not isinstance(job, NewJob):  # pyright: ignore[reportUnnecessaryIsInstance]  callers may not check
        raise InvalidJob(f"group takes what task.new(...) makes, not {job!r}")
    return structs.replace(job, bundle=group_id, on_conflict="raise")


class _Failed:
    """What stands for the result of a job that has none; a handler may return exceptions of its own."""

    __slots__ = ("error",)

    def __init__(self, error: FairlaneError) -> None:
        self.error = error


def _records(job_ids: Sequence[bytes], store: Store, now_ms: int) -> list[JobRecord | None]:
    del now_ms
    return [store.get(job_id) for job_id in job_ids]


def _cancel(job_ids: Sequence[bytes], reason: str, store: Store, now_ms: int) -> int:
    """Cancel jobs; return how many of them had not ended."""
    done = 0
    for job_id in job_ids:
        with suppress(IllegalMove, JobNotFound):
            store.cancel(job_id, reason=reason, now_ms=now_ms)
            done += 1
    return done
