-- An access token. No row: there is no such id.
-- :id.
SELECT id, name, role, tenant, digest, created_at_ms, created_by, expires_at_ms, used_at_ms, revoked_at_ms
FROM token WHERE id = :id
