-- How many available jobs stand before a place in a lane, express ones aside.
-- :lane its number, :arrival_ms and :seq the place, :most where counting stops. In two parts: a comparison of pairs
-- would read all jobs of the same arrival, and a batch of 10,000 has one.
SELECT count(*) FROM (
    SELECT 1 FROM fairlane.job
    WHERE lane = %(lane)s AND state = 1 AND express IS NULL AND arrival_ms < %(arrival_ms)s
    UNION ALL
    SELECT 1 FROM fairlane.job
    WHERE lane = %(lane)s AND state = 1 AND express IS NULL AND arrival_ms = %(arrival_ms)s AND seq < %(seq)s
    LIMIT %(most)s
) AS found
