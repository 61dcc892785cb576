-- Whether the server has crashed since the last claims, the least fence that they may give now, and what the fate of
-- this transaction is asked by.
SELECT
    NOT EXISTS (SELECT 1 FROM fairlane.awake), value, pg_current_xact_id()::text,
    substr(pg_walfile_name(pg_current_wal_insert_lsn()), 1, 8)
FROM fairlane.counter WHERE name = 'fence'
