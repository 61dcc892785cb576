-- The first available jobs of lanes, each behind a place, in order.
-- In order: one array each of the lanes' numbers, and of arrival_ms and seq of the places; how many of each at most. Fewer
-- rows: the lane ends there.
SELECT asked.lane, head.arrival_ms, head.seq
FROM unnest(%s::bigint[], %s::bigint[], %s::bigint[]) AS asked (lane, arrival_ms, seq)
CROSS JOIN LATERAL (
    SELECT job.arrival_ms, job.seq FROM fairlane.job
    WHERE job.lane = asked.lane AND state = 1 AND express IS NULL
        AND (job.arrival_ms, job.seq) > (asked.arrival_ms, asked.seq)
    ORDER BY job.arrival_ms, job.seq LIMIT %s
) AS head
ORDER BY asked.lane, head.arrival_ms, head.seq
