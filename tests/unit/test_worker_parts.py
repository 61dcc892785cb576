"""The parts of the worker that need no store: options, slots, verdicts, records, the steps to the end."""

from __future__ import annotations

import asyncio
import logging
import math
import os
import random
import signal
import threading
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rig import make_claim

from fairlane.domain.jobs import MAX_ERROR_BYTES, Settlement
from fairlane.domain.lanes import LaneKey
from fairlane.domain.retries import Retry
from fairlane.domain.tiers import Tier
from fairlane.errors import ConfigError
from fairlane.outcomes import Cancel, Dead, NotReady, RateLimited, Snooze, StopRequested
from fairlane.worker import JobFilter
from fairlane.worker.logs import running
from fairlane.worker.options import Options, Slots, kept_for
from fairlane.worker.records import error_record, led_to
from fairlane.worker.shutdown import Drain, Signals
from fairlane.worker.verdict import Ending, Judge, bad_arguments, result_of

# ---------------------------------------------------------------- options


def options(**given: Any) -> Options:
    plain: dict[str, Any] = {
        "concurrency": 8,
        "queues": None,
        "pool": None,
        "reserve": None,
        "lease": 30.0,
        "grace": 25.0,
        "name": None,
        "pool_of": lambda queue: "gpu" if queue.startswith("gpu") else "default",
    }
    return Options.checked(**(plain | given))


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"concurrency": 0}, "concurrency is 0; it must be from 1 to 10000"),
        ({"concurrency": 10_001}, "concurrency is 10001"),
        ({"concurrency": True}, "concurrency must be a whole number"),
        ({"queues": []}, "queues is empty"),
        ({"queues": {}}, "queues is empty"),
        ({"queues": "mail"}, "it must be a list of names"),
        ({"queues": [3]}, "queue must be text"),
        ({"queues": {"mail": 0}}, "slots of queue 'mail' is 0"),
        ({"queues": {"mail": 9}}, "more than concurrency, 8"),
        ({"queues": ["mail", "gpu"]}, "queue 'gpu' is in pool 'gpu' and queue 'mail' in 'default'"),
        ({"queues": ["mail"], "pool": "gpu"}, "queue 'mail' is in pool 'default' and it in 'gpu'"),
        ({"reserve": {"critical": 8}}, "reserve keeps 8 of 8 slots"),
        ({"reserve": {"critical": 4, "high": 4}}, "reserve keeps 8 of 8 slots"),
        ({"reserve": {"urgent": 1}}, "tier 'urgent' is not one of"),
        ({"reserve": {"background": 1}}, "keeps nothing"),
        ({"reserve": {"critical": -1}}, "reserve of critical is -1"),
        ({"lease": 0.05}, "lease is 0.05"),
        ({"lease": math.nan}, "lease is nan"),
        ({"grace": -1}, "grace is -1"),
        ({"name": "a\0b"}, "name holds a NUL"),
    ],
)
def test_wrong_settings_are_refused_and_the_message_says_why(given, said):
    with pytest.raises(ConfigError, match=said.replace("(", r"\(")):
        options(**given)


def test_settings_are_taken_in():
    taken = options(queues=["gpu-a", "gpu-b"], reserve={Tier.HIGH: 2, "critical": 1}, lease=0.5, name="web 1/ä")
    assert taken.pool == "gpu"
    assert taken.queues == {"gpu-a": 8, "gpu-b": 8}
    assert taken.kept == (0, 1, 3, 3, 3)
    assert (taken.lease_ms, taken.name) == (500, "web_1__")
    assert options(pool="gpu").pool == "gpu"
    assert options().pool == "default"


# ---------------------------------------------------------------- slots


def test_an_ask_is_bounded_by_the_free_slots_of_each_queue_and_of_all():
    slots = Slots(options(concurrency=5, queues={"mail": 2, "setup": 4}))
    for queue in ("mail", "setup", "setup"):
        slots.take(LaneKey(queue, "t", "a", 2), express=False)
    ask = slots.ask(frozenset({"t"}))
    assert ask is not None
    assert (ask.count, ask.queues, ask.rooms) == (2, {"mail": 1, "setup": 2}, None)
    slots.take(LaneKey("mail", "t", "a", 2), express=False)
    ask = slots.ask(frozenset({"t"}))
    assert ask is not None
    assert (ask.count, ask.queues) == (1, {"setup": 1})
    slots.give(LaneKey("mail", "t", "a", 2), express=False)
    slots.take(LaneKey("setup", "t", "a", 2), express=False)
    slots.take(LaneKey("setup", "t", "a", 2), express=False)
    assert slots.ask(frozenset({"t"})) is None


