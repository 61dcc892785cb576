-- Live jobs by lane: queue, task, tenant, tier, scheduled, available, running, the oldest available job's arrival.
WITH
    express AS (
        SELECT lane, count(*) AS number, min(arrival_ms) AS oldest FROM job INDEXED BY job_express
        WHERE express IS NOT NULL AND state <= 1 AND state = 1 GROUP BY lane
    ),
    running AS (SELECT lane, count(*) AS number FROM job INDEXED BY job_lease WHERE state = 2 GROUP BY lane),
    shown AS (
        SELECT id FROM lane WHERE available > 0 OR scheduled > 0
        UNION SELECT lane FROM express
        UNION SELECT lane FROM running
    ),
    counted AS (
        SELECT
            lane.queue, lane.task, lane.tenant, lane.tier, lane.scheduled,
            lane.available + coalesce(express.number, 0) AS available,
            coalesce(running.number, 0) AS running,
            (SELECT arrival_ms FROM job INDEXED BY job_head
             WHERE job.lane = lane.id AND state = 1 AND job.express IS NULL
             ORDER BY arrival_ms, seq LIMIT 1) AS head,
            express.oldest AS oldest_express
        FROM shown JOIN lane ON lane.id = shown.id
        LEFT JOIN express ON express.lane = lane.id
        LEFT JOIN running ON running.lane = lane.id
    )
SELECT
    queue, task, tenant, tier, scheduled, available, running,
    CASE WHEN head IS NULL THEN oldest_express WHEN oldest_express IS NULL THEN head ELSE min(head, oldest_express) END
FROM counted
