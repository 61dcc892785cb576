"""The tasks that a process knows: the registry, the decorator that fills it, and what the store is told of them."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Concatenate, Final, ParamSpec, TypeVar, TypeVarTuple, overload

from fairlane.context import Context
from fairlane.domain.jobs import Phase
from fairlane.domain.policy import DEFAULT_QUEUE
from fairlane.domain.retries import Retry
from fairlane.domain.tiers import Tier
from fairlane.errors import ConfigError
from fairlane.options import TierLike
from fairlane.owner import Owner
from fairlane.signatures import is_async_handler, place_of
from fairlane.store.lending import Declares
from fairlane.tasks import AsyncTask, Producer, SyncTask, Task
from fairlane.verifying import Check

if TYPE_CHECKING:
    from fairlane.tails import AsyncTailTask, SyncTailTask

P = ParamSpec("P")
R = TypeVar("R")
Ts = TypeVarTuple("Ts")

TASK_OPTIONS: Final = frozenset({"name", "queue", "tier", "retry", "timeout", "preemptible", "limits"})


class Registry:
    """The tasks that a process knows, by name."""

    def __init__(self) -> None:
        self._tasks: dict[str, Task[..., Any]] = {}
        self._undeclared: dict[str, Task[..., Any]] = {}
        self._names: frozenset[str] | None = None

    def add(self, task: Task[..., Any]) -> None:
        """Take a task in.

        Raises:
            ConfigError: There is one of this name already.
        """
        held = self._tasks.get(task.name)
        if held is not None:
            raise ConfigError(
                f"two tasks are called {task.name!r}: {place_of(held.fn)} and {place_of(task.fn)}; rename one"
            )
        self._tasks[task.name] = task
        task.changed = self._changed
        self._changed(task)

    def _changed(self, task: Task[..., Any]) -> None:
        self._undeclared[task.name] = task
        self._names = None

    def get(self, name: str) -> Task[..., Any] | None:
        """Return the task of this name, or None."""
        return self._tasks.get(name)

    def handler(self, name: str, phase: Phase) -> Task[..., Any] | Check | None:
        """Return what runs a phase of the task of this name, or None."""
        task = self._tasks.get(name)
        return task if task is None or phase == "process" else task.check

    @property
    def handlers(self) -> list[Task[..., Any] | Check]:
        """All handlers, those of verify phases too."""
        tasks = tuple(self._tasks.values())
        return [*tasks, *(task.check for task in tasks if task.check is not None)]

    @property
    def names(self) -> frozenset[str]:
        """The names of all tasks and of their verify phases."""
        names = self._names
        if names is None:
            names = self._names = frozenset(one.name for one in self.handlers)
        return names

    def __iter__(self) -> Iterator[Task[..., Any]]:
        return iter(tuple(self._tasks.values()))

    def __len__(self) -> int:
        return len(self._tasks)

    @property
    def undeclared(self) -> tuple[Task[..., Any], ...]:
        """Tasks whose limits and retries this process has not told the store yet."""
        return tuple(self._undeclared.values()) if self._undeclared else ()

    def declared(self, tasks: Sequence[Task[..., Any]]) -> None:
        """Take note that the store knows them."""
        for task in tasks:
            self._undeclared.pop(task.name, None)


def declare(store: Declares, tasks: Sequence[Task[..., Any]], now_ms: int) -> None:
    """Tell the store what the code says about tasks, in the caller's transaction."""
    for task in tasks:
        store.declare_task(
            task.name,
            limits=task.limits,
            max_attempts=task.retry.max_attempts,
            max_crashes=task.retry.max_crashes,
            preemptible=task.preemptible,
            verify=task.terms,
            now_ms=now_ms,
        )
        if task.check is not None:
            store.declare_task(
                task.check.name,
                limits=task.check.limits,
                max_attempts=task.retry.max_attempts,
                max_crashes=task.retry.max_crashes,
                now_ms=now_ms,
            )


def tell_tasks(owner: Owner, registry: Registry) -> None:
    """Tell the store what the code says about new tasks: their limits must count before the first claim."""
    tasks = registry.undeclared
    if tasks:
        owner.call(lambda store, now_ms: declare(store, tasks, now_ms))
        registry.declared(tasks)


class TaskMaker:
    """What ``app.task`` is: a decorator, with options or without."""

    __slots__ = ("_options", "_producer", "_registry")

    def __init__(self, registry: Registry, producer: Producer, options: dict[str, Any] | None = None) -> None:
        self._registry = registry
        self._producer = producer
        self._options = options or {}

    # A coroutine is an object too, so each handler fits two overloads; the first one decides, as it should.
    @overload
    def __call__(  # type: ignore[overload-overlap]
        self, fn: Callable[Concatenate[Context, P], Coroutine[Any, Any, R]], /
    ) -> AsyncTask[P, R]: ...
    @overload
    def __call__(self, fn: Callable[Concatenate[Context, P], R], /) -> SyncTask[P, R]: ...
    @overload
    def __call__(  # type: ignore[overload-overlap]
        self, fn: Callable[[*Ts, Context], Coroutine[Any, Any, R]], /
    ) -> AsyncTailTask[R, *Ts]: ...
    @overload
    def __call__(self, fn: Callable[[*Ts, Context], R], /) -> SyncTailTask[R, *Ts]: ...
    @overload
    def __call__(self, fn: Callable[P, Coroutine[Any, Any, R]], /) -> AsyncTask[P, R]: ...  # type: ignore[overload-overlap]
    @overload
    def __call__(self, fn: Callable[P, R], /) -> SyncTask[P, R]: ...
    @overload
    def __call__(
        self,
        *,
        name: str | None = None,
        queue: str = DEFAULT_QUEUE,
        tier: TierLike = Tier.NORMAL,
        retry: Retry | None = None,
        timeout: float | None = None,
        preemptible: bool = False,
        limits: Sequence[str] = (),
    ) -> TaskMaker: ...
    def __call__(self, *args: Any, **options: Any) -> Any:
        """Make a task of a handler, or take options for it first; see :class:`Task` for each option.

        Raises:
            ConfigError: An option is wrong, the handler cannot be one, or there is a task of this name already.
            TypeError: There is no such option.
        """
        if unknown := options.keys() - TASK_OPTIONS:
            raise TypeError(
                f"task() got an unexpected option {min(unknown)!r}; there are {', '.join(sorted(TASK_OPTIONS))}"
            )
        if len(args) > 1 or (args and options) or (args and not callable(args[0])):
            raise TypeError("use it as @app.task or @app.task(queue=..., ...); options go by name")
        if not args:
            return TaskMaker(self._registry, self._producer, {**self._options, **options})
        fn = args[0]
        kind: type[Task[..., Any]] = AsyncTask[..., Any] if is_async_handler(fn) else SyncTask[..., Any]
        task: Task[..., Any] = kind(fn, self._producer, **self._options)
        self._registry.add(task)
        return task
