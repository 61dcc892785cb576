-- Jobs that ended since an instant, the latest first.
-- :since_ms the instant, :most how many at most. One branch a state: each walks its own end of the index.
-- BETWEEN: asked for a state, PostgreSQL may walk the small index of all dead jobs instead, and sort them.
WITH found AS (
    SELECT seq, finished_at_ms FROM (
        SELECT seq, finished_at_ms FROM fairlane.job
        WHERE state BETWEEN 3 AND 3 AND finished_at_ms >= %(since_ms)s
        ORDER BY state DESC, finished_at_ms DESC LIMIT %(most)s
    ) AS completed
    UNION ALL SELECT seq, finished_at_ms FROM (
        SELECT seq, finished_at_ms FROM fairlane.job
        WHERE state BETWEEN 4 AND 4 AND finished_at_ms >= %(since_ms)s
        ORDER BY state DESC, finished_at_ms DESC LIMIT %(most)s
    ) AS dead
    UNION ALL SELECT seq, finished_at_ms FROM (
        SELECT seq, finished_at_ms FROM fairlane.job
        WHERE state BETWEEN 5 AND 5 AND finished_at_ms >= %(since_ms)s
        ORDER BY state DESC, finished_at_ms DESC LIMIT %(most)s
    ) AS cancelled
    ORDER BY finished_at_ms DESC LIMIT %(most)s
)
SELECT
    job.seq, lane.queue, lane.task, lane.tenant, lane.tier, job.state, job.started_at_ms, job.finished_at_ms,
    job.failures, job.crashes
FROM found AS meant CROSS JOIN LATERAL (
    %% part_found
) AS job CROSS JOIN LATERAL (
    %% part_lane
) AS lane
ORDER BY meant.finished_at_ms DESC
