-- A claim ends in success; a check that found the work done counts as one.
-- In order: finished_at_ms, result (JSON), seq, fence. No row: the lease was lost.
UPDATE job SET
    state = 3, timer_ms = NULL, ask = NULL, limits = NULL, finished_at_ms = ?, result = ?,
    checks = checks + iif(phase = 1, 1, 0)
WHERE seq = ? AND state = 2 AND fence = ?
RETURNING lane, arrival_ms, express, rule, expected_us, divided_by, followed
