"""What type checkers see of tasks whose handler takes the context last; when programs run they are plain tasks.

Python cannot express "all parameters but the last" with their names: see ``tasks`` for what that means for callers.
"""

from __future__ import annotations

from typing import Any, Generic, TypeVar, TypeVarTuple, Unpack, overload

from fairlane.domain.jobs import NewJob
from fairlane.handles import Job
from fairlane.options import EnqueueOptions, without_conn
from fairlane.tasks import AsyncTask, Bound, Calls, SyncTask, Task

R_co = TypeVar("R_co", covariant=True)
Ts = TypeVarTuple("Ts")


class TailCalls(Calls[..., R_co], Generic[R_co, *Ts]):
    """As :class:`Calls`, for handlers that take the context last."""

    __slots__ = ()

    @overload
    def new(self, *args: *Ts) -> NewJob: ...
    @overload
    def new(self, **kwargs: Any) -> NewJob: ...
    def new(self, *args: Any, **kwargs: Any) -> NewJob:  # type: ignore[misc]  # mypy: *Ts is not seen in *Any
        """Return a job, checked but not stored; see :meth:`Calls.new`."""
        return super().new(*args, **kwargs)

    @overload
    def enqueue(self, *args: *Ts) -> Job[R_co]: ...
    @overload
    def enqueue(self, **kwargs: Any) -> Job[R_co]: ...
    def enqueue(self, *args: Any, **kwargs: Any) -> Job[R_co]:  # type: ignore[misc]  # as above
        """Store a job and return a handle on it; see :meth:`Calls.enqueue`."""
        return super().enqueue(*args, **kwargs)

    @overload
    async def aenqueue(self, *args: *Ts) -> Job[R_co]: ...
    @overload
    async def aenqueue(self, **kwargs: Any) -> Job[R_co]: ...
    async def aenqueue(self, *args: Any, **kwargs: Any) -> Job[R_co]:  # type: ignore[misc]  # as above
        """Do what :meth:`enqueue` does, without blocking the event loop."""
        return await super().aenqueue(*args, **kwargs)


class TailBound(TailCalls[R_co, *Ts], Bound[..., R_co]):
    """As :class:`Bound`, for handlers that take the context last."""

    __slots__ = ()

    def using(self, **options: Unpack[EnqueueOptions]) -> TailBound[R_co, *Ts]:
        """Return the same with more options; see :class:`~fairlane.options.EnqueueOptions`."""
        rest, conn = without_conn(options)
        return TailBound(self.task, self.plan.changed(rest, "using"), self._conn() if conn is None else conn)


class TailTask(TailCalls[R_co, *Ts], Task[..., R_co]):
    """As :class:`Task`, for handlers that take the context last."""

    def using(self, **options: Unpack[EnqueueOptions]) -> TailBound[R_co, *Ts]:
        """Return this task with options for the jobs to come; see :meth:`Task.using`."""
        rest, conn = without_conn(options)
        return TailBound(self, self.plan.changed(rest, "using"), conn)


class SyncTailTask(TailTask[R_co, *Ts], SyncTask[..., R_co]):
    """As :class:`SyncTask`, for handlers that take the context last."""


class AsyncTailTask(TailTask[R_co, *Ts], AsyncTask[..., R_co]):
    """As :class:`AsyncTask`, for handlers that take the context last."""
