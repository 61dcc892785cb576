-- A worker gives a sign of life. :worker its id.
INSERT INTO fairlane.life VALUES (%(worker)s, clock_timestamp())
ON CONFLICT (worker) DO UPDATE SET seen_at = excluded.seen_at
