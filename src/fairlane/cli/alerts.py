"""`fairlane alerts`: whether what should wake somebody gets there."""

from __future__ import annotations

from typing import Any, Final
from uuid import uuid4

import click

from fairlane.alerts import Alert, SinkHealth
from fairlane.alerts.dispatcher import TIMEOUT_S
from fairlane.app import Fairlane
from fairlane.cli.groups import FAILED, Shared, example, store_options
from fairlane.cli.output import note, print_json, print_table
from fairlane.cli.stores import Keeper, load_app
from fairlane.cli.worker import start_logging
from fairlane.settings import without_password

TESTED: Final = "test_alert"


def alert_to_test(app: Fairlane) -> Alert:
    """Return an alert that says that nothing is wrong, and where it comes from."""
    url = without_password(app.url)
    return Alert(
        key=f"{TESTED}:{uuid4()}",
        event=TESTED,
        title="Test alert of fairlane",
        text=f"Nothing is wrong: somebody typed `fairlane alerts test`.\nstore: {url}",
        level="good",
        facts={"store": url},
    )


def shape(health: SinkHealth) -> dict[str, Any]:  # Any: ready for JSON
    """Return what became of the alert in one sink, as JSON has it."""
    taken = health.sent > 0
    return {"name": health.name, "sent": taken, "error": None if taken else health.error or "no answer"}


alerts_group: Final = Shared(
    "alerts", help="Where alerts go, and whether they get there.", epilog=example("fairlane alerts test")
)


@alerts_group.command("test", epilog=example("fairlane alerts test", "fairlane alerts test myapp:app --json"))
@click.argument("where", metavar="[MODULE:APP]", required=False)
@store_options
def test_command(*, where: str | None, url: str | None, as_json: bool) -> None:
    """Send a test alert to every sink and say which took it; exit code 1 if one did not.

    Sinks are the log, the list of incidents, the Apprise URLs of the setting `alerts` as this process sees it and, with
    MODULE:APP, those that the app adds. Each is asked once and has 15 seconds. No store is needed and none is opened.
    """
    start_logging("info")
    app = Keeper(url) if where is None else load_app(where, url)
    with app:
        alerts = app.alerts
        alerts.send(alert_to_test(app))
        alerts.until(lambda: all(one.sent or one.failed for one in alerts.health()), TIMEOUT_S + 1)
        sinks = [shape(health) for health in alerts.health()]
    sent = all(sink["sent"] for sink in sinks)
    if as_json:
        print_json({"sent": sent, "sinks": sinks})
    else:
        print_table(
            ("sink", "sent", "error"),
            [(sink["name"], "yes" if sink["sent"] else "no", sink["error"] or "") for sink in sinks],
        )
        if not app.settings["alerts"]:
            note("the setting alerts names no address (see the guide on waits)")
    if not sent:
        click.get_current_context().exit(FAILED)
