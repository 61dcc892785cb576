-- The live jobs of a dedup key: the one that holds it, then the one that waits to.
-- :dedup queue and key. No row: the key is free.
SELECT id, seq, state, phase, successor FROM fairlane.job
WHERE dedup = %(dedup)s AND dedup IS NOT NULL AND state <= 2
ORDER BY successor
