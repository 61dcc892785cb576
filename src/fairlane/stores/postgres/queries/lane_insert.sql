-- Make a lane.
-- In order: queue, task, tenant, tier. One row: its number.
INSERT INTO fairlane.lane (queue, task, tenant, tier) VALUES (%s, %s, %s, %s) RETURNING id
