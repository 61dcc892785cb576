-- What stands against deleting a dead job: until when its dedup key is kept, and whether jobs have yet to be told.
-- :seq. No row: it is not dead.
SELECT
    CASE WHEN dedup IS NULL THEN NULL ELSE finished_at_ms + dedup_ttl_ms END, EXISTS (SELECT 1 FROM fairlane.release WHERE parent = job.seq)
FROM fairlane.job WHERE seq = %(seq)s AND state = 4
