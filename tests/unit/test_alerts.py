"""Alerts reach real receivers once, and a sink that hangs, fails or is slow harms nobody. T-M28."""

from __future__ import annotations

import http.server
import json
import logging
import os
import threading
from collections.abc import Iterator
from typing import Any

import pytest

import fairlane as fl
from fairlane.alerts import Alert, Alerts, AppriseSink, InAppSink, LogSink, dispatcher, mild, scheme_of
from fairlane.alerts.dispatcher import MAX_ERROR, MAX_PENDING
from fairlane.settings import Settings
from fairlane.testing.clock import ManualClock

# Apprise loads its services at the first address, and some import what Python is about to drop.
pytestmark = pytest.mark.filterwarnings("ignore:.*is deprecated:DeprecationWarning")

LONG_S = 10.0
SECRET = "s3cretT0kenXYZ"


def alert(number: int = 1, **fields: Any) -> Alert:
    plain = {"key": f"k{number}", "event": "wait_raised", "title": f"title {number}", "text": f"text {number}"}
    return Alert(**(plain | fields))


class Receiver:
    """An HTTP server on loopback that remembers what it was sent, and answers as told."""

    def __init__(self) -> None:
        self.got: list[tuple[str, dict[str, Any]]] = []
        self.status = 200
        self.hold: threading.Event | None = None
        self.asked = threading.Event()
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                outer.asked.set()
                if outer.hold is not None:
                    outer.hold.wait(LONG_S)
                outer.got.append((self.path, body))
                self.send_response(outer.status)
                self.end_headers()
                self.wfile.write(b"ok")

            def log_message(self, *args: object) -> None: ...

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.port = self.server.server_address[1]
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        self.thread.start()

    def close(self) -> None:
        if self.hold is not None:
            self.hold.set()
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    made = Receiver()
    yield made
    made.close()


class Sink:
    """A sink of ours: fails as often as told, hangs until let go."""

    def __init__(self, name: str = "mine", *, fails: int = 0, hangs: bool = False) -> None:
        self.name = name
        self.got: list[str] = []
        self.tries = 0
        self.fails = fails
        self.asked = threading.Event()
        self.go = threading.Event()
        if not hangs:
            self.go.set()

    def send(self, alert: Alert) -> None:
        self.tries += 1
        self.asked.set()
        assert self.go.wait(LONG_S)
        if self.fails:
            self.fails -= 1
            raise ConnectionError("refused")
        self.got.append(alert.key)


@pytest.fixture
def made() -> Iterator[Any]:
    all_made: list[Alerts] = []

    def make(*sinks: Any, **options: Any) -> Alerts:
        alerts = Alerts(sinks, **({"rest_s": (0.0, 0.0)} | options))
        all_made.append(alerts)
        return alerts

    yield make
    for alerts in all_made:
        alerts.close(0.1)


def health(alerts: Alerts, name: str) -> Any:
    (one,) = [one for one in alerts.health() if one.name == name]
    return one


# ---------------------------------------------------------------- the dispatcher


def test_every_sink_gets_every_alert_once_and_in_order(made: Any):
    first, second = Sink("a"), Sink("b")
    alerts = made(first)
    alerts.add(second)
    for number in range(20):
        alerts.send(alert(number))
    assert alerts.drain(LONG_S)
    assert first.got == second.got == [f"k{number}" for number in range(20)]
    assert health(alerts, "a")[:5] == ("a", True, 20, 0, 0)


def test_a_sink_that_hangs_harms_no_caller_and_no_other_sink(made: Any):
    hanging, well = Sink("hangs", hangs=True), Sink("well")
    alerts = made(hanging, well, timeout_s=0.02)
    for number in range(50):
        alerts.send(alert(number))
    assert alerts.until(lambda: len(well.got) == 50, LONG_S)
    assert alerts.until(lambda: not health(alerts, "hangs").healthy, LONG_S)
    assert "no answer within 0.02 s" in health(alerts, "hangs").error
    assert health(alerts, "well").healthy
    assert hanging.tries == 1  # one thread, however many alerts
    mine = threading.active_count
    assert alerts.until(lambda: [one.name for one in threading.enumerate()].count("fairlane-alert") <= 1, LONG_S), (
        mine()
    )
    hanging.go.set()  # it answers at last: what waited is sent, nothing twice
    assert alerts.until(lambda: len(hanging.got) == 50, LONG_S)
    assert hanging.got == [f"k{number}" for number in range(50)]
    assert alerts.drain(LONG_S)
    assert health(alerts, "hangs").healthy


