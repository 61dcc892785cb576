-- The database's clock: microseconds since 1970, UTC. One row, always.
SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint
