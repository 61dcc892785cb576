-- Jobs that ended since an instant, the latest first.
-- :since_ms the instant, :most how many at most. One branch a state: each walks its own end of the index.
WITH found AS (
    SELECT seq, finished_at_ms FROM (
        SELECT seq, finished_at_ms FROM job INDEXED BY job_ended
        WHERE state >= 3 AND state = 3 AND finished_at_ms >= :since_ms ORDER BY finished_at_ms DESC LIMIT :most
    )
    UNION ALL SELECT seq, finished_at_ms FROM (
        SELECT seq, finished_at_ms FROM job INDEXED BY job_ended
        WHERE state >= 3 AND state = 4 AND finished_at_ms >= :since_ms ORDER BY finished_at_ms DESC LIMIT :most
    )
    UNION ALL SELECT seq, finished_at_ms FROM (
        SELECT seq, finished_at_ms FROM job INDEXED BY job_ended
        WHERE state >= 3 AND state = 5 AND finished_at_ms >= :since_ms ORDER BY finished_at_ms DESC LIMIT :most
    )
    ORDER BY finished_at_ms DESC LIMIT :most
)
SELECT
    job.seq, lane.queue, lane.task, lane.tenant, lane.tier, job.state, job.started_at_ms, job.finished_at_ms,
    job.failures, job.crashes
FROM found CROSS JOIN job ON job.seq = found.seq CROSS JOIN lane ON lane.id = job.lane
ORDER BY found.finished_at_ms DESC
