-- Every access token, also those that were revoked or are over, the oldest first.
SELECT id, name, role, tenant, digest, created_at_ms, created_by, expires_at_ms, used_at_ms, revoked_at_ms
FROM token ORDER BY created_at_ms, id
