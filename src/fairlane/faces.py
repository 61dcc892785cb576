"""One implementation, two faces: how a blocking call and its ``a…`` twin share a body.

A call is written once, as a generator of steps: what to do in a transaction, what to read, what to wait for. The
blocking face carries the steps out in the caller's thread, the asynchronous one awaits them::

    @twin
    def cancel(self, job_id: UUID) -> Steps[State]:
        return (yield from write(lambda store, now_ms: store.cancel(job_id.bytes, reason="", now_ms=now_ms)))

    acancel = later(cancel)

Arguments are checked before the first step, in the caller's thread, so that a wrong call costs no transaction.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Generator
from concurrent.futures import Future
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar, cast, overload

from fairlane.owner import Op, Owner

T = TypeVar("T")
P = ParamSpec("P")


class Faced(Protocol):
    """What a class with twins must have."""

    @property
    def owner(self) -> Owner:
        """Who owns the store; opens it when nobody has yet."""
        ...

    @property
    def opened(self) -> bool:
        """Whether the store is open, so that asking for the owner does not block."""
        ...


F = TypeVar("F", bound=Faced)
H = TypeVar("H", bound=Faced)


class Homed(Generic[H]):
    """A handle on something in a store: its calls go the way of where it comes from, the client as a rule."""

    __slots__ = ("_home",)

    def __init__(self, home: H) -> None:
        self._home = home

    @property
    def owner(self) -> Owner:
        """Who owns the store."""
        return self._home.owner

    @property
    def opened(self) -> bool:
        """Whether the store is open."""
        return self._home.opened


class Step(Protocol):
    """One thing that a call does or waits for."""

    def now(self, owner: Owner) -> object:
        """Do it in this thread."""
        ...

    async def later(self, owner: Owner) -> object:
        """Do it without blocking the event loop."""
        ...


Steps = Generator[Step, Any, T]  # Any: each step has its own answer, typed by the functions below
"""The body of a call: yields steps, is sent their answers, returns the call's answer."""


class _Write:
    __slots__ = ("light", "op")

    def __init__(self, op: Op[Any], light: bool) -> None:
        self.op = op
        self.light = light

    def now(self, owner: Owner) -> object:
        return owner.call(self.op, light=self.light)

    async def later(self, owner: Owner) -> object:
        return await owner.acall(self.op, light=self.light)


class _Read:
    __slots__ = ("op",)

    def __init__(self, op: Op[Any]) -> None:
        self.op = op

    def now(self, owner: Owner) -> object:
        return owner.read(self.op)

    async def later(self, owner: Owner) -> object:
        return await owner.aread(self.op)


class _Wait:
    __slots__ = ("future", "timeout")

    def __init__(self, future: Future[Any], timeout: float | None) -> None:
        self.future = future
        self.timeout = timeout

    def now(self, owner: Owner) -> bool:
        del owner
        try:
            self.future.result(self.timeout)
        except TimeoutError:
            if not self.future.done():
                self.future.cancel()
                return False
            raise
        return True

    async def later(self, owner: Owner) -> bool:
        del owner
        waiting = asyncio.wrap_future(self.future)
        try:
            done, _ = await asyncio.wait((waiting,), timeout=self.timeout)
        finally:
            if not waiting.done():
                waiting.cancel()  # it would cancel the other end at the loop's next turn, which may never come
                self.future.cancel()
        return bool(done)


Around = Callable[[Op[Any]], Op[Any]]
"""Makes another operation out of one, to be done in the same transaction."""
_around: ContextVar[Around | None] = ContextVar("fairlane_around", default=None)


@contextmanager
def within(around: Around) -> Generator[None]:
    """Let every call of this thread or asyncio task do its writes as ``around`` makes them.

    That is how what belongs to a change (who made it and why, the key that a client gave it) is stored in one
    transaction with it, whatever call makes the change. One inside another is carried out inside the other.
    """
    outer = _around.get()
    before = _around.set(around if outer is None else lambda op: outer(around(op)))
    try:
        yield
    finally:
        _around.reset(before)


