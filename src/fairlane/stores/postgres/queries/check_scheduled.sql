-- Lanes whose count of scheduled jobs is not that of their rows: number, count, rows.
SELECT lane.id, lane.scheduled, count(job.seq) AS found
FROM (
    %% part_lanes
) AS lane LEFT JOIN fairlane.job ON job.lane = lane.id AND job.state = 0
GROUP BY lane.id, lane.scheduled HAVING lane.scheduled <> count(job.seq)
