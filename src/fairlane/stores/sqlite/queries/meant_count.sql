-- How many jobs a filter means.
-- Parameters of part_meant and part_filter; :most where to stop.
SELECT count(*) FROM (
    SELECT 1
    FROM (
        %% part_meant
    ) AS meant CROSS JOIN job ON job.seq = meant.seq CROSS JOIN lane ON lane.id = job.lane
    WHERE
        %% part_filter
    LIMIT :most
)
