-- Some of the jobs that a job waits for, those that were stored first.
-- :id of the one that waits, :most how many at most.
SELECT parent.id FROM job AS child
CROSS JOIN edge ON edge.child = child.seq
CROSS JOIN job AS parent ON parent.seq = edge.parent
WHERE child.id = :id ORDER BY edge.parent LIMIT :most
