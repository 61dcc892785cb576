-- Put a waiting job in the express lane; a scheduled one becomes available.
-- :seq, :number its place there, :now_ms the instant.
UPDATE fairlane.job SET
    express = %(number)s, timer_ms = CASE WHEN phase = 1 THEN NULL ELSE expires_at_ms END, available_at_ms = CASE WHEN state = 0 THEN %(now_ms)s ELSE available_at_ms END, state = 1
WHERE seq = %(seq)s AND state <= 1
