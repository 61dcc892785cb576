-- What stands against deleting a dead job: until when its dedup key is kept, and whether jobs have yet to be told.
-- :seq. No row: it is not dead.
SELECT
    iif(dedup IS NULL, NULL, finished_at_ms + dedup_ttl_ms), EXISTS (SELECT 1 FROM release WHERE parent = job.seq)
FROM job WHERE seq = :seq AND state = 4
