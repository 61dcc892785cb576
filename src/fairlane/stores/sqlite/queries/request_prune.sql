-- Forget a few of the requests from too long ago; each new one pays for two old ones.
-- :since_ms the oldest instant that counts, :most how many at most.
DELETE FROM request WHERE (scope, key) IN (
    SELECT scope, key FROM request WHERE at_ms <= :since_ms ORDER BY at_ms LIMIT :most
)
