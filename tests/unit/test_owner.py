"""The owner of a store: calls that wait together share a transaction, and none spoils anything for its neighbours."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import queue
import threading
import time
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from fairlane import owner as owner_module
from fairlane.clock import SystemClock
from fairlane.domain.jobs import NewJob
from fairlane.errors import InvalidValue, StoreBusy, StoreError, StoreFull
from fairlane.owner import CONFLICTS, MAX_TOGETHER, Owner
from fairlane.store import Conflict, NeedsGate, News, Store
from fairlane.stores.sqlite.store import open_sqlite

LONG_S = 10.0


class Ledger:
    """A store of numbers that remembers its transactions; ``fail`` is asked before each commit with what it holds."""

    url = "ledger"

    def __init__(self) -> None:
        self.committed: list[int] = []
        self.transactions: list[list[int]] = []
        self.began = 0
        self.lights = False
        self.free = True
        self.light: list[bool] = []
        self.fail: Callable[[list[int]], Exception | None] = lambda held: None
        self.closed = 0
        self.announced: list[frozenset[News]] = []
        self.told = 0
        self.announce_error: Exception | None = None
        self._held: list[int] = []
        self._news: set[News] = set()

    def at_once(self) -> bool:
        return self.free

    @contextlib.contextmanager
    def transaction(self, *, light: bool = False) -> Iterator[None]:
        self.began += 1
        self.light.append(light)
        self._held = []
        yield
        error = self.fail(self._held)
        if error is not None:
            raise error
        self.transactions.append(self._held)
        self.committed += self._held
        if self._held:
            self._news.add("work")

    def put(self, number: int) -> int:
        if number < 0:
            raise InvalidValue(f"{number} is refused")
        self._held.append(number)
        return number

    def news(self) -> frozenset[News]:
        news = frozenset(self._news)
        self._news.clear()
        return news

    def announce(self, news: Collection[News]) -> None:
        self.announced.append(frozenset(news))
        if self.announce_error is not None:
            raise self.announce_error

    def listen(self, heard: Callable[[frozenset[News]], None]) -> Callable[[], None]:
        def stop() -> None:
            self.told += 1

        return stop

    def close(self) -> None:
        self.closed += 1


def put(number: int) -> Callable[[Any, int], int]:
    return lambda store, now_ms: store.put(number)


@pytest.fixture
def ledger() -> Ledger:
    return Ledger()


@pytest.fixture
def owner(ledger: Ledger) -> Iterator[Owner]:
    made = Owner(lambda: ledger, SystemClock())  # type: ignore[arg-type,return-value]
    yield made
    made.close()


@contextlib.contextmanager
def held(owner: Owner) -> Iterator[None]:
    """Keep the owner busy, so that what is put in line meanwhile is taken together."""
    inside, go_on = threading.Event(), threading.Event()

    def op(store: Store, now_ms: int) -> None:
        inside.set()
        assert go_on.wait(LONG_S)

    future = owner.submit(op)
    assert inside.wait(LONG_S)
    try:
        yield
    finally:
        go_on.set()
    future.result(LONG_S)


def answers(futures: list[Future[int]]) -> list[object]:
    return [future.exception(LONG_S) or future.result() for future in futures]


# ---------------------------------------------------------------- together


def test_calls_that_wait_share_one_transaction_in_their_order(owner: Owner, ledger: Ledger):
    with held(owner):
        futures = [owner.submit(put(n)) for n in range(50)]
    assert answers(futures) == list(range(50))
    assert ledger.transactions[1:] == [list(range(50))]


def test_a_transaction_takes_a_bounded_number_of_calls(owner: Owner, ledger: Ledger):
    with held(owner):
        futures = [owner.submit(put(n)) for n in range(MAX_TOGETHER + 1)]
    assert answers(futures) == list(range(MAX_TOGETHER + 1))
    assert [len(numbers) for numbers in ledger.transactions[1:]] == [MAX_TOGETHER, 1]


def test_a_refused_call_spoils_nothing_for_its_neighbours(owner: Owner, ledger: Ledger):
    with held(owner):
        futures = [owner.submit(put(n)) for n in (1, -2, 3)]
    one, two, three = answers(futures)
    assert (one, three) == (1, 3)
    assert isinstance(two, InvalidValue)
    assert ledger.transactions[1:] == [[1, 3]]


@pytest.mark.parametrize("error", [StoreError("broken"), StoreFull("full"), ZeroDivisionError("a fault of ours")])
def test_a_transaction_that_fails_is_done_again_call_by_call(owner: Owner, ledger: Ledger, error: Exception):
    ledger.fail = lambda numbers: error if 7 in numbers else None
    with held(owner):
        futures = [owner.submit(put(n)) for n in (6, 7, 8, -9)]
    six, seven, eight, nine = answers(futures)
    assert (six, eight) == (6, 8)
    assert isinstance(seven, type(error) if isinstance(error, StoreError) else StoreError)
    assert str(error) in str(seven)
    assert isinstance(nine, InvalidValue)
    assert ledger.committed == [6, 8]


# ---------------------------------------------------------------- in the caller's own thread


def thread_of(store: Store, now_ms: int) -> str:
    return threading.current_thread().name


def test_a_thread_of_the_library_carries_out_its_call_itself(owner: Owner, ledger: Ledger):
    heard: list[str] = []
    owner.listen(lambda news: heard.append(threading.current_thread().name))
    assert owner.here(put(1)) == 1
    assert owner.here(thread_of) == threading.current_thread().name == heard[0]
    with pytest.raises(InvalidValue):
        owner.here(put(-1))
    ledger.fail = lambda numbers: StoreFull("full")
    with pytest.raises(StoreFull):
        owner.here(put(2))
    assert ledger.committed == [1]
    assert ledger.announced == [frozenset({"work"})]


def test_while_others_are_at_it_it_stands_in_line_like_them(owner: Owner, ledger: Ledger):
    told: Future[str] = Future()

    def op(store: Any, now_ms: int) -> str:
        store.put(2)
        return thread_of(store, now_ms)

    thread = threading.Thread(target=lambda: told.set_result(owner.here(op)))
    with held(owner):
        first = owner.submit(put(1))
        thread.start()
        until = time.monotonic() + LONG_S
        while owner._line.qsize() < 2:  # pyright: ignore[reportPrivateUsage]  # nothing else tells
            assert time.monotonic() < until
        last = owner.submit(put(3))
    assert told.result(LONG_S) == "fairlane-owner"
    assert answers([first, last]) == [1, 3]
    assert ledger.transactions[1:] == [[1, 2, 3]]
    thread.join()


def test_where_it_would_wait_for_other_processes_the_owning_thread_does(owner: Owner, ledger: Ledger):
    ledger.free = False
    assert owner.here(thread_of) == "fairlane-owner"


def test_it_overtakes_no_call_that_the_owning_thread_has_just_taken_out_of_the_line(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
):
    """What a run saved as its last would come behind the settlement, and be dropped."""
    out, go_on = threading.Event(), threading.Event()

    class Line(queue.SimpleQueue[Any]):
        def get(self, block: bool = True, timeout: float | None = None) -> Any:
            call = super().get(block, timeout)
            out.set()
            assert go_on.wait(LONG_S)
            return call

    monkeypatch.setattr(queue, "SimpleQueue", Line)
    owner = Owner(lambda: ledger, SystemClock())  # type: ignore[arg-type,return-value]
    monkeypatch.undo()
    first = owner.submit(put(1))
    assert out.wait(LONG_S)
    told: Future[int] = Future()
    thread = threading.Thread(target=lambda: told.set_result(owner.here(put(2))))
    thread.start()
    until = time.monotonic() + LONG_S
    while not owner._line.qsize() and not told.done():  # pyright: ignore[reportPrivateUsage]  # nothing else tells
        assert time.monotonic() < until
    go_on.set()
    assert answers([first, told]) == [1, 2]
    assert ledger.committed == [1, 2]
    thread.join()
    owner.close()


def test_the_store_is_closed_behind_a_call_that_a_thread_carries_out_itself(ledger: Ledger):
    owner = Owner(lambda: ledger, SystemClock())  # type: ignore[arg-type,return-value]
    inside, closed = threading.Event(), threading.Event()
    ledger.close = closed.set  # type: ignore[method-assign]

    def op(store: Any, now_ms: int) -> int:
        inside.set()
        assert not closed.wait(0.2)  # a store that is closed too soon is closed at once
        return int(store.put(1))

    told: Future[int] = Future()
    threads = [threading.Thread(target=lambda: told.set_result(owner.here(op))), threading.Thread(target=owner.close)]
    threads[0].start()
    assert inside.wait(LONG_S)
    threads[1].start()
    assert told.result(LONG_S) == 1
    assert closed.wait(LONG_S)
    for thread in threads:
        thread.join(LONG_S)
    with pytest.raises(StoreError, match="closed"):
        owner.here(put(2))


def test_a_file_is_taken_at_once_only_while_nobody_writes_to_it(real: Owner, tmp_path: Path):
    with contextlib.closing(open_sqlite(f"sqlite:///{tmp_path}/jobs.db", clock=SystemClock())) as other:
        with other.transaction():
            assert not real.store.at_once()
        assert real.here(thread_of) == threading.current_thread().name
        with other.transaction():
            pass
        assert real.call(thread_of) == "fairlane-owner"


# ---------------------------------------------------------------- light calls, and what meets others


def test_light_calls_share_a_transaction_of_their_own_where_that_is_of_use(owner: Owner, ledger: Ledger):
    for lights in (False, True):
        ledger.lights = lights
        with held(owner):
            futures = [owner.submit(put(n), light=n % 2 == 0) for n in range(4)]
        assert answers(futures) == [0, 1, 2, 3]
    assert ledger.transactions == [[], [0, 1, 2, 3], [], [0, 2], [1, 3]]
    assert ledger.light == [False, False, False, True, False]


def test_a_transaction_that_meets_another_is_tried_again(owner: Owner, ledger: Ledger):
    meetings = iter([Conflict("met")] * 3)
    ledger.fail = lambda numbers: next(meetings, None) if 2 in numbers else None
    with held(owner):
        futures = [owner.submit(put(n)) for n in (1, 2, 3)]
    assert answers(futures) == [1, 2, 3]
    assert ledger.transactions[1:] == [[1, 2, 3]]


def test_a_transaction_that_always_meets_another_gives_up(owner: Owner, ledger: Ledger):
    ledger.fail = lambda numbers: Conflict("met") if 2 in numbers else None
    one, two = answers([owner.submit(put(1)), owner.submit(put(2))])
    assert one == 1
    assert isinstance(two, StoreBusy)
    assert CONFLICTS <= ledger.began <= 3 * CONFLICTS


def test_what_is_not_light_after_all_is_done_in_an_ordinary_transaction(owner: Owner, ledger: Ledger):
    ledger.lights = True
    ledger.fail = lambda numbers: NeedsGate("not light") if 2 in numbers and ledger.light[-1] else None
    with held(owner):
        futures = [owner.submit(put(n), light=True) for n in (1, 2, 3)]
    assert answers(futures) == [1, 2, 3]
    assert ledger.transactions[1:] == [[1], [2], [3]]
    assert ledger.light[1:] == [True, True, True, False, True]


def test_an_error_inside_a_call_rolls_back_and_reaches_its_caller_alone(owner: Owner, ledger: Ledger):
    def broken(store: Any, now_ms: int) -> int:
        store.put(99)
        raise KeyError("oops")

    with held(owner):
        futures = [owner.submit(put(1)), owner.submit(broken), owner.submit(put(2))]
    one, oops, two = answers(futures)
    assert (one, two) == (1, 2)
    assert isinstance(oops, StoreError)
    assert "KeyError" in str(oops)
    assert ledger.committed == [1, 2], "nothing of the broken one"
    assert owner.call(put(3)) == 3


def test_an_answer_of_a_failed_transaction_is_never_handed_out(owner: Owner, ledger: Ledger):
    ledger.fail = lambda numbers: StoreFull("full")
    with pytest.raises(StoreFull):
        owner.call(put(1))
    ledger.fail = lambda numbers: None
    assert owner.call(put(2)) == 2
    assert ledger.committed == [2]


# ---------------------------------------------------------------- coroutines


async def test_a_thousand_coroutines_share_few_transactions(owner: Owner, ledger: Ledger):
    assert await asyncio.gather(*(owner.acall(put(n)) for n in range(1_000))) == list(range(1_000))
    assert ledger.committed == list(range(1_000))
    assert ledger.began < 200


async def test_a_cancelled_awaiter_does_not_undo_its_call_and_disturbs_no_other(owner: Owner, ledger: Ledger):
    with held(owner):
        tasks = [asyncio.ensure_future(owner.acall(put(n))) for n in range(10)]
        await asyncio.sleep(0)
        for task in tasks[::2]:
            task.cancel()
        await asyncio.sleep(0)
    done = await asyncio.gather(*tasks, return_exceptions=True)
    assert [n for n in done if not isinstance(n, BaseException)] == [1, 3, 5, 7, 9]
    assert sum(isinstance(n, asyncio.CancelledError) for n in done) == 5
    assert ledger.committed == list(range(10))
    assert await owner.acall(put(11)) == 11


def test_an_event_loop_that_was_closed_meanwhile_harms_nobody(owner: Owner, caplog: pytest.LogCaptureFixture):
    with held(owner):

        async def leave() -> None:
            asyncio.ensure_future(owner.acall(put(1)))  # noqa: RUF006  it is cancelled with its loop
            await asyncio.sleep(0)

        asyncio.run(leave())
        other = owner.submit(put(2))
    assert other.result(LONG_S) == 2
    assert "event_loop_closed" in caplog.text


def test_a_future_that_is_cancelled_in_line_harms_nobody(owner: Owner, ledger: Ledger):
    with held(owner):
        futures = [owner.submit(put(n)) for n in range(3)]
        assert futures[1].cancel()
    assert [futures[0].result(LONG_S), futures[2].result(LONG_S)] == [0, 2]
    assert owner.call(put(5)) == 5


async def test_two_event_loops_get_their_own_answers(owner: Owner):
    def other() -> list[int]:
        async def every() -> list[int]:
            return list(await asyncio.gather(*(owner.acall(put(n)) for n in range(100, 150))))

        return asyncio.run(every())

    theirs = asyncio.ensure_future(asyncio.to_thread(other))
    assert await asyncio.gather(*(owner.acall(put(n)) for n in range(50))) == list(range(50))
    assert await theirs == list(range(100, 150))


# ---------------------------------------------------------------- news


def test_news_are_told_after_the_commit_and_a_listener_that_raises_harms_nobody(
    owner: Owner, ledger: Ledger, caplog: pytest.LogCaptureFixture
):
    heard: list[tuple[frozenset[News], list[int]]] = []

    def broken(news: frozenset[News]) -> None:
        raise RuntimeError("a listener's fault")

    owner.listen(broken)
    stop = owner.listen(lambda news: heard.append((news, list(ledger.committed))))
    owner.call(put(1))
    assert owner.call(put(2)) == 2, "the owner lives on"
    owner.call(lambda store, now_ms: None)
    assert heard[:2] == [(frozenset({"work"}), [1]), (frozenset({"work"}), [1, 2])]
    assert "listener_failed" in caplog.text
    stop()
    owner.call(put(3))
    owner.call(lambda store, now_ms: None)
    assert len(heard) == 2


def test_an_announcement_that_fails_harms_nobody(owner: Owner, ledger: Ledger, recwarn: pytest.WarningsRecorder):
    ledger.announce_error = FileNotFoundError("the folder is gone")
    with contextlib.ExitStack() as stack:
        before = threading.excepthook
        threading.excepthook = lambda args: None  # else the dying thread fails the next test
        stack.callback(setattr, threading, "excepthook", before)
        assert owner.call(put(1)) == 1
        assert owner.submit(put(2)).result(1) == 2
    assert ledger.committed == [1, 2]


# ---------------------------------------------------------------- life


def test_closing_carries_out_what_is_in_line_and_refuses_what_comes_later(owner: Owner, ledger: Ledger):
    with held(owner):
        futures = [owner.submit(put(n)) for n in range(2_500)]
        closing = threading.Thread(target=owner.close)
        closing.start()
        until = time.monotonic() + LONG_S
        while not owner._closed:
            assert time.monotonic() < until
        with pytest.raises(StoreError, match="closed"):
            owner.call(put(-1))
    closing.join(LONG_S)
    assert answers(futures) == list(range(2_500)), "nobody waits for ever"
    assert ledger.committed == list(range(2_500))
    assert ledger.closed == 1
    owner.close()
    assert ledger.closed == 1
    with pytest.raises(StoreError, match="closed"):
        owner.read(lambda store, now_ms: None)
    with pytest.raises(StoreError, match="closed"):
        asyncio.run(owner.acall(put(1)))


def test_closing_while_threads_call_answers_everybody(ledger: Ledger):
    owner = Owner(lambda: ledger, SystemClock())  # type: ignore[arg-type,return-value]
    outcomes: list[object] = []

    def caller(first: int) -> None:
        for n in range(first, first + 10_000):
            try:
                outcomes.append(owner.call(put(n)))
            except StoreError as error:
                outcomes.append(error)
                return

    threads = [threading.Thread(target=caller, args=(n * 10_000,)) for n in range(8)]
    for thread in threads:
        thread.start()
    until = time.monotonic() + LONG_S
    while len(outcomes) < 200:
        assert time.monotonic() < until
    owner.close()
    for thread in threads:
        thread.join(LONG_S)
        assert not thread.is_alive()
    assert sorted(n for n in outcomes if isinstance(n, int)) == sorted(ledger.committed)


def test_after_any_close_returns_nothing_runs(owner: Owner, ledger: Ledger):
    with held(owner):
        owner.submit(put(1))
        threads = [threading.Thread(target=owner.close) for _ in range(2)]
        for thread in threads:
            thread.start()
        early = _first_to_end(threads, 0.3)
    for thread in threads:
        thread.join(LONG_S)
    assert early is None, "one returned although a call was under way"


def _first_to_end(threads: list[threading.Thread], seconds: float) -> threading.Thread | None:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        for thread in threads:
            if not thread.is_alive():
                return thread
        time.sleep(0.005)
    return None


def test_a_store_that_cannot_be_opened_is_told_to_whoever_makes_the_owner():
    def refuse() -> Store:
        raise StoreError("no such place")

    threads = threading.active_count()
    with pytest.raises(StoreError, match="no such place"):
        Owner(refuse, SystemClock())
    until = time.monotonic() + LONG_S
    while threading.active_count() > threads:
        assert time.monotonic() < until


# ---------------------------------------------------------------- forks


def in_child(body: Callable[[], object]) -> int:
    """Run something in a forked child and return its status; a child that hangs is killed."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            body()
            status = 0
        except BaseException:
            logging.getLogger(__name__).exception("in the child")
        finally:
            os._exit(status)
    until = time.monotonic() + LONG_S
    while time.monotonic() < until:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.005)
    os.kill(child, 9)
    os.waitpid(child, 0)
    return -1


