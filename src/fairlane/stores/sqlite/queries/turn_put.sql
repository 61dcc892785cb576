-- Store a tenant's turn.
-- In order: pool, tenant, virtual, activation, last_ms, able, seen.
INSERT INTO turn VALUES (?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (pool, tenant) DO UPDATE SET
    virtual = excluded.virtual, activation = excluded.activation, last_ms = excluded.last_ms,
    able = excluded.able, seen = excluded.seen
