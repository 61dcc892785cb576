-- Store what a rate or a handler's wait has used up.
-- In order: kind, name, tat, held_until_ms.
INSERT INTO fairlane.gate VALUES (%s, %s, %s, %s)
ON CONFLICT (kind, name) DO UPDATE SET tat = excluded.tat, held_until_ms = excluded.held_until_ms
