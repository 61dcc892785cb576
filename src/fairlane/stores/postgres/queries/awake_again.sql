-- Let fences go on far beyond those that a crash may have taken back; returns the least that claims may give.
WITH noted AS (INSERT INTO fairlane.awake VALUES (1) ON CONFLICT DO NOTHING)
UPDATE fairlane.counter SET value = value + 4294967296 WHERE name = 'fence' RETURNING value
