-- Start jobs, each one that is available; rows come in no order.
-- In order: the least fence, worker, now_ms twice, when the lease ends, and one array each of numbers, rules, expected_us, divided_by.
UPDATE fairlane.job SET
    state = 2, fence = greatest(fence + 1, %s), worker = %s, started_at_ms = %s, beat_at_ms = %s, timer_ms = %s,
    rule = chosen.rule, expected_us = chosen.expected_us, divided_by = chosen.divided_by
FROM unnest(%s::bigint[], %s::smallint[], %s::bigint[], %s::integer[]) AS chosen (seq, rule, expected_us, divided_by)
WHERE job.seq = chosen.seq AND state + 0 = 1
RETURNING job.seq, id, fence, failures, crashes, checks, phase, args, checkpoint, available_at_ms, trace,
    CASE WHEN phase = 1 THEN NULL ELSE expires_at_ms END, reference, handed
