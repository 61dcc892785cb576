-- Store a new access token; an id that is taken is an error.
-- One value for each column, in order.
INSERT INTO fairlane.token (
    id, name, role, tenant, digest, created_at_ms, created_by, expires_at_ms, used_at_ms, revoked_at_ms
) VALUES (
    %(id)s, %(name)s, %(role)s, %(tenant)s, %(digest)s, %(created_at_ms)s, %(created_by)s, %(expires_at_ms)s, %(used_at_ms)s, %(revoked_at_ms)s
)
