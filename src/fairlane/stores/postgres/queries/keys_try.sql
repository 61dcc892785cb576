-- Hold dedup keys to the end of the transaction; returns those that another transaction holds. Waits for nobody.
-- In order: the keys as an array of numbers.
SELECT key FROM unnest(%s::bigint[]) AS key WHERE NOT pg_try_advisory_xact_lock(key)
