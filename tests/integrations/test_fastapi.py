"""Fairlane in a FastAPI app: what runs while the app lives, what is served, and what is left when it has ended."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import urllib.request
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI
from starlette.testclient import TestClient

import fairlane as fl
from fairlane.integrations.fastapi import App, lifespan, mount

LONG_S = 15.0


def make(url: str) -> fl.Fairlane:
    app = fl.Fairlane(url)

    @app.task
    async def double(n: int) -> int:
        return 2 * n

    return app


def web_of(app: fl.Fairlane, **options: Any) -> FastAPI:
    web = FastAPI(lifespan=lifespan(app, **options))

    @web.post("/double/{n}")
    async def double(n: int, jobs: App) -> dict[str, str]:
        return {"id": str((await jobs.aenqueue("double", {"n": n})).id)}

    @web.get("/double/{job_id}")
    async def result(job_id: str, jobs: App) -> Any:
        return await (await jobs.aget(job_id)).aresult(timeout=LONG_S)

    return web


def test_a_worker_lives_as_long_as_the_app(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/jobs.db"
    app = make(url)
    with TestClient(web_of(app, concurrency=2, name="web")) as client:
        job_id = client.post("/double/4").json()["id"]
        assert client.get(f"/double/{job_id}").json() == 8
        (worker,) = app.owner.read(lambda store, _: store.workers())
        assert worker.id.startswith("web")
    with fl.Fairlane(url) as after:  # it has left
        assert after.owner.read(lambda store, _: store.workers()) == []
    assert not [thread.name for thread in threading.enumerate() if thread.name.startswith("fairlane")]


def test_running_jobs_are_waited_for_and_others_given_back(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/jobs.db"
    app = make(url)
    begun, stubborn = threading.Event(), threading.Event()

    @app.task
    def hold(ctx: fl.Context) -> str:
        begun.set()
        while not ctx.should_stop:
            stubborn.wait(0.01)
        ctx.raise_if_stopping()
        return "never"

    job = hold.enqueue()
    with TestClient(web_of(app, grace=0)):
        assert begun.wait(LONG_S)
    with fl.Fairlane(url) as after:
        held = after.get(job.id)
        assert (held.state, held.failures, held.crashes) == ("available", 0, 0)


PROGRAM = """
import threading
import fairlane as fl
from fastapi import FastAPI
from fairlane.integrations.fastapi import App, lifespan

app = fl.Fairlane("sqlite:///jobs.db")
begun = threading.Event()


@app.task
def slow() -> str:
    begun.set()
    threading.Event().wait(0.5)
    return "done"


web = FastAPI(lifespan=lifespan(app))


@web.get("/slow")
def start(jobs: App) -> str:
    job = jobs.enqueue("slow")
    begun.wait(10)
    return str(job.id)
"""


def test_a_server_that_is_told_to_end_lets_running_jobs_end(tmp_path: Path) -> None:
    (tmp_path / "web.py").write_text(PROGRAM)
    kept = {name: value for name, value in os.environ.items() if not name.startswith("FAIRLANE_")}
    server = subprocess.Popen(
        [sys.executable, "-m", "uvicorn", "web:web", "--port", "0"],
        cwd=tmp_path, env=kept, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert server.stderr is not None
        address = next(found[0] for line in server.stderr if (found := re.search(r"http://127\.0\.0\.1:\d+", line)))
        with urllib.request.urlopen(f"{address}/slow", timeout=LONG_S) as answer:
            job_id = json.load(answer)
        server.send_signal(signal.SIGTERM)
        server.communicate(timeout=LONG_S)
    finally:
        server.kill()
    with fl.Fairlane(f"sqlite:///{tmp_path}/jobs.db") as after:
        job = after.get(job_id)
        assert (job.state, job.result(timeout=0)) == ("completed", "done")


def test_without_a_worker_jobs_are_only_stored(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/jobs.db"
    app = make(url)
    with TestClient(web_of(app, worker=False)) as client:
        client.post("/double/4")
        assert app.owner.read(lambda store, _: store.workers()) == []
    with fl.Fairlane(url) as after:
        assert [job.state for job in after.peek()] == ["available"]


def test_the_api_and_the_dashboard_under_a_prefix(tmp_path: Path) -> None:
    app = make(f"sqlite:///{tmp_path}/jobs.db")
    token = app.tokens.create("me", role="operator").token
    web = web_of(app, worker=False)
    made = mount(web, app, "/tools/jobs", redact=["*.password"])
    with TestClient(web, base_url="http://localhost") as client:
        assert client.get("/tools/jobs/healthz").status_code == 200
        assert client.get("/tools/jobs/v1/jobs").status_code == 401
        client.post("/double/4")
        told = client.get("/tools/jobs/v1/jobs", headers={"Authorization": f"Bearer {token}"}).json()
        assert [item["task"] for item in told["items"]] == ["double"]
        assert client.get("/tools/jobs/", headers={"Accept": "text/html"}, follow_redirects=False).status_code in {
            303,
            401,
        }
        assert [one.name for one in threading.enumerate() if "maintenance" in one.name], "rescue and the rest run too"
    assert made.state.fairlane is app


def test_a_lifespan_of_the_programs_own_is_around(tmp_path: Path) -> None:
    app = make(f"sqlite:///{tmp_path}/jobs.db")
    order: list[str] = []

    @asynccontextmanager
    async def own(web: FastAPI) -> AsyncGenerator[dict[str, str]]:
        order.append(f"begin {app.opened}")
        yield {"from": "own"}
        order.append(f"end {(await app.adepth()).at is not None}")

    web = FastAPI(lifespan=lifespan(app, around=own))
    with TestClient(web) as client:
        assert client.app_state == {"from": "own"}
    assert order == ["begin False", "end True"]


def test_what_is_wrong_ends_the_start(tmp_path: Path) -> None:
    nowhere = make(f"sqlite:///{tmp_path}/no/folder/jobs.db")
    with pytest.raises(fl.ConfigError, match="no/folder"), TestClient(web_of(nowhere)):
        pass
    with pytest.raises(fl.ConfigError, match="concurrency"), TestClient(web_of(make("sqlite://"), concurrency=0)):
        pass
    for path in ("jobs", "/", "/jobs/"):
        with pytest.raises(fl.ConfigError, match="is no prefix"):
            mount(FastAPI(), make("sqlite://"), path)


def test_the_dependency_needs_the_lifespan() -> None:
    web = FastAPI()

    @web.get("/")
    async def read(jobs: App) -> str:
        return repr(jobs)

    with TestClient(web) as client, pytest.raises(fl.ConfigError, match="there is no application"):
        client.get("/")
