-- Claims end with success, each that is the job's; rows come in no order.
-- In order: the instant, and one array each of numbers, fences and results as JSON.
UPDATE fairlane.job SET
    state = 3, timer_ms = NULL, ask = NULL, limits = NULL, finished_at_ms = %s, result = done.result,
    checks = checks + CASE WHEN phase = 1 THEN 1 ELSE 0 END
FROM unnest(%s::bigint[], %s::bigint[], %s::text[]) AS done (seq, fence, result)
WHERE job.seq = done.seq AND job.state + 0 = 2 AND job.fence = done.fence
RETURNING job.seq, lane, arrival_ms, express, rule, expected_us, divided_by, followed
