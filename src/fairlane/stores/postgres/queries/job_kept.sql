-- The ended job that keeps a dedup key for a time; of several that would, only the latest can.
-- :dedup queue and key, :now_ms the instant. No row: the key is not kept.
SELECT id FROM (
    SELECT id, finished_at_ms, dedup_ttl_ms FROM fairlane.job
    WHERE dedup = %(dedup)s AND dedup_ttl_ms IS NOT NULL AND state >= 3
    ORDER BY finished_at_ms DESC LIMIT 1
) AS latest WHERE finished_at_ms + dedup_ttl_ms > %(now_ms)s
