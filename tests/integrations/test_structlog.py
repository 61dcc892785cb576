"""structlog in handlers and around workers: which job a line belongs to, and fairlane's own lines as fields."""

from __future__ import annotations

import io
import json
import logging
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import structlog

import fairlane as fl
from fairlane.integrations.structlog import add_job, split_event
from fairlane.testing import drain


@pytest.fixture
def lines() -> Iterator[io.StringIO]:
    """The log of the process, as structlog's own documentation sets it up: JSON from both libraries."""
    shared: list[Any] = [add_job, structlog.stdlib.add_log_level, structlog.stdlib.add_logger_name]
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars, *shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
    )  # fmt: skip
    body = io.StringIO()
    handler = logging.StreamHandler(body)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[split_event, *shared],
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                structlog.processors.JSONRenderer(),
            ],
        )
    )
    root = logging.getLogger()
    before = root.level
    root.addHandler(handler)
    root.setLevel(logging.INFO)
    yield body
    root.removeHandler(handler)
    root.setLevel(before)
    structlog.reset_defaults()


def said(lines: io.StringIO, event: str) -> list[dict[str, Any]]:
    """Return the lines of an event."""
    found = [json.loads(line) for line in lines.getvalue().splitlines()]
    return [line for line in found if line["event"] == event]


def test_lines_of_a_handler_carry_its_job(fairlane_app: fl.Fairlane, lines: io.StringIO) -> None:
    def helper() -> None:
        structlog.get_logger("shop").warning("deep inside", task="its own")

    @fairlane_app.task(queue="mail", tier="high")
    def send(to: str) -> None:
        structlog.contextvars.bind_contextvars(order=7)
        structlog.get_logger("shop").info("sending", to=to)
        logging.getLogger("plain").info("plain words %s", 1)
        helper()

    @fairlane_app.task
    async def later() -> None:
        structlog.get_logger("shop").info("in a coroutine")

    job = send.using(tenant="acme", trace="00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01").enqueue("a@b.c")
    other = later.enqueue()
    drain(fairlane_app)
    fields = {"job": str(job.id), "task": "send", "queue": "mail", "tenant": "acme", "tier": "high", "attempt": 1}
    (sending,) = said(lines, "sending")
    assert sending == fields | {
        "event": "sending", "to": "a@b.c", "level": "info", "logger": "shop", "order": 7, "trace": job.trace,
    }  # fmt: skip
    (plain,) = said(lines, "plain words 1")
    assert plain.items() >= fields.items()
    (deep,) = said(lines, "deep inside")
    assert (deep["task"], deep["job"]) == ("its own", str(job.id))
    (awaited,) = said(lines, "in a coroutine")
    assert (awaited["job"], awaited["task"], awaited["tier"]) == (str(other.id), "later", "normal")
    assert "trace" not in awaited
    assert "order" not in awaited


def test_outside_a_handler_nothing_is_added(lines: io.StringIO) -> None:
    structlog.get_logger("shop").info("idle")
    assert said(lines, "idle") == [{"event": "idle", "level": "info", "logger": "shop"}]


def test_checks_say_that_they_are(fairlane_app: fl.Fairlane, lines: io.StringIO) -> None:
    @fairlane_app.task
    def prove() -> str:
        return "ref"

    @prove.verify(every=1)
    def check(ref: str) -> fl.Verified[str]:
        structlog.get_logger("shop").info("checking")
        return fl.Verified(ref)

    prove.enqueue()
    drain(fairlane_app)
    fairlane_app.clock.advance(seconds=2)  # type: ignore[attr-defined]  # the fixture's clock is moved by hand
    drain(fairlane_app)
    (line,) = said(lines, "checking")
    assert (line["task"], line["phase"]) == ("prove", "verify")


def test_lines_of_the_worker_become_fields(fairlane_app: fl.Fairlane, lines: io.StringIO) -> None:
    @fairlane_app.task(retry=fl.Retry(max_attempts=1))
    def fail() -> None:
        raise ValueError("a=1, b = 2")

    job = fail.enqueue()
    drain(fairlane_app)
    (dead,) = said(lines, "job_dead")
    assert dead == {
        "event": "job_dead", "job": str(job.id), "task": "fail", "attempt": "1", "reason": "ValueError: a=1, b = 2",
        "level": "error", "logger": "fairlane.worker",
    }  # fmt: skip
    (started,) = said(lines, "worker_started")
    assert (started["pool"], started["slots"]) == ("default", "8")


def test_what_the_page_sets_up_prints_what_the_page_shows(tmp_path: Path) -> None:
    """The page's own blocks, in a process of their own, since they set the process's logging up."""
    page = (Path(__file__).parents[2] / "docs" / "integrations" / "structlog.md").read_text("utf-8")
    first, second = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    program = f"import fairlane as fl\napp = fl.Fairlane('sqlite://')\n{first}\nset_up_logging()\n{second}"
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    told = [json.loads(line) for line in done.stderr.splitlines()]
    assert (told[0]["event"], told[0]["pool"]) == ("worker_started", "default")
    (line,) = (line for line in told if line["event"] == "sending")
    shown = json.loads(re.findall(r"```json\n(.*?)```", page, re.DOTALL)[0])
    assert list(line) == list(shown)
    assert line | {"job": ""} == shown | {"job": ""}


def record(name: str, template: str, *values: object) -> dict[str, Any]:
    made = logging.LogRecord(name, logging.INFO, "", 0, template, values, None)
    return dict(split_event(None, "info", {"event": made.getMessage(), "_record": made}))


@pytest.mark.parametrize(
    ("template", "values", "told"),
    [
        ("process_lost number=%d pid=%d: again in %.1f s", (1, 7, 0.5),
         {"event": "process_lost", "number": "1", "pid": "7", "note": "again in 0.5 s"}),
        ("task_unknown job=%s task=%s: given back", ("j", "a: b"),
         {"event": "task_unknown", "job": "j", "task": "a: b", "note": "given back"}),
        ("wait_failed: looking again in %s s", (3,), {"event": "wait_failed", "note": "looking again in 3 s"}),
        ("signal_heard count=%d", (1,), {"event": "signal_heard", "count": "1"}),
        ("drained", (), {"event": "drained"}),
    ],
)  # fmt: skip
def test_templates(template: str, values: tuple[object, ...], told: dict[str, str]) -> None:
    found = record("fairlane.worker", template, *values)
    del found["_record"]
    assert found == told
    other = record("fairlanes", template, *values)
    assert other.keys() == {"event", "_record"}


def test_a_line_of_structlogs_own_is_left_alone() -> None:
    assert split_event(None, "info", {"event": "job_dead job=1"}) == {"event": "job_dead job=1"}
