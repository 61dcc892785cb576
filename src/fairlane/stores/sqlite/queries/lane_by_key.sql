-- The number of a lane.
-- In order: queue, task, tenant, tier. No row: it is new.
SELECT id FROM lane WHERE queue = ? AND task = ? AND tenant = ? AND tier = ?
