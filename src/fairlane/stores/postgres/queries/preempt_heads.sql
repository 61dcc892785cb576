-- The first jobs of a lane: number, since when they are available.
-- :lane its number, :most how many at most.
SELECT seq, available_at_ms FROM fairlane.job WHERE lane = %(lane)s AND state = 1 AND express IS NULL
ORDER BY arrival_ms, seq LIMIT %(most)s