@pytest.fixture
def real(tmp_path: Path) -> Iterator[Owner]:
    made = Owner(lambda: open_sqlite(f"sqlite:///{tmp_path}/jobs.db", clock=SystemClock()), SystemClock())
    yield made
    made.close()


def enqueue(owner: Owner) -> None:
    job = NewJob(id=uuid4().bytes, task="t", args="{}")
    owner.call(lambda store, now_ms: store.enqueue([job], now_ms))


def waiting(owner: Owner) -> int:
    return sum(owner.read(lambda store, now_ms: store.counts()).values())


def test_a_forked_child_calls_reads_and_awaits_on_its_own(real: Owner):
    enqueue(real)
    heard: list[object] = []
    real.listen(heard.append)

    def body() -> None:
        assert waiting(real) == 1
        enqueue(real)
        asyncio.run(real.acall(lambda store, now_ms: None))
        assert heard == [], "the parent's listeners are the parent's"
        real.close()
        with pytest.raises(StoreError, match="closed"):
            enqueue(real)

    assert in_child(body) == 0
    enqueue(real)
    assert waiting(real) == 3
    assert heard


def test_a_child_hears_news_also_when_listening_is_the_first_thing_that_it_does(real: Owner):
    real.listen(lambda news: None)

    def body() -> None:
        heard: list[object] = []
        real.listen(heard.append)
        enqueue(real)
        assert heard

    assert in_child(body) == 0


