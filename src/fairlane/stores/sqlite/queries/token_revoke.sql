-- Revoke an access token. No row changed: there is no such id, or it was revoked before.
-- :id, :now_ms.
UPDATE token SET revoked_at_ms = :now_ms WHERE id = :id AND revoked_at_ms IS NULL
