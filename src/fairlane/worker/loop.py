"""The dispatcher: settles what has ended and claims for every free slot, both in one transaction, again and again.

It sleeps until there is a reason: something ended, news of work or of a request to stop, an instant at which time
makes something startable, a second without any of these, or the worker's end. While a transaction is on its way, more
jobs end; they go with the next one. So the busier a worker is, the more jobs share a flush of the disk.

It claims only what it can start at once, and runs no user code.
"""

from __future__ import annotations

import logging
import math
import random
import threading
from collections.abc import Sequence
from functools import partial
from typing import Final

from fairlane.clock import SystemClock, instant_of
from fairlane.domain.jobs import Claim, Settlement
from fairlane.domain.lanes import Ask
from fairlane.domain.payloads import one_line
from fairlane.errors import FairlaneError, StoreBusy, StoreError, StoreFull
from fairlane.failpoints import failpoint
from fairlane.owner import Owner
from fairlane.registry import Registry, tell_tasks
from fairlane.store import News, Store
from fairlane.worker.attempt import Attempt
from fairlane.worker.hands import Hands
from fairlane.worker.heartbeat import pass_on
from fairlane.worker.logs import tell_log
from fairlane.worker.notices import Notices
from fairlane.worker.options import Options, Slots
from fairlane.worker.pace import Pace
from fairlane.worker.quiet import Quiet
from fairlane.worker.shutdown import GIVE_BACK_S, Drain
from fairlane.worker.trade import Trade
from fairlane.worker.verdict import released

log = logging.getLogger("fairlane.worker")

POLL_S: Final = 1.0
"""Longest time between two claims while a slot is free: news may be lost, this is the truth."""
QUIET_S: Final = (0.001, 0.02)
"""Least and most time between claims that found nothing: with a thousand commits a second, not each is worth a look."""
RETRY_S: Final = (0.05, 5.0)
"""Least and most time between calls of a store that fails."""
UNHEALTHY_AFTER: Final = 10
HUNG_S: Final = 15.0
"""A turn that takes longer: the store does not answer. One that waits for others fails before that."""
HELD_UP_POLL_S: Final = 0.05
"""Time between looks while the event loop, or the whole process, is held up, or what is to be read waits for others."""
ENDING_S: Final = 0.3
"""Longest time from a handler's end to its settlement that the worker's own end waits for."""
MAX_SETTLED: Final = 500
"""Most settlements of one kind in one transaction, for the same reason as ``MAX_CLAIMS``."""
MAX_REFUSALS: Final = 3
"""Times that a settlement is refused, alone and by a store that works, before a plainer one is tried in its place."""


