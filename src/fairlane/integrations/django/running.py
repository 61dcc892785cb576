"""What runs one of Django's tasks in a worker, and sends the signals of its start and its end."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from inspect import iscoroutinefunction
from typing import Any, Final, Protocol

from fairlane.context import Context
from fairlane.hooks import Event
from fairlane.integrations.django.flavour import base, db, exceptions, normalize_json, signals
from fairlane.integrations.django.results import Result

_sync: Final[Any] = import_module("asgiref.sync")  # Any: as for Django, whose part it is


class Backend(Protocol):
    """The backend, as far as a run needs it."""

    def get_result(self, result_id: str) -> Result:
        """Return the result of a job."""
        ...

    async def aget_result(self, result_id: str) -> Result:
        """Return the result of a job, without blocking the event loop."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class FairlaneContext(base.TaskContext):  # type: ignore[misc]  # Django does not say its types
    """What a task that takes a context is given: Django's, and fairlane's own for progress and checkpoints.

    Attributes:
        job: The run as fairlane's handlers see it.
    """

    job: Context


def handler_of(task: Any, backend: Backend) -> Callable[..., Any]:  # Any: Django's task
    """Return the handler that runs a task.

    The database connections of its thread are closed or kept by Django's own rule (``CONN_MAX_AGE``) before and after.

    Args:
        task: Django's task.
        backend: The backend that it was enqueued with.
    """

    def first(result: Result, ctx: Context) -> tuple[Any, ...]:
        return (FairlaneContext(task_result=result, job=ctx),) if task.takes_context else ()

    def run(ctx: Context, args: list[Any], kwargs: dict[str, Any]) -> Any:  # Any: the task's own
        with _fresh_connections():
            result = backend.get_result(str(ctx.job_id))
            signals.task_started.send_robust(type(backend), task_result=result)
            return normalize_json(task.func(*first(result, ctx), *args, **kwargs))

    async def arun(ctx: Context, args: list[Any], kwargs: dict[str, Any]) -> Any:  # Any: the task's own
        async with _sync.ThreadSensitiveContext():  # its own thread for what blocks, as a request has
            try:
                result = await backend.aget_result(str(ctx.job_id))
                await _sync.sync_to_async(signals.task_started.send_robust)(type(backend), task_result=result)
                return normalize_json(await task.func(*first(result, ctx), *args, **kwargs))
            finally:
                await _sync.sync_to_async(db.close_old_connections)()

    return arun if iscoroutinefunction(task.func) else run


def tell_end(backend: Backend, event: Event) -> None:
    """Send the signal of a task that has ended; called in the thread of the worker's hooks.

    Receivers find what the task raised as ``sys.exc_info()``, as with Django's own backends.
    """
    with _fresh_connections():
        try:
            result = backend.get_result(str(event.job_id))
        except exceptions.TaskResultDoesNotExist:  # kept no longer than this
            return
        try:
            if event.error is not None:
                raise event.error
        except BaseException:  # noqa: BLE001  handlers raise anything, and it is known already
            signals.task_finished.send_robust(type(backend), task_result=result)
        else:
            signals.task_finished.send_robust(type(backend), task_result=result)


@contextmanager
def _fresh_connections() -> Generator[None]:
    db.close_old_connections()
    try:
        yield
    finally:
        db.close_old_connections()
