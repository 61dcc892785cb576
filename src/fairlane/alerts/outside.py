"""Alerts to Slack, mail, webhooks and a hundred others, by Apprise (extra ``alerts``).

The address of a sink is a secret: a Slack webhook's *is* the right to post. It is in no log, no error and no health.
Apprise and urllib3 log addresses at DEBUG; what they say while we send is kept from the log, and what goes wrong is
told with every part of the address masked.
"""

from __future__ import annotations

import logging
import re
from contextvars import ContextVar
from typing import Any, Final

from fairlane.alerts.alert import Alert
from fairlane.errors import ConfigError

NOISY: Final = ("apprise", "urllib3.connectionpool", "urllib3.connection", "urllib3.util.retry", "requests", "smtplib")
MAX_REASON: Final = 200
_PARTS: Final = re.compile(r"[^\s:/?&=@#,]{3,}")


class _Muffler(logging.Filter):
    """Keeps what is said while we send from the log, and remembers the warnings for us."""

    def filter(self, record: logging.LogRecord) -> bool:
        said = _said.get()
        if said is None:
            return True
        if record.levelno >= logging.WARNING:
            said.append(record.getMessage())
        return False


_muffler: Final = _Muffler()
_said: Final[ContextVar[list[str] | None]] = ContextVar("said", default=None)
"""The warnings of what we are sending; Apprise hands the context on to the threads that it sends in."""


def scheme_of(url: str) -> str:
    """Return the kind of service that an Apprise address names, which is no secret.

    Example:
        >>> scheme_of("slack://T1JJ3T3L2/A1BRTD4JD/TIiajkdnlazkcOXrIdevi7FQ"), scheme_of("hunter2")
        ('slack', '?')
    """
    scheme, separator, _ = url.partition("://")
    return scheme.lower() if separator and re.fullmatch(r"[A-Za-z][A-Za-z0-9+.-]{0,30}", scheme) else "?"


def masked(message: str, url: str) -> str:
    """Return a message without anything that the address holds, its scheme aside.

    Example:
        >>> masked("POST https://hooks.example/T123/s3cret failed, error=404", "slack://T123/s3cret/#ops")
        'POST https://hooks.example/***/*** failed, error=404'
    """
    for part in sorted(set(_PARTS.findall(url.partition("://")[2])), key=len, reverse=True):
        message = message.replace(part, "***")
    return message[:MAX_REASON]


class AppriseSink:
    """One Apprise address.

    What is wrong with the address, or that Apprise is not installed, is told when something is sent, and then in
    health: a worker starts all the same.

    Args:
        url: The address, as https://github.com/caronc/apprise/wiki lists them: ``slack://…``, ``mailtos://…``.
        number: Tells sinks of one kind apart.
    """

    def __init__(self, url: str, number: int = 1) -> None:
        self._url = url
        self._target: Any = None  # Any: Apprise has no types
        self.name = f"{scheme_of(url)}#{number}"

    def __repr__(self) -> str:
        return f"<AppriseSink {self.name}>"

    def send(self, alert: Alert) -> None:
        """Send an alert.

        Raises:
            ConfigError: Apprise is not installed, or does not understand the address.
            ConnectionError: The service did not take it.
        """
        for name in NOISY:
            logger = logging.getLogger(name)
            if _muffler not in logger.filters:
                logger.addFilter(_muffler)
        said: list[str] = []
        token = _said.set(said)
        try:
            self._send(alert, said)
        except (ConfigError, ConnectionError):
            raise
        except Exception as error:  # noqa: BLE001  raised again, without the address
            message = masked(f"{type(error).__name__}: {error}", self._url)
            raise ConnectionError(message) from None  # the cause's own text may hold the address
        finally:
            _said.reset(token)

    def _send(self, alert: Alert, said: list[str]) -> None:
        try:
            import apprise  # type: ignore[import-untyped, unused-ignore]  # noqa: PLC0415  an extra
        except ModuleNotFoundError:
            raise ConfigError("alerts by Apprise need: pip install 'fairlane[alerts]'") from None
        api: Any = apprise  # Any: it has no types
        if self._target is None:
            target = api.Apprise()
            if not target.add(self._url):
                raise ConfigError(f"Apprise does not understand the address of {self.name}")
            self._target = target
        kind = api.NotifyType.SUCCESS if alert.level == "good" else api.NotifyType.WARNING
        taken = self._target.notify(
            title=alert.title, body=alert.text, notify_type=kind, body_format=api.NotifyFormat.TEXT
        )
        if not taken:
            raise ConnectionError(masked(said[0] if said else "the service did not take it", self._url))
