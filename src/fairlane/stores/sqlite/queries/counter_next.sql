-- Draw the next number of a counter.
-- :name the counter.
UPDATE counter SET value = value + 1 WHERE name = :name RETURNING value
