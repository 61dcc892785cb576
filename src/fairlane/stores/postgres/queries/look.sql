-- What may be due: whether running jobs may be asked to give way (see preempt_probe), when the first operation is, when
-- the first schedule is (null: none), whether a lease has run out, whether a worker that is on record or runs jobs gives
-- no sign of life, and the last row of the log; null when something stands in the inbox that it does not contain, or a
-- claim has to look at timers or leases; last, the first timer.
-- :now_ms the instant, :most_s for how many seconds a sign of life holds.
WITH probe (last, lapse_ms, timer_ms, snap, lease_floor, of_another) AS MATERIALIZED (
%% probe
)
SELECT
    (
%% preempt_probe
    ),
    (SELECT min(due_at_ms) FROM fairlane.operation WHERE state = 0),
    (SELECT min(due_at_ms) FROM fairlane.schedule WHERE due_at_ms IS NOT NULL),
    coalesce(lapse_ms <= %(now_ms)s, false),
    EXISTS (
        SELECT 1 FROM (
            SELECT id FROM fairlane.worker
            UNION
            SELECT worker FROM fairlane.job WHERE state = 2 AND worker <> ''
        ) AS one
        WHERE NOT EXISTS (
            SELECT 1 FROM fairlane.life
            WHERE life.worker = one.id AND
%% part_alive
        )
    ),
    CASE
        WHEN lapse_ms <= %(now_ms)s OR timer_ms <= %(now_ms)s OR of_another
            OR EXISTS (SELECT 1 FROM fairlane.inbox WHERE xid >= pg_snapshot_xmax(snap::pg_snapshot))
            OR EXISTS (
                SELECT 1 FROM fairlane.inbox WHERE xid = ANY (ARRAY(SELECT pg_snapshot_xip(snap::pg_snapshot)))
            )
        THEN NULL ELSE last
    END,
    timer_ms
FROM probe
