-- A dead job becomes available with its counts at zero; its history stays. One that died in its verify phase is
-- processed again.
-- :seq, :now_ms the instant, :lane that of the process phase, :other_lane that of the verify phase or null, :express
-- its number in the express lane or null.
UPDATE job SET
    state = 1, express = :express, failures = 0, crashes = 0, checks = 0, preemptions = 0, worker = NULL, reason = NULL,
    fingerprint = NULL, finished_at_ms = NULL, available_at_ms = :now_ms, expires_at_ms = NULL, timer_ms = NULL,
    lane = :lane, other_lane = :other_lane, checkpoint = iif(phase = 0, checkpoint, NULL), phase = 0
WHERE seq = :seq AND state = 4
