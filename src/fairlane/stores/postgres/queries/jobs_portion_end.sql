-- How many jobs a portion looked at that is not full, and the number of the last one; null: none.
-- Parameters of part_meant_up; :scan how many at most.
SELECT count(*), max(seq) FROM (
    SELECT seq FROM (
        %% part_meant_up
    ) AS way ORDER BY seq LIMIT %(scan)s
) AS meant
