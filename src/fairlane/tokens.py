"""Access tokens: who may use the HTTP API and the dashboard. Each call has an ``a…`` twin over the same body."""

from __future__ import annotations

import secrets
from typing import Final, NamedTuple, cast

from fairlane.domain.access import Role, TokenRecord, digest_of, parts_of, role_of, tenant_of, written
from fairlane.domain.checks import text
from fairlane.errors import InvalidValue, TokenNotFound
from fairlane.faces import Faced, Homed, Steps, later, read, twin, write
from fairlane.options import span_ms
from fairlane.store import Store

SECRET_BYTES: Final = 32
ID_LENGTH: Final = 10
SESSION_MS: Final = 12 * 3_600_000
"""How long a browser stays logged in."""
_ALPHABET: Final = "abcdefghijkmnpqrstuvwxyz23456789"
_NOBODY: Final = TokenRecord(id="", name="", role="viewer", tenant=None, digest=bytes(32), created_at_ms=0)


class NewToken(NamedTuple):
    """A token that was just made: its text, which cannot be had again, and its record."""

    token: str
    record: TokenRecord


class Tokens(Homed[Faced]):
    """The access tokens of a store."""

    __slots__ = ()

    @twin
    def create(
        self,
        name: str,
        *,
        role: Role = "viewer",
        tenant: str | None = None,
        expires_in: float | None = None,
        by: str = "",
    ) -> Steps[NewToken]:
        """Make a token. Its text is in the answer and nowhere else: the store keeps its SHA-256.

        Args:
            name: What it is for, for people; 1 to 255 bytes.
            role: ``"viewer"`` looks, ``"operator"`` steers and runs jobs too, ``"admin"`` changes what is set too.
            tenant: The only tenant whose jobs it may see and touch; None: all.
            expires_in: Seconds after which it ends by itself, above 0; None: never.
            by: Who does it.

        Raises:
            InvalidValue: An argument is outside the range given above.
        """
        text("name", name)
        role, tenant = role_of("role", role), tenant_of(tenant)
        span = None if expires_in is None else span_ms("expires_in", expires_in, above=True)
        text("by", by, empty=True)
        token_id = "".join(secrets.choice(_ALPHABET) for _ in range(ID_LENGTH))
        secret = secrets.token_urlsafe(SECRET_BYTES)

        def op(store: Store, now_ms: int) -> TokenRecord:
            record = TokenRecord(
                id=token_id,
                name=name,
                role=role,
                tenant=tenant,
                digest=digest_of(secret),
                created_at_ms=now_ms,
                created_by=by,
                expires_at_ms=None if span is None else now_ms + span,
            )
            store.put_token(record)
            return record

        record = yield from write(op)
        return NewToken(written(token_id, secret), record)

    acreate = later(create)

    @twin
    def list(self) -> Steps[list[TokenRecord]]:
        """Return every token, also those that were revoked or are over, the oldest first."""
        return (yield from read(lambda store, _: store.tokens()))

    alist = later(list)

    @twin
    def exist(self) -> Steps[bool]:
        """Return whether there is, or ever was, a token: then no surface is open to everybody."""
        return (yield from read(lambda store, _: store.has_tokens()))

    aexist = later(exist)

    @twin
    def revoke(self, token_id: str, *, by: str = "") -> Steps[TokenRecord]:
        """Revoke a token, at once and in every process; revoking it again changes nothing. Return its record.

        Args:
            token_id: Its id, the part of it that ``list`` shows.
            by: Who does it.

        Raises:
            TokenNotFound: There is no such token.
            InvalidValue: An argument is no text that can be an id or a name.
        """
        wanted = _id_in(token_id)
        text("by", by, empty=True)

        def op(store: Store, now_ms: int) -> TokenRecord:
            if store.token(wanted) is None:
                raise TokenNotFound(wanted)
            store.revoke_token(wanted, by=by, now_ms=now_ms)
            record = store.token(wanted)
            assert record is not None
            return record

        return (yield from write(op))

    arevoke = later(revoke)

    @twin
    def check(self, token: str) -> Steps[TokenRecord | None]:
        """Return the record of a token that may be used now, or None. Takes as long for a wrong secret as for none.

        Raises:
            InvalidValue: ``token`` is no text.
        """
        parts = parts_of(_text("token", token))
        if parts is None:
            return None
        token_id, secret = parts
        record, now_ms = yield from read(lambda store, now_ms: (store.token(token_id), now_ms))
        opened = (_NOBODY if record is None else record).opened_by(secret)
        return record if record is not None and opened and record.valid(now_ms) else None

    acheck = later(check)

    @twin
    def used(self, token_id: str) -> Steps[None]:
        """Note that a token was used; written at most once a minute.

        Raises:
            InvalidValue: ``token_id`` is no text that can be an id.
        """
        text("token_id", _text("token_id", token_id))
        yield from write(lambda store, now_ms: store.token_used(token_id, now_ms))

    aused = later(used)

    # ------------------------------------------------------------------ browsers

    @twin
    def log_in(self, token: TokenRecord) -> Steps[str]:
        """Begin a browser's session with a token that was checked; return the secret for its cookie.

        Raises:
            InvalidValue: ``token`` is no token's record.
        """
        if not isinstance(cast("object", token), TokenRecord):
            raise InvalidValue(f"token must be a TokenRecord, not {type(token).__name__}")
        secret = secrets.token_urlsafe(SECRET_BYTES)

        def op(store: Store, now_ms: int) -> None:
            ends_ms = now_ms + SESSION_MS
            if token.expires_at_ms is not None:
                ends_ms = min(ends_ms, token.expires_at_ms)
            store.put_session(digest_of(secret), token.id, expires_at_ms=ends_ms)

        yield from write(op)
        return secret

    alog_in = later(log_in)

    @twin
    def session(self, secret: str) -> Steps[TokenRecord | None]:
        """Return the token behind a browser's session when both are in force, or None.

        Raises:
            InvalidValue: ``secret`` is no text.
        """
        # looked up by its digest: the time that takes tells nothing of the secret
        digest = digest_of(_text("secret", secret))
        record, now_ms = yield from read(lambda store, now_ms: (store.session(digest, now_ms), now_ms))
        return record if record is not None and record.valid(now_ms) else None

    asession = later(session)

    @twin
    def log_out(self, secret: str) -> Steps[None]:
        """End a browser's session.

        Raises:
            InvalidValue: ``secret`` is no text.
        """
        digest = digest_of(_text("secret", secret))
        yield from write(lambda store, now_ms: store.drop_session(digest, now_ms))

    alog_out = later(log_out)


def _id_in(given: str) -> str:
    """Return a token's id; a whole token is taken too, so that one can be revoked by what leaked."""
    parts = parts_of(_text("token", given))
    return text("token", given) if parts is None else parts[0]


def _text(name: str, value: object) -> str:
    """Return ``value`` if it is text; what it is instead is told by its type alone, for it may be a secret.

    Raises:
        InvalidValue: It is not.
    """
    if not isinstance(value, str):
        raise InvalidValue(f"{name} must be text, not {type(value).__name__}")
    return value
