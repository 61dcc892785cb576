-- Jobs that started since an instant and run or have ended, the latest first.
-- :since_ms the instant, :most how many at most.
-- BETWEEN: asked for a state, PostgreSQL may walk the small index of all dead jobs instead, and sort them.
WITH found AS (
    SELECT seq FROM (
        SELECT seq FROM fairlane.job WHERE state = 2 AND started_at_ms >= %(since_ms)s
        ORDER BY started_at_ms DESC LIMIT %(most)s
    ) AS running
    UNION ALL SELECT seq FROM (
        SELECT seq FROM fairlane.job WHERE state BETWEEN 3 AND 3 AND finished_at_ms >= %(since_ms)s
        ORDER BY state DESC, finished_at_ms DESC LIMIT %(most)s
    ) AS completed
    UNION ALL SELECT seq FROM (
        SELECT seq FROM fairlane.job WHERE state BETWEEN 4 AND 4 AND finished_at_ms >= %(since_ms)s
        ORDER BY state DESC, finished_at_ms DESC LIMIT %(most)s
    ) AS dead
    UNION ALL SELECT seq FROM (
        SELECT seq FROM fairlane.job WHERE state BETWEEN 5 AND 5 AND finished_at_ms >= %(since_ms)s
        ORDER BY state DESC, finished_at_ms DESC LIMIT %(most)s
    ) AS cancelled
)
SELECT
    job.seq, job.id, lane.queue, lane.task, lane.tenant, lane.tier, job.arrival_ms, job.available_at_ms,
    job.fence > 1, job.express IS NOT NULL, job.started_at_ms, job.finished_at_ms, job.worker, job.rule
FROM found AS meant CROSS JOIN LATERAL (
    %% part_found
) AS job CROSS JOIN LATERAL (
    %% part_lane
) AS lane
WHERE job.started_at_ms >= %(since_ms)s
ORDER BY job.started_at_ms DESC LIMIT %(most)s
