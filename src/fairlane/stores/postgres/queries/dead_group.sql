-- Of one group of dead jobs the tasks and tenants: one row for each pair, tasks in order.
-- :fingerprint.
SELECT DISTINCT lane.task, lane.tenant FROM (
    SELECT lane FROM fairlane.job WHERE state = 4 AND fingerprint = %(fingerprint)s
    UNION
    SELECT lane FROM fairlane.job WHERE %(fingerprint)s::text IS NULL AND state = 4 AND fingerprint IS NULL
) AS found JOIN fairlane.lane ON lane.id = found.lane
ORDER BY lane.task
