-- Who may use the surfaces, and what is remembered of what they did.

-- Access tokens. Rows stay when a token is revoked: a store that has had one is never open to everybody again.
CREATE TABLE token (
    id TEXT PRIMARY KEY,
    name TEXT NOT NULL,
    role TEXT NOT NULL CHECK (role IN ('viewer', 'operator', 'admin')),
    tenant TEXT,
    digest BLOB NOT NULL CHECK (length(digest) = 32),
    created_at_ms INTEGER NOT NULL,
    created_by TEXT NOT NULL,
    expires_at_ms INTEGER,
    used_at_ms INTEGER,
    revoked_at_ms INTEGER
) WITHOUT ROWID;

-- Browsers that logged in with a token. digest is that of the cookie's secret.
CREATE TABLE session (
    digest BLOB PRIMARY KEY CHECK (length(digest) = 32),
    token TEXT NOT NULL REFERENCES token,
    expires_at_ms INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX session_expiry ON session (expires_at_ms);
CREATE INDEX session_token ON session (token);

-- What requests with an Idempotency-Key did, for a day. scope: the token that the key belongs to.
CREATE TABLE request (
    scope TEXT NOT NULL,
    key TEXT NOT NULL,
    fingerprint BLOB NOT NULL,
    answer BLOB NOT NULL,
    at_ms INTEGER NOT NULL,
    PRIMARY KEY (scope, key)
) WITHOUT ROWID;
CREATE INDEX request_age ON request (at_ms);

-- Why somebody changed something, beside the values, which are in reason.
ALTER TABLE audit ADD COLUMN why TEXT NOT NULL DEFAULT '';
