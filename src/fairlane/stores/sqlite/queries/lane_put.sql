-- A lane with its number and counts.
-- In order: id, queue, task, tenant, tier, available, scheduled.
INSERT INTO lane (id, queue, task, tenant, tier, available, scheduled) VALUES (?, ?, ?, ?, ?, ?, ?)
