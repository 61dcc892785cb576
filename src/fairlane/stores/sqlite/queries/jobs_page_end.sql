-- How many jobs a page looked at that is not full, and the number of the last one; null: none.
-- Parameters of part_meant; :scan how many at most.
SELECT count(*), min(seq) FROM (
    %% part_meant
    ORDER BY seq DESC LIMIT :scan
)
