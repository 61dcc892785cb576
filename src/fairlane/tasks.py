"""Tasks: handlers under a name, with the options of their jobs.

Type checkers see what callers may pass. A handler whose context is its *first* parameter, or that takes none, is
checked in full. With the context *last*, arguments by position are checked in full and arguments by name only when the
call is made (Python cannot express "all parameters but the last" with their names); arguments of both kinds in one
call do not pass the checkers. A context in any other place works too; give it a default (``ctx: Context | None =
None``), or the checkers ask callers for it. What they are told of the context last is in ``tails``.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from typing import (
    TYPE_CHECKING,
    Any,
    Final,
    Generic,
    ParamSpec,
    Protocol,
    TypeVar,
    TypeVarTuple,
    Unpack,
    cast,
)

from fairlane.clock import Clock
from fairlane.context import Context
from fairlane.domain.checks import flag, number, text
from fairlane.domain.jobs import Claim, NewJob
from fairlane.domain.phases import DEFAULT_EVERY_S, DEFAULT_MAX_CHECKS, Verification, check_task_name
from fairlane.domain.policy import DEFAULT_QUEUE
from fairlane.domain.retries import Retry
from fairlane.domain.tiers import Tier
from fairlane.errors import ConfigError, InvalidValue
from fairlane.faces import Steps, arun, run
from fairlane.handles import Job
from fairlane.hooks import H, Hooks
from fairlane.options import EnqueueOptions, Plan, TierLike, span_ms, without_conn
from fairlane.owner import Owner
from fairlane.signatures import Signature, is_async_handler, place_of
from fairlane.verifying import Check, CheckMaker

if TYPE_CHECKING:
    pass

P = ParamSpec("P")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)
Ts = TypeVarTuple("Ts")

MAX_TIMEOUT_S: Final = 366 * 86_400.0


class Producer(Protocol):
    """Who stores the jobs of a task: the client, as far as a task needs it."""

    @property
    def owner(self) -> Owner:
        """Who owns the store."""
        ...

    @property
    def opened(self) -> bool:
        """Whether the store is open."""
        ...

    @property
    def clock(self) -> Clock:
        """Where instants come from."""
        ...

    @property
    def hooks(self) -> Hooks:
        """The hooks of the app."""
        ...

    def put(self, job: NewJob, conn: object = None) -> Steps[Job[Any]]:
        """Store a job, in the caller's transaction on ``conn`` if one is given, and return its handle."""
        ...


