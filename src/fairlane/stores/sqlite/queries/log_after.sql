-- What was logged after a row, in order.
-- :version the row. The first number is :version + 1 unless older rows were pruned.
SELECT id, kind, body FROM log WHERE id > :version ORDER BY id
