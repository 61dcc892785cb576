"""Tokens, browsers' sessions, the record of changes, requests with an idempotency key."""

from __future__ import annotations

import pytest

from fairlane.domain.access import Remembered, TokenRecord, digest_of
from fairlane.domain.policy import QueueRule
from fairlane.domain.states import State
from fairlane.testing.contract.base import Contract
from fairlane.testing.contract.bench import Bench

DAY_MS = 86_400_000


def _token(b: Bench, named: str = "t1", *, expires_at_ms: int | None = None, tenant: str | None = None) -> TokenRecord:
    """Store a token and return it."""
    token = TokenRecord(
        id=named,
        name="näme",
        role="operator",
        tenant=tenant,
        digest=digest_of(f"secret of {named}"),
        created_at_ms=b.now_ms,
        created_by="me",
        expires_at_ms=expires_at_ms,
    )
    b.write(lambda store, _: store.put_token(token))
    return token


def _session(b: Bench, secret: str, token_id: str, *, lasts_ms: int) -> None:
    """Store a session."""
    b.write(lambda store, now_ms: store.put_session(digest_of(secret), token_id, expires_at_ms=now_ms + lasts_ms))


def _record(b: Bench, target: str, detail: str) -> None:
    """Record a change."""
    b.write(lambda store, now_ms: store.record("me", "w", target, detail=detail, now_ms=now_ms))