class Dispatcher:
    """One worker's dispatcher: :meth:`run` is the body of its thread.

    Attributes:
        fails: Calls of the store that failed in a row.

    Args:
        owner: Owner of the store.
        registry: The tasks it knows.
        options: The worker's settings.
        worker: The worker's id.
        hands: Who runs attempts.
        notices: Who is told how they ended.
        drain: How far the worker is towards its end.
        wake: Set when there is a reason to look around.
        rng: Source of jitter.
        until_idle: Whether to end when nothing is left to start or running here.
    """

    def __init__(
        self,
        owner: Owner,
        registry: Registry,
        options: Options,
        *,
        worker: str,
        hands: Hands,
        notices: Notices,
        drain: Drain,
        wake: threading.Event,
        rng: random.Random,
        until_idle: bool = False,
    ) -> None:
        self._owner = owner
        self._registry = registry
        self._options = options
        self._worker = worker
        self._hands = hands
        self._notices = notices
        self._drain = drain
        self._wake = wake
        self._rng = rng
        self._until_idle = until_idle
        self._clock = SystemClock()  # what it waits by; leases go by the owner's clock
        self._quiet = Quiet(owner)
        self._slots = Slots(options)
        self._pace = Pace(options.concurrency)
        self._ended: list[Attempt] = []
        self._returned: list[Settlement] = []
        self._untold = False  # whether a run has settled itself, which nobody was told yet
        self._work_news = False
        self._ask_news = False
        self._not_before = -math.inf
        self._empty = 0
        self._more = False
        self._poll_at = -math.inf
        self._due_at = math.inf
        self._asked_at = -math.inf
        self._idle = False
        self._pause = threading.Event()
        self._turned_at = math.inf  # when the turn that is under way began
        self.fails = 0

    # ------------------------------------------------------------------ from other threads

    def heard(self, news: frozenset[News]) -> None:
        """Take news of the store; called by other threads, so it is quick."""
        if "work" in news and not self._work_news:
            self._work_news = True
            if self._slots.free > 0:
                self._wake.set()
        if "ask" in news and not self._ask_news:
            self._ask_news = True
            self._wake.set()

    @property
    def healthy(self) -> bool:
        """Whether the store answers: False after ten failed calls in a row, and while one takes far too long."""
        return self.fails < UNHEALTHY_AFTER and self._clock.monotonic() - self._turned_at < HUNG_S

    # ------------------------------------------------------------------ the loop

    def run(self) -> None:
        """Dispatch until the worker's end, then give back what is left."""
        while not self._over():
            claiming = self._wait()
            self._turned_at = self._clock.monotonic()
            try:
                self._turn(claiming)
            except Exception as error:  # noqa: BLE001  the dispatcher outlives whatever goes wrong in one turn
                self._failed(error)
        self._give_back()

    def _over(self) -> bool:
        if self._until_idle and self._idle:
            self._drain.wish()
        before = self._drain.step
        step = self._drain.advance(busy=bool(self._hands.held))
        if step != before:
            log.info("worker_%s worker=%s running=%d", step, self._worker, len(self._hands.held))
            for attempt in self._hands.attempts():
                attempt.tell("shutdown", interrupt=False)
                if step == "returning":
                    attempt.interrupt()
        return step == "over"

    def _wait(self) -> bool:
        """Wait for a reason to look around, and return whether a claim is worth its while."""
        self._turned_at = math.inf
        at_once = self._hands.anything_ended or (self._more and not self.fails)
        signalled = at_once or self._wake.wait(self._wait_s())
        self._wake.clear()
        now = self._clock.monotonic()
        return (
            not signalled
            or self._more
            or now >= min(self._poll_at, self._due_at)
            or (self._work_news and now >= self._not_before)
        )

    def _wait_s(self) -> float:
        now = self._clock.monotonic()
        until = self._poll_at
        if self._slots.free > 0:
            until = min(until, self._due_at)
            if self._work_news:
                until = min(until, self._not_before)
        if self._ask_news:  # somebody was reading
            until = min(until, now + HELD_UP_POLL_S)
        wait_s = max(0.0, until - now)
        drain_s = self._drain.wait_s()
        return wait_s if drain_s is None else min(drain_s, POLL_S)

    def _turn(self, claiming: bool) -> None:
        self._pass_on_asks()
        claiming |= self._collect(self._pace.portion(self._hands.ended))
        ask = self._ask() if claiming or self._ended else None
        if not self._ended and not self._returned and not self._untold:
            if ask is None:
                if claiming:
                    self._claim_later()
                return
            if self._idle and not self._work_news and not self.fails and self._is_spared(ask):
                return
        if self.fails > 1 and self._ended:
            self._settle_apart()
        trade = self._trade(ask)
        if trade.refusal is not None:
            raise trade.refusal

    def _is_spared(self, ask: Ask) -> bool:
        """Return whether nothing has happened since a claim that found nothing; then the next look is planned."""
        spared = self._clock.monotonic() < self._due_at and self._quiet.spares(ask)
        if spared:
            self._poll_at = self._clock.monotonic() + self._quiet.wait_s()
        return spared

    def _claim_later(self) -> None:
        """Take note that nothing can be asked for now: when a slot comes free, a claim goes with the settlement."""
        self._work_news = False
        self._more = False
        self._due_at = math.inf
        self._plan_poll(self._clock.monotonic())

    def _plan_poll(self, now: float) -> None:
        held_up = self._hands.loop_is_held_up or self._hands.overdue()
        self._poll_at = now + (HELD_UP_POLL_S if held_up else POLL_S * self._rng.uniform(0.9, 1.0))

    def _trade(self, ask: Ask | None) -> Trade:
        """Settle and claim in one transaction, and do what follows from it."""
        ended, returned = self._ended[:MAX_SETTLED], self._returned[:MAX_SETTLED]
        if ended or returned:
            failpoint("before_ack")
        self._work_news = False
        try:
            return self._traded(ended, returned, ask)
        finally:
            self._hands.claiming(math.inf)

    def _traded(self, ended: Sequence[Attempt], returned: Sequence[Settlement], ask: Ask | None) -> Trade:
        began = self._clock.monotonic()
        trade = self._owner.here(partial(self._op, ended, returned, ask, self._untold))
        self._pace.traded(self._clock.monotonic() - began, ended)
        self._untold = False
        del self._ended[:MAX_SETTLED], self._returned[:MAX_SETTLED]
        unstarted = list(trade.claims)
        for attempt in ended:
            self._let_go(attempt)
        for settlement in returned:
            self._hands.held.pop((settlement.seq, settlement.fence), None)
        try:
            if ended or returned:
                failpoint("after_ack_before_return")
            if unstarted:
                failpoint("after_claim_commit")
            if not self._drain.wished:  # else somebody wished for the end meanwhile, and may not wait for it any more
                self._start(unstarted, trade.claimed_at)
        finally:
            self._returned += [released(claim) for claim in unstarted]
            self._settled(ended, trade.kept)  # last: what is told of ends holds up no job
        self._note(ask, trade)
        return trade

    def _op(  # noqa: PLR0917  what comes first is bound beforehand
        self,
        ended: Sequence[Attempt],
        returned: Sequence[Settlement],
        ask: Ask | None,
        untold: bool,
        store: Store,
        now_ms: int,
    ) -> Trade:
        """Do it, inside the transaction; it may be done again when the transaction fails."""
        if untold:
            store.tell(("work", "end"))
        for attempt in ended:
            if attempt.rest is not None:
                progress, checkpoint = attempt.rest
                store.save(attempt.claim.seq, attempt.claim.fence, progress=progress, checkpoint=checkpoint)
        settlements = [*(attempt.settlement for attempt in ended if attempt.settlement is not None), *returned]
        kept = store.settle(settlements, now_ms) if settlements else ()
        claimed_at = instant_of(self._owner.clock, now_ms)
        claims: Sequence[Claim] = ()
        due_ms, refusal = None, None
        # Asked again here: the process may have stood still since, and a claim takes back whatever has lapsed.
        if ask is not None and not self._hands.overdue():
            try:
                self._hands.claiming(claimed_at + self._options.lease_ms / 1000)
                claims = store.claim(ask, worker=self._worker, lease_ms=self._options.lease_ms, now_ms=now_ms)
                due_ms = store.next_due_ms() if len(claims) < ask.count else None
            except StoreError:
                raise
            except FairlaneError as error:  # the settlements stand
                refusal = error
        return Trade(kept, claims, claimed_at, None if due_ms is None else (due_ms - now_ms) / 1000, refusal)

    # ------------------------------------------------------------------ before the transaction

    def _pass_on_asks(self) -> None:
        """Tell runs that somebody wants to stop: at once after news, else once a second, for news may be lost."""
        now = self._clock.monotonic()
        if self._ask_news or (self._hands.held and now >= self._asked_at + POLL_S):
            self._ask_news = False
            if pass_on(self._owner, self._worker, self._hands.attempts()):
                self._asked_at = now
            else:
                self._ask_news = True

    def _collect(self, most: int | None = None) -> bool:
        """Free the slots of what has ended; what still has its lease is to be settled.

        Args:
            most: How many at most; None for all.

        Returns:
            Whether a slot came free for which nothing is to be settled: a claim is worth its while.
        """
        for attempt in self._hands.collect_settled():
            self._untold = True
            self._settled([attempt], [True])
        freed = False
        for attempt in self._hands.collect(self._hands.ended if most is None else most):
            self._slots.give(attempt.claim.start.lane, express=attempt.claim.start.express is not None)
            if attempt.settled:
                freed = True
                self._let_go(attempt)
            elif attempt.dropped or attempt.settlement is None:
                log.warning("outcome_dropped job=%s fence=%d", attempt.claim.uuid, attempt.claim.fence)
                self._let_go(attempt)
            else:
                self._ended.append(attempt)
        return freed

    def _ask(self) -> Ask | None:
        """Return what to claim now, or None."""
        if self._drain.wished or self._hands.overdue():
            return None
        if self._registry.undeclared:
            tell_tasks(self._owner, self._registry)
        tasks = self._registry.names
        if self._hands.loop_is_held_up:
            tasks = frozenset(one.name for one in self._registry.handlers if not one.is_async)
            self._take_back()
        return self._slots.ask(tasks)

    def _take_back(self) -> None:
        for attempt in self._hands.take_back():
            log.warning("event_loop_held_up job=%s: given back", attempt.claim.uuid)
            self._slots.give(attempt.claim.start.lane, express=attempt.claim.start.express is not None)
            self._returned.append(released(attempt.claim))  # it counts as held until the store knows

    # ------------------------------------------------------------------ after the transaction

    def _settled(self, ended: Sequence[Attempt], kept: Sequence[bool]) -> None:
        for attempt, ours in zip(ended, kept, strict=False):
            if ours:
                tell_log(attempt.claim, attempt.settlement)
                self._notices.settled(attempt)
            else:
                log.warning("lease_lost job=%s fence=%d: outcome dropped", attempt.claim.uuid, attempt.claim.fence)
            attempt.end = None  # a traceback holds what the handler held

    def _let_go(self, attempt: Attempt) -> None:
        self._hands.held.pop((attempt.claim.seq, attempt.claim.fence), None)

    def _start(self, claims: list[Claim], claimed_at: float) -> None:
        """Run what was claimed, and take it out of ``claims``; what the system gives no thread for stays there."""
        lapses_at = claimed_at + self._options.lease_ms / 1000
        tracer = self._hands.hooks.tracer
        attempts: list[Attempt] = []
        strangers: list[Claim] = []
        for claim in claims:
            task = self._registry.handler(claim.task, claim.phase)
            if task is None:
                log.error("task_unknown job=%s task=%s: given back", claim.uuid, one_line(claim.start.lane.task))
                strangers.append(claim)
                continue
            attempts.append(
                Attempt(claim, task, self._hands, claimed_at=claimed_at, lapses_at=lapses_at, tracer=tracer)
            )
            self._slots.take(claim.start.lane, express=claim.start.express is not None)
        claims[:] = strangers
        try:
            if attempts:
                self._hands.start(attempts)
        finally:
            for attempt in attempts:
                log.error("not_started job=%s: given back", attempt.claim.uuid)
                self._slots.give(attempt.claim.start.lane, express=attempt.claim.start.express is not None)
                claims.append(attempt.claim)

    def _note(self, ask: Ask | None, trade: Trade) -> None:
        """Plan the next claim, by what this one brought."""
        if self.fails and trade.refusal is None:
            log.info("store_answers worker=%s after=%d", self._worker, self.fails)
            self.fails = 0
        now = self._clock.monotonic()
        self._more = bool(self._ended or self._returned)
        if ask is None:
            self._idle = False
            return
        self._more |= len(trade.claims) == ask.count and self._slots.free > 0
        self._plan_poll(now)
        if trade.claims:
            self._empty = 0
            self._not_before = -math.inf
        else:
            self._empty = min(self._empty + 1, 10)
            self._not_before = now + min(QUIET_S[1], QUIET_S[0] * 2 ** (self._empty - 1))
        self._due_at = math.inf if trade.due_in_s is None else max(self._not_before, now + trade.due_in_s)
        due = trade.due_in_s is not None and trade.due_in_s <= 0
        self._idle = not trade.claims and not due and not self._hands.held and not self._returned

    # ------------------------------------------------------------------ when the store fails

    def _failed(self, error: Exception) -> None:
        """Take note that a turn failed, and wait before the next one; what has ended stays to be settled."""
        self._turned_at = math.inf
        self.fails += 1
        expected = isinstance(error, FairlaneError)
        log.warning("store_failed worker=%s times=%d error=%r", self._worker, self.fails, error, exc_info=not expected)
        if self.fails == UNHEALTHY_AFTER:
            log.error("worker_unhealthy worker=%s: its store has failed %d times", self._worker, self.fails)
        least, most = RETRY_S
        pause_s = min(most, least * 2 ** min(self.fails - 1, 20)) * self._rng.uniform(0.5, 1.0)
        self._poll_at = -math.inf  # then claim, whatever the news
        until = self._clock.monotonic() + pause_s
        while (left_s := until - self._clock.monotonic()) > 0 and self._drain.step == "running":
            if self._drain.wished:
                return
            self._wake.wait(left_s)  # jobs that end meanwhile set it too, and wait with the others
            self._wake.clear()

    def _settle_apart(self) -> None:
        """Settle one by one after failures: a settlement that the store cannot take must not hold up the others.

        Raises:
            StoreError: The store does not work at all.
        """
        for attempt in list(self._ended):
            try:
                trade = self._owner.call(partial(self._op, [attempt], [], None, False))
            except (StoreBusy, StoreFull):
                raise
            except FairlaneError as error:
                self._owner.call(lambda store, now_ms: None)  # raises when the fault is the store's
                self._refused(attempt, error)
            else:
                self._ended.remove(attempt)
                self._let_go(attempt)
                self._settled([attempt], trade.kept)

    def _refused(self, attempt: Attempt, error: FairlaneError) -> None:
        attempt.refusals += 1
        log.error("settlement_refused job=%s times=%d error=%r", attempt.claim.uuid, attempt.refusals, error)
        if attempt.refusals == MAX_REFUSALS:
            reason = f"the store could not take how it ended: {type(error).__name__}"
            attempt.rest = None
            attempt.settlement = Settlement(
                seq=attempt.claim.seq, fence=attempt.claim.fence, kind="dead", reason=reason
            )
        elif attempt.refusals > 2 * MAX_REFUSALS:
            self._ended.remove(attempt)
            self._let_go(attempt)  # its lease runs out, and it is rescued

    # ------------------------------------------------------------------ the end

    def _give_back(self) -> None:
        """Settle what has ended, give back what has not, and sign off: nothing stays leased."""
        until = self._clock.monotonic() + GIVE_BACK_S
        for attempt in self._still_running():
            if attempt.settled:
                self._let_go(attempt)
                continue
            log.warning("job_given_back job=%s task=%s", attempt.claim.uuid, one_line(attempt.claim.task))
            self._returned.append(released(attempt.claim))
        while not self._sign_off():
            if self._clock.monotonic() > until:
                log.error("worker_gone worker=%s: its store does not answer; its jobs will be rescued", self._worker)
                return
            self._pause.wait(RETRY_S[0])

    def _still_running(self) -> list[Attempt]:
        """Return the attempts that have not ended, and tell them that whatever they do counts no more."""
        until = self._clock.monotonic() + ENDING_S
        while True:
            self._collect()
            ended = {id(attempt) for attempt in self._ended}
            rest = [attempt for attempt in self._hands.attempts() if id(attempt) not in ended]
            for attempt in rest:
                attempt.tell("lost")
            if not any(attempt.ended for attempt in rest) or self._clock.monotonic() > until:
                return rest
            self._pause.wait(0.002)  # these have ended, and their settlements are being written down

    def _sign_off(self) -> bool:
        try:
            self._trade(None)
            while self._ended or self._returned:
                self._trade(None)
            self._owner.call(lambda store, now_ms: store.unregister(self._worker, now_ms))
        except Exception as error:  # noqa: BLE001  as in run()
            log.warning("give_back_failed worker=%s error=%r", self._worker, error)
            return False
        return True
