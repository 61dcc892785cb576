"""What the shims share: options are refused or mapped, numbers of priority name tiers, failures bring their delay."""

from __future__ import annotations

import functools
import inspect
import random
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from fairlane.app import Fairlane
from fairlane.context import Context
from fairlane.domain.retries import Retry
from fairlane.domain.tiers import Tier
from fairlane.errors import ConfigError
from fairlane.options import TierLike

Options = Mapping[str, Any]  # Any: each option of the other system has its own type
Tiers = Mapping[int, TierLike]
"""What the other system's numbers of priority mean here."""

_AGAIN: Final = "_fairlane_again"


def refuse(call: str, given: Options, instead: Mapping[str, str], always: Options | None = None) -> None:
    """Refuse options that have no counterpart.

    Args:
        call: The call that was given them, for the error.
        given: What is left of its options when those that are mapped are taken out.
        instead: What to use instead of options of the other system.
        always: Options of the other system with the one value that holds here.

    Raises:
        ConfigError: An option of the other system cannot be had.
        TypeError: It has no such option.
    """
    held = always or {}
    for name, value in given.items():
        if name in held and value == held[name]:
            continue
        if name in held:
            raise ConfigError(f"{call}: {name}={value!r} cannot be had, it is always {held[name]!r} here")
        if name in instead:
            raise ConfigError(f"{call}: {name}= has no counterpart in fairlane; {instead[name]}")
        raise TypeError(f"{call} got an unexpected option {name!r}")


def advice(kind: str, name: str, instead: Mapping[str, str]) -> AttributeError:
    """Return the error for an attribute of the other system that is not here."""
    if name in instead:
        return AttributeError(f"{kind}.{name} has no counterpart in fairlane; {instead[name]}")
    return AttributeError(f"{kind} has no attribute {name!r}")


def missing(module: str, name: str, instead: Mapping[str, str]) -> Exception:
    """Return the error for a name that a module does not have; ``from … import`` shows that of ImportError alone."""
    if name in instead:
        return ImportError(f"{module}.{name} has no counterpart in fairlane; {instead[name]}")
    return AttributeError(f"module {module!r} has no attribute {name!r}")


def store_of(call: str, given: object) -> Fairlane:
    """Return the app that is meant by one, or by the URL of its store.

    Raises:
        ConfigError: It is neither.
    """
    if isinstance(given, Fairlane):
        return given
    if isinstance(given, str) and given.startswith(("sqlite:", "postgres")):
        return Fairlane(given)
    raise ConfigError(
        f"{call} takes a fairlane store, 'sqlite:///jobs.db', 'postgresql://…' or a Fairlane: not {given!r}"
    )


def tier_of(call: str, priority: int, tiers: Tiers) -> Tier:
    """Return the tier that a number of priority names.

    Raises:
        ConfigError: Nobody said what it means; numbers of other systems go up or down, and have no default.
    """
    if priority not in tiers:
        raise ConfigError(f"{call}: say which tier priority={priority!r} means, with tiers={{{priority!r}: 'high'}}")
    return Tier.of(tiers[priority])


def again(error: BaseException, delay: float | None = None) -> BaseException:
    """Mark a failure as one to be tried again while attempts remain, and return it.

    Args:
        error: What the handler is to raise.
        delay: How long to wait, in seconds; None as the task says.
    """
    setattr(error, _AGAIN, delay)
    return error


def never(error: BaseException) -> None:
    """Take a mark away: a program may raise one and the same error object for several jobs."""
    error.__dict__.pop(_AGAIN, None)


@dataclass(frozen=True, kw_only=True)
class Delays(Retry):
    """Retries whose delay comes with the failure (:func:`again`), or out of a rule.

    Attributes:
        wait: Returns the delay after so many failures, in seconds; None: as :class:`Retry` does it.
    """

    wait: Callable[[int], float] | None = None

    def worth_another_try(self, error: BaseException | None) -> bool:
        """Return whether a failure may be tried again: those that are marked, and those that :class:`Retry` says."""
        return hasattr(error, _AGAIN) or super().worth_another_try(error)

    def delay_ms(self, failures: int, error: BaseException | None, rng: random.Random) -> int | None:
        """Return when to try again, in milliseconds from now, or None when the job is dead."""
        usual = super().delay_ms(failures, error, rng)
        if usual is None:
            return None
        asked: float | None = getattr(error, _AGAIN, None)
        if asked is None and self.wait is not None:
            asked = self.wait(failures)
        return usual if asked is None else round(asked * 1000)


def with_first(fn: Callable[..., Any], make: Callable[[Context], object]) -> Callable[..., Any]:
    """Return a handler that gives the function, for its first parameter, what ``make`` makes of the context.

    Raises:
        ConfigError: The function takes none.
    """
    parameters = list(inspect.signature(fn).parameters.values())
    if not parameters:
        raise ConfigError(f"{fn.__qualname__} must take one more argument, its first: the task or the context")
    first = parameters[0].replace(kind=inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=Context)

    def handler(*args: Any, **kwargs: Any) -> Any:
        ctx = args[0] if args else kwargs.pop(first.name)
        return fn(make(ctx), *args[1:], **kwargs)

    async def ahandler(*args: Any, **kwargs: Any) -> Any:
        return await handler(*args, **kwargs)

    made: Any = ahandler if inspect.iscoroutinefunction(fn) else handler
    functools.update_wrapper(made, fn)
    del made.__wrapped__  # its annotations are read, not those of the function
    made.__signature__ = inspect.Signature([first, *parameters[1:]])
    made.__annotations__ = {**_hints(fn), first.name: Context}
    handler_of: Callable[..., Any] = made
    return handler_of


def _hints(fn: Callable[..., Any]) -> dict[str, Any]:
    try:
        return typing.get_type_hints(fn, include_extras=True)
    except Exception:  # noqa: BLE001  an annotation may hold any expression; what cannot be read arrives as plain JSON
        return dict(fn.__annotations__)
