-- Part of other queries: lanes, with what the log says of them beyond its last row that the tables are as of, and what the
-- inbox says beyond the log. A slice is a copy: what it is made of is read and unpacked once, and not again for each of
-- its numbers.
SELECT
    lane.id, lane.queue, lane.task, lane.tenant, lane.tier,
    lane.available + coalesce(moved.available, 0) AS available,
    lane.scheduled + coalesce(moved.scheduled, 0) AS scheduled
FROM fairlane.lane LEFT JOIN (
    SELECT counts[at] AS lane, sum(counts[at + 1])::bigint AS available, sum(counts[at + 2])::bigint AS scheduled
    FROM (
        SELECT counts[:] FROM fairlane.log
        WHERE id > coalesce((SELECT id FROM fairlane.log WHERE kind = 2 ORDER BY id DESC LIMIT 1), 0)
        UNION ALL
        SELECT counts[:] FROM fairlane.inbox
        WHERE xid >= coalesce((SELECT pg_snapshot_xmin(snap) FROM fairlane.log ORDER BY id DESC LIMIT 1), '0'::xid8)
            AND NOT coalesce(
                pg_visible_in_snapshot(xid, (SELECT snap FROM fairlane.log ORDER BY id DESC LIMIT 1)), false
            )
    ) AS told CROSS JOIN generate_series(1, cardinality(counts), 3) AS at
    GROUP BY counts[at]
) AS moved ON moved.lane = lane.id
