"""Where an alert goes: the log, the store's own list of incidents, and Apprise's hundred services."""

from fairlane.alerts.alert import Alert, Sink, mild
from fairlane.alerts.deaths import alert_of_death, teller
from fairlane.alerts.dispatcher import Alerts, SinkHealth
from fairlane.alerts.outside import AppriseSink, scheme_of
from fairlane.alerts.sinks import InAppSink, LogSink

__all__ = [
    "Alert",
    "Alerts",
    "AppriseSink",
    "InAppSink",
    "LogSink",
    "Sink",
    "SinkHealth",
    "alert_of_death",
    "mild",
    "scheme_of",
    "teller",
]
