-- What a claim's end depends on.
-- :seq and :fence the claim. No row: the lease was lost.
SELECT
    lane, arrival_ms, express, rule, expected_us, divided_by, ask, crashes, expires_at_ms, phase, other_lane, followed
FROM fairlane.job
WHERE seq = %(seq)s AND state + 0 = 2 AND fence = %(fence)s
