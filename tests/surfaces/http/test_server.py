"""``fairlane server``, ``dev``, ``token``, ``export-openapi``, and the worker in JavaScript, as processes."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from click.testing import CliRunner

sys.path.insert(0, str(Path(__file__).parents[1]))  # "importlib" mode finds no neighbours by itself

from cli_rig import TASKS

import fairlane as fl
from fairlane.cli.main import cli

ROOT = Path(__file__).parents[3]
LONG_S = 60.0


class Process:
    """A command line in a process of its own, whose lines on stdout are read as they come."""

    def __init__(self, folder: Path, *args: str, **environment: str) -> None:
        kept = {key: value for key, value in os.environ.items() if not key.startswith("FAIRLANE_")}
        url = f"sqlite:///{folder}/jobs.db"
        with (folder / "stderr").open("ab") as errors:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "fairlane", *args],
                cwd=folder,
                env=kept | {"FAIRLANE_URL": url, "TASKS_URL": url} | environment,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )
        self.folder = folder
        watchdog = threading.Timer(LONG_S, self.process.kill)
        watchdog.daemon = True
        watchdog.start()
        self._watchdog = watchdog

    def address(self) -> str:
        """Wait for the line that says where the server is."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if found := re.search(r"http://\S+", line):
                return found[0].rstrip("/")
        raise AssertionError(self.errors())

    def errors(self) -> str:
        return (self.folder / "stderr").read_text()

    def end(self, code: int | None = 0) -> None:
        self.process.send_signal(signal.SIGTERM)
        found = self.process.wait(LONG_S)
        self._watchdog.cancel()
        assert self.process.stdout is not None
        self.process.stdout.close()
        assert code is None or found == code, (found, self.errors())


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FAIRLANE_URL", f"sqlite:///{tmp_path}/jobs.db")
    (tmp_path / "tasksapp.py").write_text(TASKS)
    return tmp_path


@pytest.fixture
def server(folder: Path) -> Iterator[tuple[str, Process]]:
    process = Process(folder, "server", "--port", "0")
    try:
        yield process.address(), process
    finally:
        process.end(None)


def run(*args: str, code: int = 0) -> Any:
    result = CliRunner().invoke(cli, list(args))
    assert result.exit_code == code, (result.exit_code, result.stdout, result.stderr)
    return result


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_it_serves_and_stops(folder):
    process = Process(folder, "server", "--port", "0")
    url = process.address()
    assert httpx2.post(f"{url}/v1/jobs", json={"task": "x"}).status_code == 201
    with httpx2.stream("GET", f"{url}/v1/events") as stream:
        next(stream.iter_lines())
        process.end()
    with fl.Fairlane() as app:
        assert len(app.jobs()) == 1


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_arguments_are_checked_where_the_app_is_known(folder):
    process = Process(folder, "server", "tasksapp:app", "--port", "0")
    try:
        url = process.address()
        response = httpx2.post(f"{url}/v1/jobs", json={"task": "send", "args": {"to": 5}})
        assert response.status_code == 422
        told = httpx2.post(f"{url}/v1/jobs", json={"task": "send", "args": {"to": "a"}}).json()
        assert (told["queue"], told["tier"]) == ("mail", "high"), "the task's own options hold"
    finally:
        process.end()


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_it_takes_back_what_lost_workers_held(server):
    """Without any worker: the server does what workers do beside running jobs."""
    url, _ = server
    job_id = httpx2.post(f"{url}/v1/jobs", json={"task": "x"}).json()["id"]
    httpx2.post(f"{url}/v1/leases", json={"lease": 0.1})
    told = httpx2.post(f"{url}/v1/leases", json={"wait": 20}, timeout=30).json()["items"]
    assert [(one["id"], one["attempt"]) for one in told] == [(job_id, 2)]


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.7"])
def test_it_does_not_listen_to_others_without_a_token(folder, host):
    result = run("server", "--host", host, "--port", "0", code=1)
    assert "no access token" in result.stderr
    made = json.loads(run("token", "create", "x", "--expires-in", "0.001", "--json").stdout)
    assert made["token"].startswith("flt_")
    threading.Event().wait(0.01)
    assert "no access token" in run("server", "--host", host, "--port", "0", code=1).stderr, "one that is over is none"


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_it_listens_to_others_with_a_token_and_only_with_it(folder):
    token = run("token", "create", "ops", "--role", "operator").stdout.strip()
    process = Process(folder, "server", "--host", "0.0.0.0", "--port", "0", "--read-only")
    try:
        url = process.address().replace("0.0.0.0", "127.0.0.1")
        assert httpx2.get(f"{url}/v1/jobs").status_code == 401
        headers = {"Authorization": f"Bearer {token}"}
        assert httpx2.get(f"{url}/v1/jobs", headers=headers).status_code == 200
        assert httpx2.post(f"{url}/v1/jobs", json={"task": "x"}, headers=headers).status_code == 403
        run("token", "revoke", token)
        assert httpx2.get(f"{url}/v1/jobs", headers=headers).status_code == 401
    finally:
        process.end()


@pytest.mark.parametrize(
    "args",
    [("--host", "nowhere.invalid"), ("nothing:app",), ("--redact", "a..b"), ("--url", "sqlite://")],
    ids=" ".join,
)
def test_it_says_what_is_wrong(folder, args):
    assert "fairlane:" in run("server", "--port", "0", *args, code=1).stderr


