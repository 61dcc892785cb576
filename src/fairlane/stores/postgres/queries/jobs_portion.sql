-- Jobs that a filter means, oldest first, as far as a change of them needs.
-- Parameters of part_meant_up and part_filter; :scan how many jobs to look at and :most how many to return at most.
SELECT job.seq, job.id, job.state, job.lane, job.arrival_ms, job.express
FROM (
    SELECT seq FROM (
        %% part_meant_up
    ) AS way ORDER BY seq LIMIT %(scan)s
) AS meant
CROSS JOIN LATERAL (
    %% part_found
) AS job CROSS JOIN LATERAL (
    %% part_lane
) AS lane
WHERE
    %% part_filter
ORDER BY meant.seq LIMIT %(most)s
