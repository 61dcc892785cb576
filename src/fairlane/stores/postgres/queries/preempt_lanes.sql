-- The CRITICAL lanes one of whose first jobs, express ones aside, has waited long enough.
-- :before_ms became available then or earlier. One step a lane with such jobs, whatever their number.
SELECT id FROM (
        %% part_lanes
    ) AS lane
WHERE tier = 0 AND available > 0 AND EXISTS (
    SELECT 1 FROM (
        SELECT available_at_ms FROM fairlane.job
        WHERE job.lane = lane.id AND state = 1 AND job.express IS NULL
        ORDER BY arrival_ms, seq LIMIT 8
    ) AS head WHERE available_at_ms <= %(before_ms)s
)
