-- The wall clock was set: leases end as much later.
-- :step_ms by how much it was set forward, in milliseconds; below 0: back.
UPDATE job SET timer_ms = timer_ms + :step_ms WHERE state = 2