class Calls(Generic[P, R_co]):
    """Ways to make a job out of a call of a task."""

    __slots__ = ("plan",)

    plan: Plan

    def _task(self) -> Task[..., Any]:
        raise NotImplementedError

    def _conn(self) -> object:
        """Return the connection whose transaction the jobs are stored in, or None."""
        return None

    def new(self, *args: P.args, **kwargs: P.kwargs) -> NewJob:
        """Return a job for ``app.enqueue_many`` or ``app.enqueue``, checked but not stored.

        Raises:
            InvalidJob: The arguments do not fit the handler; the message names the argument, the value and the rule.
            TypeError: ``using(conn=...)`` was given a connection, which goes to the call that stores the job.
        """
        if self._conn() is not None:
            raise TypeError("new() stores nothing: give conn to app.enqueue, app.enqueue_many or app.group instead")
        return self._new(args, kwargs)

    def _new(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> NewJob:
        task = self._task()
        return self.plan.job(task.name, task.signature.bind(args, kwargs), task.producer.clock.now_ms())

    def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> Job[R_co]:
        """Store a job that will call the handler with these arguments, and return a handle on it.

        Raises:
            InvalidJob: The arguments do not fit the handler; the message names the argument, the value and the rule.
            DedupConflict: A live job holds the dedup key and ``on_conflict="raise"`` was asked for.
            ExpressFull: ``expedite=True`` was asked for and the express lane is full.
            QueueFull: The queue or the tenant holds its maximum of waiting jobs.
            StoreError: The store could not do it.
        """
        producer = self._task().producer
        return run(producer, producer.put(self._new(args, kwargs), self._conn()))

    async def aenqueue(self, *args: P.args, **kwargs: P.kwargs) -> Job[R_co]:
        """Do what :meth:`enqueue` does, without blocking the event loop."""
        producer = self._task().producer
        return await arun(producer, producer.put(self._new(args, kwargs), self._conn()))


class Bound(Calls[P, R_co]):
    """A task with options for the jobs to come; made by ``task.using(...)``."""

    __slots__ = ("_of", "task")

    def __init__(self, task: Task[..., Any], plan: Plan, conn: object = None) -> None:
        self.task = task
        self.plan = plan
        self._of = conn

    def __repr__(self) -> str:
        return f"<{self.task.name} with {self.plan}>"

    def _task(self) -> Task[..., Any]:
        return self.task

    def _conn(self) -> object:
        return self._of

    def using(self, **options: Unpack[EnqueueOptions]) -> Bound[P, R_co]:
        """Return the same with more options; see :class:`~fairlane.options.EnqueueOptions`."""
        rest, conn = without_conn(options)
        return type(self)(self.task, self.plan.changed(rest, "using"), self._of if conn is None else conn)


class Task(Calls[P, R_co]):
    """A handler under a name, with what holds for its jobs. Made by ``@app.task``; called plainly it is the handler.

    Args:
        fn: The handler, ``def`` or ``async def``; it takes its arguments by name and, if it wants, one ``Context``.
        producer: Who stores its jobs; without one it can only be called and run.
        name: Its name, 1 to 255 bytes, not one that ends in ``:verify``; the handler's own by default.
        queue: Where its jobs go unless told otherwise.
        tier: How urgent they are unless told otherwise.
        retry: How often and how soon failed runs are tried again.
        timeout: Longest run, in seconds, above 0; None sets no bound.
        preemptible: Whether a run may be asked to give way to urgent work.
        limits: Keys of named limits that its jobs count against; ``{tenant}`` in a key stands for the job's tenant.

    Attributes:
        timeout_ms: Longest run in milliseconds, or None.
        is_async: Whether the handler is ``async def``.
        context_parameter: Name of the parameter that takes the context, or None.
        signature: Binds, checks and decodes its arguments.
        plan: The options of its jobs unless told otherwise.
        check: The handler of its verify phase; None: it has one phase.

    Raises:
        ConfigError: An argument is wrong, or the handler cannot be one; the message says why.
    """

    def __init__(
        self,
        fn: Callable[..., Any],
        producer: Producer | None = None,
        *,
        name: str | None = None,
        queue: str = DEFAULT_QUEUE,
        tier: TierLike = Tier.NORMAL,
        retry: Retry | None = None,
        timeout: float | None = None,
        preemptible: bool = False,
        limits: Sequence[str] = (),
    ) -> None:
        self.name = name if name is not None else _name_of(fn)
        try:
            check_task_name("name", self.name)
            self.queue: Final = text("queue", queue)
            self.tier: Final = Tier.of(tier)
            self.timeout_ms: Final = None if timeout is None else _timeout_ms(timeout)
            self.preemptible: Final = flag("preemptible", preemptible)
            self.limits: Final = _limits(limits)
            self.retry: Final = Retry() if retry is None else retry
            if not isinstance(self.retry, Retry):  # pyright: ignore[reportUnnecessaryIsInstance]  callers may not check
                raise InvalidValue(f"retry must be a Retry, not {retry!r}")
            self.is_async: Final = is_async_handler(fn)
            self.signature: Final = Signature(fn, self.name)
        except (InvalidValue, TypeError) as error:
            raise ConfigError(f"task {self.name!r}: {error}") from None
        self.fn: Final = fn
        self._producer = producer
        self.check: Check | None = None
        self.changed: Callable[[Task[..., Any]], None] | None = None
        self.plan = Plan(queue=self.queue, tier=self.tier)
        self.context_parameter: Final = self.signature.context
        self.__wrapped__ = fn
        self.__name__ = self.name
        self.__doc__ = fn.__doc__

    def __repr__(self) -> str:
        return f"<Task {self.name}>"

    def _task(self) -> Task[..., Any]:
        return self

    @property
    def producer(self) -> Producer:
        """Who stores its jobs.

        Raises:
            ConfigError: The task was made without an app.
        """
        if self._producer is None:
            raise ConfigError(f"task {self.name!r} belongs to no app: make it with @app.task")
        return self._producer

    def using(self, **options: Unpack[EnqueueOptions]) -> Bound[P, R_co]:
        """Return this task with options for the jobs to come; see :class:`~fairlane.options.EnqueueOptions`.

        Raises:
            TypeError: There is no such option.
            InvalidJob: A value breaks a rule; the message names the value and the rule.
        """
        rest, conn = without_conn(options)
        return Bound(self, self.plan.changed(rest, "using"), conn)

    def bind(self, *args: P.args, **kwargs: P.kwargs) -> str:
        """Return the arguments of a call as they are stored, a JSON object as text.

        Raises:
            InvalidJob: They do not fit the handler; the message names the argument, the value and the rule.
        """
        return self.signature.bind(args, kwargs)

    @property
    def terms(self) -> Verification | None:
        """How its work is checked; None: it has one phase."""
        return None if self.check is None else self.check.terms

    def arguments_of(self, claim: Claim) -> dict[str, Any]:  # Any: each has the type that its annotation says
        """Return what the handler takes for a claim, typed.

        Raises:
            InvalidJob: The job's arguments do not fit the handler; the message names the path, the value and the rule.
        """
        return self.signature.decode(claim.args)

    def decode_result(self, body: str) -> Any:
        """Return a stored result, typed as the handler's annotation says; with a verify phase, as the check's does."""
        return self.signature.decode_result(body) if self.check is None else self.check.decode_result(body)

    def arguments(self, args_json: str) -> dict[str, Any]:  # Any: each has the type that its annotation says
        """Return stored arguments as the handler takes them, typed.

        Raises:
            InvalidJob: They do not fit the handler; the message names the path, the value and the rule.
        """
        return self.signature.decode(args_json)

    def invoke(self, arguments: dict[str, Any], ctx: Context) -> Any:
        """Call the handler with decoded arguments and, if it takes one, the context; a coroutine if it is async."""
        return self.signature.call(arguments, ctx)

    def _plain(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return self.signature.call_plain(args, kwargs, Context(task=self.name, queue=self.queue, tier=self.tier))

    # ------------------------------------------------------------------ two phases

    def verify(
        self,
        *,
        every: float = DEFAULT_EVERY_S,
        max_checks: int = DEFAULT_MAX_CHECKS,
        queue: str | None = None,
        tier: TierLike | None = None,
        limits: Sequence[str] | None = None,
        timeout: float | None = None,
    ) -> CheckMaker[R_co]:
        """Give the task a verify phase: what it returns is a reference to work that another system goes on with.

        A decorator for the check, ``def`` or ``async def``. Its first parameter takes the reference; others take the
        job's own arguments of the same names, one takes the context if it wants. It returns ``Verified(result)``,
        ``Pending()`` or ``Rejected(reason)``.

        Args:
            every: Wait before the first check and between two, in seconds; above 0, a year at most.
            max_checks: Checks after which the job is dead (``verification_timeout``) if the work is not finished.
            queue: Where jobs wait for checks; None: in the queue that they were processed in.
            tier: How urgent checks are; None: as urgent as the job was when it was processed.
            limits: Keys of named limits that checks count against; None: the task's own.
            timeout: Longest run of a check, in seconds, above 0; None: the task's own.

        Raises:
            ConfigError: An option is wrong, the check cannot be one, or the task has one already.
        """
        try:
            check_task_name("name", self.name, phases=2)
            terms = Verification(
                every_ms=span_ms("every", every, above=True),
                max_checks=max_checks,
                queue=queue,
                tier=None if tier is None else Tier.of(tier),
            )
            keys = self.limits if limits is None else _limits(limits)
            timeout_ms = self.timeout_ms if timeout is None else _timeout_ms(timeout)
        except InvalidValue as error:
            raise ConfigError(f"verify phase of task {self.name!r}: {error}") from None

        def take(fn: Callable[..., Any]) -> None:
            if self.check is not None:
                raise ConfigError(f"task {self.name!r} has a check already: {place_of(self.check.fn)}")
            self.check = Check(
                fn,
                task=self.name,
                process=self.signature,
                terms=terms,
                retry=self.retry,
                limits=keys,
                timeout_ms=timeout_ms,
            )
            if self.changed is not None:
                self.changed(self)

        return CheckMaker(take)

    # ------------------------------------------------------------------ hooks of this task

    def on_start(self, hook: H) -> H:
        """Call ``hook`` with an :class:`~fairlane.hooks.Event` before each run. A decorator."""
        return self.producer.hooks.add("start", hook, self.name)

    def on_success(self, hook: H) -> H:
        """Call ``hook`` when a job is completed. A decorator."""
        return self.producer.hooks.add("success", hook, self.name)

    def on_failure(self, hook: H) -> H:
        """Call ``hook`` when a run failed, whether or not the job is tried again. A decorator."""
        return self.producer.hooks.add("failure", hook, self.name)

    def on_dead(self, hook: H) -> H:
        """Call ``hook`` when a job is dead. A decorator."""
        return self.producer.hooks.add("dead", hook, self.name)

    def on_finish(self, hook: H) -> H:
        """Call ``hook`` when a job has ended: completed, dead or cancelled. A decorator."""
        return self.producer.hooks.add("finish", hook, self.name)


class SyncTask(Task[P, R_co]):
    """A task whose handler is ``def``: it runs in a thread."""

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co:
        """Call the handler, without any queue; a context that is not given is a detached one."""
        return cast("R_co", self._plain(args, kwargs))


class AsyncTask(Task[P, R_co]):
    """A task whose handler is ``async def``: it runs in the worker's event loop."""

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, R_co]:
        """Return the handler's coroutine, without any queue; a context that is not given is a detached one."""
        return cast("Coroutine[Any, Any, R_co]", self._plain(args, kwargs))


def _name_of(fn: Callable[..., Any]) -> str:
    name = getattr(fn, "__name__", "")
    if not name or name == "<lambda>":
        raise ConfigError(f"{fn!r} has no name of its own: give the task name=...")
    return str(name)


def _timeout_ms(timeout: object) -> int:
    return max(1, round(number("timeout", timeout, least=0, most=MAX_TIMEOUT_S, above=True) * 1000))


def _limits(limits: object) -> tuple[str, ...]:
    if not isinstance(limits, list | tuple | set | frozenset):
        raise InvalidValue(f"limits must be a list of keys, not {limits!r}")
    return tuple(text("limit", key) for key in cast("Sequence[object]", limits))
