-- Part of other queries: the server's line of history, which ends where another one takes over.
substr(pg_walfile_name(pg_current_wal_insert_lsn()), 1, 8)
