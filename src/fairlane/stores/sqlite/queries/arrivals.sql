-- Jobs stored after one of them, by queue and tier: queue, tier, how many, the highest number among them.
-- :after that one's number, :most how many are looked at, in their order. No rows: none was.
SELECT lane.queue, lane.tier, sum(counted.jobs), max(counted.last)
FROM (
    SELECT lane, count(*) AS jobs, max(seq) AS last
    FROM (SELECT seq, lane FROM job WHERE seq > :after ORDER BY seq LIMIT :most)
    GROUP BY lane
) AS counted
CROSS JOIN lane ON lane.id = counted.lane
GROUP BY lane.queue, lane.tier
