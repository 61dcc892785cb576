-- Draw the next number of a counter.
-- :name the counter.
UPDATE fairlane.counter SET value = value + 1 WHERE name = %(name)s RETURNING value
