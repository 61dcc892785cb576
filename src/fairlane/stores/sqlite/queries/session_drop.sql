-- End a browser's session, and those that are over.
-- :digest, :now_ms.
DELETE FROM session WHERE digest = :digest OR expires_at_ms <= :now_ms
