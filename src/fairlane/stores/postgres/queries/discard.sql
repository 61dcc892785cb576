-- Delete a dead job.
-- :seq.
DELETE FROM fairlane.job WHERE seq = %(seq)s AND state = 4
