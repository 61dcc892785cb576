-- The workers on record.
SELECT id, pool, queues, tasks, slots, host, pid, started_at_ms, queue_slots FROM worker ORDER BY started_at_ms, id
