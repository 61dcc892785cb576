"""How the HTTP surface is opened: to whom, under which names, within which bounds."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from fairlane.domain.checks import number, text, whole
from fairlane.errors import ConfigError, InvalidValue
from fairlane.metrics import MOST_TENANTS
from fairlane.service import NOTHING, Redaction

MIB: Final = 1024 * 1024
Orchestrator = Literal["off", "post", "legacy"]
ANY_HOST: Final = "*"


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpOptions:
    """How the HTTP surface is opened.

    Attributes:
        open_on_loopback: Whether who connects from this machine may do everything while the store has, and had, no
            token. Only for a server that listens to this machine alone.
        read_only: Whether everybody may only look, whatever their token says.
        hosts: Names under which the server may be addressed, beside ``localhost`` and addresses; ``*``: any.
        origins: Origins (``https://ops.example.com``) whose pages may send changes, beside the server's own.
        orchestrator: Whether the orchestrator's routes are there: ``"post"``, or ``"legacy"`` with GET for changes.
        orchestrator_admin: Whether its admin routes are there too.
        redaction: What is shown of arguments and results.
        max_body_bytes: Longest request, 1 KiB to 256 MiB.
        max_depth: How deep its JSON may be nested, 1 to 100.
        rate: Requests that one token may make in a second, above 0, up to twice as many at once; None: no bound.
        body_timeout: How long a request may take to arrive, in seconds; above 0.
        maintenance: Whether the server also does what workers do beside running jobs: rescue, watch, prune and so on.
        metrics_tenants: How many tenants ``/metrics`` tells apart, those with most live jobs, 0 to 1,000; 0: none.
        secure_cookie: Whether browsers send the session's cookie over TLS alone; None: as the request came in.

    Raises:
        ConfigError: A value is wrong.
    """

    open_on_loopback: bool = False
    read_only: bool = False
    hosts: Sequence[str] = ()
    origins: Sequence[str] = ()
    orchestrator: Orchestrator = "off"
    orchestrator_admin: bool = False
    redaction: Redaction = field(default_factory=lambda: NOTHING)
    max_body_bytes: int = 8 * MIB
    max_depth: int = 64
    rate: float | None = 500.0
    body_timeout: float = 30.0
    maintenance: bool = True
    metrics_tenants: int = 0
    secure_cookie: bool | None = None

    def __post_init__(self) -> None:
        try:
            for name in self.hosts:
                text("host", name)
            for name in self.origins:
                text("origin", name)
            whole("max_body_bytes", self.max_body_bytes, least=1024, most=256 * MIB)
            whole("max_depth", self.max_depth, least=1, most=100)
            whole("metrics_tenants", self.metrics_tenants, most=MOST_TENANTS)
            if self.rate is not None:
                number("rate", self.rate, least=0, most=1e6, above=True)
            number("body_timeout", self.body_timeout, least=0, most=3600, above=True)
        except InvalidValue as error:
            raise ConfigError(str(error)) from None

    def knows(self, host: str) -> bool:
        """Return whether the server may be addressed by a name, given as in a ``Host`` header.

        A page of another site can make a browser look up its own name at this server's address (DNS rebinding); the
        ``Host`` is that name then, never an address and never ``localhost``.
        """
        name = name_of(host)
        return ANY_HOST in self.hosts or name == "localhost" or is_address(name) or name in self.hosts


def name_of(host: str) -> str:
    """Return the name in a ``Host`` header, without port and brackets.

    Example:
        >>> name_of("Localhost:8080"), name_of("[::1]:80"), name_of("ops.example.com.")
        ('localhost', '::1', 'ops.example.com')
    """
    host = host.strip().lower()
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0].rstrip(".")


def is_address(name: str) -> bool:
    """Return whether ``name`` is an IP address."""
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def is_loopback(name: str) -> bool:
    """Return whether only this machine can reach an address: ``127.0.0.1``, ``::1``, ``localhost``.

    Example:
        >>> [is_loopback(name) for name in ("127.0.0.1", "::1", "localhost", "0.0.0.0", "example.com")]
        [True, True, True, False, False]
    """
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return name == "localhost"
