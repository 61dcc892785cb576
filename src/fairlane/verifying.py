"""Checks: the handlers of verify phases. ``@task.verify(...)`` makes one."""

from __future__ import annotations

import types
import typing
from collections.abc import Callable, Coroutine
from typing import Any, Concatenate, Final, Generic, ParamSpec, TypeVar, overload

import msgspec

from fairlane.context import Context
from fairlane.domain.jobs import MAX_ARGS_BYTES, Claim
from fairlane.domain.payloads import encode
from fairlane.domain.phases import Verification, verify_task
from fairlane.domain.retries import Retry
from fairlane.errors import ConfigError, InvalidJob
from fairlane.outcomes import Pending, Rejected, Verified
from fairlane.signatures import Signature, is_async_handler, place_of

Answer = Verified[Any] | Pending | Rejected  # Any: results are of any type
"""What a check returns."""

Q = ParamSpec("Q")
R_co = TypeVar("R_co", covariant=True)
A = TypeVar("A", bound=Answer | Coroutine[Any, Any, Answer])


class Check:
    """The handler of a task's verify phase, with what holds for it.

    Its first parameter (a context aside) takes the reference that the process phase returned; the others take the
    job's own arguments of the same names.

    Args:
        fn: The handler, ``def`` or ``async def``.
        task: Name of the task.
        process: What the task's handler takes.
        terms: How often work is checked, and where jobs wait for it.
        retry: The task's; it says which exceptions of a check are final.
        limits: Keys of the named limits that checks count against.
        timeout_ms: Longest run of a check, in milliseconds; None sets no bound.

    Attributes:
        name: Name of the phase in lanes, limits and pauses: the task's, with ``:verify`` behind it.
        is_async: Whether the handler is ``async def``.
        context_parameter: Name of the parameter that takes the context, or None.

    Raises:
        ConfigError: The handler cannot be one; the message says why.
    """

    def __init__(
        self,
        fn: Callable[..., Any],
        *,
        task: str,
        process: Signature,
        terms: Verification,
        retry: Retry,
        limits: tuple[str, ...] = (),
        timeout_ms: int | None = None,
    ) -> None:
        self.fn: Final = fn
        self.name: Final = verify_task(task)
        self.terms: Final = terms
        self.retry: Final = retry
        self.limits: Final = limits
        self.timeout_ms: Final = timeout_ms
        self.is_async: Final = is_async_handler(fn)
        self.signature: Final = Signature(fn, self.name, result_of=_verified)
        self.context_parameter: Final = self.signature.context
        names = self.signature.names
        self._check_names(task, process)
        self._reference, self._others = names[0], names[1:]
        self._defaults: dict[str, msgspec.Raw] = {
            name: msgspec.Raw(encode(value, what=name, max_bytes=MAX_ARGS_BYTES).encode())
            for name, value in process.defaults.items()
            if name in self._others and name in self.signature.required
        }

    def _check_names(self, task: str, process: Signature) -> None:
        names = self.signature.names
        where = f"the check of task {task!r}, {place_of(self.fn)},"
        if self.signature.open:
            raise ConfigError(f"{where} takes arguments of any name; name those that it needs")
        if not names:
            raise ConfigError(f"{where} takes nothing; its first parameter takes the reference")
        if names[0] in process.names:
            raise ConfigError(
                f"{where} takes {names[0]!r} first, which is an argument of the task; the first parameter takes the "
                "reference that the task returned: give that a name of its own"
            )
        for name in names[1:]:
            if not process.takes(name) and name in self.signature.required:
                raise ConfigError(f"{where} takes {name!r}, which is no argument of the task")

    def __repr__(self) -> str:
        return f"<Check {self.name}>"

    def arguments_of(self, claim: Claim) -> dict[str, Any]:  # Any: each has the type that its annotation says
        """Return what the handler takes for a claim: the reference and the job's own arguments, typed.

        Raises:
            InvalidJob: They do not fit the handler; the message names the path, the value and the rule.
        """
        held = _raw(claim.args)
        given = {name: held.get(name, self._defaults.get(name)) for name in self._others}
        body: dict[str, msgspec.Raw | None] = {name: value for name, value in given.items() if value is not None}
        body[self._reference] = msgspec.Raw((claim.reference or "null").encode())
        return self.signature.decode(msgspec.json.encode(body).decode())

    def invoke(self, arguments: dict[str, Any], ctx: Context) -> Any:
        """Call the handler with decoded arguments and, if it takes one, the context; a coroutine if it is async."""
        return self.signature.call(arguments, ctx)

    def decode_result(self, body: str) -> Any:
        """Return a stored result, typed as ``Verified[...]`` in the handler's annotation says."""
        return self.signature.decode_result(body)


class CheckMaker(Generic[R_co]):
    """What ``task.verify(...)`` is: a decorator for the check of a task that returns references of one type.

    Args:
        take: Makes the check of a handler, and registers it.
    """

    __slots__ = ("_take",)

    def __init__(self, take: Callable[[Callable[..., Any]], object]) -> None:
        self._take = take

    @overload
    def __call__(self, fn: Callable[Concatenate[Context, R_co, Q], A], /) -> Callable[Concatenate[Any, Any, Q], A]: ...
    @overload
    def __call__(self, fn: Callable[Concatenate[R_co, Q], A], /) -> Callable[Concatenate[Any, Q], A]: ...
    def __call__(self, fn: Callable[..., Any], /) -> Callable[..., Any]:
        """Register the check and return its handler, which stays a plain function.

        Raises:
            ConfigError: The handler cannot be a check, or the task has one already.
        """
        self._take(fn)
        return fn


def _raw(args: str) -> dict[str, msgspec.Raw]:
    try:
        return _raw_args(args)
    except msgspec.MsgspecError as error:
        raise InvalidJob(f"args are not JSON: {error}") from None


_raw_args: Final = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


def _verified(hint: Any) -> Any:  # Any: annotations
    """Return the type of the result in the annotation of what a check returns.

    Example:
        >>> _verified(Verified[int] | Pending), _verified(Pending)
        (<class 'int'>, typing.Any)
    """
    members = typing.get_args(hint) if typing.get_origin(hint) in (typing.Union, types.UnionType) else (hint,)
    for member in members:
        if typing.get_origin(member) is Verified:
            return typing.get_args(member)[0]
    return Any