def test_nothing_is_asked_for_when_every_queue_served_is_full_although_slots_are_free():
    slots = Slots(options(concurrency=5, queues={"mail": 1}))
    slots.take(LaneKey("mail", "t", "a", 2), express=False)
    assert slots.free == 4
    assert slots.ask(frozenset({"t"})) is None


def test_express_jobs_take_slots_but_no_room_of_their_tier():
    slots = Slots(options(concurrency=3, reserve={"critical": 1}))
    slots.take(LaneKey("q", "t", "a", 4), express=True)
    ask = slots.ask(frozenset())
    assert ask is not None
    assert (ask.count, ask.rooms) == (2, (3, 2, 2, 2, 2))


@given(
    st.integers(2, 12),
    st.dictionaries(st.sampled_from(list(Tier)[:4]), st.integers(0, 3), max_size=3),
    st.lists(st.tuples(st.integers(0, 4), st.booleans()), max_size=30),
)
def test_rooms_keep_reserved_slots_whatever_is_started(concurrency, reserve, wishes):
    """Start whatever the rooms allow, as the scheduler does: what a tier may hold never exceeds what is left to it."""
    if sum(reserve.values()) >= concurrency:
        return
    slots = Slots(options(concurrency=concurrency, reserve=reserve))
    running: list[int] = []
    for tier, express in wishes:
        ask = slots.ask(frozenset())
        if ask is None:
            break
        rooms = ask.rooms or (99,) * 5
        if express or all(room > 0 for room in rooms[: tier + 1]):
            slots.take(LaneKey("q", "t", "a", tier), express=express)
            if not express:
                running.append(tier)
    for reserved in Tier:
        kept = sum(count for tier, count in reserve.items() if tier <= reserved)
        if reserve.get(reserved):
            assert sum(tier > reserved for tier in running) <= concurrency - kept


@given(st.dictionaries(st.sampled_from(list(Tier)[:4]), st.integers(0, 3)), st.integers(0, 4))
def test_what_a_tier_must_leave_alone_is_what_more_urgent_tiers_reserve(reserve, tier):
    assert kept_for(reserve, 100)[tier] == sum(count for key, count in reserve.items() if key < tier)


# ---------------------------------------------------------------- verdicts


def judged(*, retry: Retry | None = None, claim: dict[str, Any] | None = None, **end: Any) -> Settlement:
    judge = Judge("w1", random.Random(1))
    return judge(make_claim(**(claim or {})), retry or Retry(base=2.0, jitter=0.0), Ending(**end), 5_000)


def test_a_returned_value_completes_the_job():
    assert judged(value=None, run_us=7).kind == "completed"
    done = judged(value={"n": 1}, run_us=7, units_us=2_000_000)
    assert (done.result, done.run_us, done.units_us) == ('{"n":1}', 7, 2_000_000)
    assert judged(value=1, stop="shutdown").kind == "completed"
    assert judged(value=1, stop="cancel").kind == "completed"
    assert judged(value=1, stop="preempt").kind == "completed"


class Liar:
    def model_dump(self, **_: Any) -> Any:
        raise ZeroDivisionError

    def __str__(self) -> str:
        raise RuntimeError("no text")


@pytest.mark.parametrize("value", [object(), lambda: 1, Liar(), 2**70, math.nan, "a\0b\ud800", [set()], {1: 2}])
def test_a_result_that_json_cannot_hold_still_completes_the_job(value):
    done = judged(value=value)
    assert done.kind == "completed"
    assert done.result is not None
    done.result.encode()
    assert "\0" not in done.result


def test_a_result_that_is_too_large_is_left_out_and_says_so():
    assert "$fairlane_unstored" in str(result_of("x" * 300_000))


def test_an_exception_is_a_failure_with_a_delay():
    failed = judged(error=ValueError("no"), claim={"failures": 1, "attempt": 2})
    assert (failed.kind, failed.delay_ms) == ("retry", 4_000)
    assert failed.error is not None
    assert (failed.error.attempt, failed.error.at_ms, failed.error.type, failed.error.message, failed.error.worker) == (
        2,
        5_000,
        "ValueError",
        "no",
        "w1",
    )


def test_the_last_failure_and_one_that_is_not_tried_again_are_dead_and_say_which():
    last = judged(error=ValueError("no"), claim={"failures": 3})
    assert (last.kind, last.reason) == ("dead", "failed 4 times; max_attempts is 4")
    given_up = judged(error=ValueError("no"), retry=Retry(give_up_on=(ValueError,)))
    assert (given_up.kind, given_up.reason) == ("dead", "ValueError is not tried again")
    assert judged(error=KeyError("no"), retry=Retry(on=(ValueError,))).kind == "dead"


