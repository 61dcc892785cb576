-- Delete a dead job.
-- :seq.
DELETE FROM job WHERE seq = :seq AND state = 4
