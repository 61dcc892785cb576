-- Of one group of dead jobs the tasks and tenants: one row for each pair, tasks in order.
-- :fingerprint.
SELECT DISTINCT lane.task, lane.tenant FROM (
    SELECT DISTINCT lane FROM job INDEXED BY job_dead WHERE state = 4 AND fingerprint IS :fingerprint
) AS found CROSS JOIN lane ON lane.id = found.lane
ORDER BY lane.task
