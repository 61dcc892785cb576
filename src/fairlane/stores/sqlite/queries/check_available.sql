-- Lanes whose count of available jobs is not that of their rows: number, count, rows.
SELECT lane.id, lane.available, count(job.seq) AS found
FROM lane LEFT JOIN job ON job.lane = lane.id AND job.state = 1 AND job.express IS NULL
GROUP BY lane.id HAVING lane.available <> found
