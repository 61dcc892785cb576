-- Make a lane.
-- In order: queue, task, tenant, tier. One row: its number.
INSERT INTO lane (queue, task, tenant, tier) VALUES (?, ?, ?, ?) RETURNING id
