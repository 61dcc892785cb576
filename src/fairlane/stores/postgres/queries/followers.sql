-- The next jobs that wait for one that has ended, in the order of their numbers.
-- :parent its number, :upto the last of them, :most how many at most.
SELECT
    child, marks, job.lane, job.arrival_ms, job.express, job.behind, job.scheduled_at_ms, job.expires_at_ms
FROM fairlane.edge JOIN fairlane.job ON job.seq = edge.child
WHERE parent = %(parent)s AND child <= %(upto)s
ORDER BY child LIMIT %(most)s
