"""`fairlane schedules`, and the monitor that fires them."""

from __future__ import annotations

import signal
import sys
import threading
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # "importlib" mode finds no neighbours by itself

from cli_rig import LONG_S, Cli, end


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    return Cli(tmp_path)


def make(cli: Cli) -> None:
    with cli.app() as app:
        app.schedule("nightly", "reports.nightly", cron="30 2 * * *", tz="Europe/Paris", args={"n": 1}, tenant="acme")
        app.schedule("sync", "sync", every=3_600, overlap="skip")


def test_the_list(cli: Cli) -> None:
    with cli.app() as app:
        app.depth()
    assert "no schedules" in cli("schedules", "list").stdout
    assert cli.json("schedules", "list") == {"schedules": []}
    make(cli)
    told = cli.json("schedules", "list")["schedules"]
    assert [(one["name"], one["cron"], one["every"], one["state"]) for one in told] == [
        ("nightly", "30 2 * * *", None, "active"),
        ("sync", None, 3600.0, "active"),
    ]
    assert all(len(one["next"]) == 5 and one["next"][0] == one["next_at"] for one in told)
    shown = cli("schedules", "list").stdout
    assert "At 02:30 every day (Europe/Paris)" in shown
    assert "every 1 hour" in shown


def test_one_is_shown_with_its_next_ticks(cli: Cli) -> None:
    make(cli)
    shown = cli("schedules", "show", "nightly", "--next", "7").stdout
    assert shown.count(" 02:30:00+0") >= 6, "in its own zone; the night of a change may have another"
    assert "by hand" in shown
    told = cli.json("schedules", "show", "nightly", "--next", "2")
    assert (told["args"], len(told["next"])) == ({"n": 1}, 2)
    assert "there is no schedule 'none'" in cli("schedules", "show", "none", code=1).stderr


def test_run_pause_resume_remove(cli: Cli) -> None:
    make(cli)
    first = cli.json("schedules", "run", "sync")
    assert first["created"]
    assert cli.json("schedules", "run", "sync") == {"id": first["id"], "created": False}
    assert first["id"] in cli("schedules", "run", "sync").stdout
    paused = cli.json("schedules", "pause", "sync", "--reason", "why", "--for", "600")
    assert (paused["state"], paused["pause"]["reason"]) == ("paused", "why")
    assert "paused by cli:" in cli("schedules", "list").stdout
    assert cli.json("schedules", "resume", "sync")["state"] == "active"
    assert cli.json("schedules", "remove", "sync") == {"removed": "sync"}
    assert cli("schedules", "remove", "sync", code=1).stdout == ""
    assert cli.states() == {"available": 1}


def test_what_is_stored_cannot_drive_a_terminal(cli: Cli) -> None:
    with cli.app() as app:
        app.schedule("bad\x1b[2J", "t\n", every=60)
    for words in (("list",), ("show", "bad\x1b[2J")):
        assert "\x1b" not in cli("schedules", *words).stdout


def test_a_refusal_is_told(cli: Cli) -> None:
    with cli.app() as app:
        app.queues["default"].set(max_waiting=0)
        app.schedule("s", "t", every=1)
        clock = threading.Event()
        while not app.schedules["s"].get().refused:
            app.schedules.fire()
            clock.wait(0.05)
    assert "s: QueueFull" in cli("schedules", "list").stderr


def test_a_monitor_fires_without_any_worker(cli: Cli) -> None:
    with cli.app() as app:
        app.schedule("s", "t", every=1)
        process = cli.start("monitor", "--every", "15")
        pause = threading.Event()
        for _ in range(int(LONG_S / 0.05)):
            if app.schedules["s"].get().runs >= 2:
                break
            pause.wait(0.05)
        info = app.schedules["s"].get()
        end(process, sig=signal.SIGTERM)
        assert process.returncode == 0
        assert info.runs >= 2
        assert info.missed == 0


def test_a_monitor_with_once_fires_what_is_due(cli: Cli) -> None:
    with cli.app() as app:
        app.schedule("s", "t", every=1)
        pause = threading.Event()
        while app.clock.now_ms() < app.schedules["s"].get().next_at.timestamp() * 1000:  # type: ignore[union-attr]
            pause.wait(0.05)
        cli("monitor", "--once")
        assert app.schedules["s"].get().runs >= 1
