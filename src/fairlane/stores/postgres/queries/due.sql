-- Scheduled jobs that are due and available ones that expire, in order of time.
-- An expiry bounds the start of the process phase, not checks of its work.
-- :now_ms the instant, :most how many at most.
SELECT seq, state, lane, arrival_ms, express, CASE WHEN phase = 1 THEN NULL ELSE expires_at_ms END FROM fairlane.job
WHERE state <= 1 AND timer_ms IS NOT NULL AND timer_ms <= %(now_ms)s
ORDER BY timer_ms, seq LIMIT %(most)s
