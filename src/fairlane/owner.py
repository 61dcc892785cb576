"""The thread that owns a store, with a synchronous and an asynchronous face over the same calls.

All calls of a process that change the store are put in line and carried out by one thread; those that wait together
share one transaction (group commit), so a hundred callers pay for one flush of the disk. When nobody is in line, a
thread of the library may carry out its own call; one thread at a time does. A call that is refused changes nothing and
spoils nothing for its neighbours; when the transaction itself fails, each call is tried again alone.

A call is a function of the store and the instant: ``owner.call(lambda store, now_ms: store.enqueue(jobs, now_ms))``.
"""

from __future__ import annotations

import asyncio
import logging
import os
import queue
import threading
import weakref
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Future
from typing import Final, TypeVar, cast

from fairlane.background import started
from fairlane.calls import Awaited, Call, Here, Patience, Promised
from fairlane.clock import Clock
from fairlane.domain.jobs import JobRecord
from fairlane.errors import FairlaneError, StoreBusy, StoreError
from fairlane.failpoints import ARMED, failpoint
from fairlane.store import Conflict, FateUnknown, NeedsGate, News, Store

T = TypeVar("T")
Op = Callable[[Store, int], T]
Heard = Callable[[frozenset[News]], None]
Mourner = Callable[[Sequence[JobRecord]], None]

BUSY_S = 30.0
"""How long a call stands in line before its caller is told that the store is busy; it is not carried out then."""

MAX_TOGETHER = 1_000
"""Most calls in one transaction: it bounds how long the others wait for the store."""

CONFLICTS: Final = 20
"""How often a transaction is tried that meets others: each time somebody else has got on."""

log = logging.getLogger("fairlane.owner")


