-- Forget what every reader of the log has left behind.
-- :above what was forgotten before (what is dead is not looked at again), :snap what was visible to the log's last row.
DELETE FROM fairlane.inbox WHERE xid >= %(above)s::xid8 AND xid < pg_snapshot_xmin(%(snap)s::pg_snapshot)
