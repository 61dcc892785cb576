-- A claim ends in success; a check that found the work done counts as one.
-- In order: finished_at_ms, result (JSON), seq, fence. No row: the lease was lost.
UPDATE fairlane.job SET
    state = 3, timer_ms = NULL, ask = NULL, limits = NULL, finished_at_ms = %s, result = %s,
    checks = checks + CASE WHEN phase = 1 THEN 1 ELSE 0 END
WHERE seq = %s AND state + 0 = 2 AND fence = %s
RETURNING lane, arrival_ms, express, rule, expected_us, divided_by, followed
