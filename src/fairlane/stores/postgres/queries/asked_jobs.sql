-- A worker's running jobs that are asked to stop.
-- :worker its id.
SELECT seq, fence, ask FROM fairlane.job WHERE worker = %(worker)s AND state = 2 AND ask IS NOT NULL