def test_closing_does_not_wait_for_a_sink_that_hangs(made: Any):
    hanging = Sink(hangs=True)
    alerts = made(hanging, timeout_s=0.01)
    alerts.send(alert())
    assert hanging.asked.wait(LONG_S)
    alerts.close(LONG_S)
    alerts.close()
    assert not [one for one in threading.enumerate() if one.name == "fairlane-alerts"]
    alerts.send(alert(2))
    hanging.go.set()


def test_a_sink_that_refuses_is_asked_again_and_then_given_up(made: Any):
    sink = Sink(fails=4)
    alerts = made(sink)
    alerts.send(alert(1))
    alerts.send(alert(2))
    assert alerts.drain(LONG_S)
    assert sink.got == ["k2"]
    assert (sink.tries, health(alerts, "mine").dropped, health(alerts, "mine").failed) == (5, 1, 4)
    assert health(alerts, "mine").healthy


def test_a_sink_that_fails_rests_longer_each_time(made: Any, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(dispatcher, "LOOK_S", 0.002)
    clock = ManualClock()
    sink = Sink(fails=99)
    alerts = made(sink, rest_s=(10.0, 300.0), clock=clock)
    alerts.send(alert())
    for tries, rest_s in ((1, 10), (2, 40)):
        assert alerts.until(lambda tries=tries: health(alerts, "mine").failed == tries, LONG_S)
        clock.advance(seconds=rest_s - 0.1)
        assert not alerts.until(lambda tries=tries: sink.tries > tries, 0.05)
        clock.advance(seconds=0.2)
    assert alerts.until(lambda: health(alerts, "mine").dropped == 1, LONG_S)
    assert health(alerts, "mine").error == "ConnectionError: refused"


def test_a_line_is_bounded_and_loses_the_oldest(made: Any):
    sink = Sink(hangs=True)
    alerts = made(sink)
    alerts.send(alert(0))
    assert sink.asked.wait(LONG_S)
    for number in range(1, MAX_PENDING + 6):
        alerts.send(alert(number))
    assert health(alerts, "mine").pending == MAX_PENDING
    assert health(alerts, "mine").dropped == 5
    sink.go.set()
    assert alerts.drain(LONG_S)
    assert sink.got == ["k0", *(f"k{number}" for number in range(6, MAX_PENDING + 6))]


@pytest.mark.parametrize("name", ["fairlane-alerts", "fairlane-alert"], ids=["its own", "a sink's"])
def test_an_alert_that_found_no_thread_is_sent_when_there_is_one(made: Any, monkeypatch: pytest.MonkeyPatch, name: str):
    sink = Sink("one")
    alerts = made(sink)
    start, left = threading.Thread.start, [2]

    def scarce(thread: threading.Thread) -> None:
        if thread.name == name and left[0]:
            left[0] -= 1
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", scarce)
    for number in range(3):
        alerts.send(alert(number))
    assert alerts.drain(LONG_S)
    assert sink.got == ["k0", "k1", "k2"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_child_sends_its_own_and_none_of_the_parents(made: Any):
    sink = Sink(hangs=True)
    alerts = made(sink)
    for number in (1, 2):
        alerts.send(alert(number))
    assert sink.asked.wait(LONG_S)
    child = os.fork()
    if child == 0:
        sink.go = threading.Event()
        sink.go.set()
        alerts.send(alert(3))
        sent = alerts.drain(LONG_S)
        os._exit(0 if sent and sink.got == ["k3"] else 1)
    assert os.waitpid(child, 0)[1] == 0
    sink.go.set()
    assert alerts.drain(LONG_S)
    assert sink.got == ["k1", "k2"]


def test_the_log_gets_one_line_with_the_jobs_id(made: Any, caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.INFO, "fairlane.alerts")
    alerts = made(LogSink(), InAppSink())
    alerts.send(alert(facts={"job": "0198", "queue": "ma\nil"}))
    alerts.send(alert(level="good", event="wait_resolved"))
    assert alerts.drain(LONG_S)
    assert [(one.levelname, one.getMessage().strip()) for one in caplog.records] == [
        ("WARNING", "wait_raised job='0198' queue='ma\\nil'"),
        ("INFO", "wait_resolved"),
    ]


class Unreadable(Exception):
    def __str__(self) -> str:
        raise ValueError


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (ConnectionError("no\r\nERROR all is lost\x1b[2J\u202e"), r"no\r\nERROR all is lost\x1b[2J\u202e"),
        (ConnectionError("x" * 10_000), "x" * (MAX_ERROR - len("ConnectionError: "))),
        (Unreadable(), "no text, ValueError"),
    ],
    ids=["lines", "long", "unreadable"],
)
def test_what_a_sink_raised_is_one_line(made: Any, caplog: pytest.LogCaptureFixture, error: Exception, told: str):
    """It may hold what a server answered: no line of its own in the log, no end of the thread."""
    sink = Sink()
    sink.send = lambda _: (_ for _ in ()).throw(error)  # type: ignore[method-assign]
    alerts = made(sink)
    alerts.send(alert())
    assert alerts.drain(LONG_S)
    assert health(alerts, "mine").error == f"{type(error).__name__}: {told}"
    assert {one.getMessage().partition("error=")[2] for one in caplog.records} == {f"{type(error).__name__}: {told}"}
    sink.send = Sink.send.__get__(sink)  # type: ignore[method-assign]
    alerts.send(alert(key="k2"))
    assert alerts.drain(LONG_S)
    assert sink.got == ["k2"]