class AccessContract(Contract):
    """Who may use the surfaces, and what is remembered of what they did."""

    # ------------------------------------------------------------------ tokens

    def test_a_token_is_kept_as_it_is(self, b: Bench) -> None:
        """Every field comes back, the secret is not among them, and that it was made is on record."""
        token = _token(b, tenant="acme", expires_at_ms=b.now_ms + 5)
        assert b.store.token("t1") == token
        assert b.store.tokens() == [token]
        assert b.store.token("t2") is None
        assert token.opened_by("secret of t1")
        assert not token.opened_by("secret of t2")
        (row,) = b.store.audit(limit=9)
        assert (row.by, row.what, row.target) == ("me", "create token", "t1")
        assert "secret" not in str(b.rows())

    def test_a_store_that_had_a_token_says_so_for_ever(self, b: Bench) -> None:
        """Else revoking the last one would open the surfaces to everybody."""
        assert not b.store.has_tokens()
        _token(b, expires_at_ms=b.now_ms + 1)
        b.clock.advance(seconds=1)
        assert b.write(lambda store, now_ms: store.revoke_token("t1", by="me", now_ms=now_ms))
        assert b.store.has_tokens()

    def test_revoking_counts_once_and_ends_sessions(self, b: Bench) -> None:
        """The first of several wins; another token's sessions go on."""
        for token_id in ("t1", "t2"):
            _token(b, token_id)
            _session(b, token_id, token_id, lasts_ms=1_000)
        assert b.write(lambda store, now_ms: store.revoke_token("t1", by="me", now_ms=now_ms))
        at_ms = b.now_ms
        b.clock.advance(ms=5)
        assert not b.write(lambda store, now_ms: store.revoke_token("t1", by="me", now_ms=now_ms))
        assert not b.write(lambda store, now_ms: store.revoke_token("nothing", by="me", now_ms=now_ms))
        token = b.store.token("t1")
        assert token is not None
        assert token.revoked_at_ms == at_ms
        assert not token.valid(b.now_ms)
        assert b.store.session(digest_of("t1"), b.now_ms) is None
        assert b.store.session(digest_of("t2"), b.now_ms) == b.store.token("t2")
        assert [row.what for row in b.store.audit(limit=9)] == ["revoke token", "create token", "create token"]

    def test_use_is_noted_at_most_once_a_minute(self, b: Bench) -> None:
        """Looking must not cost a write a request; a clock that stepped back does not stop it."""
        _token(b)
        seen: list[int | None] = []
        for seconds in (0, 59, 1, 60):
            b.clock.advance(seconds=seconds)
            b.write(lambda store, now_ms: store.token_used("t1", now_ms))
            token = b.store.token("t1")
            assert token is not None
            seen.append(token.used_at_ms)
        start = seen[0]
        assert start is not None
        assert seen == [start, start, start + 60_000, start + 120_000]
        b.clock.step(seconds=-3_600)
        b.write(lambda store, now_ms: store.token_used("t1", now_ms))
        token = b.store.token("t1")
        assert token is not None
        assert token.used_at_ms == b.now_ms

    @pytest.mark.parametrize("field", ["revoked_at_ms", "expires_at_ms"])
    def test_validity(self, b: Bench, field: str) -> None:
        """A token is valid up to its expiry, that instant not included, and never once it is revoked."""
        token = _token(b, expires_at_ms=b.now_ms + 10 if field == "expires_at_ms" else None)
        assert token.valid(b.now_ms)
        if field == "revoked_at_ms":
            b.write(lambda store, now_ms: store.revoke_token("t1", by="", now_ms=now_ms))
        later = b.store.token("t1")
        assert later is not None
        assert later.valid(b.now_ms + 9) == (field == "expires_at_ms")
        assert not later.valid(b.now_ms + 10)

    # ------------------------------------------------------------------ sessions

    def test_a_session_ends_by_itself_and_by_hand(self, b: Bench) -> None:
        """And those that are over are forgotten when another ends."""
        token = _token(b)
        for name, lasts_ms in (("a", 10), ("b", 1_000), ("c", 1_000)):
            _session(b, name, token.id, lasts_ms=lasts_ms)
        assert b.store.session(digest_of("a"), b.now_ms + 9) == token
        assert b.store.session(digest_of("a"), b.now_ms + 10) is None
        assert b.store.session(digest_of("nothing"), b.now_ms) is None
        b.clock.advance(ms=10)
        b.write(lambda store, now_ms: store.drop_session(digest_of("b"), now_ms))
        assert b.store.session(digest_of("b"), b.now_ms) is None
        assert b.store.session(digest_of("c"), b.now_ms) == token
        assert b.store.session(digest_of("a"), b.now_ms - 10) is None

    # ------------------------------------------------------------------ the record of changes

    def test_changes_carry_their_reason(self, b: Bench) -> None:
        """Whatever is recorded inside ``because`` says why; outside it, and after it, nothing does."""

        def change(why: str) -> None:
            def op(store: object, now_ms: int) -> None:
                with b.store.because(why):
                    b.store.set_rule("queue", "q", QueueRule(max_running=1), by="me", now_ms=now_ms)

            b.write(op)

        change("too slow")
        b.rule("queue", "q", max_running=2)
        with pytest.raises(RuntimeError):
            b.write(lambda store, now_ms: _failing(b, now_ms))
        b.write(lambda store, now_ms: store.record("you", "cancel", "x", detail="d", now_ms=now_ms))
        rows = b.store.audit(limit=9)
        assert [(row.what, row.why) for row in rows] == [("cancel", ""), ("set queue", ""), ("set queue", "too slow")]
        assert (rows[0].by, rows[0].target, rows[0].detail, rows[0].at_ms) == ("you", "x", "d", b.now_ms)

    def test_changes_are_read_a_page_at_a_time(self, b: Bench) -> None:
        """The latest first, below a number, of one target."""
        for number in range(5):
            _record(b, f"t{number % 2}", str(number))
        first = b.store.audit(limit=2)
        assert [row.detail for row in first] == ["4", "3"]
        assert [row.detail for row in b.store.audit(limit=9, below=first[-1].id)] == ["2", "1", "0"]
        assert [row.detail for row in b.store.audit(limit=9, target="t1")] == ["3", "1"]
        assert b.store.audit(limit=9, below=1) == []

    # ------------------------------------------------------------------ requests with a key

    def test_a_request_is_remembered_for_a_time(self, b: Bench) -> None:
        """Each scope has keys of its own; what is forgotten can be used again, and takes old ones along."""

        def remember(scope: str, key: str, answer: bytes) -> None:
            request = Remembered(b"f" * 32, answer)
            b.write(lambda s, now: s.remember(scope, key, request, since_ms=now - DAY_MS, now_ms=now))

        def found(scope: str, key: str) -> bytes | None:
            held = b.store.remembered(scope, key, since_ms=b.now_ms - DAY_MS)
            return None if held is None else held.answer

        remember("t1", "k", b"one")
        assert (found("t1", "k"), found("t2", "k"), found("t1", "x")) == (b"one", None, None)
        b.clock.advance(ms=DAY_MS - 1)
        assert found("t1", "k") == b"one"
        b.clock.advance(ms=1)
        assert found("t1", "k") is None
        remember("t1", "k", b"two")
        assert found("t1", "k") == b"two"

    def test_whose_a_dedup_key_is(self, b: Bench) -> None:
        """One tenant while its job lives, none when the key is free."""
        assert b.store.dedup_tenants("q", "k") == set()
        job = b.put(queue="q", tenant="acme", dedup_key="k")
        assert b.store.dedup_tenants("q", "k") == {"acme"}
        assert b.store.dedup_tenants("p", "k") == set()
        b.cancel(job)
        assert b.state(job) is State.CANCELLED
        assert b.store.dedup_tenants("q", "k") == set()
        b.put(queue="q", tenant="acme", dedup_key="k", dedup_ttl_ms=60_000)
        b.done(b.take())
        assert b.store.dedup_tenants("q", "k") == {"acme"}


def _failing(b: Bench, now_ms: int) -> None:
    with b.store.because("never"):
        b.store.record("me", "w", "t", now_ms=now_ms)
        raise RuntimeError
