-- Cancel a waiting job.
-- :seq, :reason, :now_ms the instant. Returns its ties: 1 when jobs wait for it, and 2 when it waits for others.
UPDATE job SET state = 5, timer_ms = NULL, finished_at_ms = :now_ms, reason = :reason WHERE seq = :seq AND state <= 1
RETURNING followed + 2 * (behind > 0)
