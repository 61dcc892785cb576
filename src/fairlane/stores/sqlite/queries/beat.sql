-- Renew a lease.
-- :seq and :fence the claim, :now_ms the instant, :deadline_ms the end of the lease. No row: it was lost.
UPDATE job SET timer_ms = :deadline_ms, beat_at_ms = :now_ms WHERE seq = :seq AND state = 2 AND fence = :fence
RETURNING ask
