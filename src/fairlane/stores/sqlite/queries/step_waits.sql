-- The wall clock was set: what waits for a span of time (a delay, a retry, a snooze, a check) waits as long as before.
-- What was asked for by the wall clock keeps its instant.
-- :step_ms by how much it was set forward, in milliseconds; below 0: back.
UPDATE job SET timer_ms = timer_ms + :step_ms
WHERE state = 0 AND behind = 0 AND timer_ms IS NOT NULL AND NOT (by_wall = 1 AND timer_ms = scheduled_at_ms)