def test_names_cannot_be_markup():
    assert mild("<!channel> <http://x|y>") == "(!channel) (http://x|y)"
    assert "@everyone" not in mild("hi @everyone @here a@b.c")
    assert "a@b.c" in mild("hi a@b.c")
    assert mild("a\r\nb\x1b[2J\u202e") == "a  b [2J "


# ---------------------------------------------------------------- Apprise, over real HTTP


def test_webhooks_get_the_event_once(made: Any, receiver: Receiver):
    alerts = made(AppriseSink(f"json://127.0.0.1:{receiver.port}/hook"))
    alerts.send(alert())
    assert alerts.drain(LONG_S)
    ((path, body),) = receiver.got
    assert path == "/hook"
    assert (body["title"], body["message"], body["type"]) == ("title 1", "text 1", "warning")


def test_slack_shaped_webhooks_get_text(made: Any, receiver: Receiver):
    """Apprise points ``slack://`` at Slack alone; Mattermost takes the same message at an address of one's own."""
    alerts = made(AppriseSink(f"mmost://127.0.0.1:{receiver.port}/{SECRET}"))
    alerts.send(alert(level="good"))
    assert alerts.drain(LONG_S)
    ((path, body),) = receiver.got
    assert path == f"/hooks/{SECRET}"
    assert "title 1" in body["text"]
    assert "text 1" in body["text"]


def test_a_webhook_that_refuses_shows_in_health_without_its_address(
    made: Any, receiver: Receiver, caplog: pytest.LogCaptureFixture
):
    caplog.set_level(logging.DEBUG)
    receiver.status = 500
    alerts = made(AppriseSink(f"mmost://127.0.0.1:{receiver.port}/{SECRET}", 2))
    alerts.send(alert())
    assert alerts.drain(LONG_S)
    told = health(alerts, "mmost#2")
    assert (told.healthy, told.failed, told.dropped) == (False, 3, 1)
    assert "500" in told.error or "Internal" in told.error
    receiver.status = 200
    alerts.send(alert(2))
    assert alerts.drain(LONG_S)
    assert health(alerts, "mmost#2").healthy
    for record in caplog.records:
        assert SECRET not in record.getMessage()
    assert SECRET not in repr(alerts.health()) + repr(AppriseSink(f"mmost://h/{SECRET}"))


