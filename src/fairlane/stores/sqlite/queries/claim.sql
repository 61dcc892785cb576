-- Start a chosen job.
-- In order: worker, rule, expected_us, divided_by, started_at_ms, beat_at_ms, end of the lease, seq.
-- No row: it is not available. An expiry bounds the start of the process phase, not checks of its work.
UPDATE job SET
    state = 2, fence = fence + 1, worker = ?, rule = ?, expected_us = ?, divided_by = ?, started_at_ms = ?,
    beat_at_ms = ?, timer_ms = ?
WHERE seq = ? AND state = 1
RETURNING id, fence, failures, crashes, checks, phase, args, checkpoint, available_at_ms, trace,
    iif(phase = 1, NULL, expires_at_ms), reference, handed
