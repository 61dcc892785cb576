"""From enqueue to result, as Django's documentation says that a backend does it."""

import asyncio
import pickle
import sys
import threading
from datetime import timedelta

import pytest
from django.core.management import call_command
from django.utils import timezone
from shop import tasks
from shop.flavour import InvalidTask, TaskResultStatus, default_task_backend, exceptions, signals
from shop.models import Order

import fairlane as fl
from fairlane.integrations.django import app_for

LONG_S = 30.0


def play():
    told, raised, ended = [], [], threading.Semaphore(0)
    for name in ("task_enqueued", "task_started", "task_finished"):

        def hear(sender, task_result, name=name, **kwargs):
            told.append((name, task_result.task.name, task_result.status.value))
            raised.append(sys.exc_info()[0])
            if name == "task_finished":
                ended.release()

        getattr(signals, name).connect(hear, weak=False)
    assert default_task_backend.supports_defer
    assert default_task_backend.supports_async_task
    assert default_task_backend.supports_get_result
    assert default_task_backend.supports_priority

    result = enqueue_one()
    assert told == [("task_enqueued", "add", "READY")], told
    run_all_kinds(result, ended)
    see_signals(told)
    assert {kind for kind in raised if kind is not None} == {LookupError, TypeError}
    ends_of_other_kinds()
    options()
    refusals()


def enqueue_one():
    before = timezone.now()
    result = tasks.add.enqueue(2, b=3)
    assert result.status == TaskResultStatus.READY
    assert result.id == str(app_for().get(result.id).id)
    assert (result.args, result.kwargs, result.backend) == ([2], {"b": 3}, "default")
    assert before - timedelta(seconds=1) < result.enqueued_at < timezone.now() + timedelta(seconds=1)
    assert not result.is_finished
    with pytest.raises(ValueError, match="not finished"):
        assert result.return_value
    found = tasks.add.get_result(result.id)
    assert (found.status, found.args, found.kwargs, found.attempts) == (TaskResultStatus.READY, [2], {"b": 3}, 0)
    with pytest.raises(exceptions.TaskResultMismatch):
        tasks.send.get_result(result.id)
    for none in ("nothing", "0198f0de-0000-7000-8000-000000000001"):
        with pytest.raises(exceptions.TaskResultDoesNotExist):
            default_task_backend.get_result(none)
    other = app_for().enqueue("not.of.django", {})
    with pytest.raises(exceptions.TaskResultDoesNotExist, match="no task of Django's"):
        default_task_backend.get_result(str(other.id))
    app_for().cancel(other.id)
    return result


def run_all_kinds(result, ended):
    failed = tasks.fail.enqueue("no such thing")
    strange = tasks.odd.enqueue()
    context = tasks.tell.enqueue(7)
    stored = tasks.order.enqueue(1)
    awaited = asyncio.run(tasks.aorder.aenqueue(2))
    again = tasks.third_time.enqueue()
    with app_for().worker(concurrency=1):
        for _ in range(7):
            assert ended.acquire(timeout=LONG_S)
    result.refresh()
    assert (result.status, result.return_value, result.attempts) == (TaskResultStatus.SUCCESSFUL, 5, 1)
    assert result.enqueued_at <= result.started_at <= result.finished_at
    assert result.last_attempted_at == result.started_at
    assert result.worker_ids[0]
    failed.refresh()
    assert (failed.status, failed.attempts, len(failed.errors)) == (TaskResultStatus.FAILED, 1, 1)
    assert failed.errors[0].exception_class is LookupError
    assert "no such thing" in failed.errors[0].traceback
    with pytest.raises(ValueError, match="failed"):
        assert failed.return_value
    strange.refresh()
    assert strange.errors[0].exception_class is TypeError
    context.refresh()
    assert context.return_value == [1, "RUNNING", context.id, 7], context.return_value
    stored.refresh()
    asyncio.run(awaited.arefresh())
    assert sorted((stored.return_value, awaited.return_value)) == [1, 2]
    assert Order.objects.count() == 2
    again.refresh()
    assert (again.return_value, again.attempts, len(again.errors)) == (3, 3, 2)
    assert again.errors[0].exception_class is OSError


def see_signals(told):
    starts = [line for line in told if line[0] == "task_started"]
    assert starts.count(("task_started", "third_time", "RUNNING")) == 3
    ends = {line[1:] for line in told if line[0] == "task_finished"}
    assert ends == {(name, "SUCCESSFUL") for name in ("add", "tell", "order", "aorder", "third_time")} | {
        (name, "FAILED") for name in ("fail", "odd")
    }, ends


def ends_of_other_kinds():
    cancelled = tasks.add.enqueue(1)
    app_for().cancel(cancelled.id)
    cancelled.refresh()
    assert (cancelled.status, cancelled.errors, cancelled.worker_ids) == (TaskResultStatus.FAILED, [], [])
    ended = tasks.leave.enqueue()
    call_command("fairlane_worker", burst=True)
    ended.refresh()
    assert ended.status == TaskResultStatus.FAILED
    assert [error.exception_class for error in ended.errors] == [SystemExit] * 4
    lost = tasks.add.enqueue(1)
    claim = app_for().claim(lease=0.1)
    assert str(claim.id) == lost.id
    while not app_for().rescue():
        threading.Event().wait(0.02)
    lost.refresh()
    assert (lost.status, lost.attempts) == (TaskResultStatus.READY, 1)
    assert lost.errors[0].exception_class is RuntimeError
    assert "LeaseLapsed" in lost.errors[0].traceback, lost.errors
    app_for().cancel(lost.id)


def options():
    """Priorities, queues, tenants, delays."""
    tasks.ran.clear()
    for priority, tier in ((100, "critical"), (50, "high"), (0, "normal"), (-60, "low"), (-61, "background")):
        job = app_for().get(tasks.send.using(priority=priority).enqueue(str(priority)).id)
        assert (job.tier.label, job.queue) == (tier, "mail"), (priority, job.tier)
    special = tasks.send.using(queue_name="slow", tenant="acme", tier="low", tags=["a"], dedup_key="k")
    job = app_for().get(special.enqueue("x").id)
    assert (job.queue, job.tenant, job.tier.label, job.tags) == ("slow", "acme", "low", ("a",))
    assert special.enqueue("y").id == str(job.id)
    late = tasks.send.using(run_after=timezone.now() + timedelta(hours=1)).enqueue("late", subject="ü")
    assert app_for().get(late.id).state == "scheduled"
    assert late.task.run_after is not None
    call_command("fairlane_worker", burst=True, concurrency=1, queues=[("mail", 1)])
    assert tasks.ran == ["100", "50", "0", "-60", "-61"], tasks.ran
    late.refresh()
    assert late.status == TaskResultStatus.READY


def refusals():
    with pytest.raises(InvalidTask):
        tasks.add.using(priority=101)
    with pytest.raises(InvalidTask, match="tenant"):
        tasks.add.using(tenant="")
    with pytest.raises(TypeError, match="there are"):
        tasks.add.using(colour="red")
    with pytest.raises(TypeError):
        tasks.add.enqueue(object())
    with pytest.raises(fl.InvalidJob, match="args"):
        tasks.add.enqueue("x" * 300_000)
    special = tasks.send.using(queue_name="slow", tenant="acme", tier="low", tags=["a"], dedup_key="k")
    assert hash(special) == hash(special.using())
    if hasattr(special, "_reconstruct"):  # from Django 6.1 on
        assert pickle.loads(pickle.dumps(special)) == special
