-- The first available jobs of a lane: id, arrival, when they became available, when they first started.
-- :lane its number, :most how many at most.
SELECT id, arrival_ms, available_at_ms, started_at_ms FROM job INDEXED BY job_head
WHERE lane = :lane AND state = 1 AND express IS NULL
ORDER BY arrival_ms, seq LIMIT :most
