-- Part of other queries: whether the log, whose last row is last, or the inbox is of another server, from a dump: then one
-- of them names transactions that are still to come here. What this transaction itself left in the inbox is not.
coalesce(pg_snapshot_xmax(pg_current_snapshot()) < pg_snapshot_xmax(last.snap), false)
OR EXISTS (
    SELECT 1 FROM fairlane.inbox
    WHERE xid >= pg_snapshot_xmax(pg_current_snapshot()) AND xid IS DISTINCT FROM pg_current_xact_id_if_assigned()
)
