-- Store a pool.
-- In order: name, now, since, activations, seen, runs, total_us.
INSERT INTO fairlane.pool VALUES (%s, %s, %s, %s, %s, %s, %s)
ON CONFLICT (name) DO UPDATE SET
    now = excluded.now, since = excluded.since, activations = excluded.activations,
    seen = excluded.seen, runs = excluded.runs, total_us = excluded.total_us
