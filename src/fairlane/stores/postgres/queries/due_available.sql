-- A due job becomes available.
-- :seq its number, :now_ms the instant.
UPDATE fairlane.job SET state = 1, timer_ms = CASE WHEN phase = 1 THEN NULL ELSE expires_at_ms END, available_at_ms = %(now_ms)s WHERE seq = %(seq)s AND state = 0
