-- A claim ends in success in a handler's own transaction, and the inbox is told. Fails when the lease was lost, for then
-- there is nothing to tell and the inbox takes no null: so the COMMIT that was sent right behind it does not happen, and
-- between the two nobody but the server can be stopped, who would leave the job's row locked.
-- In order: finished_at_ms, result (JSON), progress (JSON, null keeps it), seq, fence, run_us, units_us.
WITH done AS (
    UPDATE fairlane.job SET
        state = 3, timer_ms = NULL, ask = NULL, limits = NULL, finished_at_ms = %s, result = %s,
        progress = coalesce(%s, progress), checks = checks + CASE WHEN phase = 1 THEN 1 ELSE 0 END
    WHERE seq = %s AND state + 0 = 2 AND fence = %s
    RETURNING lane, arrival_ms, seq, express, rule, expected_us, divided_by
)
INSERT INTO fairlane.inbox (counts, body) VALUES (
    '{}',
    (
        SELECT jsonb_build_array(jsonb_build_array(
            'f', lane, arrival_ms, seq, express, rule, expected_us, divided_by, %s::bigint, 1, %s::bigint
        ))::text FROM done
    )
)
