-- What a server says of itself that decides whether jobs are safe in it, and who we are there. One row, always.
SELECT
    current_setting('server_version'),
    current_setting('server_version_num')::int,
    current_setting('server_encoding'),
    current_setting('fsync') = 'on' AND current_setting('full_page_writes') = 'on',
    current_setting('synchronous_commit'),
    pg_is_in_recovery() OR current_setting('default_transaction_read_only') = 'on',
    current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int,
    (SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend')::int,
    current_user::text
