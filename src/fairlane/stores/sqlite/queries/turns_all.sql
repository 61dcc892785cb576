-- The tenants' turns, in the order in which they were first seen.
SELECT pool, tenant, virtual, activation, last_ms, able, seen FROM turn ORDER BY pool, seen
