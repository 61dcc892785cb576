-- The first and the last available job of each lane, express ones aside; oldest lanes first.
-- :most how many lanes at most.
WITH shown AS (
    SELECT id FROM (
    %% part_lanes
) AS lane
    WHERE available > 0
    ORDER BY id LIMIT %(most)s
),
ends AS (
    SELECT (SELECT seq FROM fairlane.job WHERE lane = shown.id AND state = 1 AND express IS NULL
            ORDER BY arrival_ms, seq LIMIT 1) AS seq
    FROM shown
    UNION
    SELECT (SELECT seq FROM fairlane.job WHERE lane = shown.id AND state = 1 AND express IS NULL
            ORDER BY arrival_ms DESC, seq DESC LIMIT 1)
    FROM shown
)
SELECT
    job.seq, job.id, lane.queue, lane.task, lane.tenant, lane.tier, job.arrival_ms, job.available_at_ms,
    job.fence > 0, 0, NULL, NULL, NULL, NULL
FROM ends AS meant CROSS JOIN LATERAL (
    %% part_found
) AS job CROSS JOIN LATERAL (
    %% part_lane
) AS lane
