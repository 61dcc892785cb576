-- The token behind a browser's session. No row: there is no such session, or it is over.
-- :digest, :now_ms.
SELECT token FROM session WHERE digest = :digest AND expires_at_ms > :now_ms
