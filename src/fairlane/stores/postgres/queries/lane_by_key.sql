-- The number of a lane.
-- In order: queue, task, tenant, tier. No row: it is new.
SELECT id FROM fairlane.lane WHERE queue = %s AND task = %s AND tenant = %s AND tier = %s
