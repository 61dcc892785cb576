-- Renew a lease.
-- :seq and :fence the claim, :now_ms the instant, :deadline_ms the end of the lease, unless it ends later anyway. No row: it was lost.
UPDATE fairlane.job SET timer_ms = greatest(timer_ms, %(deadline_ms)s), beat_at_ms = %(now_ms)s WHERE seq = %(seq)s AND state + 0 = 2 AND fence = %(fence)s
RETURNING ask
