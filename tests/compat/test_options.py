"""Every option of the real packages is known to the shims: mapped, or refused by an error that names it."""

from __future__ import annotations

import inspect
import re
import warnings
from collections.abc import Callable, Iterator

import pytest

import fairlane as fl
from fairlane.compat import _celery_result, _words, dramatiq
from fairlane.compat.celery import Celery
from fairlane.compat.procrastinate import App
from fairlane.compat.rq import Queue, Worker

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # theirs
    rq = pytest.importorskip("rq")
    theirs_dramatiq = pytest.importorskip("dramatiq")
    procrastinate = pytest.importorskip("procrastinate")
    celery = pytest.importorskip("celery")
    from celery.app.amqp import AMQP
    from dramatiq.brokers.stub import StubBroker
    from procrastinate.tasks import ConfigureTaskOptions
    from procrastinate.worker import Worker as TheirWorker


def work() -> None: ...


def parameters(*functions: Callable[..., object]) -> set[str]:
    """Return the names that functions take, besides ``self`` and those that catch the rest."""
    kinds = {inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL}
    found = {
        name for fn in functions for name, one in inspect.signature(fn).parameters.items() if one.kind not in kinds
    }
    return found - {"self"}


def known(call: Callable[[], object], option: str) -> None:
    """Assert that a call takes an option or refuses it by name; its value may well be wrong."""
    told = ""
    try:
        call()
    except (TypeError, fl.ConfigError, fl.InvalidJob, ValueError, AttributeError) as error:
        told = str(error)
    assert "unexpected" not in told, option


@pytest.fixture
def clean(fairlane_app: fl.Fairlane) -> Iterator[fl.Fairlane]:
    yield fairlane_app
    _celery_result.apps.clear()


INSIDE_CELERY = {
    "name", "group_index", "retries", "reply_to", "create_sent_event", "root_id", "parent_id", "now", "timezone",
    "origin", "argsrepr", "kwargsrepr", "stamped_headers", "replaced_task_nesting", "callbacks", "errbacks",
}  # fmt: skip
"""What Celery tells itself."""


def test_celery_calls(clean):
    task = Celery("x", broker=clean).task(name="x")(work)
    for option in sorted(parameters(celery.Task.apply_async, AMQP.as_task_v2) - INSIDE_CELERY):
        known(lambda option=option: task.apply_async(**{option: "1"}), option)


OF_THE_CLASS = {
    "Strategy", "Request", "MaxRetriesExceededError", "OperationalError", "abstract", "app", "from_config", "trail",
    "request_stack", "request", "resultrepr_maxsize", "start_strategy", "acks_on_failure", "acks_on_timeout",
    "retry_on_worker_lost",
}  # fmt: skip
"""Attributes of Celery's class that are no options of a task, or new and without use so far."""


def test_celery_tasks(clean):
    app = Celery("x", broker=clean)
    options = {name for name, one in vars(celery.Task).items() if not name.startswith("_") and not callable(one)}
    for number, option in enumerate(sorted(options - OF_THE_CLASS)):
        value = (OSError,) if option == "throws" else 1
        if not isinstance(vars(celery.Task)[option], property | classmethod):
            known(lambda v=value, o=option, n=number: app.task(**{"name": str(n), o: v})(work), option)


def test_rq_calls(clean):
    options = set(re.findall(r"kwargs\.pop\('(\w+)'", inspect.getsource(rq.Queue.parse_args)))
    queue = Queue("q", clean)
    assert "job_timeout" in options
    mapped = {"args", "kwargs", "retry", "ttl", "depends_on", "at_front"}
    assert options <= mapped | _words.RQ_ENQUEUE.keys()
    for option in sorted(parameters(rq.Queue.__init__)):
        known(lambda option=option: Queue(**{"connection": clean, option: 1}), option)
    for option in sorted(parameters(rq.Worker.__init__)):
        known(lambda option=option: Worker(**{"queues": queue, option: None}), option)
    for option in sorted(parameters(rq.Worker.work)):
        known(lambda option=option: Worker(queue).work(**{"burst": True, option: True}), option)


def test_dramatiq_actors(clean):
    broker = dramatiq.FairlaneBroker(clean)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        options = StubBroker().actor_options | parameters(theirs_dramatiq.actor) - {"fn"}
    assert {"max_retries", "time_limit", "priority"} <= options
    for option in sorted(options - {"broker"}):
        actor = f"for {option}"
        known(lambda o=option, a=actor: dramatiq.actor(**{"actor_name": a, "broker": broker, o: 1})(work), option)
        if option not in {"actor_name", "queue_name", "priority", "actor_class"}:
            sender = dramatiq.actor(actor_name=f"send {option}", broker=broker)(work)
            known(lambda o=option, s=sender: s.send_with_options(**{o: 1}), option)


def test_procrastinate_tasks(clean):
    app = App(connector=clean)
    for option in sorted(parameters(procrastinate.App.task) - {"_func"}):
        known(lambda o=option: app.task(**{"name": f"x {o}", o: 1})(lambda x: None), option)
    task = app.task(name="x")(work)
    for option in sorted(ConfigureTaskOptions.__annotations__):
        known(lambda o=option: task.configure(**{o: {} if o in {"schedule_in", "task_kwargs"} else 1}), option)
    for option in sorted(parameters(TheirWorker.__init__) - {"app", "wait"}):
        known(lambda o=option: app.run_worker(**{"wait": False, o: None}), option)
    for option in sorted(parameters(procrastinate.App.__init__)):
        known(lambda o=option: App(**{"connector": clean, o: None}), option)
