-- How many jobs a portion looked at that is not full, and the number of the last one; null: none.
-- Parameters of part_meant; :scan how many at most.
SELECT count(*), max(seq) FROM (
    %% part_meant
    ORDER BY seq LIMIT :scan
)