@pytest.mark.parametrize("error", [SystemExit(1), MemoryError(), KeyboardInterrupt()])
def test_what_would_end_a_process_is_a_crash(error):
    crashed = judged(error=error)
    assert crashed.kind == "crashed"
    assert crashed.error is not None
    assert crashed.error.kind == "crash"
    assert judged(error=error, stop="shutdown").kind == "crashed"


class Odd(BaseException):
    pass


@pytest.mark.parametrize("error", [asyncio.CancelledError(), GeneratorExit(), Odd("x")])
def test_other_base_exceptions_are_failures_and_are_tried_again(error):
    assert judged(error=error).kind == "retry"
    assert judged(error=error, retry=Retry(on=(ValueError,))).kind == "dead"
    assert judged(error=error, retry=Retry(give_up_on=(type(error),))).kind == "dead"
    assert judged(error=error, retry=Retry(on=(type(error),))).kind == "retry"


def test_wishes_count_as_no_failure():
    assert [judged(error=one).kind for one in (Snooze(3), NotReady(3), Cancel("x"), Dead("y"))] == [
        "snoozed",
        "snoozed",
        "cancelled",
        "dead",
    ]
    assert judged(error=Snooze(3)).delay_ms == 3_000
    assert judged(error=Cancel("gone")).reason == "gone"
    assert judged(error=Cancel()).reason == "the handler raised Cancel"
    dead = judged(error=Dead("hopeless"))
    assert dead.reason == "hopeless"
    assert dead.error is not None


def test_a_limit_that_is_told_to_wait_is_named_for_the_tenant():
    told = judged(error=RateLimited("smtp:{tenant}", 20), claim={"tenant": "acme"})
    assert (told.kind, told.delay_ms, told.wait_for) == ("snoozed", 20_000, ("smtp:acme", 20_000))


def caused_by(error: BaseException, cause: BaseException) -> BaseException:
    error.__context__ = cause
    return error


@pytest.mark.parametrize(
    "error",
    [StopRequested("x"), asyncio.CancelledError(), caused_by(ConnectionError(), asyncio.CancelledError())],
)
def test_a_run_that_gives_way_counts_for_nothing(error):
    assert judged(error=error, stop="shutdown").kind == "released"
    preempted = judged(error=error, stop="preempt")
    assert (preempted.kind, preempted.preempted) == ("released", True)
    assert judged(error=error, stop="cancel").kind == "cancelled"
    assert judged(error=error).kind == "retry"


def test_a_failure_while_asked_to_stop_is_a_failure_except_for_a_cancelled_job():
    assert judged(error=ValueError(), stop="shutdown").kind == "retry"
    assert judged(error=ValueError(), stop="preempt").kind == "retry"
    assert judged(error=ValueError(), stop="cancel").kind == "cancelled"


def test_a_timeout_is_a_failure_however_the_run_ended():
    for end, said in (
        ({"error": asyncio.CancelledError()}, "ran 2.500 s, longer than its timeout of 1 s"),
        ({"error": StopRequested("timeout")}, "ran 2.500 s, longer than its timeout of 1 s"),
        ({"error": ValueError()}, "ran 2.500 s, longer than its timeout of 1 s; it raised ValueError"),
        (
            {"value": 3},
            "ran 2.500 s, longer than its timeout of 1 s; it ignored the request to stop and its result was",
        ),
    ):
        late = judged(**end, stop="timeout", run_us=2_500_000, timeout_ms=1_000)
        assert late.kind == "retry"
        assert late.error is not None
        assert late.error.type == "TimeoutError"
        assert late.error.message.startswith(said)
    assert judged(value=3, stop="timeout", retry=Retry(give_up_on=(TimeoutError,))).kind == "dead"
    assert judged(error=Snooze(1), stop="timeout").kind == "snoozed"


def test_arguments_that_do_not_fit_are_dead_at_once():
    dead = judged(error=bad_arguments("t", ValueError("args.x is missing")))
    assert (dead.kind, dead.reason) == ("dead", "the arguments do not fit task 't': args.x is missing")
    assert dead.error is not None
    assert dead.error.type == "ValueError"


# ---------------------------------------------------------------- records


class Mute(Exception):
    def __str__(self) -> str:
        raise RuntimeError("never")


class Choosy(Exception):
    def __init__(self, one: int, two: int) -> None:
        super().__init__()


def record_of(error: BaseException) -> Any:
    try:
        raise error
    except BaseException as caught:  # noqa: BLE001
        return error_record(caught, kind="failure", attempt=1, at_ms=1, worker="w")


def ring() -> BaseException:
    first, second = ValueError("first"), KeyError("second")
    first.__cause__, second.__cause__ = second, first
    return first


