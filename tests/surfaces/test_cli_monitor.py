"""`fairlane monitor`, in processes of its own, with no worker anywhere."""

from __future__ import annotations

import http.server
import json
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # "importlib" mode finds no neighbours by itself

from cli_rig import LONG_S, Cli, end


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    made = Cli(tmp_path)
    with made.app() as app:
        app.tiers["high"].set(objective=0.001)
    return made


@pytest.fixture
def webhook(cli: Cli) -> Iterator[list[dict[str, Any]]]:
    """A webhook on loopback that the settings file names; gives what it got."""
    got: list[dict[str, Any]] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            got.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *args: object) -> None: ...

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    (cli.folder / "fairlane.toml").write_text(
        f'alerts = ["mmost://127.0.0.1:{server.server_address[1]}/s3cretT0ken"]\n'
    )
    yield got
    server.shutdown()
    server.server_close()


def once(cli: Cli) -> tuple[dict[str, Any], str]:
    out, err = cli.process("monitor", "--once", "--json")
    return json.loads(out), err


def test_once_tells_a_webhook_once_for_each_event(cli: Cli, webhook: list[dict[str, Any]]) -> None:
    """T-G1, T-M28: no worker lives; each run is a process of its own, as from cron."""
    with cli.app() as app:
        job = app.enqueue("mail.send", queue="mail", tenant="acme", tier="high")
    told, err = once(cli)
    (incident,) = told["incidents"]
    assert told["raised"] == [incident]
    assert (incident["queue"], incident["tier"], incident["job_id"]) == ("mail", "high", str(job.id))
    assert (incident["cause"], incident["count"], told["active"]) == ("no_worker", 1, True)
    assert {sink["name"]: sink["sent"] for sink in told["sinks"]} == {"log": 1, "in-app": 1, "mmost#1": 1}
    assert "wait_raised" in err
    assert "s3cretT0ken" not in err + json.dumps(told)
    assert [str(job.id) in body["text"] for body in webhook] == [True]
    told, _ = once(cli)
    assert (told["raised"], len(told["incidents"]), len(webhook)) == ([], 1, 1)
    with cli.app() as app:
        app.cancel(job.id)
    told, _ = once(cli)
    assert (len(told["resolved"]), told["incidents"], len(webhook)) == (1, [], 2)
    assert "Resolved" in webhook[1]["text"]


def test_it_watches_until_it_is_told_to_stop(cli: Cli) -> None:
    process = cli.start("monitor", "--every", "0.1", "--json")
    assert process.stdout is not None
    assert json.loads(process.stdout.readline())["incidents"] == []
    with cli.app() as app:
        job = app.enqueue("t", tier="high", tenant="acme")
        assert not app.monitor().active  # the other one watches
        told: dict[str, Any] = {"raised": []}
        while not told["raised"]:
            told = json.loads(process.stdout.readline())
        assert told["raised"][0]["job_id"] == str(job.id)
        app.cancel(job.id)
        while not told["resolved"]:
            told = json.loads(process.stdout.readline())
        _, err = end(process)
        assert process.returncode == 0
        assert "wait_resolved" in err
        assert app.monitor().active  # it has let go


def test_people_get_a_table(cli: Cli) -> None:
    assert "no job waits longer than it should" in cli("monitor", "--once").stdout
    with cli.app() as app:
        app.enqueue("t", tier="high", tenant="acme\x1b[2J")
    shown = cli("monitor", "--once").stdout
    assert "no live worker serves queue 'default'" in shown
    assert "\x1b" not in shown


def test_a_store_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    cli = Cli(tmp_path / ".")
    process = cli.start("monitor", "--once")
    _, err = process.communicate(timeout=LONG_S)
    assert process.returncode == 1
    assert "there is no store" in err
    assert not cli.file.exists()
