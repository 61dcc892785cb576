-- Store a browser's session.
-- :digest, :token the token's id, :expires_at_ms.
INSERT INTO session (digest, token, expires_at_ms) VALUES (:digest, :token, :expires_at_ms)
