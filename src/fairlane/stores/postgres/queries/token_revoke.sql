-- Revoke an access token. No row changed: there is no such id, or it was revoked before.
-- :id, :now_ms.
UPDATE fairlane.token SET revoked_at_ms = %(now_ms)s WHERE id = %(id)s AND revoked_at_ms IS NULL
