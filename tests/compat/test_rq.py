"""RQ's shim: what each option means, and that the rest is refused."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta
from uuid import UUID

import pytest

import fairlane as fl
from fairlane.compat import _words
from fairlane.compat.rq import Dependency, Job, Queue, Retry, Worker, job, seconds

calls: list[tuple[object, ...]] = []


def add(x, y=0, *more):
    return x + y + sum(more)


def fail(what="x"):
    calls.append((what,))
    raise OSError(what)


async def later(x):
    return x


def deliver(day: date, to: UUID | None = None, **more: int):
    return f"{day!r} {to!r} {more}"


@pytest.fixture
def queue(fairlane_app: fl.Fairlane) -> Queue:
    calls.clear()
    return Queue("sums", connection=fairlane_app)


def test_a_call_is_a_job_with_a_result(queue, run, fairlane_app):
    jobs = [queue.enqueue(add, 1, 2, 3), queue.enqueue(add, 1, y=4), queue.enqueue(later, 7)]
    jobs.append(queue.enqueue(add, args=(5,), kwargs={"y": 6}))
    assert (jobs[0].get_status(), jobs[0].return_value(), jobs[0].is_queued) == ("queued", None, True)
    run()
    assert [one.return_value() for one in jobs] == [6, 5, 7, 11]
    assert (jobs[0].get_status(), jobs[0].is_finished) == ("finished", True)
    assert Job.fetch(jobs[0].id, connection=fairlane_app).return_value() == 6
    assert (jobs[0].fairlane.task, jobs[0].fairlane.queue) == (f"{__name__}.add", "sums")


def test_arguments_arrive_as_they_are_annotated(queue, run):
    to = UUID(int=7)
    jobs = [queue.enqueue(deliver, date(2026, 1, 2), to), queue.enqueue(deliver, day=date(2026, 1, 3), n=1)]
    run()
    assert [one.return_value() for one in jobs] == [
        f"{date(2026, 1, 2)!r} {to!r} {{}}",
        f"{date(2026, 1, 3)!r} None {{'n': 1}}",
    ]


@pytest.mark.parametrize(
    ("args", "kwargs", "why"),
    [
        ((), {}, "argument 'day' is missing"),
        ((5,), {}, "args.day is 5: Expected `date`, got `int`"),
        (("2026-01-02", None, 3), {}, "got 3 arguments by position; it takes 2"),
        (("2026-01-02",), {"day": "2026-01-02"}, "got argument 'day' twice"),
    ],
)
def test_a_call_that_does_not_fit_is_refused(queue, fairlane_app, args, kwargs, why):
    with pytest.raises(fl.InvalidJob, match=re.escape(why)):
        queue.enqueue(deliver, args=args, kwargs=kwargs)
    assert list(fairlane_app.jobs()) == []


def test_later(queue, run, fairlane_clock):
    at = datetime.fromtimestamp(fairlane_clock.now_ms() / 1000, UTC) + timedelta(minutes=1)
    jobs = [queue.enqueue_in(timedelta(seconds=60), add, 1), queue.enqueue_at(at, add, 2)]
    run(59)
    assert [one.get_status() for one in jobs] == ["scheduled"] * 2
    run(1)
    assert [one.is_finished for one in jobs] == [True] * 2


def test_ttl(queue, run):
    late = queue.enqueue(add, 1, ttl="1m")
    run(61)
    assert late.is_canceled


def test_without_retry_a_failure_is_the_end(queue, run):
    one = queue.enqueue(fail)
    run()
    assert (one.get_status(), len(calls), one.return_value()) == ("failed", 1, None)
    assert "OSError" in one.exc_info


def test_each_job_has_its_own_retry(queue, run):
    one = queue.enqueue(fail, "a", retry=Retry(max=3, interval=[10, 30]))
    two = queue.enqueue(fail, "b", retry=Retry(max=1))
    run()
    assert one.is_scheduled
    for wait, runs in ((9.9, 1), (0.1, 2), (9.9, 2), (0.1, 3), (29.9, 3), (0.1, 4)):
        run(wait)
        assert calls.count(("a",)) == runs, wait
    assert (one.is_failed, two.is_failed, calls.count(("b",))) == (True, True, 2)


SAME = OSError("always this one")


def fail_alike():
    calls.append(("alike",))
    raise SAME


def test_one_error_object_of_two_jobs(queue, run):
    queue.enqueue(fail_alike, retry=Retry(max=1))
    run()
    run()
    queue.enqueue(fail_alike)
    run()
    run()
    assert len(calls) == 3


@pytest.mark.parametrize(("max", "why"), [(0, "from 1 to 999"), (1000, "from 1 to 999")])
def test_retries_that_cannot_be(max, why):
    with pytest.raises(fl.ConfigError, match=why):
        Retry(max=max)
    with pytest.raises(fl.ConfigError, match="enqueue_at_front="):
        Retry(max=1, enqueue_at_front=True)


def test_depends_on(queue, run):
    first = queue.enqueue(fail)
    then = queue.enqueue(add, 1, depends_on=first)
    anyway = queue.enqueue(add, 2, depends_on=Dependency([first.id], allow_failure=True))
    assert (then.is_deferred, anyway.is_deferred) == (True, True)
    run()
    assert (then.is_canceled, anyway.return_value()) == (True, 2)


def test_at_front_and_the_tier_of_a_queue(queue, fairlane_app):
    queue.enqueue(add, 1)
    Queue("urgent", fairlane_app, tier="high").enqueue(add, 2)
    queue.enqueue(add, 3, at_front=True)
    assert [one.args["args"] for one in fairlane_app.peek()] == [[3], [2], [1]]


def test_cancel(queue, run):
    one = queue.enqueue(add, 1)
    one.cancel()
    run()
    one.refresh()
    assert one.is_canceled


def test_a_worker_runs_what_it_was_told_of(queue, fairlane_app):
    one = fairlane_app.enqueue(f"{__name__}.add", {"args": [1], "kwargs": {}}, queue="sums")  # by another process
    assert Worker([queue], functions=[fail]).work(burst=True)
    assert one.refresh().state == "available"
    Worker(queue, connection=fairlane_app, functions=[add]).work(burst=True, with_scheduler=True)
    assert one.result(0) == 1


def test_the_order_of_queues_must_be_that_of_their_tiers(fairlane_app):
    high, low = Queue("high", fairlane_app, tier="high"), Queue("low", fairlane_app, tier="low")
    Worker([high, low])
    for wrong in ([low, high], [low, Queue("lower", fairlane_app, tier="low")]):
        with pytest.raises(fl.ConfigError, match="give them tiers"):
            Worker(wrong)


def test_the_decorator(queue, run, fairlane_app):
    @job(queue, timeout="2m", retry=Retry(max=1, interval=5))
    def decorated(x):
        calls.append((x,))
        raise KeyError(x)

    one = decorated.delay(3)
    task = fairlane_app.registry.get(one.fairlane.task)
    assert task.timeout_ms == 120_000
    run()
    run(5)
    assert (one.is_failed, calls) == (True, [(3,), (3,)])
    assert job("by name", fairlane_app)(add).delay(1).fairlane.queue == "by name"


def test_timeouts_of_queues(queue, fairlane_app):
    queue.enqueue(add, 1)
    Queue("q", fairlane_app, default_timeout=7).enqueue(fail)
    found = [fairlane_app.registry.get(f"{__name__}.{name}").timeout_ms for name in ("add", "fail")]
    assert found == [180_000, 7_000]
    Queue("other", fairlane_app).enqueue(fail)
    with pytest.raises(fl.ConfigError, match="longest run already, 7 s"):
        Queue("q", fairlane_app, default_timeout=8).enqueue(fail)
    assert [seconds(span) for span in (5, "5", "2h", "1d")] == [5, 5, 7200, 86_400]


@pytest.mark.parametrize("option", _words.RQ_ENQUEUE)
def test_options_of_a_call_that_are_refused(queue, fairlane_app, option):
    for put in (queue.enqueue, lambda fn, **o: queue.enqueue_in(timedelta(1), fn, **o)):
        with pytest.raises(fl.ConfigError, match=rf"enqueue\(\): {option}= has no counterpart"):
            put(add, **{option: 1})
    assert len(fairlane_app.jobs()) == 0


def test_arguments_that_are_called_like_options_go_in_kwargs(queue):
    assert queue.enqueue(add, kwargs={"meta": 1}).fairlane.args["kwargs"] == {"meta": 1}


@pytest.mark.parametrize("option", _words.RQ_QUEUE)
def test_options_of_a_queue_that_are_refused(fairlane_app, option):
    with pytest.raises(fl.ConfigError, match=f"{option}= has no counterpart"):
        Queue("q", fairlane_app, **{option: 1})


@pytest.mark.parametrize("option", _words.RQ_WORKER)
def test_options_of_a_worker_that_are_refused(queue, option):
    with pytest.raises(fl.ConfigError, match=f"{option}= has no counterpart"):
        Worker([queue], **{option: 1})
    with pytest.raises(fl.ConfigError, match=f"{option}= has no counterpart"):
        Worker([queue]).work(**{option: 1})


def test_a_worker_without_schedules_is_refused(queue):
    with pytest.raises(fl.ConfigError, match="with_scheduler=False cannot be had"):
        Worker([queue]).work(with_scheduler=False)


@pytest.mark.parametrize("name", _words.RQ_JOB_GETS)
def test_attributes_of_a_job_that_are_refused(queue, name):
    with pytest.raises(AttributeError, match=f"Job.{name} has no counterpart"):
        getattr(queue.enqueue(add, 1), name)


@pytest.mark.parametrize("name", _words.RQ_QUEUE_GETS)
def test_attributes_of_a_queue_that_are_refused(queue, name):
    with pytest.raises(AttributeError, match=f"Queue.{name} has no counterpart"):
        getattr(queue, name)


def test_functions_that_cannot_be_found_again(queue):
    with pytest.raises(fl.ConfigError, match="takes the function itself"):
        queue.enqueue("os.system", "true")
    here = type(add)(add.__code__, {"__name__": "__main__"}, "main_function")
    with pytest.raises(fl.ConfigError, match="put them into a module"):
        queue.enqueue(here, 1)
    with pytest.raises(fl.ConfigError, match="takes a fairlane store"):
        Queue("q", connection=object())
