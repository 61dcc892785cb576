"""Who may do what through a surface: roles, tokens, and what is remembered of changes and of requests."""

from __future__ import annotations

import hashlib
import hmac
import re
from typing import Final, Literal, NamedTuple, get_args

import msgspec

from fairlane.domain.checks import one_of, text

Role = Literal["viewer", "operator", "admin"]
ROLES: Final[tuple[Role, ...]] = get_args(Role)
"""What a token may do, each more than the one before: look; steer jobs and run them; change what is set."""

PREFIX: Final = "flt"
_TOKEN: Final = re.compile(r"flt_([a-z0-9]{1,32})_([A-Za-z0-9_-]{16,128})")


class TokenRecord(msgspec.Struct, frozen=True, kw_only=True):
    """An access token as it is stored; instants in milliseconds UTC.

    Attributes:
        id: Its public part.
        name: What it is for, for people.
        role: What it may do.
        tenant: The only tenant whose jobs it may see and touch; None: all.
        digest: SHA-256 of its secret part; the secret itself is not stored.
        created_at_ms: When it was made.
        created_by: Who made it.
        expires_at_ms: When it ends by itself; None: never.
        used_at_ms: When it was used last, to the minute.
        revoked_at_ms: When it was revoked; None: it was not.
    """

    id: str
    name: str
    role: Role
    tenant: str | None
    digest: bytes
    created_at_ms: int
    created_by: str = ""
    expires_at_ms: int | None = None
    used_at_ms: int | None = None
    revoked_at_ms: int | None = None

    def valid(self, now_ms: int) -> bool:
        """Return whether it may be used at ``now_ms``."""
        return self.revoked_at_ms is None and (self.expires_at_ms is None or now_ms < self.expires_at_ms)

    def opened_by(self, secret: str) -> bool:
        """Return whether ``secret`` is its secret part, in a time that does not depend on where they differ."""
        return hmac.compare_digest(self.digest, digest_of(secret))


class AuditRecord(NamedTuple):
    """Somebody's change: its number, when, who, what it was and of what, the values, and why."""

    id: int
    at_ms: int
    by: str
    what: str
    target: str
    detail: str
    why: str


class Remembered(NamedTuple):
    """What a request with an idempotency key did: the request's fingerprint, and the answer that it got."""

    fingerprint: bytes
    answer: bytes


def digest_of(secret: str) -> bytes:
    """Return what is stored of a secret: enough to know it again, of no use to who reads the store.

    The secrets have 256 random bits, so that a plain SHA-256 without salt or stretching is as hard to undo.
    """
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).digest()


def written(token_id: str, secret: str) -> str:
    """Return a token as it is handed out.

    Example:
        >>> written("k3m9", "secret")
        'flt_k3m9_secret'
    """
    return f"{PREFIX}_{token_id}_{secret}"


def parts_of(token: str) -> tuple[str, str] | None:
    """Return the id and the secret of a token, or None when it does not look like one.

    Example:
        >>> parts_of("flt_k3m9_0123456789abcdef"), parts_of("Basic abc")
        (('k3m9', '0123456789abcdef'), None)
    """
    found = _TOKEN.fullmatch(token)
    return None if found is None else (found[1], found[2])


def role_of(name: str, value: object) -> Role:
    """Return ``value`` if it is a role.

    Raises:
        InvalidValue: It is not one of the three.
    """
    return one_of(name, value, ROLES)


def tenant_of(value: object) -> str | None:
    """Return ``value`` if it is a tenant's name, or None for all tenants.

    Raises:
        InvalidValue: It is neither.
    """
    return None if value is None else text("tenant", value)
