-- A worker's running jobs that are asked to stop.
-- :worker its id.
SELECT seq, fence, ask FROM job INDEXED BY job_ask WHERE worker = :worker AND state = 2 AND ask IS NOT NULL
