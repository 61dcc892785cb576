-- Whether there are more completed jobs in all than a queue keeps: else none can have too many.
-- :keep how many are kept.
SELECT count(*) > :keep FROM (
    SELECT 1 FROM job INDEXED BY job_ended WHERE state >= 3 AND state = 3 AND finished_at_ms >= 0 LIMIT :keep + 1
)