def test_many_threads_of_a_child_may_be_the_first_to_use_it(real: Owner):
    enqueue(real)

    def body() -> None:
        errors: list[BaseException] = []
        start = threading.Barrier(8)

        def one(number: int) -> None:
            start.wait()
            try:
                waiting(real) if number % 2 else enqueue(real)
            except BaseException as error:  # noqa: BLE001  any is one too many
                errors.append(error)

        threads = [threading.Thread(target=one, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert errors == []

    for _ in range(5):
        assert in_child(body) == 0
    assert waiting(real) == 21


def test_a_grandchild_works_too(real: Owner):
    enqueue(real)

    def body() -> None:
        enqueue(real)
        assert in_child(lambda: enqueue(real)) == 0
        enqueue(real)

    assert in_child(body) == 0
    assert waiting(real) == 4


def test_a_child_of_a_closed_owner_finds_it_closed(ledger: Ledger):
    owner = Owner(lambda: ledger, SystemClock())  # type: ignore[arg-type,return-value]
    owner.close()

    def body() -> None:
        with pytest.raises(StoreError, match="closed"):
            owner.call(put(1))

    assert in_child(body) == 0


def test_a_child_that_could_not_open_its_store_tries_again(ledger: Ledger):
    opened: list[int] = []

    def open_store() -> Any:
        opened.append(1)
        if len(opened) == 2:
            raise StoreError("not now")
        return ledger

    owner = Owner(open_store, SystemClock())

    def body() -> None:
        with pytest.raises(StoreError, match="not now"):
            owner.submit(put(1))
        assert owner.submit(put(2)).result(2) == 2

    try:
        assert in_child(body) == 0
    finally:
        owner.close()


@pytest.mark.parametrize("whose", ["owner", "caller"])
def test_a_fork_in_the_middle_of_a_transaction_gives_the_child_a_working_store(real: Owner, whose: str):
    enqueue(real)
    inside, go_on = threading.Event(), threading.Event()

    def op(store: Store, now_ms: int) -> None:
        inside.set()
        go_on.wait(1)  # a fork may wait for the end of the transaction, or not

    thread = threading.Thread(target=real.call if whose == "owner" else real.here, args=(op,))
    thread.start()
    assert inside.wait(LONG_S)
    status = in_child(lambda: enqueue(real))
    go_on.set()
    thread.join(LONG_S)
    assert status == 0
    assert waiting(real) == 2


# ---------------------------------------------------------------- in line for too long


def test_a_caller_that_waits_too_long_is_told_and_its_call_is_not_carried_out(
    owner: Owner, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(owner_module, "BUSY_S", 0.02)
    with held(owner), pytest.raises(StoreBusy, match="was not carried out"):
        owner.call(put(1))
    assert owner.call(put(2)) == 2
    assert [number for numbers in ledger.transactions for number in numbers] == [2]


async def test_coroutines_that_wait_too_long_are_told_each_in_its_time(
    owner: Owner, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(owner_module, "BUSY_S", 0.02)
    assert await owner.acall(put(1)) == 1
    with held(owner):
        told = await asyncio.gather(*(owner.acall(put(n)) for n in range(2, 5)), return_exceptions=True)
        assert [type(one) for one in told] == [StoreBusy] * 3
    assert await owner.acall(put(5)) == 5
    assert [number for numbers in ledger.transactions for number in numbers] == [1, 5]
