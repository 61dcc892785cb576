-- End a browser's session, and those that are over.
-- :digest, :now_ms.
DELETE FROM fairlane.session WHERE digest = %(digest)s OR expires_at_ms <= %(now_ms)s
