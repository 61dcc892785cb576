-- Make a lane unless there is one.
-- In order: queue, task, tenant, tier.
INSERT INTO fairlane.lane (queue, task, tenant, tier) VALUES (%s, %s, %s, %s) ON CONFLICT DO NOTHING
