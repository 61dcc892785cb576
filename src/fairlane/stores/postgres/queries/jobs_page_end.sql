-- How many jobs a page looked at that is not full, and the number of the last one; null: none.
-- Parameters of part_meant_down; :scan how many at most.
SELECT count(*), min(seq) FROM (
    SELECT seq FROM (
        %% part_meant_down
    ) AS way ORDER BY seq DESC LIMIT %(scan)s
) AS meant
