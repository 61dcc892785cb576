"""When a failed job may run again, and when it is dead."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import cast

from fairlane.domain.checks import number, whole
from fairlane.errors import InvalidValue


def retry_delay_ms(
    failures: int, *, base_ms: int, factor: float, cap_ms: int, jitter: float, rng: random.Random
) -> int:
    """Return how long a job waits before it may be tried again.

    The delay grows by ``factor`` with each failure up to ``cap_ms`` and is then stretched by an
    even draw, so jobs that failed together do not come back together. It is never shorter than
    asked for, and never overflows: a large ``failures`` gives the cap.

    Args:
        failures: Failures so far, counting the one just seen; 1 or more.
        base_ms: Delay after the first failure, in milliseconds; 0 or more.
        factor: Growth per failure; 1.0 or more.
        cap_ms: Longest delay before the stretch, in milliseconds; at least ``base_ms``.
        jitter: Largest stretch as a share of the delay; 0 or more.
        rng: Source of the draw. Pass a seeded one to replay a run.

    Returns:
        A delay in whole milliseconds, from the capped delay up to ``1 + jitter`` times it.

    Raises:
        InvalidValue: An argument is outside the range given above.

    Source:
        Exponential backoff with bounded jitter; why jitter matters: M. Brooker,
        "Exponential Backoff and Jitter", AWS Architecture Blog, 2015.

    Example:
        >>> retry_delay_ms(3, base_ms=1_000, factor=2.0, cap_ms=60_000, jitter=0.0, rng=random.Random(7))
        4000
    """
    whole("failures", failures, least=1)
    whole("base_ms", base_ms)
    number("factor", factor, least=1)
    if cap_ms < base_ms:
        raise InvalidValue(f"cap_ms is {cap_ms}; it must be at least base_ms, {base_ms}")
    number("jitter", jitter, least=0)
    delay = float(base_ms)
    if base_ms:
        try:
            delay = min(float(cap_ms), base_ms * factor ** (failures - 1))
        except OverflowError:
            delay = float(cap_ms)
    return round(delay * (1 + jitter * rng.random()))


def _exception_types(name: str, given: object) -> tuple[type[BaseException], ...]:
    """Return one exception type, or a tuple of them, as a tuple."""
    kinds: list[type[BaseException]] = []
    for kind in cast("tuple[object, ...]", given) if isinstance(given, tuple) else (given,):
        if not (isinstance(kind, type) and issubclass(kind, BaseException)):
            raise InvalidValue(f"{name} takes exception types, not {kind!r}")
        kinds.append(kind)
    return tuple(kinds)


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """How often and how soon a task's jobs are tried again.

    Attributes:
        max_attempts: Failures after which a job is dead; 1 or more.
        max_crashes: Crashes (killed process, lapsed lease) that a job survives; 0 or more.
        base: Delay after the first failure, in seconds.
        factor: Growth of the delay per failure; 1 or more.
        cap: Longest delay before jitter, in seconds.
        jitter: Largest stretch of a delay, as a share of it.
        on: Exception types that are worth another try.
        give_up_on: Exception types that are not, also when ``on`` has them.
    """

    max_attempts: int = 4
    max_crashes: int = 3
    base: float = 5.0
    factor: float = 2.0
    cap: float = 3600.0
    jitter: float = 0.5
    on: tuple[type[BaseException], ...] = (Exception,)
    give_up_on: tuple[type[BaseException], ...] = ()

    def __post_init__(self) -> None:
        whole("max_attempts", self.max_attempts, least=1)
        whole("max_crashes", self.max_crashes)
        number("base", self.base, least=0, most=1e9)
        number("factor", self.factor, least=1, most=1e6)
        number("cap", self.cap, least=self.base, most=1e9)
        number("jitter", self.jitter, least=0, most=100)
        for name in ("on", "give_up_on"):
            object.__setattr__(self, name, _exception_types(name, getattr(self, name)))

    def worth_another_try(self, error: BaseException | None) -> bool:
        """Return whether ``on`` and ``give_up_on`` let a failure be tried again; None has no exception to look at."""
        return error is None or (isinstance(error, self.on) and not isinstance(error, self.give_up_on))

    def delay_ms(self, failures: int, error: BaseException | None, rng: random.Random) -> int | None:
        """Return when to try again, in milliseconds from now, or None when the job is dead.

        Args:
            failures: Failures so far, counting the one just seen.
            error: What the run raised; None stands for a failure without an exception.
            rng: Source of the jitter.
        """
        if failures >= self.max_attempts or not self.worth_another_try(error):
            return None
        return retry_delay_ms(
            failures,
            base_ms=round(self.base * 1000),
            factor=self.factor,
            cap_ms=round(self.cap * 1000),
            jitter=self.jitter,
            rng=rng,
        )
