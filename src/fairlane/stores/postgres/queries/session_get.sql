-- The token behind a browser's session. No row: there is no such session, or it is over.
-- :digest, :now_ms.
SELECT token FROM fairlane.session WHERE digest = %(digest)s AND expires_at_ms > %(now_ms)s
