"""How programs get claims: one call that asks, waits for work if there is none, and asks again."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from typing import Final

from fairlane.clock import SystemClock
from fairlane.domain.checks import number, text
from fairlane.domain.jobs import Claim, Settlement
from fairlane.domain.lanes import Ask
from fairlane.domain.policy import DEFAULT_POOL, QueueRule
from fairlane.errors import ConfigError, FairlaneError, InvalidValue
from fairlane.faces import Steps, wait, write
from fairlane.handles import POLL_S
from fairlane.pulled import PulledClaim, Puller, lease_ms_of
from fairlane.registry import declare
from fairlane.store import News, Store

MAX_WAIT_S: Final = 86_400.0

_real = SystemClock()  # a wait for a program on the other side is real time, also in tests with a clock of their own


def pull(home: Puller, ask: Callable[[Store], Ask], lease: float, patience: float) -> Steps[list[PulledClaim]]:
    """Start jobs, waiting for some if there are none: the body of every pull-style claim.

    Args:
        home: Who claims.
        ask: Makes the ask inside the transaction.
        lease: Length of the lease, in seconds.
        patience: How long to wait for a job, in seconds; 0 to a day.

    Raises:
        InvalidValue: An argument is outside the range given above.
    """
    lease_ms = lease_ms_of(lease)
    until = _real.monotonic() + number("wait", patience, least=0, most=MAX_WAIT_S)
    claims = yield from _claim_now(home, ask, lease_ms)
    while not claims and _real.monotonic() < until:
        rung: Future[None] = Future()
        stop = home.owner.listen(_bell(rung))  # before the next try, so that no news falls in between
        try:
            claims = yield from _claim_now(home, ask, lease_ms)
            if not claims:
                yield from wait(rung, min(POLL_S, max(0.0, until - _real.monotonic())))
        finally:
            stop()
    return [PulledClaim(home, claim, lease_ms=lease_ms) for claim in claims]


def _claim_now(home: Puller, ask: Callable[[Store], Ask], lease_ms: int) -> Steps[list[Claim]]:
    tasks = home.registry.undeclared
    taken: list[Claim] = []

    def op(store: Store, now_ms: int) -> list[Claim]:
        declare(store, tasks, now_ms)
        taken[:] = store.claim(ask(store), worker="", lease_ms=lease_ms, now_ms=now_ms)
        return taken

    try:
        claims = yield from write(op)
    except FairlaneError:
        raise
    except BaseException:  # the caller was cancelled: nobody will run what the claim in line may have started
        home.owner.submit(lambda store, now_ms: store.settle([_released(claim) for claim in taken], now_ms))
        raise
    home.registry.declared(tasks)
    return claims


def _released(claim: Claim) -> Settlement:
    return Settlement(seq=claim.seq, fence=claim.fence, kind="released")


def asked(
    queues: Iterable[str] | None, tasks: Iterable[str] | None, pool: str | None, count: int
) -> Callable[[Store], Ask]:
    """Return what makes an ask inside a transaction, where the pool of a queue is known.

    Raises:
        InvalidValue: A name is not text, or there are no queues.
    """
    names = None if queues is None else _names("queues", queues)
    known = None if tasks is None else frozenset(_names("tasks", tasks))
    if pool is not None:
        text("pool", pool)

    def ask(store: Store) -> Ask:
        pools = {name: _pool_of(store, name) for name in names or ()}
        wanted = pool or next(iter(pools.values()), DEFAULT_POOL)
        if other := next((name for name, found in pools.items() if found != wanted), None):
            raise ConfigError(
                f"queue {other!r} is in pool {pools[other]!r}, not in {wanted!r}; a claim is for one pool"
            )
        return Ask(wanted, count, None if names is None else dict.fromkeys(names, count), known)

    return ask


def _pool_of(store: Store, queue: str) -> str:
    rule = store.rule("queue", queue)
    return rule.pool if isinstance(rule, QueueRule) else DEFAULT_POOL


def _names(what: str, given: Iterable[str]) -> tuple[str, ...]:
    if not isinstance(given, Iterable):  # pyright: ignore[reportUnnecessaryIsInstance]  callers may not check
        raise InvalidValue(f"{what} must be names, as a list or the like, not {given!r}")
    names = (given,) if isinstance(given, str) else tuple(given)
    if not names:
        raise InvalidValue(f"{what} is empty; leave it out for all")
    return tuple(dict.fromkeys(text(what.removesuffix("s"), name) for name in names))


def _bell(rung: Future[None]) -> Callable[[frozenset[News]], None]:
    def heard(news: frozenset[News]) -> None:
        if "work" in news:
            with suppress(InvalidStateError):  # it rang before, or nobody waits any more
                rung.set_result(None)

    return heard
