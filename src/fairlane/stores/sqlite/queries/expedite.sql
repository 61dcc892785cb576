-- Put a waiting job in the express lane; a scheduled one becomes available.
-- :seq, :number its place there, :now_ms the instant.
UPDATE job SET
    express = :number, timer_ms = iif(phase = 1, NULL, expires_at_ms), available_at_ms = iif(state = 0, :now_ms, available_at_ms), state = 1
WHERE seq = :seq AND state <= 1
