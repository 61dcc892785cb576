-- What has happened since we looked: the last row of the log, the first lease to lapse, the first timer (null for none),
-- what was visible to that row's writer, where it looked for leases from, and whether it is of another server: from a dump.
-- While followers of a job that ended wait to be told, something is due: then the first timer is 0.
SELECT
    last.id,
    (
        SELECT timer_ms FROM fairlane.job WHERE state = 2 AND timer_ms >= coalesce(last.lease_floor, 0)
        ORDER BY timer_ms LIMIT 1
    ),
    CASE
        WHEN EXISTS (SELECT 1 FROM fairlane.release) THEN 0
        ELSE (SELECT min(timer_ms) FROM fairlane.job WHERE state <= 1 AND timer_ms IS NOT NULL)
    END,
    last.snap::text,
    coalesce(last.lease_floor, 0),
    (
%% part_of_another
    )
FROM (VALUES (1)) AS one
LEFT JOIN (SELECT id, snap, lease_floor FROM fairlane.log ORDER BY id DESC LIMIT 1) AS last ON true
