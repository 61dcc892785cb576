-- The first and the last available job of each lane, express ones aside; oldest lanes first.
-- :most how many lanes at most.
WITH shown AS (
    SELECT id FROM lane INDEXED BY lane_waiting
    WHERE (available > 0 OR scheduled > 0) AND available > 0
    ORDER BY id LIMIT :most
),
ends AS (
    SELECT (SELECT seq FROM job INDEXED BY job_head WHERE lane = shown.id AND state = 1 AND express IS NULL
            ORDER BY arrival_ms, seq LIMIT 1) AS seq
    FROM shown
    UNION
    SELECT (SELECT seq FROM job INDEXED BY job_head WHERE lane = shown.id AND state = 1 AND express IS NULL
            ORDER BY arrival_ms DESC, seq DESC LIMIT 1)
    FROM shown
)
SELECT
    job.seq, job.id, lane.queue, lane.task, lane.tenant, lane.tier, job.arrival_ms, job.available_at_ms,
    job.fence > 0, 0, NULL, NULL, NULL, NULL
FROM ends CROSS JOIN job ON job.seq = ends.seq CROSS JOIN lane ON lane.id = job.lane
