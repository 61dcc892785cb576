"""Who may use the surfaces, what they changed and why, and what requests with an idempotency key did."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, Final

import msgspec

from fairlane.domain.access import AuditRecord, Remembered, TokenRecord
from fairlane.stores._queries import named
from fairlane.stores.tables.rules import Rules
from fairlane.stores.tables.writing import dedup_value

AUDIT_PAGE: Final = named("audit_page")
TOKEN_PUT: Final = named("token_put")
TOKEN_GET: Final = named("token_get")
TOKENS_ALL: Final = named("tokens_all")
TOKEN_ANY: Final = named("token_any")
TOKEN_REVOKE: Final = named("token_revoke")
TOKEN_USED: Final = named("token_used")
SESSION_PUT: Final = named("session_put")
SESSION_GET: Final = named("session_get")
SESSION_DROP: Final = named("session_drop")
SESSION_DROP_ALL: Final = named("session_drop_all")
REQUEST_GET: Final = named("request_get")
REQUEST_PUT: Final = named("request_put")
REQUEST_PRUNE: Final = named("request_prune")
DEDUP_TENANTS: Final = named("dedup_tenants")

USED_EVERY_MS: Final = 60_000
PRUNED: Final = 2


class Access(Rules):
    """Tokens, sessions, the audit, remembered requests."""

    # ------------------------------------------------------------------ tokens

    def put_token(self, token: TokenRecord) -> None:
        """Store a new token; see the protocol."""
        self._x(TOKEN_PUT, msgspec.structs.asdict(token))
        detail = f"{token.role}, tenant {token.tenant!r}" if token.tenant is not None else token.role
        self._audit(token.created_by, "create token", token.id, f"{token.name}: {detail}", token.created_at_ms)

    def token(self, token_id: str) -> TokenRecord | None:
        """Return a token, or None."""
        with self.reading("read a token") as db:
            row = db.execute(TOKEN_GET, {"id": token_id}).fetchone()
        return None if row is None else _token_of(row)

    def tokens(self) -> list[TokenRecord]:
        """Return every token; see the protocol."""
        with self.reading("read the tokens") as db:
            return [_token_of(row) for row in db.execute(TOKENS_ALL).fetchall()]

    def has_tokens(self) -> bool:
        """Return whether there is or was a token; see the protocol."""
        with self.reading("look for tokens") as db:
            return bool(db.execute(TOKEN_ANY).fetchone()[0])

    def revoke_token(self, token_id: str, *, by: str, now_ms: int) -> bool:
        """Revoke a token and end its sessions; see the protocol."""
        if self._x(TOKEN_REVOKE, {"id": token_id, "now_ms": now_ms}).rowcount == 0:
            return False
        self._x(SESSION_DROP_ALL, {"token": token_id})
        self._audit(by, "revoke token", token_id, "", now_ms)
        return True

    def token_used(self, token_id: str, now_ms: int) -> None:
        """Note that a token was used; see the protocol."""
        self._x(TOKEN_USED, {"id": token_id, "now_ms": now_ms, "every_ms": USED_EVERY_MS})

    # ------------------------------------------------------------------ sessions

    def put_session(self, digest: bytes, token_id: str, *, expires_at_ms: int) -> None:
        """Store a browser's session; see the protocol."""
        self._x(SESSION_PUT, {"digest": digest, "token": token_id, "expires_at_ms": expires_at_ms})

    def session(self, digest: bytes, now_ms: int) -> TokenRecord | None:
        """Return the token behind a session; see the protocol."""
        with self.reading("read a session") as db:
            row = db.execute(SESSION_GET, {"digest": digest, "now_ms": now_ms}).fetchone()
        return None if row is None else self.token(row[0])

    def drop_session(self, digest: bytes, now_ms: int) -> None:
        """End a session; see the protocol."""
        self._x(SESSION_DROP, {"digest": digest, "now_ms": now_ms})

    # ------------------------------------------------------------------ what was changed, and why

    @contextmanager
    def because(self, why: str) -> Generator[None]:
        """Let what is audited inside carry a reason; see the protocol."""
        before, self._why = self._why, why
        try:
            yield
        finally:
            self._why = before

    def record(self, by: str, what: str, target: str, *, detail: str = "", now_ms: int) -> None:
        """Record a change; see the protocol."""
        self._audit(by, what, target, detail, now_ms)

    def audit(self, *, limit: int, below: int | None = None, target: str | None = None) -> list[AuditRecord]:
        """Return changes, the latest first; see the protocol."""
        values = {"below": 2**63 - 1 if below is None else below, "target": target, "most": limit}
        with self.reading("read the audit") as db:
            return [AuditRecord(*row) for row in db.execute(AUDIT_PAGE, values).fetchall()]

    # ------------------------------------------------------------------ requests with a key

    def remembered(self, scope: str, key: str, *, since_ms: int) -> Remembered | None:
        """Return what a request with this key did; see the protocol."""
        with self.reading("look for a request") as db:
            row = db.execute(REQUEST_GET, {"scope": scope, "key": key, "since_ms": since_ms}).fetchone()
        return None if row is None else Remembered(*row)

    def remember(self, scope: str, key: str, request: Remembered, *, since_ms: int, now_ms: int) -> None:
        """Remember what a request with a key did; see the protocol."""
        self._x(REQUEST_PRUNE, {"since_ms": since_ms, "most": PRUNED})
        values = {"fingerprint": request.fingerprint, "answer": request.answer, "now_ms": now_ms}
        self._x(REQUEST_PUT, {"scope": scope, "key": key, **values})

    def dedup_tenants(self, queue: str, dedup_key: str) -> set[str]:
        """Return whose jobs hold a dedup key; see the protocol."""
        with self.reading("look for a dedup key") as db:
            return {
                tenant for (tenant,) in db.execute(DEDUP_TENANTS, {"dedup": dedup_value(queue, dedup_key)}).fetchall()
            }


def _token_of(row: tuple[Any, ...]) -> TokenRecord:  # Any: the database's own types
    token_id, name, role, tenant, digest, created_at_ms, created_by, expires_at_ms, used_at_ms, revoked_at_ms = row
    return TokenRecord(
        id=token_id,
        name=name,
        role=role,
        tenant=tenant,
        digest=bytes(digest),
        created_at_ms=created_at_ms,
        created_by=created_by,
        expires_at_ms=expires_at_ms,
        used_at_ms=used_at_ms,
        revoked_at_ms=revoked_at_ms,
    )
