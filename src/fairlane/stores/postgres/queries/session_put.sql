-- Store a browser's session.
-- :digest, :token the token's id, :expires_at_ms.
INSERT INTO fairlane.session (digest, token, expires_at_ms) VALUES (%(digest)s, %(token)s, %(expires_at_ms)s)
