-- A claim asked for a queue that no live worker serves.
-- In order: pool, queue ('' for all), at_ms.
INSERT INTO fairlane.asked VALUES (%s, %s, %s) ON CONFLICT (pool, queue) DO UPDATE SET at_ms = excluded.at_ms
