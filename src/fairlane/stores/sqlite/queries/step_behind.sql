-- The wall clock was set: jobs behind others become due as long after their enqueue as before, should those end by then.
-- What was asked for by the wall clock keeps its instant.
-- :step_ms by how much it was set forward, in milliseconds; below 0: back.
UPDATE job SET scheduled_at_ms = scheduled_at_ms + :step_ms WHERE state = 0 AND behind > 0 AND by_wall = 0
