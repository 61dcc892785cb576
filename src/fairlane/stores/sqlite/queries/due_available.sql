-- A due job becomes available.
-- :seq its number, :now_ms the instant.
UPDATE job SET state = 1, timer_ms = iif(phase = 1, NULL, expires_at_ms), available_at_ms = :now_ms WHERE seq = :seq AND state = 0
