-- Note that an access token was used; not more often than once in :every_ms, so that looking writes little.
-- :id, :now_ms, :every_ms in milliseconds.
UPDATE fairlane.token SET used_at_ms = %(now_ms)s
WHERE id = %(id)s AND (used_at_ms IS NULL OR used_at_ms <= %(now_ms)s - %(every_ms)s OR used_at_ms > %(now_ms)s)
