"""`fairlane tiers`, `fairlane alerts test`, sinks in `fairlane health`, and the probes of a worker."""

from __future__ import annotations

import http.client
import http.server
import json
import re
import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # "importlib" mode finds no neighbours by itself

from cli_rig import Cli, end

from fairlane.alerts import Alert
from fairlane.cli.probes import Probes

ADD_A_SINK = """

class Pager:
    name = "pager"

    def send(self, alert):
        if "{mode}" == "broken":
            raise OSError("no line")


app.alerts.add(Pager())
"""


@pytest.fixture
def fl(tmp_path: Path) -> Cli:
    return Cli(tmp_path)


@pytest.fixture
def store(fl: Cli) -> Cli:
    with fl.app() as app:
        app.enqueue("x", queue="mail")
    return fl


# ---------------------------------------------------------------- tiers


def test_tiers_are_listed_with_their_defaults(store: Cli) -> None:
    tiers = store.json("tiers", "list")["tiers"]
    assert list(tiers) == ["critical", "high", "normal", "low", "background"]
    assert tiers["high"] == {"objective": 120.0, "on_breach": "alert", "overrides": []}
    assert tiers["low"]["objective"] is None
    assert re.search(r"^low +none +alert$", store("tiers", "list").stdout, re.MULTILINE)


def test_an_objective_is_set_for_a_tier_a_queue_and_a_tenant(store: Cli) -> None:
    told = store.json("tiers", "set", "high", "--objective", 60, "--on-breach", "boost")
    assert told == {"kind": "tier", "name": "high", "objective": 60.0, "on_breach": "boost", "overrides": []}
    store("tiers", "set", "high", "--objective", "none", "--queue", "batch")
    told = store.json("tiers", "set", "high", "--on-breach", "expedite", "--tenant", "acme", "--queue", "mail")
    assert told["overrides"] == [
        {"queue": "batch", "tenant": None, "objective": None, "on_breach": "boost"},
        {"queue": "mail", "tenant": "acme", "objective": 60.0, "on_breach": "expedite"},
    ]
    rows = [line.split() for line in store("tiers", "list").stdout.splitlines() if line.startswith("high")]
    assert rows == [
        ["high", "1", "min", "0", "s", "boost"],
        ["high", "batch", "none", "boost"],
        ["high", "mail", "acme", "1", "min", "0", "s", "expedite"],
    ]
    assert {by.partition(":")[0] for (by,) in store.rows("SELECT by FROM audit")} == {"cli"}
    told = store.json("tiers", "unset", "high", "--tenant", "acme", "--queue", "mail")
    assert [one["queue"] for one in told["overrides"]] == ["batch"]
    store("tiers", "unset", "high")
    assert store.json("tiers", "list")["tiers"]["high"]["objective"] == 120.0


@pytest.mark.parametrize(
    ("line", "code", "words"),
    [
        (("set", "high"), 2, "give at least one of --objective, --on-breach"),
        (("set", "urgent", "--objective", 5), 2, "'urgent' is not one of"),
        (("set", "high", "--objective", "soon"), 2, "'soon' is neither a number nor none"),
        (("set", "high", "--objective", 0), 1, "objective is 0.0; it must be at least 0.001"),
        (("set", "high", "--on-breach", "panic"), 2, "'panic' is not one of"),
        (("set", "high", "--objective", 5, "--queue", ""), 1, "queue is empty"),
    ],
)
def test_wrong_objectives_are_refused_with_figures(store: Cli, line: tuple[object, ...], code: int, words: str) -> None:
    before = store.json("tiers", "list")
    assert words in store("tiers", *line, code=code).stderr.replace("\n", " ")
    assert store.json("tiers", "list") == before


def test_tiers_need_a_store(fl: Cli) -> None:
    for line in (("list",), ("set", "high", "--objective", 5), ("unset", "high")):
        assert "there is no store" in fl("tiers", *line, code=1).stderr
    assert not fl.file.exists()


# ---------------------------------------------------------------- alerts test


@pytest.fixture(params=[200])
def hook(fl: Cli, request: pytest.FixtureRequest) -> Iterator[list[dict[str, Any]]]:
    """A webhook on loopback that the settings file names; gives what it got and answers with a status."""
    got: list[dict[str, Any]] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            got.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(request.param)
            self.end_headers()

        def log_message(self, *args: object) -> None: ...

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    (fl.folder / "fairlane.toml").write_text(f'alerts = ["mmost://127.0.0.1:{server.server_address[1]}/s3cretT0ken"]\n')
    yield got
    server.shutdown()
    server.server_close()


def test_a_test_alert_gets_to_every_sink(fl: Cli, hook: list[dict[str, Any]]) -> None:
    out, err = fl.process("alerts", "test", "--json")
    assert json.loads(out) == {
        "sent": True,
        "sinks": [{"name": name, "sent": True, "error": None} for name in ("log", "in-app", "mmost#1")],
    }
    (body,) = hook
    assert "Nothing is wrong" in body["text"]
    assert "test_alert" in err
    assert "s3cretT0ken" not in out + err
    assert not fl.file.exists(), "it needs no store"


