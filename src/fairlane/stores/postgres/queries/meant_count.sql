-- How many jobs a filter means.
-- Parameters of part_meant and part_filter; :most where to stop.
SELECT count(*) FROM (
    SELECT 1
    FROM (
        %% part_meant
    ) AS meant
    CROSS JOIN LATERAL (
        %% part_found
    ) AS job CROSS JOIN LATERAL (
        %% part_lane
    ) AS lane
    WHERE
        %% part_filter
    LIMIT %(most)s
) AS found
