"""The backend that ``TASKS`` names: enqueues Django's tasks as jobs, and looks their results up."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from functools import partial
from importlib import import_module
from typing import Any, Final
from uuid import UUID

from fairlane.app import Fairlane
from fairlane.domain.jobs import NewJob
from fairlane.errors import ConfigError, FairlaneError, JobNotFound
from fairlane.handles import Job
from fairlane.hooks import Event
from fairlane.integrations.django.flavour import (
    InvalidTaskBackend,
    backends,
    base,
    db,
    exceptions,
    normalize_json,
    signals,
)
from fairlane.integrations.django.results import Result, new_result, result_of
from fairlane.integrations.django.running import handler_of, tell_end
from fairlane.integrations.django.stores import opened, where_of
from fairlane.integrations.django.tasks import FairlaneTask, options_of, retry_of

_checks: Final[Any] = import_module("django.core.checks")
_loading: Final[Any] = import_module("django.utils.module_loading")
_known: Final[dict[str, dict[str, Any]]] = {}
"""The tasks of each backend by the place of their function: Django makes a backend for each thread."""
_lock: Final = threading.RLock()


class FairlaneBackend(backends.BaseTaskBackend):  # type: ignore[misc]  # Django does not say its types
    """Runs Django's tasks as fairlane's jobs.

    In the settings::

        TASKS = {"default": {"BACKEND": "fairlane.integrations.django.FairlaneBackend",
                             "OPTIONS": {"database": "default"}}}

    Args:
        alias: The backend's name in ``TASKS``.
        params: What stands there: ``QUEUES`` as for every backend; ``ENQUEUE_ON_COMMIT`` (True): whether a task that
            is enqueued within a transaction is there when that is committed, and not if it is rolled back; and
            ``OPTIONS`` with at most one of ``database`` (the store is in this one of ``DATABASES``, and jobs are part
            of its transactions), ``url`` (the store) and ``app`` (the place of an application in the code).

    Raises:
        InvalidTaskBackend: An option is wrong.
    """

    task_class = FairlaneTask
    supports_defer = True
    supports_async_task = True
    supports_get_result = True
    supports_priority = True

    def __init__(self, alias: str, params: Mapping[str, Any]) -> None:
        super().__init__(alias, params)  # pyright: ignore[reportUnknownMemberType]  as above
        self.on_commit: Final = bool(params.get("ENQUEUE_ON_COMMIT", True))

    @property
    def app(self) -> Fairlane:
        """The application whose jobs the tasks are, with all tasks of this backend that are imported."""
        try:
            app, new = opened(self.alias, self.options)
        except ConfigError as error:
            raise InvalidTaskBackend(str(error)) from None
        with _lock:
            if new:
                app.on_finish(self._tell_end)
            for path, task in _known.get(self.alias, {}).items():
                if app.registry.get(path) is None:
                    self._add(app, path, task)
        return app

    def _tell_end(self, event: Event) -> None:
        if event.task in _known.get(self.alias, {}):
            tell_end(self, event)

    def _add(self, app: Fairlane, path: str, task: Any) -> None:
        app.task(
            name=path,
            queue=task.queue_name,
            tier=options_of(task).get("tier", "normal"),
            retry=retry_of(task),
            timeout=getattr(task, "timeout", None),
            limits=getattr(task, "limits", ()),
            preemptible=getattr(task, "preemptible", False),
        )(handler_of(task, self))

    def validate_task(self, task: Any) -> None:
        """See that a task can be one of this backend, and remember it: Django asks whenever a task is made.

        Raises:
            InvalidTask: It cannot.
        """
        super().validate_task(task)  # pyright: ignore[reportUnknownMemberType]  as above
        with _lock:
            _known.setdefault(self.alias, {}).setdefault(task.module_path, task)

    # ------------------------------------------------------------------ enqueue

    def enqueue(self, task: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Result:
        """Store a job for a task: in the open transaction if there is one, else at once.

        Raises:
            InvalidTask: The task cannot be one of this backend.
            TypeError: An argument is nothing that JSON can hold.
            FairlaneError: It cannot be stored: see :meth:`~fairlane.client.Client.enqueue`.
        """
        self.validate_task(task)
        app = self.app
        given = {"args": normalize_json(args), "kwargs": normalize_json(kwargs)}
        job = app.new(task.module_path, given, **options_of(task))
        result = new_result(task, str(UUID(bytes=job.id)), args, kwargs, now_ms=app.clock.now_ms(), backend=self.alias)
        database = where_of(self.options).database
        conn = db.connections[database or db.DEFAULT_DB_ALIAS]
        if not (self.on_commit and conn.in_atomic_block):
            self._store(app, job, result, None)
        elif database is not None:
            self._store(app, job, result, conn)
        else:
            conn.on_commit(partial(self._store, app, job, result, None))
        return result

    def _store(self, app: Fairlane, job: NewJob, result: Result, conn: object) -> None:
        stored: Job[Any] = app.enqueue(job, conn=conn)
        object.__setattr__(result, "id", str(stored.id))  # a job with the same dedup key was there
        signals.task_enqueued.send(type(self), task_result=result)

    # ------------------------------------------------------------------ results

    def get_result(self, result_id: str) -> Result:
        """Return the result of a job as it is now.

        Raises:
            TaskResultDoesNotExist: There is no such job (any more), or it is none of Django's tasks.
        """
        try:
            return self._told(self.app.get(_id(result_id)))
        except JobNotFound as error:
            raise exceptions.TaskResultDoesNotExist(str(error)) from None

    async def aget_result(self, result_id: str) -> Result:
        """Do what :meth:`get_result` does, without blocking the event loop."""
        try:
            return self._told(await self.app.aget(_id(result_id)))
        except JobNotFound as error:
            raise exceptions.TaskResultDoesNotExist(str(error)) from None

    def _told(self, job: Job[Any]) -> Result:
        task = _known.get(self.alias, {}).get(job.task) or _imported(job.task)
        if task is None:
            raise exceptions.TaskResultDoesNotExist(f"job {job.id} is of {job.task!r}, which is no task of Django's")
        return result_of(task, job.record, backend=self.alias)

    # ------------------------------------------------------------------ checks

    def check(self, **kwargs: Any) -> list[Any]:
        """Return what is wrong with the options, for ``manage.py check``."""
        del kwargs
        try:
            self.app  # noqa: B018  making it checks all settings; it opens nothing
        except (InvalidTaskBackend, FairlaneError) as error:
            return [_checks.Error(str(error), obj=f"TASKS[{self.alias!r}]", id="fairlane.E001")]
        return []


def _id(result_id: str) -> UUID:
    try:
        return UUID(str(result_id))
    except ValueError:
        raise exceptions.TaskResultDoesNotExist(f"{result_id!r} is no id of a job") from None


def _imported(path: str) -> Any:  # Any: Django's task, or None
    """Return the task at a place in the code; None where there is none."""
    try:
        found = _loading.import_string(path)
    except ImportError:
        return None
    return found if isinstance(found, base.Task) else None
