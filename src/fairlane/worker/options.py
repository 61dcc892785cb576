"""What a worker is told at its start, checked; and the arithmetic of its slots."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, cast

from fairlane.domain.checks import number, text, whole
from fairlane.domain.lanes import Ask, LaneKey
from fairlane.domain.policy import DEFAULT_POOL
from fairlane.domain.tiers import TIERS, Tier
from fairlane.errors import ConfigError, InvalidValue

MAX_CONCURRENCY: Final = 10_000
MAX_CLAIMS: Final = 250
"""Most jobs claimed in one transaction: it bounds how long others wait for the store. More follow at once."""
MIN_LEASE_S: Final = 0.1
MAX_LEASE_S: Final = 86_400.0
MAX_GRACE_S: Final = 86_400.0
_NOT_IN_NAMES: Final = re.compile(r"[^A-Za-z0-9_.-]")
_MAX_NAME: Final = 40

Queues = Iterable[str] | Mapping[str, int] | None
Reserve = Mapping[str, int] | Mapping[Tier, int] | None
Rooms = tuple[int, int, int, int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """A worker's settings.

    Attributes:
        concurrency: Most jobs that run here at once.
        queues: Slots by queue served; None serves every queue of the pool.
        pool: The pool of queues.
        kept: By tier, how many slots it and the less urgent must leave to the more urgent; see :func:`kept_for`.
        lease_ms: How long a claim lasts unless it is renewed, in milliseconds.
        grace_s: How long a shutdown waits for running jobs, in seconds.
        name: How its id begins; empty for none.
    """

    concurrency: int = 8
    queues: Mapping[str, int] | None = None
    pool: str = DEFAULT_POOL
    kept: Rooms = (0, 0, 0, 0, 0)
    lease_ms: int = 30_000
    grace_s: float = 25.0
    name: str = ""

    @staticmethod
    def checked(
        *,
        concurrency: int,
        queues: Queues,
        pool: str | None,
        reserve: Reserve,
        lease: float,
        grace: float,
        name: str | None,
        pool_of: Callable[[str], str],
    ) -> Options:
        """Return the settings if they make sense together.

        Args:
            concurrency: Slots, 1 to 10,000.
            queues: Names of queues, or slots by queue; None for all of the pool.
            pool: The pool; None for that of ``queues``, or the default one.
            reserve: Slots kept, by tier.
            lease: Length of a lease, in seconds.
            grace: How long a shutdown waits, in seconds.
            name: How the worker's id begins.
            pool_of: Tells a queue's pool.

        Raises:
            ConfigError: One of them is wrong; the message says which and why.
        """
        try:
            whole("concurrency", concurrency, least=1, most=MAX_CONCURRENCY)
            served = _served(queues, concurrency)
            return Options(
                concurrency=concurrency,
                queues=served,
                pool=_pool(served, pool, pool_of),
                kept=kept_for(reserve or {}, concurrency),
                lease_ms=round(number("lease", lease, least=MIN_LEASE_S, most=MAX_LEASE_S) * 1000),
                grace_s=number("grace", grace, least=0, most=MAX_GRACE_S),
                name=_NOT_IN_NAMES.sub("_", text("name", name))[:_MAX_NAME] if name else "",
            )
        except InvalidValue as error:
            raise ConfigError(f"worker: {error}") from None


def _served(queues: Queues, concurrency: int) -> Mapping[str, int] | None:
    if queues is None:
        return None
    if isinstance(queues, str):
        raise ConfigError(f"worker: queues is the text {queues!r}; it must be a list of names, or slots by name")
    if isinstance(queues, Mapping):
        slots = dict(cast("Mapping[str, int]", queues))
    else:
        slots = dict.fromkeys(queues, concurrency)
    if not slots:
        raise ConfigError("worker: queues is empty; leave it out to serve every queue of the pool")
    for name, most in slots.items():
        text("queue", name)
        whole(f"slots of queue {name!r}", most, least=1)
        if most > concurrency:
            raise ConfigError(f"worker: queue {name!r} is given {most} slots, more than concurrency, {concurrency}")
    return slots


def _pool(served: Mapping[str, int] | None, pool: str | None, pool_of: Callable[[str], str]) -> str:
    if pool is not None:
        text("pool", pool)
    if served is None:
        return DEFAULT_POOL if pool is None else pool
    pools = {name: pool_of(name) for name in served}
    wanted = pool if pool is not None else next(iter(pools.values()))
    for name, other in pools.items():
        if other != wanted:
            who = "it" if pool is not None else f"queue {next(iter(pools))!r}"
            raise ConfigError(
                f"worker: a worker serves one pool; queue {name!r} is in pool {other!r} and {who} in {wanted!r}"
            )
    return wanted


def kept_for(reserve: Mapping[str, int] | Mapping[Tier, int], concurrency: int) -> Rooms:
    """Return how many slots the jobs of each base tier, and those less urgent, must leave alone.

    A slot reserved for tier r is for base tier r or better. So the jobs of tier t or less urgent together may hold
    all slots but those reserved for tiers more urgent than t.

    Args:
        reserve: Slots kept, by tier or its name.
        concurrency: All slots; what is reserved must leave at least one.

    Raises:
        ConfigError: More is reserved than there is, or for a tier that keeps nothing from anybody.
        InvalidValue: A key is no tier, or a value no whole number.

    Example:
        >>> kept_for({"critical": 1, "normal": 2}, 8)
        (0, 1, 1, 3, 3)
    """
    slots = [0] * len(TIERS)
    for key, kept in reserve.items():
        tier = Tier.of(key)
        slots[tier] += whole(f"reserve of {tier.label}", kept)
        if kept and tier == Tier.BACKGROUND:
            raise ConfigError("worker: reserve of background keeps nothing: every job is of that tier or better")
    if sum(slots) >= concurrency:
        raise ConfigError(f"worker: reserve keeps {sum(slots)} of {concurrency} slots; one at least is left for all")
    return (0, slots[0], sum(slots[:2]), sum(slots[:3]), sum(slots[:4]))


class Slots:
    """Counts the jobs that run here and says what may be asked for; used by one thread.

    Example:
        >>> slots = Slots(Options(concurrency=4, queues={"mail": 1, "etl": 4}, kept=(0, 1, 1, 1, 1)))
        >>> slots.take(LaneKey("mail", "send", "acme", 2), express=False)
        >>> ask = slots.ask(frozenset({"send"}))
        >>> ask.count, dict(ask.queues), ask.rooms
        (3, {'etl': 3}, (3, 2, 2, 3, 3))
    """

    def __init__(self, options: Options) -> None:
        self.options = options
        self.running = 0
        self._by_queue: dict[str, int] = {}
        self._by_tier = [0] * len(TIERS)

    @property
    def free(self) -> int:
        """How many jobs more may run here."""
        return self.options.concurrency - self.running

    def take(self, lane: LaneKey, *, express: bool) -> None:
        """Count a start."""
        self._count(lane, express, 1)

    def give(self, lane: LaneKey, *, express: bool) -> None:
        """Count an end."""
        self._count(lane, express, -1)

    def _count(self, lane: LaneKey, express: bool, by: int) -> None:
        self.running += by
        if self.options.queues is not None:
            self._by_queue[lane.queue] = self._by_queue.get(lane.queue, 0) + by
        if not express:
            self._by_tier[lane.tier] += by

    def ask(self, tasks: frozenset[str]) -> Ask | None:
        """Return what a claim may ask for now, or None when nothing is free."""
        free = self.free
        queues = self._queues(free)
        if queues is not None:
            free = min(free, sum(queues.values()))
        if free <= 0:
            return None
        return Ask(self.options.pool, min(free, MAX_CLAIMS), queues, tasks, self._rooms())

    def _queues(self, free: int) -> dict[str, int] | None:
        served = self.options.queues
        if served is None:
            return None
        rooms = {name: min(free, most - self._by_queue.get(name, 0)) for name, most in served.items()}
        return {name: room for name, room in rooms.items() if room > 0}

    def _rooms(self) -> Rooms | None:
        """Return how many more jobs of each tier or less urgent may start; express ones take slots but do not count.

        For tier t: all slots, less those kept for tiers more urgent than t, less the running jobs of base tier t or
        less urgent.
        """
        kept = self.options.kept
        if not kept[-1]:
            return None
        rooms: list[int] = []
        running = 0
        for tier in reversed(TIERS):
            running += self._by_tier[tier]
            rooms.append(self.options.concurrency - kept[tier] - running)
        zero, one, two, three, four = reversed(rooms)
        return zero, one, two, three, four
