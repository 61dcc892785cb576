-- Lanes of some tiers with available jobs, express ones aside, and the arrival of each lane's first job.
-- :tiers as a set of bits. One step a lane with waiting jobs, whatever their number.
SELECT id, queue, task, tenant, tier, available, (
    SELECT arrival_ms FROM fairlane.job
    WHERE job.lane = lane.id AND state = 1 AND job.express IS NULL
    ORDER BY arrival_ms, seq LIMIT 1
) AS head_ms
FROM (
    %% part_lanes
) AS lane
WHERE available > 0 AND (%(tiers)s::integer >> tier::integer) & 1 = 1