def write(op: Op[T], *, light: bool = False) -> Steps[T]:
    """Do ``op`` in a transaction.

    Args:
        op: What to do.
        light: Whether a light transaction is enough; see :meth:`fairlane.store.Store.transaction`.
    """
    around = _around.get()
    answer: T = yield _Write(op, light) if around is None else _Write(around(op), light=False)
    return answer


def read(op: Op[T]) -> Steps[T]:
    """Do ``op``, which changes nothing."""
    answer: T = yield _Read(op)
    return answer


def wait(future: Future[Any], timeout: float | None) -> Steps[bool]:
    """Wait until ``future`` is done, at most ``timeout`` seconds (None: for ever); return whether it is.

    A future that is not done in time is cancelled.
    """
    done: bool = yield _Wait(future, timeout)
    return done


def run(faced: Faced, steps: Steps[T]) -> T:
    """Carry out a call in this thread and return its answer."""
    try:
        step = next(steps)
        owner = faced.owner
        while True:
            try:
                answer = step.now(owner)
            except BaseException as error:  # noqa: BLE001  the body may tidy up, and raises it again
                step = steps.throw(error)
            else:
                step = steps.send(answer)
    except StopIteration as end:
        answered: T = end.value
        return answered


async def arun(faced: Faced, steps: Steps[T]) -> T:
    """Carry out a call without blocking the event loop and return its answer."""
    try:
        step = next(steps)
        owner = faced.owner if faced.opened else await asyncio.to_thread(lambda: faced.owner)
        while True:
            try:
                answer = await step.later(owner)
            except BaseException as error:  # noqa: BLE001  as above
                step = steps.throw(error)
            else:
                step = steps.send(answer)
    except StopIteration as end:
        answered: T = end.value
        return answered


def twin(body: Callable[Concatenate[F, P], Steps[T]]) -> Callable[Concatenate[F, P], T]:
    """Make the blocking face of a call out of its body."""

    @wraps(body)
    def call(self: F, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return run(self, body(self, *args, **kwargs))

    return call


F_contra = TypeVar("F_contra", contravariant=True)
T_co = TypeVar("T_co", covariant=True)


class Twin(Protocol[F_contra, P, T_co]):
    """What type checkers see of an asynchronous face.

    It is a function. Told so, not all of them bind it to the instance: it is no ``def`` of the class.
    """

    @overload
    def __get__(
        self, instance: None, owner: type[F_contra], /
    ) -> Callable[Concatenate[F_contra, P], Coroutine[Any, Any, T_co]]: ...
    @overload
    def __get__(
        self, instance: F_contra, owner: type[F_contra] | None = None, /
    ) -> Callable[P, Coroutine[Any, Any, T_co]]: ...
    def __get__(self, instance: Any, owner: Any = None, /) -> Any:
        """Return the call of an instance."""
        ...


def later(call: Callable[Concatenate[F, P], T]) -> Twin[F, P, T]:
    """Make the asynchronous face of a call that :func:`twin` made."""
    body: Callable[Concatenate[F, P], Steps[T]] = call.__wrapped__  # type: ignore[attr-defined]  # functools.wraps set it

    @wraps(body)
    async def acall(self: F, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await arun(self, body(self, *args, **kwargs))

    return _named(acall, body)


def _named(acall: Callable[Concatenate[F, P], Coroutine[Any, Any, T]], body: Callable[..., object]) -> Twin[F, P, T]:
    name = body.__name__
    acall.__name__ = f"a{name}"
    acall.__qualname__ = f"{body.__qualname__.removesuffix(name)}a{name}"
    acall.__doc__ = f"Do what :meth:`{name}` does, without blocking the event loop."
    return cast("Twin[F, P, T]", acall)


def threaded(call: Callable[Concatenate[F, P], T]) -> Twin[F, P, T]:
    """Make the asynchronous face of a call that takes long, needs no owner and blocks: it has a thread of its own."""

    @wraps(call)
    async def acall(self: F, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await asyncio.to_thread(call, self, *args, **kwargs)

    return _named(acall, call)
