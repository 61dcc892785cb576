"""Dramatiq's calls on fairlane: ``from fairlane.compat import dramatiq``.

``dramatiq.set_broker(dramatiq.FairlaneBroker("sqlite:///jobs.db"))`` comes first; workers are ``fairlane worker
proj:broker.fairlane``. Times are in milliseconds, as Dramatiq has them. Guide: docs/moving-over.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from functools import partial
from typing import Any, Final, NoReturn, cast

from fairlane import handles
from fairlane.app import Fairlane
from fairlane.compat import _common as common
from fairlane.compat import _words as words
from fairlane.declarations import AnyTask
from fairlane.errors import ConfigError

_ALWAYS: Final = {"store_results": True}
_WEEK_MS: Final = 7 * 86_400_000


class Retry(Exception):
    """Raised by an actor that wants to be tried again while attempts remain.

    Args:
        message: Why.
        delay: Milliseconds until then; None as the actor says.
    """

    def __init__(self, message: str = "", delay: float | None = None) -> None:
        super().__init__(message)
        common.again(self, None if delay is None else delay / 1000)


class FairlaneBroker:
    """A broker over a fairlane store.

    Args:
        url: The store's URL, or a ``Fairlane``.
        tiers: What numbers of ``priority`` mean; a lower one is more urgent in Dramatiq. Only 0 is known: NORMAL.
        options: Options of other brokers; they are refused.

    Attributes:
        fairlane: The fairlane app.
    """

    def __init__(
        self, url: str | Fairlane | None = None, *, tiers: common.Tiers | None = None, **options: Any
    ) -> None:  # Any: unchecked options
        common.refuse("FairlaneBroker()", options, {"middleware": words.DRAMATIQ_NAMES["Middleware"]})
        self.fairlane = common.store_of("FairlaneBroker()", url)
        self.tiers: common.Tiers = {0: "normal", **(tiers or {})}

    def close(self) -> None:
        """Close the store."""
        self.fairlane.close()

    def __getattr__(self, name: str) -> NoReturn:
        raise common.advice("FairlaneBroker", name, words.DRAMATIQ_BROKER_GETS)


_broker: list[FairlaneBroker] = []


def set_broker(broker: FairlaneBroker) -> None:
    """Make it the broker of actors that name none."""
    _broker[:] = [broker]


def get_broker() -> FairlaneBroker:
    """Return the broker of actors that name none.

    Raises:
        ConfigError: There is none yet.
    """
    if not _broker:
        raise ConfigError("there is no broker yet: dramatiq.set_broker(dramatiq.FairlaneBroker('sqlite:///jobs.db'))")
    return _broker[0]


class Message:
    """A job, as Dramatiq asks about it. ``fairlane`` is fairlane's own handle."""

    def __init__(self, job: handles.Job[Any]) -> None:
        self.fairlane = job
        self.message_id = str(job.id)

    def get_result(self, *, block: bool = False, timeout: float | None = None) -> Any:
        """Return the result; without ``block`` now or ``WaitTimeout``, else within ``timeout`` (10 s by default)."""
        return self.fairlane.result((10_000 if timeout is None else timeout) / 1000 if block else 0)


class Actor:
    """A function under a name. ``fairlane`` is fairlane's own task, for ``tenant=`` and the like."""

    def __init__(self, fn: Callable[..., Any], broker: FairlaneBroker, given: common.Options) -> None:
        options = dict(given)
        self.fn = fn
        self.__name__ = fn.__name__
        self.broker = broker
        self.actor_name = str(options.pop("actor_name", None) or fn.__name__)
        self.queue_name = str(options.pop("queue_name", "default"))
        self._max_age: float | None = options.pop("max_age", None)
        retries, time_limit = options.pop("max_retries", 20), options.pop("time_limit", 600_000)
        if retries is None:
            raise ConfigError(f"actor {self.actor_name!r}: max_retries=None tries for ever; say how often")
        least, most = options.pop("min_backoff", 15_000) / 1000, options.pop("max_backoff", _WEEK_MS) / 1000
        throws: Any = options.pop("throws", ())
        tier = common.tier_of("@actor", options.pop("priority", 0), broker.tiers)
        common.refuse("@actor", options, words.DRAMATIQ_ACTOR, _ALWAYS)
        self.fairlane: AnyTask = broker.fairlane.task(
            name=self.actor_name,
            queue=self.queue_name,
            tier=tier,
            timeout=None if time_limit == float("inf") else time_limit / 1000,
            retry=common.Delays(
                max_attempts=retries + 1, base=least, factor=2.0, cap=max(least, most), jitter=1.0, give_up_on=throws
            ),
        )(fn)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function, without any queue."""
        return cast("Callable[..., Any]", self.fairlane)(*args, **kwargs)

    def send(self, *args: Any, **kwargs: Any) -> Message:
        """Store a job with these arguments."""
        return self.send_with_options(args=args, kwargs=kwargs)

    def send_with_options(
        self,
        *,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        delay: float | timedelta | None = None,
        **options: Any,  # Any: unchecked options
    ) -> Message:
        """Store a job; ``delay`` and ``max_age`` are in milliseconds."""
        max_age = options.pop("max_age", self._max_age)
        common.refuse("send_with_options()", options, words.DRAMATIQ_SEND, _ALWAYS)
        plan: dict[str, Any] = {}
        if delay is not None:
            plan["delay"] = delay.total_seconds() if isinstance(delay, timedelta) else delay / 1000
        if max_age is not None:
            plan["expires_in"] = max_age / 1000
        return Message(self.fairlane.using(**plan).enqueue(*args, **(kwargs or {})))

    def __getattr__(self, name: str) -> NoReturn:
        raise common.advice("Actor", name, dict.fromkeys(("message", "message_with_options"), "use .fairlane.new(...)"))


def actor(
    fn: Callable[..., Any] | None = None, *, broker: FairlaneBroker | None = None, **options: Any
) -> Any:  # Any: an Actor, or a decorator
    """Make an actor; a decorator, with options or without."""
    if fn is None:
        return partial(actor, broker=broker, **options)
    return Actor(fn, broker or get_broker(), options)


def __getattr__(name: str) -> NoReturn:
    raise common.missing(__name__, name, words.DRAMATIQ_NAMES)