def test_a_webhook_that_cannot_be_reached_is_told_without_its_address(made: Any, caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.DEBUG)
    alerts = made(AppriseSink(f"json://user:{SECRET}@127.0.0.1:9/{SECRET}"))
    alerts.send(alert())
    assert alerts.drain(LONG_S)
    assert not health(alerts, "json#1").healthy
    assert caplog.records
    for record in caplog.records:
        assert SECRET not in record.getMessage()


def test_others_may_still_log_what_apprise_says(made: Any, receiver: Receiver, caplog: pytest.LogCaptureFixture):
    alerts = made(AppriseSink(f"json://127.0.0.1:{receiver.port}/"))
    alerts.send(alert())
    assert alerts.drain(LONG_S)
    logging.getLogger("apprise").warning("of the user's own")
    assert "of the user's own" in caplog.text


def test_a_webhook_that_hangs_harms_no_other(made: Any, receiver: Receiver):
    receiver.hold = threading.Event()
    well = Sink()
    alerts = made(AppriseSink(f"json://127.0.0.1:{receiver.port}/"), well, timeout_s=0.05)
    alerts.send(alert(1))
    assert receiver.asked.wait(LONG_S)
    alerts.send(alert(2))
    assert alerts.until(lambda: well.got == ["k1", "k2"], LONG_S)
    assert alerts.until(lambda: not health(alerts, "json#1").healthy, LONG_S)
    receiver.hold.set()
    assert alerts.until(lambda: len(receiver.got) == 2, LONG_S)


@pytest.mark.parametrize("url", [f"nosuchservice://{SECRET}", f"slack://{SECRET}"])
def test_an_address_that_apprise_does_not_understand_shows_in_health(made: Any, url: str):
    alerts = made(AppriseSink(url), LogSink())
    alerts.send(alert())
    assert alerts.drain(LONG_S)
    told = health(alerts, f"{scheme_of(url)}#1")
    assert "does not understand the address" in told.error
    assert SECRET not in told.error
    assert health(alerts, "log").healthy


def test_without_the_extra_health_says_what_to_install(made: Any, monkeypatch: pytest.MonkeyPatch):
    import sys

    monkeypatch.setitem(sys.modules, "apprise", None)
    alerts = made(AppriseSink("json://127.0.0.1/"))
    alerts.send(alert())
    assert alerts.drain(LONG_S)
    assert "pip install 'fairlane[alerts]'" in health(alerts, "json#1").error


# ---------------------------------------------------------------- settings


def test_addresses_come_from_settings(tmp_path: Any, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "fairlane.toml").write_text('alerts = ["json://127.0.0.1/a,b", "json://127.0.0.1/c"]\n')
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("FAIRLANE_ALERTS", raising=False)
    with fl.Fairlane("sqlite://") as app:
        assert [one.name for one in app.alerts.health()] == ["log", "in-app", "json#1", "json#2"]
    told = Settings.load(environment={"FAIRLANE_ALERTS": f"slack://{SECRET}  json://h/x"}, folder=tmp_path)
    assert told["alerts"] == (f"slack://{SECRET}", "json://h/x")
    (row,) = [row for row in told.report() if row[0] == "alerts"]
    assert row == ("alerts", ["slack://***", "json://***"], "FAIRLANE_ALERTS")


@pytest.mark.parametrize("wrong", [SECRET, [SECRET], [5], 5, [f"json://{SECRET} x"], ["json://" + "x" * 5_000]])
def test_wrong_addresses_are_refused_without_being_shown(wrong: object, tmp_path: Any):
    with pytest.raises(fl.ConfigError) as refused:
        Settings.load({"alerts": wrong}, environment={}, folder=tmp_path)
    assert SECRET not in str(refused.value)
    assert "address 1" in str(refused.value)
