-- Drop old rows of the log, except those that say what the tables do not.
-- :rows and :bytes how much stays at most, :stored the last row that the tables are as of.
DELETE FROM log WHERE (id <= :stored OR kind = 0) AND id <= (
    SELECT coalesce(max(id), 0) FROM (
        SELECT id, row_number() OVER newest AS place, sum(bytes) OVER newest AS total FROM log
        WINDOW newest AS (ORDER BY id DESC)
    ) WHERE place > :rows OR total > :bytes
)
