"""What a handler takes and returns: calls are bound to names, checked against the annotations, and arrive typed.

Arguments travel as a JSON object of names. They are checked in the form in which they are stored, so what passes at
enqueue also passes when the job runs. Types that msgspec knows are decoded by it; Pydantic models by their own
validator; an annotation that neither knows, or whose name cannot be found, lets the plain JSON value through.
"""

from __future__ import annotations

import inspect
import logging
import re
import sys
import types
import typing
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final, cast

import msgspec
from msgspec import UNSET

from fairlane.context import Context
from fairlane.domain.jobs import MAX_ARGS_BYTES
from fairlane.domain.payloads import encode
from fairlane.errors import ConfigError, InvalidJob

Hints = dict[str, Any]  # Any: an annotation is a type, or one of many things that stand for one

_BY_POSITION: Final = inspect.Parameter.POSITIONAL_OR_KEYWORD
_CONTEXT_NAME: Final = re.compile(r"(?:\w+\.)*Context(?:\s*\|\s*None)?|(?:\w+\.)*Optional\[(?:\w+\.)*Context\]")
_MISSING: Final = re.compile(r"Object missing required field `(\w+)`$")
_PATH: Final = re.compile(r"(?P<what>.*) - at `\$(?P<path>\.(?P<name>\w+).*)`", re.DOTALL)
SHOWN: Final = 80
"""Characters of an offending value that an error shows."""

log = logging.getLogger("fairlane.tasks")


