-- A job waits for no other job any more.
-- In order: state, timer_ms, available_at_ms, its number.
UPDATE fairlane.job SET behind = 0, successor = 0, state = %s, timer_ms = %s, available_at_ms = %s WHERE seq = %s AND state = 0
