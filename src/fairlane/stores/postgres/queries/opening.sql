-- What a transaction behind the gate must know first: what has happened since we looked (see probe), whether so many rows of
-- the inbox at least are still to be copied to the log, whether the server has crashed since the last claims, the least
-- fence that they may give now, whether it takes no changes, and what the fate of the transaction is asked by.
-- :most how many.
SELECT
    probe.*,
    EXISTS (
        SELECT 1 FROM fairlane.inbox WHERE xid >= coalesce(pg_snapshot_xmax(probe.snap::pg_snapshot), '0'::xid8)
        ORDER BY xid, id OFFSET %(most)s - 1 LIMIT 1
    ),
    NOT EXISTS (SELECT 1 FROM fairlane.awake), counter.value,
    current_setting('transaction_read_only')::boolean, pg_current_xact_id()::text,
%% part_line
FROM fairlane.counter CROSS JOIN (
    %% probe
) AS probe (last, lapse_ms, timer_ms, snap, lease_floor, of_another)
WHERE counter.name = 'fence'
