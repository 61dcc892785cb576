-- Bring the counts of lanes up to a row of the log.
-- :stored the row that they are as of, :last the one that they are to be as of.
UPDATE fairlane.lane SET available = lane.available + moved.available, scheduled = lane.scheduled + moved.scheduled
FROM (
    SELECT counts[at] AS id, sum(counts[at + 1])::bigint AS available, sum(counts[at + 2])::bigint AS scheduled
    FROM fairlane.log CROSS JOIN generate_series(1, cardinality(counts), 3) AS at
    WHERE log.id > %(stored)s AND log.id <= %(last)s
    GROUP BY counts[at]
) AS moved
WHERE lane.id = moved.id AND (moved.available <> 0 OR moved.scheduled <> 0)