@pytest.mark.parametrize("hook", [500], indirect=True)
def test_a_sink_that_refuses_is_named_and_fails_the_command(fl: Cli, hook: list[dict[str, Any]]) -> None:
    out, err = fl.process("alerts", "test", code=1)
    rows = {line.split()[0]: line.split()[1:] for line in out.splitlines()[1:]}
    assert (rows["log"], rows["in-app"], rows["mmost#1"][0]) == (["yes"], ["yes"], "no")
    assert "ConnectionError" in rows["mmost#1"][1]
    assert "s3cretT0ken" not in out + err
    assert hook


def test_an_address_that_nothing_understands_fails(fl: Cli) -> None:
    (fl.folder / "fairlane.toml").write_text('alerts = ["nosuch://host/x"]\n')
    told = json.loads(fl.process("alerts", "test", "--json", code=1)[0])
    assert told["sent"] is False
    assert "does not understand" in told["sinks"][2]["error"]


@pytest.mark.parametrize(("mode", "code"), [("fine", 0), ("broken", 1)])
def test_sinks_of_an_app_are_tried_too(fl: Cli, mode: str, code: int) -> None:
    app = fl.folder / "tasksapp.py"
    app.write_text(app.read_text() + ADD_A_SINK.replace("{mode}", mode))
    out, err = fl.process("alerts", "test", "tasksapp:app", "--json", code=code)
    told = json.loads(out)["sinks"][-1]
    assert told["name"] == "pager"
    assert told["error"] == (None if mode == "fine" else "OSError: no line")
    assert "Traceback" not in err


def test_without_addresses_it_says_so(fl: Cli) -> None:
    assert "the setting alerts names no address" in fl("alerts", "test").stderr


# ---------------------------------------------------------------- health


class Refusing:
    """A sink that takes nothing."""

    name = "broken"

    def send(self, alert: Alert) -> None:
        raise OSError("no \x1b line")


def test_health_shows_how_sinks_do(store: Cli) -> None:
    store("jobs", "list")
    with store.app() as app:
        app.alerts.add(Refusing())
        app.tiers["normal"].set(objective=0.001)
        assert app.monitor().raised
        assert app.alerts.until(lambda: all(one.sent or one.failed for one in app.alerts.health()), 10)
        app.monitor()
        told = store.json("health", code=3)
        assert told["sinks"] == [
            {"name": "log", "healthy": True, "error": ""},
            {"name": "in-app", "healthy": True, "error": ""},
            {"name": "broken", "healthy": False, "error": r"OSError: no \x1b line"},
        ]
        assert all("sink" not in problem for problem in told["problems"]), "a sink keeps no job from running"
        lines = store("health", code=3).stdout.splitlines()
        assert r"sinks      log ok, in-app ok, broken failing: OSError: no \x1b line" in lines
    assert store.json("health", code=3)["sinks"] == [], "nobody watches any more"


# ---------------------------------------------------------------- probes


def ask(port: int, path: str, method: str = "GET") -> tuple[int, str]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        connection.request(method, path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def test_a_worker_answers_probes(fl: Cli) -> None:
    process = fl.start("worker", "tasksapp:app", "--probe-port", 0)
    assert process.stderr is not None
    port = 0
    for line in process.stderr:
        if found := re.search(r"probes_listening port=(\d+)", line):
            port = int(found[1])
            break
    pause = threading.Event()
    while ask(port, "/readyz")[0] != 200:  # the store is being made
        pause.wait(0.02)
    assert ask(port, "/healthz") == (200, '{"status": "ok"}\n')
    assert ask(port, "/readyz?x=1", "HEAD") == (200, "")
    assert ask(port, "/metrics")[0] == 404
    assert ask(port, "/healthz", "POST")[0] == 501
    end(process, sig=signal.SIGTERM)
    assert process.returncode == 0
    with pytest.raises(ConnectionRefusedError):
        ask(port, "/healthz")


def test_ready_is_a_worker_that_runs_and_alive_any_process(fl: Cli) -> None:
    with fl.app() as app:
        worker = app.worker()
        with Probes(worker, 0) as probes:
            assert ask(probes.port, "/readyz") == (503, '{"status": "not ready"}\n')
            with worker:
                assert ask(probes.port, "/readyz") == (200, '{"status": "ready"}\n')
            assert ask(probes.port, "/readyz")[0] == 503
            assert ask(probes.port, "/healthz")[0] == 200


def test_several_processes_have_no_probe_port(fl: Cli) -> None:
    assert "--probe-port asks one process" in fl(
        "worker", "tasksapp:app", "-p", 2, "--probe-port", 0, code=2
    ).stderr.replace("\n", " ")


def test_a_port_that_is_taken_is_said(fl: Cli) -> None:
    server = http.server.HTTPServer(("", 0), http.server.BaseHTTPRequestHandler)
    try:
        _, err = fl.process("worker", "tasksapp:app", "--probe-port", server.server_address[1], code=1)
    finally:
        server.server_close()
    assert f"cannot listen for probes at port {server.server_address[1]}" in err
