-- The completed jobs of a queue that ended first. The bound of 0 is there for the planner: with statistics it would
-- else read all that ended, and sort.
-- :queue, :most how many at most.
SELECT seq FROM job INDEXED BY job_ended
WHERE state >= 3 AND state = 3 AND finished_at_ms >= 0 AND lane IN (SELECT id FROM lane WHERE queue = :queue)
ORDER BY finished_at_ms LIMIT :most
