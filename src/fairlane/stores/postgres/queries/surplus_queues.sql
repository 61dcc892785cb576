-- Queues with more completed jobs than are kept, and how many more.
-- :keep how many are kept.
SELECT lane.queue, sum(found.jobs)::bigint - %(keep)s FROM (
    SELECT lane, count(*) AS jobs FROM fairlane.job WHERE state >= 3 AND state = 3 GROUP BY lane
) AS found JOIN fairlane.lane ON lane.id = found.lane
GROUP BY lane.queue HAVING sum(found.jobs)::bigint > %(keep)s
