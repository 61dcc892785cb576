-- The first available jobs of a lane behind a place, in order.
-- :lane its number, :arrival_ms and :seq the place, :most how many at most. Fewer rows: the lane ends there.
SELECT arrival_ms, seq FROM fairlane.job
WHERE lane = %(lane)s AND state = 1 AND express IS NULL AND (arrival_ms, seq) > (%(arrival_ms)s, %(seq)s)
ORDER BY arrival_ms, seq LIMIT %(most)s