@pytest.mark.parametrize(
    "error",
    [
        Mute(),
        Choosy(1, 2),
        ValueError("x" * 100_000_000),
        ValueError("nul\0 and \ud800"),
        ring(),
        ExceptionGroup("many", [ValueError("x"), Mute()] * 100),
        type("N" * 10_000, (Exception,), {})("long name"),
    ],
    ids=["mute", "choosy", "huge", "dirty", "ring", "group", "long name"],
)
def test_a_record_comes_of_any_exception_and_is_bounded(error):
    record = record_of(error)
    for text in (record.type, record.message, record.traceback):
        assert len(text.encode()) <= MAX_ERROR_BYTES
        assert "\0" not in text


def test_a_record_tells_message_and_traceback_with_causes():
    def inner() -> None:
        raise KeyError("inner")

    try:
        try:
            inner()
        except KeyError as error:
            raise ValueError("outer") from error
    except ValueError as error:
        record = error_record(error, kind="failure", attempt=1, at_ms=1, worker="w")
    assert record.traceback.index("KeyError: 'inner'") < record.traceback.index("ValueError: outer")
    assert "in inner" in record.traceback
    assert record_of(Mute()).message == "<no text: __str__ raised RuntimeError>"


def test_a_deep_chain_of_causes_is_looked_through_to_a_bound():
    error: BaseException = asyncio.CancelledError()
    for _ in range(10_000):
        error = caused_by(ValueError(), error)
    assert led_to(error, ValueError)
    assert not led_to(error, asyncio.CancelledError)
    assert not led_to(ring(), OSError)


# ---------------------------------------------------------------- the steps to the end


def test_the_end_comes_in_steps():
    drain = Drain(grace_s=0.0)
    assert drain.advance(busy=True) == "running"
    assert drain.wait_s() is None
    drain.wish()
    assert drain.wait_s() == 0.0
    assert drain.advance(busy=True) == "draining"
    assert drain.advance(busy=True) == "returning"
    assert 0 < (drain.wait_s() or 0) <= 1.0
    assert drain.advance(busy=True) == "returning"
    assert drain.advance(busy=False) == "over"
    assert drain.advance(busy=True) == "over"


def test_a_second_wish_ends_the_grace():
    drain = Drain(grace_s=60.0)
    drain.wish()
    assert [drain.advance(busy=True), drain.advance(busy=True)] == ["draining", "draining"]
    assert 61 < drain.left_s() < 62
    drain.hurry()
    assert drain.advance(busy=True) == "returning"
    assert 1 < drain.left_s() < 2


def test_an_idle_worker_ends_at_once():
    drain = Drain(grace_s=60.0)
    drain.wish()
    assert drain.advance(busy=False) == "over"


def test_signals_are_counted_and_the_handlers_from_before_come_back():
    before = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)
    with Signals() as signals:
        os.kill(os.getpid(), signal.SIGTERM)
        assert signals.wait(5.0) == 1
        os.kill(os.getpid(), signal.SIGINT)
        assert signals.wait(5.0) == 2
        threading.Timer(0.0, signals.wake).start()
        assert signals.wait(5.0) == 2
    assert (signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)) == before
    signals.wake()  # after the end it does nothing


def test_a_signal_that_the_system_delivers_to_another_thread_ends_the_wait():
    with Signals() as signals:

        def hit_myself() -> None:
            signal.pthread_kill(threading.get_ident(), signal.SIGTERM)

        threading.Timer(0.05, hit_myself).start()
        assert signals.wait(5.0) == 1


def test_another_signal_that_the_program_handles_ends_nothing():
    heard: list[int] = []
    before = signal.signal(signal.SIGUSR1, lambda which, frame: heard.append(which))
    try:
        with Signals() as signals:
            os.kill(os.getpid(), signal.SIGUSR1)
            assert signals.wait(5.0) == 0
            os.kill(os.getpid(), signal.SIGTERM)
            assert signals.wait(5.0) == 1
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert heard == [signal.SIGUSR1]


def test_no_handler_is_installed_outside_the_main_thread():
    before = signal.getsignal(signal.SIGTERM)
    seen: list[object] = []

    def elsewhere() -> None:
        with Signals():
            seen.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    assert seen == [before]


# ---------------------------------------------------------------- logs


def test_records_logged_in_a_run_carry_its_job():
    record = logging.LogRecord("n", logging.INFO, "p", 1, "m", (), None)
    assert JobFilter().filter(record)
    assert (record.job_id, record.job_task) == ("-", "-")
    claim = make_claim(task="send")
    token = running.set(claim)
    try:
        JobFilter().filter(record)
    finally:
        running.reset(token)
    assert (record.job_id, record.job_task) == (str(claim.uuid), "send")
