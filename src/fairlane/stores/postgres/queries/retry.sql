-- A dead job becomes available with its counts at zero; its history stays. One that died in its verify phase is
-- processed again.
-- :seq, :now_ms the instant, :lane that of the process phase, :other_lane that of the verify phase or null, :express
-- its number in the express lane or null.
UPDATE fairlane.job SET
    state = 1, express = %(express)s, failures = 0, crashes = 0, checks = 0, preemptions = 0, worker = NULL, reason = NULL,
    fingerprint = NULL, finished_at_ms = NULL, available_at_ms = %(now_ms)s, expires_at_ms = NULL, timer_ms = NULL,
    lane = %(lane)s, other_lane = %(other_lane)s, checkpoint = CASE WHEN phase = 0 THEN checkpoint ELSE NULL END, phase = 0
WHERE seq = %(seq)s AND state = 4