def test_answers_are_sent_at_once():
    """asyncio sets TCP_NODELAY on sockets of this kind alone; without it each answer waits 40 ms for an ACK."""
    import socket

    from fairlane.http.serving import listening

    with listening("127.0.0.1", 0) as sock:
        assert sock.proto == socket.IPPROTO_TCP


def test_a_port_that_is_taken(folder):
    from fairlane.http.serving import listening

    with listening("127.0.0.1", 0) as taken:
        result = run("server", "--port", str(taken.getsockname()[1]), code=1)
    assert "cannot listen" in result.stderr


def test_wrong_options(folder):
    run("server", "--root-path", "tools", code=2)
    run("server", "--orchestrator-routes", "all", code=2)
    run("server", "--port", "70000", code=2)


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_dev_starts_again_when_code_changes(folder):
    from fairlane.http.serving import listening

    with listening("127.0.0.1", 0) as free:
        port = free.getsockname()[1]
    process = Process(folder, "dev", "tasksapp:app", "--port", str(port))
    try:
        url = process.address()
        told = httpx2.post(f"{url}/v1/jobs", json={"task": "send", "args": {"to": "a"}}).json()
        done = httpx2.get(f"{url}/v1/jobs/{told['id']}/result?wait=30", timeout=40).json()
        assert done["result"] == "sent to a"
        code = (folder / "tasksapp.py").read_text()
        (folder / "tasksapp.py").write_text(code.replace('"sent to "', '"really sent to "'))
        assert process.address() == url
        told = httpx2.post(f"{url}/v1/jobs", json={"task": "send", "args": {"to": "a"}}).json()
        done = httpx2.get(f"{url}/v1/jobs/{told['id']}/result?wait=30", timeout=40).json()
        assert done["result"] == "really sent to a"
    finally:
        process.end()


# ---------------------------------------------------------------- tokens


def test_tokens_on_the_command_line(folder):
    made = json.loads(run("token", "create", "ci", "--role", "operator", "--tenant", "acme", "--json").stdout)
    plain = run("token", "create", "me")
    assert re.fullmatch(r"flt_[a-z0-9]{10}_[\w-]{43}\n", plain.stdout)
    assert "cannot be shown again" in plain.stderr
    listed = run("token", "list", "--json").stdout
    assert made["token"] not in listed
    assert {one["name"] for one in json.loads(listed)["tokens"]} == {"ci", "me"}
    told = run("token", "list").stdout
    assert "in force" in told
    run("token", "revoke", made["id"])
    run("token", "revoke", made["id"])
    assert "revoked" in run("token", "list").stdout
    assert "no token has the id" in run("token", "revoke", "nothing", code=1).stderr
    run("token", "create", "x", "--role", "root", code=2)
    with fl.Fairlane() as app:
        rows = app.owner.read(lambda store, _: store.audit(limit=9))
        assert [row.what for row in rows] == ["revoke token", "create token", "create token"]
        assert made["token"] not in str(rows)


def test_the_stores_file_holds_no_secret(folder):
    token = run("token", "create", "me").stdout.strip()
    secret = token.rpartition("_")[2] if token.count("_") == 2 else token.split("_", 2)[2]
    for path in folder.glob("jobs.db*"):
        if path.is_file():
            assert secret.encode() not in path.read_bytes()


def test_the_description_is_written(folder):
    assert json.loads(run("export-openapi").stdout)["openapi"].startswith("3.1")
    run("export-openapi", "--output", "api.json")
    assert (folder / "api.json").read_text() == run("export-openapi").stdout


def test_the_core_needs_none_of_it():
    """``import fairlane`` and the command line's help load no web framework."""
    code = "import fairlane, sys; fairlane.Fairlane; from fairlane.cli.main import cli; import fairlane.cli.token\n"
    code += "assert not {'fastapi', 'starlette', 'uvicorn', 'jinja2', 'pydantic'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


# ---------------------------------------------------------------- other languages


@pytest.mark.slow
@pytest.mark.timeout(120)
@pytest.mark.skipif(
    shutil.which("node") is None, reason="NODE IS NOT INSTALLED: the worker in JavaScript is not tested"
)
def test_the_worker_in_javascript(server):
    url, process = server
    token = run("token", "create", "node", "--role", "operator").stdout.strip()
    headers = {"Authorization": f"Bearer {token}"}

    def put(task: str, **args: str) -> str:
        found = httpx2.post(f"{url}/v1/jobs", json={"task": task, "args": args}, headers=headers).json()
        return str(found["id"])

    shout, count, fail, other = (
        put("text.shout", text="hällo"),
        put("text.count", text="aab"),
        put("text.fail"),
        put("x"),
    )
    environment = os.environ | {"FAIRLANE_SERVER": url, "FAIRLANE_TOKEN": token, "UNTIL_IDLE": "1"}
    done = subprocess.run(
        ["node", str(ROOT / "examples" / "worker.mjs")],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, (done.stdout, done.stderr, process.errors())
    told = {one: httpx2.get(f"{url}/v1/jobs/{one}", headers=headers).json() for one in (shout, count, fail, other)}
    assert told[shout]["result"] == "HÄLLO"
    assert told[count]["result"] == {"a": 2, "b": 1}
    assert told[count]["checkpoint"] == {"a": 2, "b": 1}
    assert (told[fail]["state"], told[fail]["failures"]) == ("scheduled", 1)
    assert "always fails" in told[fail]["errors"][0]["message"]
    assert told[other]["state"] == "available"
