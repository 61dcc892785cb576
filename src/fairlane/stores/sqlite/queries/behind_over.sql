-- A job waits for no other job any more.
-- In order: state, timer_ms, available_at_ms, its number.
UPDATE job SET behind = 0, successor = 0, state = ?, timer_ms = ?, available_at_ms = ? WHERE seq = ? AND state = 0