class Owner:
    """Owns a store. Start and stop are safe to call twice; after :meth:`close` returns, nothing runs.

    Args:
        open_store: Opens the store; called in the owning thread, and again in a forked child.
        clock: Where instants come from.
    """

    def __init__(self, open_store: Callable[[], Store], clock: Clock) -> None:
        self._open_store = open_store
        self.clock = clock
        self._lock = threading.Lock()
        self._reading = threading.RLock()
        self._taking = threading.Lock()
        self._carrying = threading.Lock()  # held by the thread that carries out calls
        self._listeners: list[Heard] = []
        self._mourners: list[Mourner] = []
        self._graveyard: list[object] = []
        self._life = threading.Lock()
        self._patience: dict[asyncio.AbstractEventLoop, Patience] = {}
        _owners.add(self)
        self._reset()
        self._start()

    def _reset(self) -> None:
        self._line: queue.SimpleQueue[Call | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._store: Store | None = None
        self._stop_listening: Callable[[], None] | None = None
        self._closed = False
        self._put_in = self._taken_out = 0  # calls that stood in line so far, and how many of them are answered
        self._pid = os.getpid()

    def _start(self) -> None:
        opened: Future[Store] = Future()
        thread = started(self._run, "fairlane-owner", opened)
        self._store = opened.result()
        self._thread = thread

    # ------------------------------------------------------------------ the two faces

    def submit(self, op: Op[T], *, light: bool = False) -> Future[T]:
        """Put a call in line and return where its answer will be; ``light`` as for :meth:`call`."""
        future: Future[T] = Future()
        self._put(Promised(op, future, None, light=light))
        return future

    def call(self, op: Op[T], *, light: bool = False) -> T:
        """Carry out a call in a transaction and return its answer.

        Args:
            op: What to do.
            light: Whether a light transaction is enough; see :meth:`fairlane.store.Store.transaction`.

        Raises:
            FairlaneError: The call was refused, or the store could not do it; nothing has changed.
            StoreBusy: It stood in line for :data:`BUSY_S` seconds behind a process that holds the store.
        """
        call = Awaited(op, light=light)
        self._put(call)
        if not call.answered.acquire(timeout=BUSY_S):
            self._give_up(call)
            call.answered.acquire()
        return cast("T", call.answer())

    def here(self, op: Op[T]) -> T:
        """Carry out a call as :meth:`call` does, in the caller's own thread if nobody is at it or in line for it.

        That saves two changes of thread. It is for threads of the library that run no code of others: what somebody
        raises in a thread, as Ctrl-C does in the main one, must not strike in the middle of a transaction.

        Raises:
            FairlaneError: As :meth:`call`.
        """
        call = Here(op, light=False)
        if not self._carried_out_here(call):
            return self.call(op)
        return cast("T", call.answer())

    def _carried_out_here(self, call: Here) -> bool:
        """Carry out a call in this thread, unless that would mean to wait for somebody; return whether it was."""
        self._after_fork()
        if not self._carrying.acquire(blocking=False):
            return False
        try:
            store = self.store
            if self._taken_out < self._put_in or not store.at_once():  # who has a call in hand waits for its turn
                return False
            self._carry_out(store, [call])
        finally:
            self._carrying.release()
        return True

    async def acall(self, op: Op[T], *, light: bool = False) -> T:
        """Carry out a call as :meth:`call` does, without blocking the event loop.

        A caller that is cancelled while it waits does not undo a call that is already in line.
        """
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        call = Promised(op, future, loop, light=light)
        self._put(call)
        patience = self._patience.get(loop)
        if patience is None:
            patience = self._patience[loop] = Patience(self._give_up, BUSY_S)
            for other in list(self._patience):
                if other.is_closed():
                    self._patience.pop(other, None)
        patience.add(call, loop)
        return await future

    def _give_up(self, call: Call) -> None:
        """Take a call out of the line unless it is being carried out; runs in its caller's thread."""
        with self._taking:
            if call.taken:
                return
            call.given_up = True
        call.error = StoreBusy(f"another process has held the store for {BUSY_S:.0f} s; the call was not carried out")
        call.give()

    def read(self, op: Op[T]) -> T:
        """Carry out a call that only reads, in the caller's thread; it sees everything committed before."""
        self._after_fork()
        with self._reading:
            return op(self.store, self.clock.now_ms())

    def read_soon(self, op: Op[T], within_s: float) -> T | None:
        """Carry out a call as :meth:`read` does, unless another thread is reading for so long: then return None.

        Reads of a process are made one after the other and may take seconds: who starts jobs does not wait for them.
        """
        self._after_fork()
        if not self._reading.acquire(timeout=within_s):
            return None
        try:
            return op(self.store, self.clock.now_ms())
        finally:
            self._reading.release()

    async def aread(self, op: Op[T]) -> T:
        """Carry out a call that only reads, in a thread of its own."""
        return await asyncio.to_thread(self.read, op)

    @property
    def store(self) -> Store:
        """The store, for reading and for what needs no transaction."""
        self._after_fork()
        if self._store is None or self._closed:
            raise StoreError("the store is closed")
        return self._store

    # ------------------------------------------------------------------ news

    def listen(self, heard: Heard) -> Callable[[], None]:
        """Call ``heard`` after commits, of any process, that have something to tell; return how to stop.

        It is called from the thread that carried out the calls or a listening thread: it must be quick and must not
        call the owner.
        """
        self._after_fork()
        with self._lock:
            self._listeners.append(heard)
            if self._stop_listening is None:
                self._stop_listening = self.store.listen(self._tell)

        def stop() -> None:
            with self._lock:
                if heard in self._listeners:
                    self._listeners.remove(heard)

        return stop

    def mourn(self, mourner: Mourner) -> None:
        """Call ``mourner`` with the jobs that died, after each commit of this process in which some did.

        It is called from the thread that carried out the calls: it must be quick and must not call the owner.
        """
        self._mourners.append(mourner)

    def _tell_deaths(self, deaths: Sequence[JobRecord]) -> None:
        for mourner in tuple(self._mourners):
            try:
                mourner(deaths)
            except Exception:
                log.exception("mourner_failed jobs=%d", len(deaths))

    def _tell(self, news: Collection[News]) -> None:
        heard_news = frozenset(news)
        for heard in tuple(self._listeners):
            try:
                heard(heard_news)
            except Exception:
                log.exception("listener_failed")

    # ------------------------------------------------------------------ life

    def close(self) -> None:
        """Carry out what is in line, then close the store."""
        if os.getpid() != self._pid:  # a child that never used it: its store, thread and bell are the parent's
            self._forget(closed=True)
            return
        with self._lock:
            thread = self._thread
            stop, self._stop_listening = self._stop_listening, None
            if not self._closed and thread is not None:
                self._line.put(None)
            self._closed = True
        if stop is not None:
            stop()
        if thread is not None and threading.current_thread() is not thread:
            thread.join()

    def _after_fork(self) -> None:
        """In a forked child: leave the parent's connection and thread alone and open our own."""
        if os.getpid() == self._pid and (self._thread is not None or self._closed):
            return
        with self._life:  # the first calls may come from several threads at once
            if os.getpid() != self._pid:
                self._forget(closed=self._closed)
            if self._thread is None and not self._closed:  # also when an opening failed before
                self._start()

    def renew_lock(self) -> None:
        """In a forked child: a thread that is not here may have held it."""
        self._life = threading.Lock()

    def _forget(self, *, closed: bool) -> None:
        self._graveyard.append(self._store)  # the store itself let go of its files right after the fork
        self._lock = threading.Lock()
        self._reading = threading.RLock()
        self._taking = threading.Lock()
        self._carrying = threading.Lock()
        self._listeners.clear()
        self._patience.clear()
        self._reset()
        self._closed = closed

    def _put(self, call: Call) -> None:
        self._after_fork()
        with self._lock:  # a call that came in behind the end of the line would wait for ever
            if self._closed:
                raise StoreError("the store is closed")
            self._put_in += 1
            self._line.put(call)

    def _run(self, opened: Future[Store]) -> None:
        try:
            store = self._open_store()
        except BaseException as error:  # noqa: BLE001 - the opener gets it
            opened.set_exception(error)
            return
        opened.set_result(store)
        line = self._line
        while (first := line.get()) is not None:
            with self._carrying:
                if self._carry_out_line(store, first):
                    break
        with self._carrying, self._reading:  # a reader in another thread is on the same connection
            store.close()

    def _carry_out_line(self, store: Store, first: Call) -> bool:
        """Carry out a call and those in line behind it, together; return whether that was the end of the line."""
        calls = [first]
        ending = False
        while len(calls) < MAX_TOGETHER:
            try:
                more = self._line.get_nowait()
            except queue.Empty:
                break
            if more is None:
                ending = True
                break
            calls.append(more)
        self._carry_out(store, calls)
        self._taken_out += len(calls)
        return ending

    def _carry_out(self, store: Store, calls: list[Call]) -> None:
        light = [call for call in calls if call.light] if store.lights else []
        if light:
            self._all(store, light, light=True)
        if len(light) < len(calls):
            self._all(store, [call for call in calls if not call.light] if light else calls, light=False)
        news = store.news()
        deaths = store.deaths() if "end" in news else ()
        answers: dict[asyncio.AbstractEventLoop, list[Call]] = {}
        for call in calls:
            if call.loop is None:
                call.give()
            else:
                answers.setdefault(call.loop, []).append(call)
        for loop, given in answers.items():
            try:
                loop.call_soon_threadsafe(_give_all, given)
            except RuntimeError:  # the loop was closed while its calls were in line
                log.warning("event_loop_closed calls=%d", len(given))
        if deaths:
            self._tell_deaths(deaths)
        if news:
            self._spread(store, news)

    def _spread(self, store: Store, news: Collection[News]) -> None:
        self._tell(news)
        try:
            store.announce(news)
        except Exception:  # a hint may be lost; the owner may not
            log.exception("announce_failed")

    def _all(self, store: Store, calls: list[Call], *, light: bool) -> None:
        """Carry out calls in one transaction; when it fails, each in one of its own."""
        try:
            self._again(store, calls, light=light)
        except Exception as error:  # noqa: BLE001 - each call gets its own
            if isinstance(error, FateUnknown) or (len(calls) == 1 and not isinstance(error, NeedsGate)):
                for call in calls:
                    call.error = _as_store_error(error)
            else:
                for call in calls:
                    self._alone(store, call, light=light)

    def _again(self, store: Store, calls: list[Call], *, light: bool) -> None:
        """Carry out calls in one transaction; once more as long as it meets others."""
        for tries_left in reversed(range(CONFLICTS)):
            try:
                self._together(store, calls, light=light)
            except Conflict:
                if not tries_left:
                    raise
            else:
                return

    def _together(self, store: Store, calls: list[Call], *, light: bool) -> None:
        with store.transaction(light=light):
            now_ms = self.clock.now_ms()
            for call in calls:
                with self._taking:
                    call.taken = not call.given_up
                if call.given_up:
                    continue
                call.result, call.error = None, None
                try:
                    call.result = call.op(store, now_ms)
                except StoreError:
                    raise
                except FairlaneError as error:
                    call.error = error
            if ARMED:
                failpoint("before_commit")
        if ARMED:
            failpoint("after_commit")

    def _alone(self, store: Store, call: Call, *, light: bool) -> None:
        try:
            if light:
                try:
                    self._again(store, [call], light=True)
                except NeedsGate:
                    self._again(store, [call], light=False)
            else:
                self._again(store, [call], light=False)
        except Exception as error:  # noqa: BLE001 - its caller gets it
            call.error = _as_store_error(error)


_owners: Final[weakref.WeakSet[Owner]] = weakref.WeakSet()


def _new_locks_in_child() -> None:
    for owner in list(_owners):
        owner.renew_lock()


os.register_at_fork(after_in_child=_new_locks_in_child)


def _give_all(calls: list[Call]) -> None:
    for call in calls:
        call.give()


def _as_store_error(error: Exception) -> Exception:
    return (
        error
        if isinstance(error, FairlaneError)
        else StoreError(f"{type(error).__name__}: {error}").with_traceback(error.__traceback__)
    )
