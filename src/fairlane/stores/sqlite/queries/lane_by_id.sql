-- The lane with a number.
-- :lane its number. No row: there is no such lane.
SELECT queue, task, tenant, tier FROM lane WHERE id = :lane
