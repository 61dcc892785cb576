-- Note that jobs wait for a job.
-- In order: its number.
UPDATE job SET followed = 1 WHERE seq = ? AND followed = 0
