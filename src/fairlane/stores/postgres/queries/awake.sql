-- Whether the server has crashed since the last claims, the least fence that they may give now, whether it takes no
-- changes, and what the fate of this transaction is asked by.
SELECT
    NOT EXISTS (SELECT 1 FROM fairlane.awake), value, current_setting('transaction_read_only')::boolean,
    pg_current_xact_id()::text,
    substr(pg_walfile_name(pg_current_wal_insert_lsn()), 1, 8)
FROM fairlane.counter WHERE name = 'fence'
