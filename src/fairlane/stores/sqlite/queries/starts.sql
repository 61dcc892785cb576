-- Jobs that started since an instant and run or have ended, the latest first.
-- :since_ms the instant, :most how many at most.
WITH found AS (
    SELECT seq FROM (
        SELECT seq FROM job INDEXED BY job_lease WHERE state = 2 AND started_at_ms >= :since_ms
        ORDER BY started_at_ms DESC LIMIT :most
    )
    UNION ALL SELECT seq FROM (
        SELECT seq FROM job INDEXED BY job_ended WHERE state >= 3 AND state = 3 AND finished_at_ms >= :since_ms
        ORDER BY finished_at_ms DESC LIMIT :most
    )
    UNION ALL SELECT seq FROM (
        SELECT seq FROM job INDEXED BY job_ended WHERE state >= 3 AND state = 4 AND finished_at_ms >= :since_ms
        ORDER BY finished_at_ms DESC LIMIT :most
    )
    UNION ALL SELECT seq FROM (
        SELECT seq FROM job INDEXED BY job_ended WHERE state >= 3 AND state = 5 AND finished_at_ms >= :since_ms
        ORDER BY finished_at_ms DESC LIMIT :most
    )
)
SELECT
    job.seq, job.id, lane.queue, lane.task, lane.tenant, lane.tier, job.arrival_ms, job.available_at_ms,
    job.fence > 1, job.express IS NOT NULL, job.started_at_ms, job.finished_at_ms, job.worker, job.rule
FROM found CROSS JOIN job ON job.seq = found.seq CROSS JOIN lane ON lane.id = job.lane
WHERE job.started_at_ms >= :since_ms
ORDER BY job.started_at_ms DESC LIMIT :most
