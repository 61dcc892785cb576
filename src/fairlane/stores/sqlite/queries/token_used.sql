-- Note that an access token was used; not more often than once in :every_ms, so that looking writes little.
-- :id, :now_ms, :every_ms in milliseconds.
UPDATE token SET used_at_ms = :now_ms
WHERE id = :id AND (used_at_ms IS NULL OR used_at_ms <= :now_ms - :every_ms OR used_at_ms > :now_ms)
