-- Which of these dedup keys another transaction holds; holds none of them itself.
-- In order: the keys as an array of numbers. A transaction that is prepared holds its own without a pid.
SELECT key FROM unnest(%s::bigint[]) AS key WHERE key IN (
    SELECT (classid::bigint << 32) | objid::bigint FROM pg_locks
    WHERE locktype = 'advisory' AND objsubid = 1 AND granted AND pid IS DISTINCT FROM pg_backend_pid()
        AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
)
