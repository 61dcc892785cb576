-- Bring the counts of lanes up to a row of the log.
-- :stored the row that they are as of, :last the one that they are to be as of.
UPDATE fairlane.lane SET available = lane.available + moved.available, scheduled = lane.scheduled + moved.scheduled
FROM (
    SELECT counts[at] AS id, sum(counts[at + 1])::bigint AS available, sum(counts[at + 2])::bigint AS scheduled
    FROM (
        SELECT counts[:] FROM fairlane.log WHERE id > %(stored)s AND id <= %(last)s
        OFFSET 0  -- a copy of each row's, as in part_lanes: not pulled up into what reads its numbers
    ) AS told CROSS JOIN generate_series(1, cardinality(counts), 3) AS at
    GROUP BY counts[at]
) AS moved
WHERE lane.id = moved.id AND (moved.available <> 0 OR moved.scheduled <> 0)
