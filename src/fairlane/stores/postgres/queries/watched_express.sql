-- The available express jobs: lane and its names, id, arrival, when they became available, when they first started.
SELECT lane.id, queue, task, tenant, tier, job.id, arrival_ms, available_at_ms, started_at_ms
FROM fairlane.job JOIN fairlane.lane ON lane.id = job.lane
WHERE job.express > 0 AND state <= 1 AND state = 1
ORDER BY job.express
