"""Who asks: a name for the record, a role, and perhaps one tenant beyond which nothing is seen or touched."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from fairlane.domain.access import ROLES, Role, TokenRecord, role_of, tenant_of
from fairlane.domain.checks import MAX_NAME_BYTES, text
from fairlane.domain.payloads import sanitised


@dataclass(frozen=True, slots=True)
class Actor:
    """Who asks for an operation.

    Attributes:
        name: What is written to the record of changes; 1 to 255 bytes.
        role: ``"viewer"`` looks, ``"operator"`` steers and runs jobs too, ``"admin"`` changes what is set too.
        tenant: The only tenant whose jobs it sees and touches; None: all.
        token: The id of its access token; "" without one. Requests' idempotency keys belong to it.
    """

    name: str
    role: Role = "viewer"
    tenant: str | None = None
    token: str = ""

    def __post_init__(self) -> None:
        text("name", self.name)
        role_of("role", self.role)
        tenant_of(self.tenant)

    @staticmethod
    def of(token: TokenRecord) -> Actor:
        """Return who uses an access token."""
        name = sanitised(f"token:{token.id}:{token.name}", MAX_NAME_BYTES)
        return Actor(name, token.role, token.tenant, token.id)

    def may(self, role: Role) -> bool:
        """Return whether its role is ``role`` or more."""
        return ROLES.index(self.role) >= ROLES.index(role)

    def as_viewer(self) -> Actor:
        """Return the same one that may only look: what a read-only server makes of everybody."""
        return replace(self, role="viewer")


LOCAL: Final = Actor("local", "admin")
"""Whoever sits at the machine, where a surface is open to them."""
