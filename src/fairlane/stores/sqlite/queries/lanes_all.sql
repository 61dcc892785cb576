-- Every lane: its number, its key, its counts.
SELECT id, queue, task, tenant, tier, available, scheduled FROM lane
