-- A part of others: what tells this database from all others, while its server runs.
(extract(epoch FROM pg_postmaster_start_time()) * 1000000)::bigint::text || '/' || current_database()
