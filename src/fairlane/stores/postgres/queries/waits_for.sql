-- Some of the jobs that a job waits for, those that were stored first.
-- :id of the one that waits, :most how many at most.
SELECT parent.id FROM (SELECT seq FROM fairlane.job WHERE id = %(id)s OFFSET 0) AS waits
JOIN fairlane.edge ON edge.child = waits.seq
CROSS JOIN LATERAL (SELECT id FROM fairlane.job WHERE job.seq = edge.parent OFFSET 0) AS parent
ORDER BY edge.parent LIMIT %(most)s
