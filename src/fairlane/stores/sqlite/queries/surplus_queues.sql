-- Queues with more completed jobs than are kept, and how many more.
-- :keep how many are kept.
SELECT lane.queue, sum(found.jobs) - :keep FROM (
    SELECT lane, count(*) AS jobs FROM job INDEXED BY job_ended WHERE state >= 3 AND state = 3 GROUP BY lane
) AS found CROSS JOIN lane ON lane.id = found.lane
GROUP BY lane.queue HAVING sum(found.jobs) > :keep
