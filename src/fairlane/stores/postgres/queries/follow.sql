-- Note that jobs wait for a job. Its row is locked though it be noted already: a handler's own transaction that ends it
-- now waits for ours, and then sees who waits, or ours meets it and is tried again.
-- In order: its number.
WITH parent AS MATERIALIZED (SELECT seq, followed FROM fairlane.job WHERE seq = %s FOR NO KEY UPDATE)
UPDATE fairlane.job SET followed = 1 FROM parent WHERE job.seq = parent.seq AND parent.followed = 0
