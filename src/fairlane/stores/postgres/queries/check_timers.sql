-- Scheduled jobs that neither a timer nor the end of another job will make available.
SELECT seq, encode(id, 'hex') FROM fairlane.job WHERE state = 0 AND timer_ms IS NULL AND behind = 0
