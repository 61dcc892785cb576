-- Whether there are more completed jobs in all than a queue keeps: else none can have too many.
-- :keep how many are kept.
SELECT count(*) > %(keep)s FROM (
    SELECT 1 FROM fairlane.job WHERE state >= 3 AND state = 3 AND finished_at_ms >= 0 LIMIT %(keep)s + 1
) AS found
