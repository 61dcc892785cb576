"""Who may use the surfaces, and what they changed."""

from __future__ import annotations

from typing import Final

from fairlane import shapes
from fairlane.domain.access import Role, TokenRecord
from fairlane.domain.checks import text, whole
from fairlane.errors import InvalidValue
from fairlane.instants import aware
from fairlane.service.base import Base, Json

MAX_PAGE: Final = 1_000


class AccessTo(Base):
    """What an actor does with tokens and the record of changes."""

    async def audit(self, *, limit: int = 50, cursor: str | None = None, target: str | None = None) -> Json:
        """Return who changed what and why as ``{"items", "next_cursor"}``, the latest first.

        Args:
            limit: Most changes, 1 to 1,000.
            cursor: Where to go on.
            target: Only those of this job, queue, tenant and so on.

        Raises:
            Forbidden: The actor is confined to a tenant, or no operator.
            InvalidValue: An argument is out of range, or the cursor is not one of ours.
        """
        self.need("operator")
        self.need_all_tenants("the record of changes")
        whole("limit", limit, least=1, most=MAX_PAGE)
        below = None if cursor is None else _place(cursor)
        if target is not None:
            text("target", target, max_bytes=1024)
        rows = await self.read(lambda store, _: store.audit(limit=limit + 1, below=below, target=target))
        items = [
            {
                "id": row.id,
                "at": shapes.instant(aware(row.at_ms)),
                "by": row.by,
                "what": row.what,
                "target": row.target,
                "detail": row.detail,
                "why": row.why,
            }
            for row in rows[:limit]
        ]
        return {"items": items, "next_cursor": f"a{rows[limit - 1].id}" if len(rows) > limit else None}

    async def tokens(self) -> Json:
        """Return every access token, without what it would take to use it.

        Raises:
            Forbidden: The actor is no admin for all tenants.
        """
        self._may_grant()
        return {"items": [shown(record) for record in await self.app.tokens.alist()]}

    async def create_token(
        self, name: str, *, role: Role = "viewer", tenant: str | None = None, expires_in: float | None = None
    ) -> Json:
        """Make an access token; its text is in the answer, as ``token``, and cannot be had again.

        Raises:
            Forbidden: The actor is no admin for all tenants.
            InvalidValue: An argument is out of range.
        """
        self._may_grant()
        made = await self.app.tokens.acreate(name, role=role, tenant=tenant, expires_in=expires_in, by=self.actor.name)
        return {"token": made.token} | shown(made.record)

    async def revoke_token(self, token_id: str) -> Json:
        """Revoke an access token at once, in every process.

        Raises:
            Forbidden: The actor is no admin for all tenants.
            TokenNotFound: There is no such token.
        """
        self._may_grant()
        return shown(await self.app.tokens.arevoke(token_id, by=self.actor.name))

    def _may_grant(self) -> None:
        self.need("admin")
        self.need_all_tenants("tokens")


def shown(token: TokenRecord) -> Json:
    """Return a token's record ready for JSON, without its digest."""
    return {
        "id": token.id,
        "name": token.name,
        "role": token.role,
        "tenant": token.tenant,
        "created_at": shapes.instant(aware(token.created_at_ms)),
        "created_by": token.created_by,
        "expires_at": shapes.instant(aware(token.expires_at_ms)),
        "used_at": shapes.instant(aware(token.used_at_ms)),
        "revoked_at": shapes.instant(aware(token.revoked_at_ms)),
    }


def _place(cursor: str) -> int:
    digits = cursor.removeprefix("a")
    if cursor == digits or not digits.isascii() or not digits.isdecimal() or len(digits) > 18:  # noqa: PLR2004
        raise InvalidValue(f"cursor {cursor[:80]!r} is not one that fairlane gave out")
    return int(digits)
