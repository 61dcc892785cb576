"""Access tokens, sessions, the record of changes, requests that may be repeated.

Transactions, errors and time: see the package.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Protocol

from fairlane.domain.access import AuditRecord, Remembered, TokenRecord


class Access(Protocol):
    """Who may do what, and who did."""

    def put_token(self, token: TokenRecord) -> None:
        """Store a new access token, and record that it was made. Durable: as the transaction."""
        ...

    def token(self, token_id: str) -> TokenRecord | None:
        """Return an access token, valid or not, or None. Reads only."""
        ...

    def tokens(self) -> list[TokenRecord]:
        """Return every access token, also those that were revoked or are over, the oldest first. Reads only."""
        ...

    def has_tokens(self) -> bool:
        """Return whether there is, or ever was, an access token. Reads only."""
        ...

    def revoke_token(self, token_id: str, *, by: str, now_ms: int) -> bool:
        """Revoke a token and end its browsers' sessions, and record it.

        Returns:
            Whether it was in force; False, and nothing has changed: it was revoked before, or there is none.
        """
        ...

    def token_used(self, token_id: str, now_ms: int) -> None:
        """Note that a token was used; writes at most once a minute."""
        ...

    def put_session(self, digest: bytes, token_id: str, *, expires_at_ms: int) -> None:
        """Store a browser's session, known by the SHA-256 of its secret, for a token that exists."""
        ...

    def session(self, digest: bytes, now_ms: int) -> TokenRecord | None:
        """Return the token, valid or not, behind a session that is not over; None: there is none. Reads only."""
        ...

    def drop_session(self, digest: bytes, now_ms: int) -> None:
        """End a session, and forget those that are over; nothing happens when there is none."""
        ...

    def because(self, why: str) -> AbstractContextManager[None]:
        """Let every change that is recorded inside carry the reason ``why``; inside one transaction."""
        ...

    def record(self, by: str, what: str, target: str, *, detail: str = "", now_ms: int) -> None:
        """Record that somebody changed something. Durable: as the transaction, so that it is true."""
        ...

    def audit(self, *, limit: int, below: int | None = None, target: str | None = None) -> list[AuditRecord]:
        """Return what people changed, the latest first.

        Args:
            limit: Most changes.
            below: Only those with a smaller number: where the page before ended.
            target: Only those of this job, queue, tenant and so on.
        """
        ...

    def remembered(self, scope: str, key: str, *, since_ms: int) -> Remembered | None:
        """Return what a request with this idempotency key did after ``since_ms``, or None. Reads only.

        Args:
            scope: Whose key it is.
            key: The key.
            since_ms: The instant up to which requests are forgotten.
        """
        ...

    def remember(self, scope: str, key: str, request: Remembered, *, since_ms: int, now_ms: int) -> None:
        """Remember what a request with an idempotency key did, in the transaction in which it does it.

        Concurrent: of two requests with one key, whoever looks with :meth:`remembered` in the same transaction first
        is the one that acts.
        """
        ...

    def dedup_tenants(self, queue: str, dedup_key: str) -> set[str]:
        """Return the tenants whose jobs hold a dedup key: one, or none when the key is free. Reads only."""
        ...
