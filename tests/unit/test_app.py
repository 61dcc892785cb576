"""The composition root: settings of the store, embedded workers, hooks, forks; and the package's public names."""

from __future__ import annotations

import ast
import asyncio
import logging
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

import fairlane as fl
from fairlane.hooks import MOMENTS, Hooks


@pytest.fixture
def app(tmp_path: Path) -> Iterator[fl.Fairlane]:
    with fl.Fairlane(f"sqlite:///{tmp_path}/jobs.db", durability="normal") as app:
        yield app


# ---------------------------------------------------------------- the store's settings


def test_a_store_keeps_the_settings_it_was_made_with(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/jobs.db"
    with fl.Fairlane(url, policy="strict", express_capacity=7) as app:
        app.depth()
    with fl.Fairlane(url) as app:
        assert app.configure() == (
            fl.Policy.strict(),
            fl.Capacities(express_capacity=7, express_per_tenant=5),
        )
    with fl.Fairlane(url, policy=fl.Policy.fair()) as app, pytest.raises(fl.ConfigError, match="configure"):
        app.depth()


def test_configure_changes_only_what_is_named(app: fl.Fairlane) -> None:
    app.configure(express_per_tenant=2)
    app.configure(policy=fl.Policy.fair(ageing_step=10), by="ann")
    policy, capacities = app.configure()
    assert policy.ageing_step_ms == 10_000
    assert capacities == fl.Capacities(express_capacity=20, express_per_tenant=2)
    for wrong in ({"express_capacity": -1}, {"policy": "best"}, {"express_capacity": 0}):
        with pytest.raises(fl.InvalidValue):
            app.configure(**wrong)  # type: ignore[arg-type]
    assert app.configure() == (policy, capacities)


def test_a_store_that_cannot_be_opened_is_told_at_the_first_use(tmp_path: Path) -> None:
    app = fl.Fairlane(f"sqlite:///{tmp_path}/nowhere/jobs.db")
    for _ in range(2):
        with pytest.raises(fl.ConfigError, match="does not exist"):
            app.enqueue("x")
    (tmp_path / "nowhere").mkdir()
    assert app.enqueue("x").created
    app.close()


async def test_the_first_use_does_not_block_the_event_loop(app: fl.Fairlane, monkeypatch: pytest.MonkeyPatch) -> None:
    opened_in: list[threading.Thread] = []
    opens = app._open_owner
    monkeypatch.setattr(app, "_open_owner", lambda: (opened_in.append(threading.current_thread()), opens())[1])
    jobs = await asyncio.gather(app.aenqueue("x"), app.aenqueue("x"))
    assert all(job.created for job in jobs)
    assert len(opened_in) == 1
    assert opened_in[0] is not threading.current_thread()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_child_has_a_store_of_its_own(app: fl.Fairlane) -> None:
    job = app.enqueue("x")
    with pytest.raises(fl.WaitTimeout):
        job.result(timeout=0.01)  # starts the thread that waits
    child = os.fork()
    if child == 0:
        status = 1
        try:
            app.enqueue("from the child", {"pid": 1})
            claim = app.claim(tasks=["from the child"])
            assert claim is not None
            claim.ack(1)
            status = 0 if claim.job.result(timeout=10) == 1 else 2
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert len(app.jobs(state="completed")) == 1


# ---------------------------------------------------------------- workers and hooks


def test_an_embedded_worker_runs_jobs(app: fl.Fairlane) -> None:
    @app.task(queue="mail")
    def send(to: str) -> str:
        return f"sent to {to}"

    @app.task(queue="embed")
    async def embed(doc_id: int, ctx: fl.Context) -> int:
        await ctx.aprogress(0.5, "half")
        await ctx.acheckpoint({"next": 3})
        return doc_id * ctx.attempt

    job = send.enqueue("a@b.c")
    with app.worker(concurrency=2, queues={"mail": 1, "embed": 2}, reserve={"critical": 1}):
        assert job.result(timeout=10) == "sent to a@b.c"
        other = embed.using(tier="critical").enqueue(5)
        assert other.result(timeout=10) == 5
    assert (other.refresh().progress, other.checkpoint) == ((0.5, "half"), {"next": 3})


def test_a_worker_can_run_until_nothing_is_left(app: fl.Fairlane) -> None:
    @app.task(retry=fl.Retry(max_attempts=1))
    def half(n: int) -> float:
        if n % 2:
            raise ValueError(n)
        return n / 2

    jobs = [half.enqueue(n) for n in range(4)]
    app.run_worker(until_idle=True, concurrency=2, signals=False)
    assert [job.refresh().state for job in jobs] == ["completed", "dead", "completed", "dead"]


def test_closing_the_app_stops_its_workers(tmp_path: Path) -> None:
    app = fl.Fairlane(f"sqlite:///{tmp_path}/jobs.db", durability="normal")
    worker = app.worker(concurrency=1)
    worker.start()
    app.close()
    assert worker.join(0)


def test_settings_reach_workers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAIRLANE_CONCURRENCY", "3")
    monkeypatch.setenv("FAIRLANE_LEASE", "12")
    with fl.Fairlane(f"sqlite:///{tmp_path}/jobs.db") as app:
        options = app.worker(grace=1).options
        assert (options.concurrency, options.lease_ms, options.grace_s) == (3, 12_000, 1.0)


def test_hooks_hear_of_runs(app: fl.Fairlane) -> None:
    heard: list[tuple[str, str, Any]] = []

    @app.task(retry=fl.Retry(max_attempts=1))
    def good() -> int:
        return 5

    @app.task(retry=fl.Retry(max_attempts=1))
    def bad() -> None:
        raise ValueError("broken")

    for moment in MOMENTS:
        decorate = getattr(app, f"on_{moment}")
        assert decorate(lambda event, moment=moment: heard.append((moment, event.task, event.outcome))) is not None

    @bad.on_dead
    async def told(event: fl.Event) -> None:
        heard.append(("dead of bad", event.task, type(event.error)))

    good.enqueue()
    app.run_worker(until_idle=True, concurrency=1, signals=False)
    assert heard == [("start", "good", None), ("success", "good", "completed"), ("finish", "good", "completed")]
    heard.clear()
    bad.enqueue()
    app.run_worker(until_idle=True, concurrency=1, signals=False)
    assert heard == [
        ("start", "bad", None),
        ("failure", "bad", "dead"),
        ("dead", "bad", "dead"),
        ("dead of bad", "bad", ValueError),
        ("finish", "bad", "dead"),
    ]


def test_a_failing_hook_is_logged_and_harms_nothing(caplog: pytest.LogCaptureFixture) -> None:
    hooks, heard = Hooks(), []
    event = fl.Event(moment="finish", job_id=fl.Context().job_id, task="x")

    @lambda hook: hooks.add("finish", hook)
    def fails(event: fl.Event) -> None:
        raise ValueError("no")

    hooks.add("finish", heard.append)
    with caplog.at_level(logging.ERROR, "fairlane.hooks"):
        hooks.fire(event)
    assert heard == [event]
    assert "hook_failed moment=finish" in caplog.text
    assert hooks.wanted("finish", "x")
    assert not hooks.wanted("start", "x")


def test_what_is_no_hook_is_refused() -> None:
    with pytest.raises(fl.InvalidValue, match="moment 'end' is not one of start"):
        Hooks().add("end", print)  # type: ignore[arg-type]
    with pytest.raises(fl.InvalidValue, match="must be a function"):
        Hooks().add("start", 5)  # type: ignore[type-var]


# ---------------------------------------------------------------- public names


def test_every_public_name_is_there() -> None:
    assert len(set(fl.__all__)) == len(fl.__all__)
    for name in fl.__all__:
        assert getattr(fl, name) is not None
        assert name in dir(fl)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        fl.nothing  # noqa: B018


def test_checkers_and_programs_see_the_same_names() -> None:
    tree = ast.parse(files(fl).joinpath("__init__.py").read_text(encoding="utf-8"))
    for_checkers = {
        alias.name: node.module
        for block in tree.body
        if isinstance(block, ast.If)
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert for_checkers == fl._HOMES
    assert {*for_checkers, "__version__"} == set(fl.__all__)


def test_all_errors_are_public() -> None:
    from fairlane import errors

    tree = {
        name for name, value in vars(errors).items() if isinstance(value, type) and issubclass(value, fl.FairlaneError)
    }
    assert tree <= set(fl.__all__)
    drawn = {line.split("──")[1].split()[0] for line in (errors.__doc__ or "").splitlines() if "──" in line}
    assert drawn | {"FairlaneError"} == tree


@pytest.mark.slow
def test_importing_the_package_loads_little() -> None:
    code = "import fairlane, sys; print([m for m in ('asyncio', 'msgspec', 'rich', 'click') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
    late = ("rich", "click", "sqlite3", "pydantic", "fairlane.worker")
    code = f"from fairlane import Fairlane; import sys; print([m for m in {late} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