class Signature:
    """The parameters and the result of one handler.

    Args:
        fn: The handler.
        task: Name of its task, for errors.
        result_of: Makes the type of the stored result out of the annotation of what is returned; None: it is that.

    Attributes:
        context: Name of the parameter that takes the :class:`~fairlane.context.Context`, or None.
        names: Names of the others, in order.
        required: Those without a default.

    Raises:
        ConfigError: The handler takes ``*args``, an argument by position only, or more than one context.
    """

    __slots__ = (
        "_by_position", "_context_at", "_decoder", "_extra", "_fn", "_hints", "_known", "_late", "_nullable",
        "_result_of", "_returns", "context", "names", "required", "task",
    )  # fmt: skip

    def __init__(
        self, fn: Callable[..., Any], task: str, *, result_of: Callable[[Any], Any] | None = None
    ) -> None:  # Any: annotations
        self.task = task
        self._result_of = result_of
        self._fn = fn
        self._hints = _hints(fn, _namespace(fn))
        self._decoder: msgspec.json.Decoder[Any] | None = None
        self._returns: msgspec.json.Decoder[Any] | None = None
        self._late: dict[str, Callable[[Any], Any]] = {}
        self._extra: str | None = None
        self._context_at = 0
        self.context: str | None = None
        by_position: list[str] = []
        names: list[str] = []
        required: list[str] = []
        self._nullable: set[str] = set()
        for at, parameter in enumerate(inspect.signature(fn).parameters.values()):
            name = parameter.name
            if parameter.kind is parameter.VAR_POSITIONAL:
                raise ConfigError(f"task {task!r} takes *{name}; jobs carry arguments by name: take a list instead")
            if parameter.kind is parameter.POSITIONAL_ONLY:
                raise ConfigError(f"task {task!r} takes {name!r} by position only; jobs carry arguments by name")
            if self._takes_context(parameter):
                self.context, self._context_at = name, at if parameter.kind is _BY_POSITION else sys.maxsize
                continue
            if parameter.kind is parameter.VAR_KEYWORD:
                self._extra = name
                continue
            names.append(name)
            if parameter.kind is _BY_POSITION:
                by_position.append(name)
            if parameter.default is parameter.empty:
                required.append(name)
            elif parameter.default is None:
                self._nullable.add(name)
        self.names: Final = tuple(names)
        self.required: Final = frozenset(required)
        self._known = frozenset(names)
        self._by_position = tuple(by_position)

    def _takes_context(self, parameter: inspect.Parameter) -> bool:
        hint = self._hints.get(parameter.name)
        if not (_is_context(hint) or (isinstance(hint, str) and _CONTEXT_NAME.fullmatch(hint.strip("'\" ")))):
            return False
        if self.context is not None:
            raise ConfigError(
                f"task {self.task!r} takes two contexts, {self.context!r} and {parameter.name!r}; one is given"
            )
        return True

    def takes(self, name: str) -> bool:
        """Return whether callers may pass an argument of this name."""
        return name in self._known or (self._extra is not None and name != self.context)

    @property
    def open(self) -> bool:
        """Whether it takes ``**arguments`` of any name."""
        return self._extra is not None

    @property
    def defaults(self) -> dict[str, Any]:  # Any: of any type
        """The defaults of arguments that have one."""
        parameters = inspect.signature(self._fn).parameters
        return {name: parameters[name].default for name in self.names if name not in self.required}

    # ------------------------------------------------------------------ at enqueue

    def bind(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str:  # Any: the caller's arguments
        """Return the arguments of a call as they are stored, a JSON object as text.

        Raises:
            InvalidJob: The call does not fit the signature; the message names the argument, the value and the rule.
        """
        if len(args) > len(self._by_position):
            takes = f"{len(self._by_position)} by position" if self._by_position else "none by position"
            raise InvalidJob(f"task {self.task!r} got {len(args)} arguments by position; it takes {takes}")
        named: dict[str, Any] = dict(zip(self._by_position, args, strict=False))
        if kwargs:
            by_position = len(named)
            named.update(kwargs)
            if len(named) != by_position + len(kwargs):
                twice = next(name for name in self._by_position if name in kwargs)
                raise InvalidJob(f"task {self.task!r} got argument {twice!r} twice, by position and by name")
        return self.check(named)

    def check(self, named: Mapping[str, Any]) -> str:  # Any: as above
        """Return named arguments as they are stored, a JSON object as text.

        Raises:
            InvalidJob: They do not fit the signature; the message names the argument, the value and the rule.
        """
        self._check_names(named)
        try:
            body = encode(named, what="args", max_bytes=MAX_ARGS_BYTES)
        except InvalidJob as error:
            raise InvalidJob(f"task {self.task!r}: {error}") from None
        if self._decoder is None or self._late or self._extra is not None:
            self.decode(body)
        else:
            try:
                self._decoder.decode(body)
            except msgspec.ValidationError as error:
                raise self._refusal(error, body) from None
        return body

    def _check_names(self, named: Mapping[str, Any]) -> None:
        if not self.required <= named.keys():
            missing = next(name for name in self.names if name in self.required and name not in named)
            raise InvalidJob(f"task {self.task!r}: argument {missing!r} is missing")
        if self.context is not None and self.context in named:
            raise InvalidJob(f"task {self.task!r}: {self.context!r} is the run's context; callers do not pass it")
        if self._extra is None and not named.keys() <= self._known:
            unknown = next(name for name in named if name not in self._known)
            takes = f"it takes {', '.join(self.names)}" if self.names else "it takes none"
            raise InvalidJob(f"task {self.task!r} has no argument {unknown!r}; {takes}")

    # ------------------------------------------------------------------ when it runs

    def decode(self, body: str) -> dict[str, Any]:  # Any: each argument has the type that its annotation says
        """Return stored arguments as the handler takes them, typed; those left out keep the handler's defaults.

        Args:
            body: The arguments, a JSON object as text.

        Raises:
            InvalidJob: They do not fit the signature; the message names the path, the value and the rule.
        """
        decoder = self._decoder or self._build()
        try:
            held = decoder.decode(body)
            arguments = {name: value for name in self.names if (value := getattr(held, name)) is not UNSET}
        except msgspec.ValidationError as error:
            raise self._refusal(error, body) from None
        except msgspec.DecodeError as error:
            raise InvalidJob(f"task {self.task!r}: args are not JSON: {error}") from None
        if self._extra is not None:
            self._take_extra(arguments, body)
        for name, convert in self._late.items():
            if name in arguments:
                arguments[name] = self._converted(name, convert, arguments[name])
        return arguments

    def _take_extra(self, arguments: dict[str, Any], body: str) -> None:
        hint = self._hints.get(self._extra or "", Any)
        kind, convert = _readable(hint, self._fn)
        for name, value in msgspec.json.decode(body).items():
            if name in self.names:
                continue
            if name == self.context:
                raise InvalidJob(f"task {self.task!r}: {name!r} is the run's context; args may not hold it")
            one = convert or partial(_as, kind=kind)
            arguments[name] = self._converted(name, one, value)

    def _converted(self, name: str, convert: Callable[[Any], Any], value: Any) -> Any:
        try:
            return convert(value)
        except msgspec.ValidationError as error:
            raise InvalidJob(f"task {self.task!r}: args.{name} is {_short(value)}: {error}") from None

    def call(self, arguments: Mapping[str, Any], ctx: Context) -> Any:
        """Call the handler with decoded arguments; a context is handed over if it takes one."""
        if self.context is None:
            return self._fn(**arguments)
        return self._fn(**arguments, **{self.context: ctx})

    def call_plain(self, args: tuple[Any, ...], kwargs: dict[str, Any], ctx: Context) -> Any:
        """Call the handler as a function; ``ctx`` is handed over if it takes a context and the caller gave none."""
        if self.context is None or self.context in kwargs or any(isinstance(value, Context) for value in args):
            return self._fn(*args, **kwargs)
        at = self._context_at
        if len(args) >= at:
            return self._fn(*args[:at], ctx, *args[at:], **kwargs)
        return self._fn(*args, **{self.context: ctx}, **kwargs)

    def decode_result(self, body: str) -> Any:
        """Return a stored result, typed as the handler's annotation says; plain when it does not fit that."""
        decoder = self._returns
        if decoder is None:
            hint = self._resolved().get("return", Any)
            if self._result_of is not None and not isinstance(hint, str):
                hint = self._result_of(hint)
            kind, _ = _readable(hint, self._fn)
            decoder = self._returns = msgspec.json.Decoder(kind, dec_hook=_made)
        try:
            return decoder.decode(body)
        except msgspec.ValidationError:  # the job is done whatever it returned
            return msgspec.json.decode(body)

    # ------------------------------------------------------------------ decoders

    def _build(self) -> msgspec.json.Decoder[Any]:
        """Make the decoder at first use, when the names in annotations can be found; two threads make the same."""
        hints = self._resolved()
        fields: list[tuple[str, Any] | tuple[str, Any, Any]] = []
        late: dict[str, Callable[[Any], Any]] = {}
        for name in self.names:
            hint = hints.get(name, Any)
            kind, convert = _readable(
                hint | None if name in self._nullable and not isinstance(hint, str) else hint, self._fn
            )
            if convert is not None:
                late[name] = convert
            fields.append((name, kind) if name in self.required else (name, kind, UNSET))
        held = msgspec.defstruct("Arguments", fields, forbid_unknown_fields=self._extra is None, kw_only=True, gc=False)
        self._late = late
        self._decoder = msgspec.json.Decoder(held, dec_hook=_made)
        return self._decoder

    def _resolved(self) -> Hints:
        if any(isinstance(hint, str) for hint in self._hints.values()):
            again = _hints(self._fn, None)
            self._hints = {
                name: again.get(name, hint) if isinstance(hint, str) else hint for name, hint in self._hints.items()
            }
        return self._hints

    def _refusal(self, error: Exception, body: str) -> InvalidJob:
        said = str(error)
        found = _PATH.fullmatch(said)
        missing = _MISSING.fullmatch(said)
        if missing is not None:
            return InvalidJob(f"task {self.task!r}: argument {missing[1]!r} is missing")
        if found is None:
            return InvalidJob(f"task {self.task!r}: args: {said}")
        what, path, name = found["what"], found["path"], found["name"]
        value = msgspec.json.decode(body)[name]
        return InvalidJob(f"task {self.task!r}: args.{name} is {_short(value)}: {what} at args{path}")


def place_of(fn: Callable[..., Any]) -> str:
    """Return where a handler is defined, for messages."""
    return f"{getattr(fn, '__module__', '?')}.{getattr(fn, '__qualname__', fn)}"


def is_async_handler(fn: Callable[..., Any]) -> bool:
    """Return whether a handler is ``async def``.

    Raises:
        ConfigError: It yields, or is a class: then it is no handler.
    """
    for one in (fn, getattr(fn, "__call__", fn)):  # noqa: B004  the method itself is wanted
        if inspect.isgeneratorfunction(one) or inspect.isasyncgenfunction(one):
            raise ConfigError(f"{place_of(fn)} yields; a handler returns its result")
    if isinstance(fn, type):
        raise ConfigError(f"{place_of(fn)} is a class; a handler is a function")
    return inspect.iscoroutinefunction(fn) or inspect.iscoroutinefunction(getattr(fn, "__call__", None))  # noqa: B004


def _short(value: object) -> str:
    shown = repr(value)
    return shown if len(shown) <= SHOWN else f"{shown[: SHOWN - 1]}…"


def _is_context(hint: object) -> bool:
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        return any(_is_context(member) for member in typing.get_args(hint))
    return isinstance(hint, type) and issubclass(hint, Context)


def _namespace(fn: Callable[..., Any]) -> dict[str, Any] | None:
    """Return the local names around a handler that is defined inside a function, while that function runs."""
    around, found, _ = getattr(fn, "__qualname__", "").rpartition(".<locals>.")
    frame = inspect.currentframe() if found else None
    while frame is not None:
        if frame.f_code.co_qualname == around:
            return dict(frame.f_locals)
        frame = frame.f_back
    return None


def _hints(fn: Callable[..., Any], local: dict[str, Any] | None) -> Hints:
    """Return the annotations by name; one whose names cannot be found (yet) stays text."""
    inner: Any = inspect.unwrap(fn)
    if not hasattr(inner, "__globals__"):  # an object that can be called
        inner = getattr(type(inner).__call__, "__func__", type(inner).__call__)
    written = dict(getattr(inner, "__annotations__", {}))
    hints: Hints = {}
    for name, annotation in written.items():
        holder = types.SimpleNamespace(__annotations__={name: annotation})
        try:
            hints.update(typing.get_type_hints(holder, getattr(inner, "__globals__", {}), local, include_extras=True))
        except Exception:  # noqa: BLE001  an annotation may hold any expression
            hints[name] = annotation if isinstance(annotation, str) else Any
    return hints


def _readable(hint: Any, fn: Callable[..., Any]) -> tuple[Any, Callable[[Any], Any] | None]:
    """Return the type that msgspec shall read for an annotation, and what to do with the value afterwards."""
    if isinstance(hint, str):
        log.warning("annotation_unknown handler=%s annotation=%s: the plain value is handed over", fn, hint)
        return Any, None
    try:
        msgspec.json.Decoder(hint, dec_hook=_made)
    except Exception as error:  # noqa: BLE001  msgspec says in several ways that it does not know a type
        members = typing.get_args(hint) if typing.get_origin(hint) in (typing.Union, types.UnionType) else ()
        readers = [_readable(member, fn)[0] for member in members]
        if members and Any not in readers:
            return Any, lambda value: _first_fit(value, readers)
        log.warning(
            "annotation_unreadable handler=%s annotation=%s: the plain value is handed over (%s)", fn, hint, error
        )
        return Any, None
    return hint, None


def _as(value: Any, kind: Any) -> Any:
    return msgspec.convert(value, kind, str_keys=True, dec_hook=_made)


def _first_fit(value: Any, kinds: list[Any]) -> Any:
    problems: list[str] = []
    for kind in kinds:
        try:
            return _as(value, kind)
        except msgspec.ValidationError as error:
            problems.append(str(error))
    raise msgspec.ValidationError("; ".join(problems))


def _made(kind: type[Any], value: Any) -> Any:
    """Make a value of a type that msgspec does not know."""
    validate = getattr(kind, "model_validate_json", None)
    if validate is not None:  # a Pydantic model; as JSON, so that strict models take dates and ids as text
        return validate(msgspec.json.encode(value))
    if kind is object:
        return value
    for plain in (str, int, float):
        if issubclass(kind, plain) and isinstance(value, plain):
            return cast("Callable[[object], object]", kind)(value)
    raise TypeError(f"{kind.__qualname__} cannot be made from JSON")
