-- Count the jobs of all lanes anew.
UPDATE fairlane.lane SET available = counted.available, scheduled = counted.scheduled
FROM (
    SELECT
        lane.id, count(job.seq) FILTER (WHERE job.state = 1 AND job.express IS NULL) AS available,
        count(job.seq) FILTER (WHERE job.state = 0) AS scheduled
    FROM fairlane.lane LEFT JOIN fairlane.job ON job.lane = lane.id AND job.state <= 1
    GROUP BY lane.id
) AS counted WHERE lane.id = counted.id
