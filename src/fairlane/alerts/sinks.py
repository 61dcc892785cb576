"""The sinks that need nothing."""

from __future__ import annotations

import logging

from fairlane.alerts.alert import Alert

log = logging.getLogger("fairlane.alerts")


class LogSink:
    """Writes alerts to the log ``fairlane.alerts``."""

    name = "log"

    def send(self, alert: Alert) -> None:
        """Write one line: the event's name, then its facts."""
        facts = " ".join(f"{name}={value!r}" for name, value in alert.facts.items())
        log.log(logging.INFO if alert.level == "good" else logging.WARNING, "%s %s", alert.event, facts)


class InAppSink:
    """Stands for what ``app.incidents()`` and the dashboard show: the incident is in the store before it is told."""

    name = "in-app"

    def send(self, alert: Alert) -> None:
        """Do nothing: it is there."""
