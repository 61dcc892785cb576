-- Part of other queries: store plain jobs, whose last columns from id on follow; due_ms, now_ms and clock_ms are known.
    INSERT INTO fairlane.job (
        seq, state, arrival_ms, enqueued_at_ms, scheduled_at_ms, available_at_ms, timer_ms,
        id, lane, expires_at_ms, on_failure, bundle, tags, trace, args, by_wall
    )
    SELECT
        nextval('fairlane.job_seq'), CASE WHEN due_ms > now_ms THEN 0 ELSE 1 END, greatest(due_ms, clock_ms), now_ms, due_ms,
        CASE WHEN due_ms <= now_ms THEN now_ms END, CASE WHEN due_ms > now_ms THEN due_ms ELSE expires_at_ms END,
