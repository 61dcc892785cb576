-- The lanes of the file that is replaced, which is attached as live: their numbers and keys.
SELECT id, queue, task, tenant, tier FROM live.lane
