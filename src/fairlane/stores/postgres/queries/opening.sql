-- What a transaction behind the gate must know first: what has happened since we looked (see probe), whether the server has
-- crashed since the last claims, the least fence that they may give now, whether it takes no changes, and what the fate of
-- the transaction is asked by.
SELECT
    probe.*, NOT EXISTS (SELECT 1 FROM fairlane.awake), counter.value,
    current_setting('transaction_read_only')::boolean, pg_current_xact_id()::text,
    substr(pg_walfile_name(pg_current_wal_insert_lsn()), 1, 8)
FROM fairlane.counter CROSS JOIN (
    %% probe
) AS probe
WHERE counter.name = 'fence'
