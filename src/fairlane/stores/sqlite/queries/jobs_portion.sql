-- Jobs that a filter means, oldest first, as far as a change of them needs.
-- Parameters of part_meant and part_filter; :scan how many jobs to look at and :most how many to return at most.
SELECT job.seq, job.id, job.state, job.lane, job.arrival_ms, job.express
FROM (
    %% part_meant
    ORDER BY seq LIMIT :scan
) AS meant CROSS JOIN job ON job.seq = meant.seq CROSS JOIN lane ON lane.id = job.lane
WHERE
    %% part_filter
LIMIT :most
